"""Packages on the embedded cluster, in virtual time."""

from __future__ import annotations

from tests.build.skyhooks import Skyhooks, pkg


class TestLife:
    def test_a_package_is_applied_and_configured(self) -> None:
        ops = Skyhooks(nodes=2).make("demo", {"base": pkg()}).run(30)
        assert ops.failures == []
        assert ops.refusals == []
        assert ops.trail(node="n0") == ["base/apply", "base/config"]
        assert ops.state("n0", "demo") == {"base|1.0.0": "config/complete"}
        assert (ops.phase("demo"), ops.shows("demo", "n0", "n1")) == ("complete", ["complete", "complete"])
        assert ops.status("demo")["completeNodes"] == "2/2"
        assert ops.pods() == []

    def test_a_package_that_leaves_is_uninstalled_beside_an_upgrade(self) -> None:
        ops = Skyhooks(nodes=2).make("demo", {"a-pkg": pkg("1.0.0"), "b-pkg": pkg()}).run(30)
        assert ops.phase("demo") == "complete"
        before = len(ops.made)
        ops.packages("demo", {"a-pkg": pkg("1.1.0"), "b-pkg": None}).run(30)
        assert sorted(each.name for each in ops.made[before:]) == [
            *["a-pkg/config"] * 2,
            *["a-pkg/upgrade"] * 2,
            *["b-pkg/uninstall"] * 2,
        ]
        assert ops.phase("demo") == "complete"

    def test_the_next_skyhook_waits_for_all_nodes(self) -> None:
        ops = Skyhooks(nodes=2)
        ops.fate = lambda about: "hang" if (about.skyhook, about.node) == ("first", "n1") else "ok"
        ops.make("first", {"a-pkg": pkg()}, priority=1, sequencing="all").make("second", {"a-pkg": pkg()}, priority=2)
        ops.run(20)
        assert ops.trail(skyhook="second") == []
        assert ops.phase("second") == "waiting"
        ops.fate = lambda about: "ok"
        for about in ops.pods():
            ops.finish(about)
        ops.run(30)
        assert (ops.phase("first"), ops.phase("second")) == ("complete", "complete")
