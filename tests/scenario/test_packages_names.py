"""Two Skyhooks whose pods and ConfigMaps would have the same names: one keeps them, the other says so and runs nothing wrong."""

from __future__ import annotations

import itertools

import pytest

from haulout.cluster.key import node_key
from haulout.embedded import NODES, PODS, Json
from haulout.surfaces.packages.pods import names
from haulout.surfaces.packages.wire import skyhook_key
from tests.build.original import compact
from tests.build.skyhooks import CONFIG_MAPS, IMAGE, P, Skyhooks, pkg

# Both make a ConfigMap gpu-node-tune-1.0.0 and a pod gpu-node-tune-1-0-0-apply-n0-...
LONG, SHORT = ("gpu-node", "tune"), ("gpu", "node-tune")
PAIR = (LONG, SHORT)
ORDERS = [pytest.param(pair, id=" before ".join(name for name, _ in pair)) for pair in itertools.permutations(PAIR)]
Named = tuple[str, str]


def configured(text: str) -> Json:
    return pkg(configMap={"a": text})


def told(ops: Skyhooks, name: str) -> str:
    """Return what a Skyhook says about its names; empty if it says nothing."""
    condition = ops.condition(name, "NameTaken")
    return condition[2] if condition is not None else ""


def owners(ops: Skyhooks) -> set[tuple[str, str]]:
    """Return the ConfigMaps of packages, each with the content and the Skyhook that it belongs to."""
    found = ops.world.objects.list(CONFIG_MAPS, "skyhook")
    label = f"{P}name"
    return {
        (each["metadata"]["labels"][label], each["data"]["a"]) for each in found if label in each["metadata"]["labels"]
    }


def settled(ops: Skyhooks) -> bool:
    """Whether the operator has nothing left to write and is refused nothing."""
    before = len(ops.writes)
    ops.run(600)
    return (ops.writes[before:], ops.refusals, ops.failures, ops.slowed) == ([], [], [], [])


@pytest.mark.parametrize("pair", ORDERS)
class TestWhichOneKeepsItsNames:
    def test_the_older_one_does(self, pair: tuple[Named, Named]) -> None:
        (first, one), (second, other) = pair
        ops = Skyhooks()
        ops.make(first, {one: configured("first")})
        ops.world.run(2)
        ops.make(second, {other: configured("second")}).run(60)
        assert (ops.phase(first), told(ops, first)) == ("complete", "")
        assert {about.skyhook for about in ops.made} == {first}
        assert owners(ops) == {(first, "first")}
        assert f'package "{one}" of Skyhook {first}' in told(ops, second)
        assert settled(ops)

    def test_the_one_with_objects_does_though_it_is_younger(self, pair: tuple[Named, Named]) -> None:
        (first, one), (second, other) = pair
        ops = Skyhooks()
        ops.make(first, {"base": pkg()}).run(30)
        ops.make(second, {other: configured("second")}).run(30)
        ops.packages(first, {one: configured("first")}).run(60)
        assert (ops.phase(second), told(ops, second)) == ("complete", "")
        assert ops.trail(skyhook=first, package=one) == []
        assert f'package "{other}" of Skyhook {second}' in told(ops, first)
        assert owners(ops) == {(second, "second")}
        assert settled(ops)

    def test_it_does_so_also_without_a_config_map(self, pair: tuple[Named, Named]) -> None:
        (first, one), (second, other) = pair
        ops = Skyhooks()
        ops.make(first, {"base": pkg()}).run(30)
        ops.make(second, {other: pkg()}).run(30)
        ops.packages(first, {one: pkg()}).run(60)
        assert (ops.phase(second), told(ops, second)) == ("complete", "")
        assert (ops.trail(skyhook=first, package=one), bool(told(ops, first))) == ([], True)
        assert settled(ops)

    def test_a_restart_changes_nothing(self, pair: tuple[Named, Named]) -> None:
        (first, one), (second, other) = pair
        ops = Skyhooks()
        ops.fate = lambda about: "hang"
        ops.make(first, {one: configured("first")}).run(5)
        ops.begin().make(second, {other: configured("second")}).run(5)
        before = told(ops, second)
        (running,) = ops.pods()
        ops.begin().run(30)
        assert (told(ops, first), told(ops, second)) == ("", before)
        assert [about.pod["metadata"]["uid"] for about in ops.pods()] == [running.pod["metadata"]["uid"]]
        ops.fate = lambda about: "ok"
        ops.finish(running)
        ops.begin().run(60)
        assert (ops.phase(first), told(ops, second), ops.trail(skyhook=second)) == ("complete", before, [])
        ops.begin()
        assert settled(ops)

    def test_the_other_one_runs_once_the_names_are_free(self, pair: tuple[Named, Named]) -> None:
        (first, one), (second, other) = pair
        ops = Skyhooks()
        ops.make(first, {one: configured("first")}).run(30)
        ops.make(second, {other: configured("second")}).run(30)
        ops.delete(first).run(60)
        assert (ops.phase(second), told(ops, second), owners(ops)) == ("complete", "", {(second, "second")})
        assert settled(ops)

    def test_another_version_is_another_name(self, pair: tuple[Named, Named]) -> None:
        (first, one), (second, other) = pair
        ops = Skyhooks()
        ops.make(first, {one: configured("first")}).run(30)
        ops.make(second, {other: pkg("1.1.0", configMap={"a": "second"})}).run(60)
        assert (ops.phase(second), told(ops, second)) == ("complete", "")
        assert owners(ops) == {(first, "first"), (second, "second")}

    def test_what_both_had_done_before_is_not_done_again(self, pair: tuple[Named, Named]) -> None:
        """An operator that did not look at names let both run, one after the other."""
        (first, one), (second, other) = pair
        ops = Skyhooks()
        ops.make(first, {one: pkg()}).run(30)
        ops.make(second, {"base": pkg()}).run(30)
        made = len(ops.made)
        done = {"name": other, "version": "1.0.0", "image": IMAGE, "stage": "config", "state": "complete"}
        text = compact({f"{other}|1.0.0": done})
        ops.change_node("n0", {"metadata": {"annotations": {f"{P}nodeState_{second}": text}}})
        ops.packages(second, {"base": None, other: pkg()}).run(60)
        assert (len(ops.made), ops.state("n0", second)) == (made, {f"{other}|1.0.0": "config/complete"})
        assert (told(ops, first), bool(told(ops, second))) == ("", True)


def test_of_two_of_the_same_second_the_first_by_name_does() -> None:
    ops = Skyhooks()
    for name, package in PAIR:
        ops.make(name, {package: configured(name)})
    ops.run(60)
    assert (ops.phase("gpu"), owners(ops)) == ("complete", {("gpu", "gpu")})
    assert told(ops, "gpu-node")


def test_explain_says_who_has_the_names_and_what_to_do() -> None:
    ops = Skyhooks()
    ops.make("gpu-node", {"tune": pkg()}).run(30)
    ops.make("gpu", {"node-tune": pkg()}).run(30)
    (reason, *_) = ops.explain("packages", skyhook_key("gpu"))
    assert (reason.code, reason.text) == ("name-taken", told(ops, "gpu"))
    assert reason.act == "rename Skyhook gpu or the package"


def test_a_skyhook_that_may_not_run_takes_no_names() -> None:
    ops = Skyhooks()
    ops.make("gpu", {"node-tune": pkg(), "bad": pkg("latest")}, priority=300).run(5)
    ops.make("gpu-node", {"tune": pkg()}).run(60)
    assert (ops.phase("gpu-node"), told(ops, "gpu-node")) == ("complete", "")


def test_names_with_dots_are_those_with_dashes() -> None:
    ops = Skyhooks()
    ops.make("a.b", {"base": pkg()}).run(30)
    ops.make("a-b", {"tune": pkg()}).run(60)
    assert (ops.phase("a.b"), {about.skyhook for about in ops.made}) == ("complete", {"a.b"})
    assert "Skyhook a.b" in told(ops, "a-b")
    assert settled(ops)


def test_a_skyhook_may_be_named_like_the_objects_of_another() -> None:
    ops = Skyhooks()
    ops.make("gpu", {"node-tune": pkg()}).make("gpu-node-tune-1-0-0", {"base": pkg()}).run(60)
    assert (ops.phase("gpu"), ops.phase("gpu-node-tune-1-0-0")) == ("complete", "complete")


def node_named(name: str) -> Json:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}}


def test_the_metadata_of_a_node_is_not_that_of_another() -> None:
    """Skyhook a on node b-n0 and Skyhook a-b on node n0 have one name for the ConfigMap with a node's metadata."""
    assert names.metadata_config_map("a", "b-n0") == names.metadata_config_map("a-b", "n0")
    ops = Skyhooks()
    ops.world.objects.create(NODES, node_named("b-n0"))
    ops.make("a-b", {"base": pkg()}, nodeSelectors={"matchLabels": {"kubernetes.io/hostname": "n0"}}).run(30)
    ops.make("a", {"tune": pkg()}, nodeSelectors={"matchLabels": {"kubernetes.io/hostname": "b-n0"}}).run(60)
    assert (ops.phase("a-b"), ops.trail(skyhook="a")) == ("complete", [])
    assert "node b-n0: " in told(ops, "a")
    (reason,) = ops.explain("packages-nodes", node_key("b-n0"))
    assert [each.code for each in reason.because] == ["name-taken"]
    assert settled(ops)
    ops.delete("a-b").run(60)
    assert (ops.phase("a"), told(ops, "a")) == ("complete", "")


def test_a_node_that_a_skyhook_does_not_select_deletes_no_metadata_of_another() -> None:
    ops = Skyhooks()
    ops.world.objects.create(NODES, node_named("b-n0"))
    ops.make("a", {"tune": pkg()}, nodeSelectors={"matchLabels": {"no": "body"}})
    ops.make("a-b", {"base": pkg()}, nodeSelectors={"matchLabels": {"kubernetes.io/hostname": "n0"}}).run(60)
    assert (ops.phase("a-b"), ops.trail(skyhook="a-b")) == ("complete", ["base/apply", "base/config"])
    assert ("Delete", "NodeMetadataConfigMap") not in ops.writes
    assert settled(ops)


def test_a_pod_of_another_with_the_same_name_is_waited_for() -> None:
    ops = Skyhooks()
    name = names.package_pod("demo", "base", "1.0.0", "apply", "n0")
    metadata = {"name": name, "namespace": "skyhook", "labels": {f"{P}name": "other"}}
    spec = {"nodeName": "elsewhere", "containers": [{"name": "c", "image": "x"}]}
    ops.world.objects.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    ops.make("demo", {"base": pkg()}).run(30)
    assert (ops.made, ops.refusals) == ([], [])
    (reason,) = ops.explain("packages-nodes", node_key("n0"))
    assert [each.code for each in reason.because] == ["name-taken"]
    ops.world.objects.delete(PODS, "skyhook", name, grace=0)
    ops.run(60)
    assert ops.phase("demo") == "complete"


def test_names_that_are_our_own_differ_wherever_their_parts_do() -> None:
    assert names.pull_pod("a", "prepull-n") != names.pull_pod("a-prepull", "n")
    assert names.pull_pod("a.b", "n") != names.pull_pod("a-b", "n")
    assert max(len(names.pull_pod("s" * 53, "n" * 253)), len(names.pull_pod("s", "n"))) <= 63
