"""Gates after waves: they wait, query and count, halt a failing roll, and restore the last complete version."""

from __future__ import annotations

import pytest

from haulout.embedded import Json
from haulout.explain.fleet import fleet_of
from haulout.surfaces.packages.surface import PACKAGES
from haulout.surfaces.packages.wire import skyhook_key
from tests.build.gated import PROMETHEUS, Gated
from tests.build.skyhooks import CONFIG_MAPS, SKYHOOKS, P, Skyhooks, pkg

NOOP = {"type": "noop"}


def upgraded(ops: Gated, version: str = "2.0.0", **more: object) -> Gated:
    ops.packages("demo", {"base": pkg(version, **more)})
    return ops


def rolled(*, nodes: int = 4, size: int = 1, count: int = 10, **gate: object) -> Gated:
    """Return a world in which version 1.0.0 is complete on all nodes, behind a gate."""
    ops = Gated(nodes=nodes).gated(size=size, count=count, **gate)
    ops.make("demo", {"base": pkg()}, deploymentPolicy="p")
    ops.run(120)
    assert ops.phase("demo") == "complete"
    ops.waves.clear()
    ops.asked.clear()
    return ops


class TestSoak:
    def test_the_next_wave_begins_when_the_soak_time_is_over(self) -> None:
        ops = Gated(nodes=2).gated(soak="10m")
        ops.make("demo", {"base": pkg()}, deploymentPolicy="p")
        ops.run(590)
        assert ops.waves == [["n0"]]
        reason, text = ops.condition("demo", "GateAwaited")[1:]  # type: ignore[index]
        assert reason == "Soaking"
        assert text.startswith("wave 1 of compartment __default__: it soaks until ")
        ops.run(30)
        assert ops.waves == [["n0"], ["n1"]]

    def test_it_goes_on_through_a_restart(self) -> None:
        ops = Gated(nodes=2).gated(soak="10m")
        ops.make("demo", {"base": pkg()}, deploymentPolicy="p")
        ops.run(300)
        ops.begin().run(290)
        assert ops.waves == [["n0"]]
        ops.run(30)
        assert ops.waves == [["n0"], ["n1"]]

    def test_it_is_stored_once(self) -> None:
        ops = Gated(nodes=2).gated(soak="10m")
        ops.make("demo", {"base": pkg()}, deploymentPolicy="p")
        ops.run(60)
        before = len(ops.writes)
        assert len(ops.run(400).writes) == before

    def test_a_new_spec_does_not_wait_for_the_gate_of_the_one_before(self) -> None:
        ops = Gated(nodes=2).gated(soak="10m")
        ops.make("demo", {"base": pkg()}, deploymentPolicy="p")
        ops.run(60)
        upgraded(ops).run(30)
        assert len(ops.waves) == 2


class TestPrometheus:
    def test_it_is_asked_after_the_soak_time_for_each_wave(self) -> None:
        ops = Gated(nodes=3).gated(soak="1m", prometheus=PROMETHEUS)
        ops.make("demo", {"base": pkg()}, deploymentPolicy="p")
        ops.run(50)
        assert ops.asked == []
        ops.run(400)
        assert ops.phase("demo") == "complete"
        assert len({each.since for each in ops.asked}) == 3

    def test_a_value_that_does_not_fulfil_the_expression_halts_the_roll(self) -> None:
        ops = Gated(nodes=4).gated(prometheus=PROMETHEUS)
        ops.answer = lambda question: 7.0
        ops.make("demo", {"base": pkg()}, deploymentPolicy="p")
        ops.run(200)
        assert ops.waves == [["n0"]]
        assert ops.phase("demo") == "blocked"
        assert ops.condition("demo", "Halted") == (
            "True",
            "QueryNotFulfilled",
            (
                "wave 1 of compartment __default__ has failed its gate: Prometheus answers 7, which does not fulfil 'value < 3'; "
                "no new node begins; a new spec, or `skyhook deployment-policy reset demo`, starts the rollout again"
            ),
        )
        assert [note for note in ops.told if "failed its gate" in note] == [ops.condition("demo", "Halted")[2]]  # type: ignore[index]

    @pytest.mark.parametrize("error", ["Connection refused", "the answer is not Prometheus'"])
    def test_no_answer_holds_the_roll_and_is_said(self, error: str) -> None:
        ops = Gated(nodes=2).gated(prometheus=PROMETHEUS, rollback=True)
        ops.answer = lambda question: error
        ops.make("demo", {"base": pkg()}, deploymentPolicy="p")
        ops.run(300)
        assert (ops.waves, ops.halt()) == ([["n0"]], {})
        why = f"wave 1 of compartment __default__: Prometheus gave no answer that can be used: {error}"
        assert ops.condition("demo", "GateAwaited") == ("True", "PrometheusUnreachable", why)
        ops.answer = lambda question: 0.0
        ops.run(60)
        assert ops.waves == [["n0"], ["n1"]]
        assert ops.condition("demo", "GateAwaited") is None

    def test_what_an_earlier_wave_was_answered_does_not_count(self) -> None:
        ops = Gated(nodes=3).gated(prometheus=PROMETHEUS)
        ops.answer = lambda question: 0.0 if len(ops.waves) < 2 else 9.0
        ops.make("demo", {"base": pkg()}, deploymentPolicy="p")
        ops.run(200)
        assert ops.waves == [["n0"], ["n1"]]
        assert ops.halt()["wave"] == 2

    def test_the_last_wave_has_a_gate_too(self) -> None:
        ops = rolled(prometheus=PROMETHEUS, rollback=True, nodes=2, size=2)
        ops.answer = lambda question: 9.0
        upgraded(ops).run(200)
        assert ops.halt()["rollback"] == "done"
        assert ops.versions() == ["1.0.0", "1.0.0"]


class TestErrors:
    def halted(self) -> Gated:
        ops = Gated(nodes=6).gated(size=2, errorThreshold=40)
        ops.fate = lambda about: "fail" if about.node in ("n2", "n3") else "ok"
        ops.make("demo", {"base": pkg()}, deploymentPolicy="p")
        ops.run(200)
        return ops

    def test_too_many_erroring_nodes_halt_the_roll(self) -> None:
        ops = self.halted()
        assert ops.waves == [["n0", "n1"], ["n2", "n3"]]
        assert ops.halt()["reason"] == "ErrorThresholdExceeded"
        assert "2 of its 2 nodes are erroring, and at most 40 % may be" in ops.halt()["message"]

    def test_as_many_as_may_be_do_not(self) -> None:
        ops = Gated(nodes=4).gated(size=2, errorThreshold=50)
        ops.fate = lambda about: "fail" if about.node == "n0" else "ok"
        ops.make("demo", {"base": pkg()}, deploymentPolicy="p")
        ops.run(200)
        assert len(ops.waves) == 2

    def test_reset_begins_it_anew(self) -> None:
        ops = self.halted()
        ops.fate = lambda about: "ok"
        for about in ops.pods():
            ops.finish(about)
        body = {"status": {"halt": None, "compartmentStatuses": {"__default__": {"gate": None}}}}
        ops.world.objects.patch(SKYHOOKS, "", "demo", body, subresource="status")
        ops.run(200)
        assert ops.phase("demo") == "complete"
        assert ops.condition("demo", "Halted") is None

    def test_a_new_spec_begins_it_anew(self) -> None:
        ops = self.halted()
        ops.fate = lambda about: "ok"
        upgraded(ops, "1.1.0").run(300)
        assert (ops.phase("demo"), ops.halt()) == ("complete", {})
        assert ops.versions() == ["1.1.0"] * 6

    def test_explain_says_why_and_what_to_do(self) -> None:
        ops = self.halted()
        first = ops.explain("packages", skyhook_key("demo"))[0]
        assert first.code == "rollout-halted"
        assert first.act == "correct Skyhook demo, or: skyhook deployment-policy reset demo"
        assert first.text == ops.condition("demo", "Halted")[2]  # type: ignore[index]

    def test_status_groups_the_nodes_that_wait_by_it(self) -> None:
        ops = self.halted()
        causes = fleet_of(ops.kernel, [PACKAGES], (), "zone", ops.world.time.now()).causes
        assert [(each.code, each.nodes) for each in causes if each.code == "rollout-halted"] == [
            ("rollout-halted", ("n4", "n5"))
        ]

    def test_it_stays_halted_through_a_pause_and_a_restart(self) -> None:
        ops = self.halted()
        ops.edit("demo", {"metadata": {"annotations": {f"{P}pause": "true"}}}).run(10)
        assert ops.phase("demo") == "paused"
        ops.edit("demo", {"metadata": {"annotations": {f"{P}pause": None}}})
        ops.begin().run(100)
        assert ops.waves == [["n0", "n1"], ["n2", "n3"]]
        assert ops.condition("demo", "Halted") is not None


class TestRollback:
    def failing(self, **gate: object) -> Gated:
        """Return a world in which the third wave of 2.0.0 fails its gate."""
        ops = rolled(nodes=8, size=2, count=2, prometheus=PROMETHEUS, rollback=True, **gate)
        ops.answer = lambda question: 0.0 if len(ops.waves) < 3 else 5.0
        return upgraded(ops, interrupt=NOOP)

    def test_the_version_before_is_restored_wave_by_wave_in_reverse(self) -> None:
        ops = self.failing().run(400)
        assert ops.waves == [["n0", "n1"], ["n2", "n3"], ["n4", "n5"], ["n4", "n5"], ["n2", "n3"], ["n0", "n1"]]
        assert ops.versions() == ["1.0.0"] * 8
        assert (ops.halt()["rollback"], ops.phase("demo"), ops.most_busy) == ("done", "blocked", 2)
        text = ops.condition("demo", "Halted")[2]  # type: ignore[index]
        assert "; base 1.0.0 was restored on all nodes; a new spec, or" in text
        assert ops.condition("demo", "Ready")[:2] == ("False", "Blocked")  # type: ignore[index]

    def test_nodes_that_had_not_changed_are_left_alone(self) -> None:
        ops = self.failing()
        before = len(ops.made)
        ops.run(400)
        assert {each.node for each in ops.made[before:]} == {"n0", "n1", "n2", "n3", "n4", "n5"}

    def test_nodes_in_work_end_first(self) -> None:
        gate = {"prometheus": PROMETHEUS, "rollback": True, "errorThreshold": 100}
        ops = Gated(nodes=4)
        for name in ("n0", "n1"):
            ops.change_node(name, {"metadata": {"labels": {"pool": "gpu"}}})
        gpu = {"name": "gpu", "selector": {"matchLabels": {"pool": "gpu"}}, "budget": {"count": 1}}
        default = {"budget": {"count": 1}, "strategy": {"fixed": {"initialBatch": 1}}}
        ops.policy("p", default=default, compartments=[gpu], gate=gate)
        ops.make("demo", {"base": pkg()}, deploymentPolicy="p").run(120)
        before = len(ops.made)
        ops.answer = lambda question: 9.0
        ops.fate = lambda about: "hang" if (about.node, about.stage) == ("n2", "upgrade") else "ok"
        upgraded(ops).run(60)
        assert (ops.halt()["rollback"], ops.halt()["compartment"]) == ("pending", "gpu")
        assert "; base 1.0.0 will be restored once the nodes in work have ended" in ops.condition("demo", "Halted")[2]  # type: ignore[index]
        for about in ops.pods():
            ops.finish(about)
        ops.run(120)
        assert ops.halt()["rollback"] == "done"
        assert [each.stage for each in ops.made[before:] if each.node == "n2"] == [
            *("upgrade", "config"),
            *("uninstall", "apply", "config"),
        ]
        assert ops.versions() == ["1.0.0"] * 4

    def test_a_first_install_is_halted_only(self) -> None:
        ops = Gated(nodes=2).gated(prometheus=PROMETHEUS, rollback=True)
        ops.answer = lambda question: 9.0
        ops.make("demo", {"base": pkg()}, deploymentPolicy="p")
        ops.run(120)
        assert ops.halt()["rollback"] == ""
        assert (
            "no earlier version is recorded as complete on all nodes, so nothing is restored" in ops.halt()["message"]
        )
        assert ops.versions() == ["1.0.0", ""]

    def test_nodes_that_failed_while_cordoned_are_restored_within_the_budget(self) -> None:
        ops = rolled(nodes=4, size=1, count=1, errorThreshold=0, rollback=True)
        ops.fate = lambda about: "fail" if about.version == "2.0.0" and about.stage != "uninstall" else "ok"
        upgraded(ops, interrupt=NOOP).run(200)
        assert (ops.halt()["rollback"], ops.most_busy) == ("done", 1)
        assert ops.versions() == ["1.0.0"] * 4
        assert not any(ops.node(f"n{number}")["spec"].get("unschedulable") for number in range(4))

    def test_a_package_that_was_removed_comes_back(self) -> None:
        ops = Gated(nodes=2).gated(prometheus=PROMETHEUS, rollback=True)
        ops.make("demo", {"base": pkg(), "top": pkg()}, deploymentPolicy="p").run(120)
        ops.answer = lambda question: 9.0
        ops.packages("demo", {"top": None, "more": pkg()}).run(200)
        assert ops.halt()["rollback"] == "done"
        assert (ops.versions("top"), ops.versions("more")) == (["1.0.0", "1.0.0"], ["", ""])

    def test_a_configuration_comes_back(self) -> None:
        ops = Gated(nodes=3).gated(prometheus=PROMETHEUS, rollback=True)
        ops.make("demo", {"base": pkg(configMap={"a": "1"})}, deploymentPolicy="p").run(120)
        ops.answer = lambda question: 9.0
        ops.packages("demo", {"base": pkg(configMap={"a": "2"})}).run(200)
        assert ops.halt()["rollback"] == "done"
        live = ops.world.objects.get(CONFIG_MAPS, "skyhook", "demo-base-1.0.0")
        assert live is not None
        assert live["data"] == {"a": "1"}

    @pytest.mark.parametrize("restarts", [False, True], ids=["", "under new operators"])
    @pytest.mark.parametrize(
        "interrupt", [{}, {"configInterrupts": {"a": NOOP}, "interrupt": NOOP}], ids=["", "interrupts"]
    )
    def test_a_configuration_comes_back_only_where_it_had_begun(self, interrupt: Json, restarts: bool) -> None:
        ops = Gated(nodes=4).gated(prometheus=PROMETHEUS, rollback=True)
        package = pkg(configMap={"a": "1"}, **interrupt)
        ops.make("demo", {"base": package}, deploymentPolicy="p").run(200)
        states, before = [ops.state(f"n{number}", "demo") for number in range(4)], len(ops.made)
        ops.answer = lambda question: 0.0 if len(ops.waves) < 6 else 9.0
        ops.packages("demo", {"base": {**package, "configMap": {"a": "2"}}})
        for _ in range(100):
            ops = ops.begin() if restarts else ops
            ops.run(2)
        assert ops.halt()["rollback"] == "done"
        assert [each.node for each in ops.made[before:] if each.stage == "config"] == ["n0", "n1", "n1", "n0"]
        assert [ops.state(f"n{number}", "demo") for number in range(4)] == states
        assert [ops.annotation(f"n{number}", "keptConf_demo") for number in range(4)] == [None] * 4
        assert (ops.most_busy, ops.waves[6:]) == (1, [["n1"], ["n0"]])

    def test_another_configuration_after_it_runs_on_all_nodes(self) -> None:
        ops = Gated(nodes=3).gated(prometheus=PROMETHEUS, rollback=True)
        ops.make("demo", {"base": pkg(configMap={"a": "1"})}, deploymentPolicy="p").run(120)
        ops.answer = lambda question: 9.0
        ops.packages("demo", {"base": pkg(configMap={"a": "2"})}).run(100)
        before = len(ops.made)
        ops.answer = lambda question: 0.0
        ops.packages("demo", {"base": pkg(configMap={"a": "3"})}).run(200)
        assert [each.name for each in ops.made[before:]] == ["base/config"] * 3
        assert (ops.phase("demo"), ops.halt()) == ("complete", {})

    def test_a_new_spec_after_it_is_rolled_out(self) -> None:
        ops = self.failing().run(400)
        ops.answer = lambda question: 0.0
        upgraded(ops, "2.0.1", interrupt=NOOP).run(600)
        assert (ops.phase("demo"), ops.halt()) == ("complete", {})
        assert ops.versions() == ["2.0.1"] * 8
        assert ops.status("demo")["lastComplete"]["packages"]["base"]["version"] == "2.0.1"

    def test_a_new_spec_in_the_middle_of_it_is_rolled_out(self) -> None:
        ops = self.failing()
        while ops.halt().get("rollback") != "running":
            ops.run(1)
        ops.run(3)
        ops.answer = lambda question: 0.0
        upgraded(ops, "2.0.1", interrupt=NOOP).run(600)
        assert (ops.phase("demo"), ops.most_busy) == ("complete", 2)
        assert ops.versions() == ["2.0.1"] * 8

    def test_a_policy_without_a_gate_keeps_no_version(self) -> None:
        ops = Skyhooks(nodes=2)
        default = {"budget": {"count": 1}, "strategy": {"fixed": {"initialBatch": 1}}}
        ops.policy("p", default=default).make("demo", {"base": pkg()}, deploymentPolicy="p").run(60)
        assert "lastComplete" not in ops.status("demo")
        assert ops.annotation("n0", "picked_demo") is None


def test_a_halted_roll_is_at_rest() -> None:
    ops = Gated(nodes=2).gated(prometheus=PROMETHEUS)
    ops.answer = lambda question: 9.0
    ops.make("demo", {"base": pkg()}, deploymentPolicy="p").run(120)
    before = len(ops.writes)
    assert len(ops.run(300).writes) == before
