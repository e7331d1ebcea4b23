"""Packages on the embedded cluster, in virtual time: stages, changes, interrupts and ends."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta

import pytest

from haulout.cluster.key import node_key
from haulout.cluster.rows import Value
from haulout.cluster.view import FactDemand
from haulout.embedded import NODES, PODS, Resource
from haulout.kernel.requests import Answer, Body, Change, Refused
from haulout.surfaces.packages.entries.entry import PackageEntry
from haulout.surfaces.packages.node.failure_log import PACE_FOR, PROBE
from haulout.surfaces.packages.node.reruns import RERUN
from haulout.surfaces.packages.node.standing import NodeStanding
from haulout.surfaces.packages.options import Options
from haulout.surfaces.packages.pods import names
from haulout.surfaces.packages.skyhook import status_size, writes
from haulout.surfaces.packages.wire import skyhook_key
from tests.build.skyhooks import CONFIG_MAPS, IMAGE, SKYHOOKS, About, P, Skyhooks, pkg
from tests.build.workloads import budget, deployment

DEPLOYMENTS = Resource("apps", "v1", "deployments")
NOOP = {"type": "noop"}
REBOOT = {"type": "reboot"}
THERE_AND_BACK = ["apply", "config", "interrupt", "post-interrupt"]


def stages(ops: Skyhooks, **only: str) -> list[str]:
    return [each.stage for each in ops.made if all(getattr(each, key) == value for key, value in only.items())]


def quiet(ops: Skyhooks, seconds: float = 60) -> bool:
    """Whether nothing is written for a while."""
    before = len(ops.writes)
    ops.run(seconds)
    return len(ops.writes) == before


class TestLife:
    def test_a_package_is_applied_and_configured(self) -> None:
        ops = Skyhooks(nodes=2).make("demo", {"base": pkg()}).run(30)
        assert (ops.failures, ops.refusals) == ([], [])
        assert ops.trail(node="n0") == ["base/apply", "base/config"]
        assert ops.state("n0", "demo") == {"base|1.0.0": "config/complete"}
        assert (ops.phase("demo"), ops.shows("demo", "n0", "n1")) == ("complete", ["complete", "complete"])
        assert ops.status("demo")["completeNodes"] == "2/2"
        assert ops.pods() == []
        kinds = [each["type"] for each in ops.node("n0")["status"]["conditions"]]
        assert kinds[:2] == [f"{P}demo/NotReady", f"{P}demo/Erroring"]
        assert quiet(ops)

    def test_the_metadata_of_a_node_stand_in_a_config_map_once_it_shows_the_skyhook(self) -> None:
        ops = Skyhooks(nodes=2)
        ops.fate = lambda about: "hang"
        ops.make("demo", {"base": pkg()}, interruptionBudget={"count": 1}).run(5)
        assert ops.shows("demo", "n0", "n1") == ["in_progress", "waiting"]
        expected = [names.metadata_config_map("demo", node) for node in ("n0", "n1")]
        made = [each["metadata"]["name"] for each in ops.world.objects.list(CONFIG_MAPS, "skyhook")]
        assert [each for each in made if "metadata" in each] == expected
        for name in expected:
            ops.world.objects.delete(CONFIG_MAPS, "skyhook", name)
        ops.run(5)
        assert all(ops.world.objects.get(CONFIG_MAPS, "skyhook", name) is not None for name in expected)
        ops.fate = lambda about: "ok"
        ops.finish(ops.pods()[0])
        ops.run(30)
        assert (ops.phase("demo"), ops.writes.count(("Create", "NodeMetadataConfigMap"))) == ("complete", 4)

    def test_a_skyhook_without_packages_is_complete_and_hands_out_metadata(self) -> None:
        ops = Skyhooks().make("demo", {}).run(30)
        assert (ops.phase("demo"), ops.status("demo")["completeNodes"]) == ("complete", "1/1")
        name = names.metadata_config_map("demo", "n0")
        assert ops.world.objects.get(CONFIG_MAPS, "skyhook", name) is not None

    def test_its_history_begins_with_waiting(self) -> None:
        ops = Skyhooks().make("demo", {"base": pkg()}).run(30)
        told = [note.removeprefix("Skyhook transitioned ") for note in ops.told if "transitioned" in note]
        assert told == ["[unknown] -> [waiting]", "[waiting] -> [in_progress]", "[in_progress] -> [complete]"]

    def test_two_skyhooks_show_their_conditions_in_one_write(self) -> None:
        ops = Skyhooks()
        ops.fate = lambda about: "hang"
        ops.make("one", {"base": pkg()}).make("two", {"base": pkg()}, priority=300).run(0.9)
        kinds = [each["type"] for each in ops.node("n0")["status"]["conditions"]]
        expected = [f"{P}{skyhook}/{kind}" for skyhook in ("one", "two") for kind in ("NotReady", "Erroring")]
        assert (kinds[:4], ops.writes.count(("Change", "Node/status"))) == (expected, 1)

    def test_dependents_wait_for_every_root(self) -> None:
        packages = {"base": pkg(), "other": pkg(), "top": pkg(dependsOn={"base": "1.0.0"})}
        ops = Skyhooks().make("demo", packages).run(30)
        trail = ops.trail()
        assert sorted(trail[:2]) == ["base/apply", "other/apply"]
        assert trail.index("top/apply") > trail.index("other/config")

    def test_a_chain_whose_root_is_upgraded_runs_to_its_end(self) -> None:
        packages = {
            "one": pkg(),
            "three": pkg(dependsOn={"two": "1.0.0"}),
            "two": pkg(dependsOn={"one": "1.0.0"}),
        }
        ops = Skyhooks().make("demo", packages).run(40)
        assert ops.phase("demo") == "complete"
        ops.packages("demo", {"one": pkg("1.1.0"), "two": pkg(dependsOn={"one": "1.1.0"})}).run(40)
        assert ops.phase("demo") == "complete"
        assert ops.state("n0", "demo")["one|1.1.0"] == "config/complete"

    def test_serial_packages_run_one_after_another(self) -> None:
        ops = Skyhooks().make("demo", {"aa": pkg(), "bb": pkg()}, serial=True).run(40)
        assert ops.phase("demo") == "complete"
        assert ops.trail() == ["aa/apply", "aa/config", "bb/apply", "bb/config"]

    def test_a_lost_pod_is_made_again_at_its_stage(self) -> None:
        ops = Skyhooks()
        ops.fate = lambda about: "hang"
        ops.make("demo", {"base": pkg()}).run(5)
        (pod,) = ops.pods()
        ops.world.objects.delete(PODS, "skyhook", pod.pod["metadata"]["name"], grace=0)
        ops.run(5)
        assert ops.trail() == ["base/apply", "base/apply"]

    def test_an_edit_of_something_else_leaves_running_pods_alone(self) -> None:
        ops = Skyhooks()
        ops.fate = lambda about: "hang"
        ops.make("demo", {"base": pkg(env=[{"name": "A", "value": "1"}])}).run(5)
        ops.edit("demo", {"spec": {"priority": 7}}).run(10)
        assert len(ops.made) == 1
        ops.packages("demo", {"base": pkg(env=[{"name": "A", "value": "2"}])}).run(10)
        assert ops.trail() == ["base/apply", "base/apply"]


class TestVersions:
    def test_a_downgrade_uninstalls_first(self) -> None:
        ops = Skyhooks().make("demo", {"base": pkg("2.0.0")}).run(30)
        ops.packages("demo", {"base": pkg("1.0.0")}).run(30)
        assert ops.trail()[2:] == ["base/uninstall", "base/apply", "base/config"]
        assert ops.state("n0", "demo") == {"base|1.0.0": "config/complete"}

    def test_an_upgrade_keeps_the_budget(self) -> None:
        ops = Skyhooks(nodes=3).make("demo", {"base": pkg()}, interruptionBudget={"count": 1}).run(60)
        assert ops.phase("demo") == "complete"
        before, seen = len(ops.made), set[int]()
        ops.before = lambda body: seen.add(len({each.node for each in ops.pods()}))
        ops.packages("demo", {"base": pkg("1.1.0")}).run(60)
        assert ops.phase("demo") == "complete"
        assert stages(ops)[before:] == ["upgrade", "config"] * 3
        assert max(seen) == 1

    def test_a_version_that_changes_twice_ends_at_the_last(self) -> None:
        ops = Skyhooks()
        ops.make("demo", {"base": pkg("2.0.0")}).run(30)
        ops.fate = lambda about: "hang"
        ops.packages("demo", {"base": pkg("1.0.0")}).run(5)
        ops.packages("demo", {"base": pkg("3.0.0")}).run(5)
        ops.fate = lambda about: "ok"
        for about in ops.pods():
            ops.finish(about)
        ops.run(40)
        assert (ops.phase("demo"), ops.state("n0", "demo")) == ("complete", {"base|3.0.0": "config/complete"})

    def test_a_node_whose_upgrade_is_taken_back_keeps_its_place(self) -> None:
        ops = Skyhooks(nodes=2)
        ops.make("demo", {"base": pkg(interrupt=NOOP)}, interruptionBudget={"count": 1}).run(60)
        ops.fate = lambda about: "hang"
        ops.packages("demo", {"base": pkg("1.1.0", interrupt=NOOP)}).run(5)
        ops.packages("demo", {"base": pkg("1.0.0", interrupt=NOOP)}).run(5)
        assert list(ops.status("demo")["nodePriority"]) == ["n0"]
        assert {each.node for each in ops.pods()} == {"n0"}

    def test_a_package_that_leaves_is_uninstalled_beside_an_upgrade(self) -> None:
        ops = Skyhooks(nodes=2).make("demo", {"a-pkg": pkg("1.0.0"), "b-pkg": pkg()}).run(30)
        before = len(ops.made)
        ops.packages("demo", {"a-pkg": pkg("1.1.0"), "b-pkg": None}).run(30)
        assert sorted(each.name for each in ops.made[before:]) == [
            *["a-pkg/config"] * 2,
            *["a-pkg/upgrade"] * 2,
            *["b-pkg/uninstall"] * 2,
        ]
        assert ops.phase("demo") == "complete"

    @pytest.mark.parametrize("then", [None, pkg("0.9.0")], ids=["removed", "downgraded"])
    def test_a_package_is_uninstalled_with_what_it_had(self, then: dict[str, object] | None) -> None:
        had = pkg(
            env=[{"name": "A", "value": "1"}],
            configMap={"a.conf": "1"},
            containerSHA="sha256:" + "0" * 64,
            agentImageOverride="reg.test/agent:2",
            gracefulShutdown="90s",
        )
        ops = Skyhooks().make("demo", {"base": had, "other": pkg()}).run(30)
        ops.packages("demo", {"base": None}).run(0)
        ops = ops.begin() if then is None else ops.packages("demo", {"base": then})
        ops.run(30)
        (pod,) = (each.pod for each in ops.made if each.stage == "uninstall")
        copying, running, _ = pod["spec"]["initContainers"]
        assert copying["image"] == f"{IMAGE}@{had['containerSHA']}"
        assert (running["image"], running["env"][0]) == ("reg.test/agent:2", {"name": "A", "value": "1"})
        assert pod["spec"]["terminationGracePeriodSeconds"] == 90
        assert pod["spec"]["volumes"][-1]["configMap"]["name"] == "demo-base-1.0.0"
        assert "base|1.0.0" not in ops.state("n0", "demo")
        assert ops.world.objects.get(CONFIG_MAPS, "skyhook", "demo-base-1.0.0") is None, "nothing needs it any more"
        record = ops.world.get(CONFIG_MAPS, names.applied_config_map("demo"), "skyhook")
        left = {"other-1.0.0"} if then is None else {"other-1.0.0", "base-0.9.0"}
        assert (record["data"].keys(), quiet(ops)) == (left, True)

    def test_a_lost_configuration_comes_back_for_the_uninstall(self) -> None:
        ops = Skyhooks().make("demo", {"base": pkg(configMap={"a.conf": "1"})}).run(30)
        ops.edit("demo", {"metadata": {"annotations": {f"{P}pause": "true"}}}).run(5)
        ops.packages("demo", {"base": None}).run(5)
        ops.world.objects.delete(CONFIG_MAPS, "skyhook", "demo-base-1.0.0")
        ops.edit("demo", {"metadata": {"annotations": {f"{P}pause": None}}})
        there: list[bool] = []

        def fate(about: About) -> str:
            there.append(ops.world.objects.get(CONFIG_MAPS, "skyhook", "demo-base-1.0.0") is not None)
            return "ok"

        ops.fate = fate
        ops.run(30)
        assert (there, ops.state("n0", "demo")) == ([True], {})

    def test_an_explicit_uninstall_ends_without_an_entry(self) -> None:
        ops = Skyhooks().make("demo", {"base": pkg(interrupt=NOOP, uninstall={"enabled": True})}).run(60)
        before = len(ops.made)
        ops.packages("demo", {"base": {"uninstall": {"apply": True}}}).run(60)
        assert stages(ops)[before:] == ["uninstall", "uninstall-interrupt"]
        assert (ops.state("n0", "demo"), ops.phase("demo")) == ({}, "complete")


class TestConfiguration:
    def test_a_change_that_waits_for_a_pod_to_go_is_not_complete_yet(self) -> None:
        ops = Skyhooks()
        ops.make("demo", {"base": pkg(configMap={"a": "1"})})
        while not ops.trail(stage="config"):
            ops.run(0.2)
        (pod,) = ops.pods()
        kept = pod.pod["metadata"]
        ops.world.objects.patch(PODS, "skyhook", kept["name"], {"metadata": {"finalizers": ["test/kept"]}})
        ops.run(10)
        assert ops.phase("demo") == "complete"
        ops.packages("demo", {"base": pkg(configMap={"a": "2"})}).run(10)
        assert ops.status("demo")["observedGeneration"] < ops.get("demo")["metadata"]["generation"]
        ops.world.objects.patch(PODS, "skyhook", kept["name"], {"metadata": {"finalizers": None}})
        ops.run(20)
        assert ops.status("demo")["observedGeneration"] == ops.get("demo")["metadata"]["generation"]
        assert ops.trail() == ["base/apply", "base/config", "base/config"]

    def test_a_change_configures_again_within_the_budget(self) -> None:
        ops = Skyhooks(nodes=3)
        ops.make("demo", {"base": pkg(configMap={"a.conf": "1"})}, interruptionBudget={"count": 1}).run(60)
        before, seen = len(ops.made), set[int]()
        ops.before = lambda body: seen.add(len({each.node for each in ops.pods()}))
        ops.packages("demo", {"base": pkg(configMap={"a.conf": "2"})}).run(60)
        assert stages(ops)[before:] == ["config"] * 3
        assert max(seen) == 1
        assert ops.status("demo")["configUpdates"] == {"base": ["a.conf"]}
        found = ops.world.objects.get(CONFIG_MAPS, "skyhook", "demo-base-1.0.0")
        assert found is not None
        assert found["data"] == {"a.conf": "2"}
        assert (ops.phase("demo"), quiet(ops)) == ("complete", True)

    @pytest.mark.parametrize(
        ("changed", "ran"),
        [
            ({"a.conf": "2", "b.txt": "1"}, ["config", "interrupt", "post-interrupt"]),
            ({"a.conf": "1", "b.txt": "2"}, ["config"]),
            ({"a.conf": "1", "b.txt": None}, ["config", "interrupt", "post-interrupt"]),
        ],
        ids=["a key with an interrupt", "a key without one", "a key that goes"],
    )
    def test_only_a_key_with_an_interrupt_interrupts(self, changed: dict[str, str], ran: list[str]) -> None:
        package = pkg(
            interrupt=NOOP, configMap={"a.conf": "1", "b.txt": "1"}, configInterrupts={"*.conf": {"type": "reboot"}}
        )
        ops = Skyhooks().make("demo", {"base": package}).run(60)
        before = len(ops.made)
        ops.packages("demo", {"base": {**package, "configMap": changed}}).run(60)
        assert stages(ops)[before:] == ran
        assert (ops.phase("demo"), ops.annotation("n0", "cordon_demo")) == ("complete", None)

    def test_a_change_waits_until_the_package_is_done(self) -> None:
        ops = Skyhooks(nodes=1)
        ops.fate = lambda about: "hang"
        ops.make("demo", {"base": pkg(configMap={"a": "1"})}).run(5)
        ops.packages("demo", {"base": pkg(configMap={"a": "2"})}).run(5)
        found = ops.world.objects.get(CONFIG_MAPS, "skyhook", "demo-base-1.0.0")
        assert found is not None
        assert found["data"] == {"a": "1"}


class TestInterrupts:
    def test_a_node_is_cordoned_and_drained_before_the_first_stage(self) -> None:
        ops = Skyhooks(nodes=2)
        ops.world.make(deployment("web", replicas=4))
        ops.run(20).make("demo", {"base": pkg(interrupt=REBOOT)}, interruptionBudget={"count": 1}).run(120)
        assert stages(ops, node="n0") == THERE_AND_BACK
        assert ops.phase("demo") == "complete"
        assert not ops.node("n0")["spec"].get("unschedulable")
        assert not [name for name in ops.node("n0")["metadata"]["annotations"] if "cordon" in name]
        assert (ops.failures, ops.refusals) == ([], [])

    def test_one_interrupt_serves_all_packages(self) -> None:
        packages = {
            "aa": pkg(interrupt={"type": "service", "services": ["x"]}),
            "bb": pkg(interrupt=REBOOT),
            "cc": pkg(interrupt={"type": "service", "services": ["y"]}),
        }
        ops = Skyhooks().make("demo", packages).run(60)
        assert ops.phase("demo") == "complete"
        (interrupt,) = [each for each in ops.made if each.stage == "interrupt"]
        assert interrupt.package == "bb"
        assert stages(ops).count("post-interrupt") == 3

    def test_the_carrier_waits_for_the_slowest(self) -> None:
        ops = Skyhooks()
        ops.fate = lambda about: "hang" if about.name == "cc/config" else "ok"
        ops.make("demo", {"bb": pkg(interrupt=REBOOT), "cc": pkg(interrupt=NOOP)}).run(30)
        assert "interrupt" not in stages(ops)
        ops.fate = lambda about: "ok"
        for about in ops.pods():
            ops.finish(about)
        ops.run(30)
        assert ops.phase("demo") == "complete"

    def test_protected_pods_are_waited_for_and_named(self) -> None:
        ops = Skyhooks()
        ops.world.make(deployment("train", replicas=1))
        ops.run(20).make(
            "demo", {"base": pkg(interrupt=NOOP)}, podNonInterruptLabels={"matchLabels": {"app": "train"}}
        ).run(30)
        (pod,) = ops.world.names()
        assert ops.made == []
        assert ops.condition("demo", "Blocked") == ("True", "NonInterruptPodsRunning", f"n0: default/{pod}")
        ops.world.objects.delete(DEPLOYMENTS, "default", "train")
        ops.run(60)
        assert (ops.phase("demo"), ops.condition("demo", "Blocked")) == ("complete", None)

    def test_a_pod_behind_a_budget_holds_up_one_node_alone(self) -> None:
        ops = Skyhooks(nodes=2)
        ops.world.make(deployment("web", replicas=1), budget("web", minAvailable=1))
        ops.run(20).make("demo", {"base": pkg(interrupt=NOOP)}).run(60)
        (pod,) = ops.world.names()
        held = ops.world.pods()[0]["spec"]["nodeName"]
        other = "n1" if held == "n0" else "n0"
        assert ops.shows("demo", other) == ["complete"]
        assert ops.condition("demo", "Blocked") == ("True", "EvictionBlocked", f"{held}: default/{pod}")
        assert any(f"pod default/{pod} holds up the drain" in note for note in ops.told)

    def test_a_cordon_of_a_person_stays(self) -> None:
        ops = Skyhooks().change_node("n0", {"spec": {"unschedulable": True}})
        ops.run(1).make("demo", {"base": pkg(interrupt=NOOP)}).run(60)
        assert ops.phase("demo") == "complete"
        assert ops.node("n0")["spec"]["unschedulable"]

    def test_of_two_skyhooks_the_last_uncordons(self) -> None:
        ops = Skyhooks()
        ops.fate = lambda about: "hang" if about.skyhook == "two" else "ok"
        ops.change_node(
            "n0", {"metadata": {"annotations": {f"{P}cordon_two": "true"}}, "spec": {"unschedulable": True}}
        )
        ops.make("one", {"base": pkg(interrupt=NOOP)}, priority=1).make("two", {"base": pkg(interrupt=NOOP)}).run(60)
        assert (ops.phase("one"), ops.node("n0")["spec"].get("unschedulable")) == ("complete", True)
        ops.fate = lambda about: "ok"
        for about in ops.pods():
            ops.finish(about)
        ops.run(60)
        assert (ops.phase("two"), ops.node("n0")["spec"].get("unschedulable")) == ("complete", None)

    def test_an_interrupt_that_is_added_later_drains_first(self) -> None:
        ops = Skyhooks(nodes=1).make("demo", {"base": pkg()}).run(30)
        cordoned: list[bool] = []
        ops.before = lambda body: cordoned.append(bool(ops.node("n0")["spec"].get("unschedulable")))
        ops.packages("demo", {"base": pkg(interrupt=REBOOT)}).run(60)
        assert ops.trail()[2:] == ["base/interrupt", "base/post-interrupt"]
        assert (any(cordoned), ops.phase("demo")) == (True, "complete")

    def test_the_interrupt_finds_the_directory_of_the_first_pod(self) -> None:
        ops = Skyhooks()
        ops.fate = lambda about: "hang" if about.stage == "config" else "ok"
        ops.make("demo", {"base": pkg(interrupt=REBOOT)}).run(10)
        ops.edit("demo", {"spec": {"priority": 9}}).run(2)
        ops.fate = lambda about: "ok"
        for about in ops.pods():
            ops.finish(about)
        ops.run(30)
        first, interrupt = ops.made[0], next(each for each in ops.made if each.stage == "interrupt")
        directory = first.pod["spec"]["initContainers"][1]["args"][2]
        assert interrupt.pod["spec"]["initContainers"][0]["args"][2] == directory
        assert ops.annotation("n0", "copyDir_demo") is None


class TestFailures:
    def test_a_failing_node_lets_the_others_go_on(self) -> None:
        ops = Skyhooks(nodes=3)
        ops.fate = lambda about: "fail" if about.node == "n0" else "ok"
        ops.make("demo", {"base": pkg()}, interruptionBudget={"count": 1}).run(60)
        assert ops.shows("demo", "n0", "n1", "n2") == ["erroring", "complete", "complete"]
        assert (ops.phase("demo"), ops.condition("demo", "Ready")[:2]) == ("erroring", ("False", "Erroring"))  # type: ignore[index]
        for about in ops.pods():
            ops.finish(about)
        ops.fate = lambda about: "ok"
        ops.run(30)
        assert ops.phase("demo") == "complete"

    def test_stages_that_fail_once_each_do_not_slow_their_node_down(self) -> None:
        ops = Skyhooks()
        ops.takes = timedelta(milliseconds=300)

        def fails_once(about: About) -> str:
            ops.world.time.at(ops.world.time.now() + timedelta(seconds=1), lambda: ops.finish(about, restarts=1))
            return "fail"

        ops.fate = fails_once
        ops.make("demo", {"base": pkg(interrupt=NOOP), "top": pkg(dependsOn={"base": "1.0.0"})}).run(30)
        assert (ops.phase("demo"), ops.slowed) == ("complete", [])

    def test_a_failing_node_that_is_cordoned_takes_its_place(self) -> None:
        ops = Skyhooks(nodes=3)
        ops.fate = lambda about: "fail" if about.node == "n0" else "ok"
        ops.make("demo", {"base": pkg(interrupt=NOOP)}, interruptionBudget={"count": 1}).run(60)
        assert ops.shows("demo", "n0", "n1", "n2") == ["erroring", "waiting", "waiting"]

    def test_a_malformed_state_concerns_its_node_alone(self) -> None:
        ops = Skyhooks(nodes=2).change_node("n0", {"metadata": {"annotations": {f"{P}nodeState_demo": "{"}}})
        ops.make("demo", {"base": pkg()}).run(30)
        assert ops.shows("demo", "n1") == ["complete"]
        assert ops.condition("demo", "NodeStateMalformed") is not None
        assert ops.annotation("n0", "nodeState_demo") == "{"

    def test_an_invalid_skyhook_concerns_itself_alone(self) -> None:
        ops = Skyhooks()
        bad = {"base": pkg("latest")}
        ops.make("bad", bad, priority=1, sequencing="all").make("good", {"base": pkg()}, nodeSelectors={}).run(30)
        assert ops.condition("bad", "SpecInvalid") is not None
        assert (ops.phase("good"), ops.trail()) == ("complete", ["base/apply", "base/config"])

    def test_a_skyhook_that_becomes_invalid_keeps_a_node_while_something_of_it_runs_there(self) -> None:
        ops = Skyhooks()
        ops.fate = lambda about: "hang"
        ops.make("bad", {"base": pkg()}, priority=1).run(10)
        ops.edit("bad", {"spec": {"packages": {"base": {"version": "latest"}}}})
        ops.make("good", {"top": pkg()}).run(30)
        assert [each.package for each in ops.made] == ["base"]
        ops.fate = lambda about: "ok"
        ops.finish(ops.pods()[0])
        ops.run(60)
        assert (ops.trail(), ops.phase("good")) == (["base/apply", "top/apply", "top/config"], "complete")

    def test_a_skyhook_that_becomes_invalid_keeps_a_node_that_it_has_cordoned(self) -> None:
        ops = Skyhooks()
        ops.make("bad", {"base": pkg(interrupt=NOOP)}, priority=1)
        ops.fate = lambda about: "hang" if about.stage == "config" else "ok"
        ops.run(30).edit("bad", {"spec": {"packages": {"base": {"version": "latest"}}}})
        ops.fate = lambda about: "ok"
        ops.finish(ops.pods()[0])
        ops.make("good", {"top": pkg()}).run(60)
        assert (ops.trail(), ops.pods()) == (["base/apply", "base/config"], [])

    def test_a_malformed_state_keeps_no_later_skyhook_from_the_node(self) -> None:
        ops = Skyhooks().change_node("n0", {"metadata": {"annotations": {f"{P}nodeState_bad": "{"}}})
        ops.make("bad", {"base": pkg()}, priority=1).make("good", {"top": pkg()}).run(60)
        assert (ops.phase("good"), ops.trail()) == ("complete", ["top/apply", "top/config"])
        assert ops.annotation("n0", "nodeState_bad") == "{"

    def test_a_selector_that_cannot_be_read_leaves_nodes_as_they_are(self) -> None:
        ops = Skyhooks()
        ops.fate = lambda about: "hang"
        ops.make("demo", {"base": pkg(interrupt=NOOP)}).run(10)
        bad = {"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]}
        ops.edit("demo", {"spec": {"nodeSelectors": bad}}).run(10)
        assert ops.condition("demo", "SpecInvalid") is not None
        assert (len(ops.pods()), ops.node("n0")["spec"].get("unschedulable")) == (1, True)
        assert ops.phase("demo") == "in_progress"

    def test_labels_of_protected_pods_that_cannot_be_read_keep_every_pod_from_eviction(self) -> None:
        ops = Skyhooks()
        ops.world.make(deployment("train", replicas=1))
        protected = {"matchLabels": {"app": "train"}}
        ops.run(20).make("demo", {"base": pkg(interrupt=NOOP)}, podNonInterruptLabels=protected).run(30)
        before = ops.world.names()
        bad = {"matchLabels": None, "matchExpressions": [{"key": "app", "operator": "Near", "values": ["train"]}]}
        ops.edit("demo", {"spec": {"podNonInterruptLabels": bad}}).run(60)
        invalid = ops.condition("demo", "SpecInvalid")
        assert invalid is not None
        assert invalid[2].startswith("pod non-interrupt labels are not valid: ")
        assert (ops.world.names(), ops.made) == (before, [])

    def test_a_missing_policy_blocks_its_skyhook_alone(self) -> None:
        ops = Skyhooks()
        ops.make("held", {"base": pkg()}, deploymentPolicy="none").make("free", {"base": pkg()}, priority=1).run(30)
        assert (ops.phase("held"), ops.phase("free")) == ("blocked", "complete")
        assert ops.condition("held", "DeploymentPolicyNotFound") is not None
        ops.policy("none", default={"budget": {"percent": 100}, "strategy": {"fixed": {}}}).run(30)
        assert (ops.phase("held"), ops.condition("held", "DeploymentPolicyNotFound")) == ("complete", None)


class TestSwitches:
    def test_a_paused_skyhook_lets_its_pods_end_and_begins_nothing(self) -> None:
        ops = Skyhooks(nodes=2)
        ops.takes = timedelta(seconds=5)
        ops.make("demo", {"base": pkg()}, interruptionBudget={"count": 1}).run(2)
        ops.edit("demo", {"metadata": {"annotations": {f"{P}pause": "true"}}}).run(30)
        assert ops.trail() == ["base/apply"]
        assert ops.state("n0", "demo") == {"base|1.0.0": "apply/complete"}
        assert (ops.phase("demo"), ops.shows("demo", "n0", "n1")) == ("paused", ["paused", "paused"])
        ops.edit("demo", {"metadata": {"annotations": {f"{P}pause": None}}}).run(90)
        assert ops.phase("demo") == "complete"
        assert [each.node for each in ops.made] == ["n0", "n0", "n1", "n1"]

    def test_a_disabled_skyhook_holds_nobody_up(self) -> None:
        ops = Skyhooks().make("first", {"base": pkg()}, {f"{P}disable": "true"}, priority=1)
        ops.make("second", {"base": pkg()}).run(30)
        assert (ops.phase("first"), ops.phase("second"), ops.shows("first", "n0")) == (
            "disabled",
            "complete",
            ["disabled"],
        )

    def test_an_ignored_node_is_left_out_and_named(self) -> None:
        ops = Skyhooks(nodes=2).change_node("n0", {"metadata": {"labels": {f"{P}ignore": "true"}}})
        ops.make("demo", {"base": pkg()}, interruptionBudget={"count": 1}).run(30)
        assert ops.shows("demo", "n0", "n1") == ["blocked", "complete"]
        assert ops.condition("demo", "NodesIgnored") == (
            "True",
            "NodesIgnored",
            "Node [n0] has ignore label set. Skipping.",
        )

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

    def test_the_next_skyhook_waits_although_it_has_other_nodes(self) -> None:
        ops = Skyhooks(nodes=2)
        ops.fate = lambda about: "hang" if about.skyhook == "first" else "ok"
        one, other = ({"matchLabels": {"kubernetes.io/hostname": name}} for name in ("n0", "n1"))
        ops.make("first", {"a-pkg": pkg()}, priority=1, sequencing="all", nodeSelectors=one)
        ops.make("second", {"a-pkg": pkg()}, priority=2, nodeSelectors=other).run(20)
        assert (ops.trail(skyhook="second"), ops.phase("second")) == ([], "waiting")
        ops.fate = lambda about: "ok"
        for about in ops.pods():
            ops.finish(about)
        ops.run(30)
        assert (ops.phase("first"), ops.phase("second")) == ("complete", "complete")


class TestTaints:
    def test_a_required_taint_goes_with_the_last_package(self) -> None:
        ops = Skyhooks()
        taint = {"key": "skyhook.nvidia.com", "value": "runtime-required", "effect": "NoSchedule"}
        ops.change_node("n0", {"spec": {"taints": [taint]}})
        ops.make("plain", {"base": pkg()}, priority=300).make("needed", {"base": pkg()}, runtimeRequired=True).run(60)
        assert (ops.phase("needed"), ops.phase("plain")) == ("complete", "complete")
        assert not ops.node("n0")["spec"].get("taints")

    def test_new_nodes_are_tainted_although_the_skyhook_is_paused(self) -> None:
        ops = Skyhooks()
        paused = {f"{P}pause": "true"}
        ops.make("needed", {"base": pkg()}, paused, runtimeRequired=True, autoTaintNewNodes=True).run(10)
        assert [taint["value"] for taint in ops.node("n0")["spec"]["taints"]] == ["runtime-required"]
        assert (ops.phase("needed"), ops.made) == ("paused", [])

    def test_a_new_node_is_tainted_once(self) -> None:
        ops = Skyhooks()
        ops.fate = lambda about: "hang"
        ops.make("needed", {"base": pkg()}, runtimeRequired=True, autoTaintNewNodes=True).run(10)
        assert [each["key"] for each in ops.node("n0")["spec"]["taints"]] == ["skyhook.nvidia.com"]
        assert ops.annotation("n0", "autoTaint_skyhook.nvidia.com") == "true"


class TestEnds:
    def test_a_deleted_skyhook_leaves_what_is_installed(self) -> None:
        ops = Skyhooks()
        ops.fate = lambda about: "hang"
        ops.make("demo", {"base": pkg(interrupt=NOOP)}).run(10)
        assert ops.node("n0")["spec"]["unschedulable"]
        ops.delete("demo").run(10)
        node = ops.node("n0")
        assert not node["spec"].get("unschedulable")
        assert [name for name in node["metadata"]["annotations"] if name.startswith(P)] == [f"{P}nodeState_demo"]
        assert not [each for each in node["status"]["conditions"] if each["type"].startswith(P)]

    def test_what_can_be_uninstalled_is_before_its_skyhook_goes(self) -> None:
        ops = Skyhooks(nodes=2)
        ops.make("demo", {"base": pkg(uninstall={"enabled": True}), "other": pkg()}).run(30)
        ops.edit("demo", {"metadata": {"annotations": {f"{P}pause": "true"}}}).run(5)
        ops.delete("demo").run(10)
        assert ops.condition("demo", "DeletionBlocked") == (
            "True",
            "DeletionBlocked",
            "packages cannot be uninstalled: paused",
        )
        ops.edit("demo", {"metadata": {"annotations": {f"{P}pause": None}}}).run(30)
        assert stages(ops, package="base", node="n1")[2:] == ["uninstall"]
        assert ops.world.objects.get(SKYHOOKS, "", "demo") is None
        assert ops.state("n0", "demo") == {"other|1.0.0": "config/complete"}

    def test_a_skyhook_without_nodes_can_be_deleted(self) -> None:
        ops = Skyhooks().make("demo", {"base": pkg()}, nodeSelectors={"matchLabels": {"no": "body"}}).run(5)
        assert ops.phase("demo") == "complete"
        ops.delete("demo").run(5)
        assert ops.world.objects.list(SKYHOOKS, "") == []

    def test_a_node_that_is_no_longer_selected_is_given_back(self) -> None:
        ops = Skyhooks(nodes=2)
        for name in ("n0", "n1"):
            ops.change_node(name, {"metadata": {"labels": {"t": "yes"}}})
        ops.fate = lambda about: "hang"
        selected = {"matchLabels": {"t": "yes"}}
        ops.make("demo", {"base": pkg(interrupt=NOOP)}, nodeSelectors=selected, interruptionBudget={"count": 1}).run(10)
        ops.change_node("n0", {"metadata": {"labels": {"t": None}}}).run(10)
        node = ops.node("n0")
        assert (node["spec"].get("unschedulable"), ops.shows("demo", "n0")) == (None, [None])
        assert [each.node for each in ops.pods()] == ["n1"]
        assert list(ops.status("demo")["nodePriority"]) == ["n1"]

    def test_after_a_reboot_everything_is_applied_again_where_that_is_asked_for(self) -> None:
        ops = Skyhooks(Options(reapply_on_reboot=True)).make("demo", {"base": pkg()}).run(30)
        ops.world.objects.patch(NODES, "", "n0", {"status": {"nodeInfo": {"bootID": "other"}}}, subresource="status")
        ops.run(30)
        assert stages(ops) == ["apply", "config"] * 2
        assert ops.status("demo")["nodeBootIds"] == {"n0": "other"}
        assert ops.phase("demo") == "complete"

    def test_our_own_reboot_resets_nothing(self) -> None:
        ops = Skyhooks(Options(reapply_on_reboot=True))
        ops.fate = lambda about: "hang" if about.stage == "interrupt" else "ok"
        ops.make("demo", {"base": pkg(interrupt=REBOOT)}).run(30)
        ops.world.objects.patch(NODES, "", "n0", {"status": {"nodeInfo": {"bootID": "other"}}}, subresource="status")
        ops.run(5)
        for about in ops.pods():
            ops.finish(about)
        ops.run(30)
        assert (stages(ops), ops.phase("demo")) == (THERE_AND_BACK, "complete")


def test_the_state_survives_another_operator() -> None:
    """Restarted after every write, the operator ends where one that runs through ends."""
    ops = Skyhooks(nodes=2)
    ops.make("demo", {"base": pkg(interrupt=NOOP), "top": pkg(dependsOn={"base": "1.0.0"})})
    for _ in range(150):
        ops.run(0.5)
        ops.begin()
    assert ops.phase("demo") == "complete"
    assert stages(ops, node="n0", package="base") == THERE_AND_BACK
    assert json.loads(ops.annotation("n0", "nodeState_demo") or "")["top|1.0.0"]["state"] == "complete"


class TestTime:
    def test_a_stage_that_takes_too_long_is_tried_again_and_then_fails(self) -> None:
        ops = Skyhooks(Options(stage_timeout=timedelta(seconds=20), stage_retries=1))
        ops.fate = lambda about: "hang"
        ops.make("demo", {"base": pkg()}).run(60)
        assert ops.trail() == ["base/apply", "base/apply"]
        assert ops.shows("demo", "n0") == ["erroring"]
        assert json.loads(ops.annotation("n0", "nodeState_demo") or "")["base|1.0.0"]["restarts"] == 1

    def test_a_package_may_say_how_long_its_stages_take(self) -> None:
        ops = Skyhooks()
        ops.fate = lambda about: "hang"
        ops.make("demo", {"base": pkg(stageTimeout="5s")}).run(10)
        assert ops.shows("demo", "n0") == ["erroring"]

    def test_a_drain_that_takes_too_long_fails(self) -> None:
        ops = Skyhooks()
        ops.world.make(deployment("web", replicas=1), budget("web", minAvailable=1))
        ops.run(20).make("demo", {"base": pkg(interrupt=NOOP)}, drainConfig={"timeout": "30s"}).run(15)
        status, reason, text = ops.condition("demo", "DrainBlocked") or ("", "", "")
        assert (status, reason, text.split(";")[0]) == (
            "True",
            "PodDisruptionBudget",
            "1/1 nodes blocked draining (n0)",
        )
        ops.run(60)
        assert (ops.shows("demo", "n0"), ops.made) == (["erroring"], [])
        assert ops.node("n0")["spec"]["unschedulable"]
        assert "the drain for [skyhook:demo] has taken longer than its timeout" in ops.told


class TestSize:
    @pytest.mark.parametrize(
        "refusal",
        [
            Refused(413, "Request entity too large: limit is 3145728"),
            Refused(500, "etcdserver: request is too large"),
            Refused(500, "rpc error: code = ResourceExhausted desc = trying to send message larger than max"),
        ],
        ids=["server", "etcd", "client of etcd"],
    )
    def test_a_status_that_the_server_finds_too_large_does_not_stop_the_roll(self, refusal: Refused) -> None:
        ops = Skyhooks(nodes=3)
        refused = list[Change]()

        def narrow(body: Body, carry_out: Callable[[], Answer]) -> Answer:
            if (
                isinstance(body, Change)
                and body.subresource
                and any((body.body["status"].get("nodeState") or {}).values())
            ):
                refused.append(body)
                return refusal
            return carry_out()

        ops.way = narrow
        ops.make("demo", {"base": pkg()}).run(60)
        assert (ops.phase("demo"), ops.status("demo")["completeNodes"], len(refused)) == ("complete", "3/3", 1)
        assert "nodeState" not in ops.status("demo")
        assert ops.condition("demo", "StatusTruncated") == (
            "True",
            "StatusTruncated",
            "the state of all nodes is left out, as the status would grow too large",
        )
        assert quiet(ops)

    def test_a_status_is_worked_out_only_when_it_is_due(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(writes, "MIRRORED_FOR_EACH_NODE", timedelta(seconds=2))
        worked_out, every = list[int](), status_size.node_states

        def counted(nodes: Sequence[NodeStanding]) -> tuple[dict[str, dict[str, PackageEntry]], str]:
            worked_out.append(len(nodes))
            return every(nodes)

        monkeypatch.setattr(status_size, "node_states", counted)
        ops = Skyhooks(nodes=5)
        ops.make("demo", {"base": pkg()}).run(60)
        written = Counter(ops.writes)["Change", "Skyhook/status"]
        assert (ops.phase("demo"), len(worked_out) - written) == ("complete", 1)

    def test_a_status_that_only_mirrors_many_nodes_is_written_less_often(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(writes, "MIRRORED_FOR_EACH_NODE", timedelta(seconds=2))
        ops = Skyhooks(nodes=5)
        ops.fate = lambda about: "hang"
        ops.make("demo", {"base": pkg()}).run(5)
        ops.writes.clear()
        for about in ops.pods():
            ops.finish(about)
            ops.run(4)
        assert ops.writes.count(("Change", "Skyhook/status")) == 2
        for about in ops.pods():
            ops.finish(about)
        ops.run(3)
        assert ops.phase("demo") == "complete"


class TestReasons:
    def test_a_node_says_which_container_fails_and_how(self) -> None:
        ops = Skyhooks()
        ops.fate = lambda about: "fail"
        ops.make("demo", {"base": pkg()}).run(10)
        (reason,) = ops.explain("packages-nodes", node_key("n0"))
        (cause,) = reason.because
        assert (reason.code, cause.code) == ("skyhook-incomplete", "package-failing")
        assert cause.text == "package base 1.0.0, stage apply: container base-init fails: exit code 1 (1 restart)"

    def test_a_skyhook_says_which_nodes_are_left(self) -> None:
        ops = Skyhooks(nodes=2)
        ops.fate = lambda about: "hang"
        ops.make("demo", {"base": pkg()}, interruptionBudget={"count": 1}).run(10)
        assert [each.text for each in ops.explain("packages", skyhook_key("demo"))] == [
            "node n0 is in_progress: base at apply/in_progress",
            "node n1 is waiting",
        ]

    def test_the_end_of_a_failing_log_is_kept_on_the_node_where_that_is_asked_for(self) -> None:
        ops = Skyhooks(Options(keep_failure_logs=True))
        ops.fate = lambda about: "fail"
        ops.make("demo", {"base": pkg()}).run(10)
        (pod,) = ops.pods()
        question = ("skyhook", pod.pod["metadata"]["name"], "base-init", 1)
        fact = FactDemand(PROBE, question, PACE_FOR).key
        ops.kernel.store.write(Value(key=fact, value="no such file\n", state="fresh"))
        ops.run(1)
        assert ops.annotation("n0", "lastError_demo") == "no such file\n"
        assert any("no such file" in note for note in ops.told)
        ops.fate = lambda about: "ok"
        ops.finish(pod)
        ops.run(20)
        assert (ops.phase("demo"), ops.annotation("n0", "lastError_demo")) == ("complete", None)

    def test_an_event_names_the_step_that_failed(self) -> None:
        ops = Skyhooks()
        ops.fate = lambda about: "hang"
        ops.make("demo", {"base": pkg()}).run(5)
        (pod,) = ops.pods()
        step = {"name": "install", "path": "install.sh", "exitCode": 5, "signal": None, "timedOut": False}
        ops.finish(pod, code=1, message=json.dumps({"result": "failed", "failedStep": step, "log": "/var/log/x.log"}))
        ops.run(5)
        note = "Package [base:1.0.0] failed in stage [apply]: step install (install.sh) ended with exit code 5"
        assert ops.told.count(f"{note}, see /var/log/x.log on the host") == 1

    def test_events_tell_of_each_stage_of_a_few_nodes(self) -> None:
        ops = Skyhooks(nodes=25).make("demo", {"base": pkg()}).run(30)
        assert ops.phase("demo") == "complete"
        told = Counter(ops.told)
        assert told["Applying package [base:1.0.0] from [skyhook:demo] stage [config]"] == 25
        assert told["Applying package [base:1.0.0] to node [n7] stage [apply]"] == 1
        assert told["Package [base:1.0.0] state complete on [skyhook:demo]"] == 50
        assert told["Skyhook [demo] complete."] == 25

    def test_events_tell_only_the_ends_and_failures_of_many_nodes(self) -> None:
        ops = Skyhooks(nodes=26)
        ops.fate = lambda about: {"n7": "fail", "n8": "hang"}.get(about.node, "ok")
        ops.make("demo", {"base": pkg()}).run(30)
        (stuck,) = [about for about in ops.pods() if about.node == "n8"]
        ops.fate = lambda about: "ok"
        for about in ops.pods():
            ops.finish(about)
        ops.run(30)
        assert stuck.stage == "apply"
        assert ops.phase("demo") == "complete"
        # The batch stays a large one until its last node has ended.
        of_nodes = {note: times for note, times in Counter(ops.told).items() if "transitioned" not in note}
        assert of_nodes == {"Skyhook [demo] complete.": 26, "Package [base:1.0.0] state erroring on [skyhook:demo]": 1}

    def test_steps_run_again_where_a_node_asks_for_it(self) -> None:
        asked = {"metadata": {"annotations": {RERUN: "demo/base, other/base,demo/late"}}}
        ops = Skyhooks().change_node("n0", asked).make("demo", {"base": pkg(), "more": pkg()}).run(30)
        again = {"name": "OVERLAY_ALWAYS_RUN_STEP", "value": "true"}
        ran = {
            each.name: [again in container.get("env", []) for container in each.pod["spec"]["initContainers"]]
            for each in ops.made
        }
        no = [False, False, False]
        assert ran == {"base/apply": [False, True, True], "base/config": no, "more/apply": no, "more/config": no}
        assert ops.node("n0")["metadata"]["annotations"][RERUN] == "other/base,demo/late"
        assert ops.phase("demo") == "complete"
