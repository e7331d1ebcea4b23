"""Images that are pulled before a node is cordoned: what that saves, and what happens when they cannot be, in virtual time."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from datetime import datetime, timedelta

import msgspec
import pytest

from haulout.cluster.key import node_key
from haulout.embedded import NODES, PODS, ActorOptions, Change, Json, KubeletOptions, PodBehaviour
from haulout.kernel.requests import Answer, Body
from haulout.surfaces.packages.options import Options
from tests.build.package_life import OperatorKilled
from tests.build.skyhooks import IMAGE, Skyhooks, pkg
from tests.build.workloads import deployment

NOOP = {"type": "noop"}
LABEL = "haulout.dev/prepull"
POD = PodBehaviour(stops_after=timedelta(seconds=3), init_runs_for=timedelta(seconds=1), starts_after=timedelta(0))
LIMIT = timedelta(minutes=10)


class Pulling(Skyhooks):
    """Hosts that take a minute for each image that they do not have, and how long nodes were cordoned.

    `pulls`: the pods that only pulled images.
    """

    actors = ActorOptions(
        heartbeats=False, kubelet=KubeletOptions(pod=POD, pulls_for=timedelta(minutes=1), capacity={"pods": "250"})
    )

    def __init__(self, options: Options | None = None, *, nodes: int = 1) -> None:
        self.cordoned_for = timedelta()
        self._cordoned_at: dict[str, datetime] = {}
        self.pulls: list[Json] = []
        super().__init__(options, nodes=nodes)
        self.fate = lambda about: "hang"
        self.world.objects.subscribe(NODES, self._node_changed)
        self.world.objects.subscribe(PODS, self._pull_made)

    def _node_changed(self, change: Change) -> None:
        name, now = change.object["metadata"]["name"], self.world.time.now()
        if change.object["spec"].get("unschedulable"):
            self._cordoned_at.setdefault(name, now)
        elif name in self._cordoned_at:
            self.cordoned_for += now - self._cordoned_at.pop(name)

    def _pull_made(self, change: Change) -> None:
        if change.type == "ADDED" and LABEL in (change.object["metadata"].get("labels") or {}):
            self.pulls.append(change.object)

    def pull_pods(self) -> list[Json]:
        found = self.world.objects.list(PODS, self.options.namespace)
        return [pod for pod in found if LABEL in pod["metadata"]["labels"]]

    def is_cordoned(self, node: str = "n0") -> bool:
        return bool(self.node(node)["spec"].get("unschedulable"))


def pulling(nodes: int = 1, **options: object) -> Pulling:
    return Pulling(msgspec.structs.replace(Options(pre_pull=True, pre_pull_timeout=LIMIT), **options), nodes=nodes)


PACKAGES = {"base": pkg(interrupt=NOOP), "top": pkg("2.0.0", image="reg.test/top", dependsOn={"base": "1.0.0"})}


@pytest.mark.parametrize(("pre_pull", "seconds"), [(False, 271), (True, 31)], ids=["without", "with"])
def test_how_long_a_node_is_cordoned(pre_pull: bool, seconds: int) -> None:
    """Four images of a minute each: two packages, the agent and the pause container."""
    ops = pulling(pre_pull=pre_pull)
    ops.world.make(deployment("web", replicas=2))
    ops.run(300)
    ops.make("demo", PACKAGES).run(900)
    assert ops.phase("demo") == "complete"
    assert round(ops.cordoned_for.total_seconds()) == seconds
    assert ops.pull_pods() == []


class TestThePod:
    def test_it_has_one_container_for_each_image_and_few_rights(self) -> None:
        ops = pulling(image_pull_secret="secret").make("demo", PACKAGES).run(5)
        spec, metadata = ops.pulls[0]["spec"], ops.pulls[0]["metadata"]
        images = [each["image"] for each in spec["containers"]]
        assert images == sorted(
            [Options().agent_image, Options().pause_image, "reg.test/agentless:1.0.0", "reg.test/top:2.0.0"]
        )
        assert {each["imagePullPolicy"] for each in spec["containers"]} == {"IfNotPresent"}
        assert not any(each["securityContext"].get("privileged") for each in spec["containers"])
        assert (spec["nodeName"], spec["imagePullSecrets"]) == ("n0", [{"name": "secret"}])
        assert metadata["ownerReferences"][0]["name"] == "demo"
        assert ops.shows("demo", "n0") == ["in_progress"]
        assert not ops.is_cordoned()

    def test_as_many_nodes_pull_as_may_change_at_once(self) -> None:
        ops = pulling(nodes=4).make("demo", PACKAGES, interruptionBudget={"count": 2}).run(30)
        assert len(ops.pull_pods()) == 2
        ops.run(1500)
        assert (ops.phase("demo"), len(ops.pulls)) == ("complete", 4)

    def test_none_is_made_for_packages_without_an_interrupt(self) -> None:
        ops = pulling().make("demo", {"base": pkg()}).run(400)
        assert (ops.phase("demo"), ops.pulls) == ("complete", [])

    def test_none_is_made_where_a_person_has_cordoned_the_node(self) -> None:
        ops = pulling()
        ops.change_node("n0", {"spec": {"unschedulable": True}}).make("demo", PACKAGES).run(900)
        assert (ops.phase("demo"), ops.pulls) == ("complete", [])

    def test_another_version_in_the_meantime_is_pulled_instead(self) -> None:
        ops = pulling().make("demo", {"base": pkg(interrupt=NOOP)}).run(30)
        ops.packages("demo", {"base": pkg("1.1.0")}).run(600)
        assert ops.phase("demo") == "complete"
        assert [pod["spec"]["containers"][1]["image"] for pod in ops.pulls] == [f"{IMAGE}:1.0.0", f"{IMAGE}:1.1.0"]

    @pytest.mark.parametrize("how", ["pause", "delete", "leave"])
    def test_it_goes_with_what_it_was_for(self, how: str) -> None:
        ops = pulling().make(
            "demo", PACKAGES, nodeSelectors={"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]}
        )
        ops.run(30)
        acts = {
            "pause": lambda: ops.edit("demo", {"metadata": {"annotations": {"skyhook.nvidia.com/pause": "true"}}}),
            "delete": lambda: ops.delete("demo"),
            "leave": lambda: ops.change_node("n0", {"metadata": {"labels": {"x": "y"}}}),
        }
        acts[how]()
        ops.run(30)
        assert ops.pull_pods() == []
        assert not ops.is_cordoned()

    def test_a_restart_makes_no_second_one(self) -> None:
        ops = pulling().make("demo", PACKAGES).run(30)
        ops.begin().run(900)
        assert (ops.phase("demo"), len(ops.pulls)) == ("complete", 1)


@pytest.mark.parametrize("is_carried_out", [True, False], ids=["after", "before"])
def test_killed_at_every_other_write_it_ends_the_same(is_carried_out: bool) -> None:
    ops, number = pulling(), itertools.count()

    def way(body: Body, carry_out: Callable[[], Answer]) -> Answer:
        if next(number) % 2:
            return carry_out()
        if is_carried_out:
            carry_out()
        raise OperatorKilled

    ops.way = way
    ops.make("demo", {"base": pkg(interrupt=NOOP)})
    end = ops.world.time.now() + timedelta(minutes=10)
    while ops.world.time.now() < end:
        with contextlib.suppress(OperatorKilled):
            ops.run((end - ops.world.time.now()).total_seconds())
        ops.begin()
    assert (ops.phase("demo"), ops.failures) == ("complete", [])
    assert (len(ops.pulls), ops.pull_pods()) == (1, [])
    assert [each.stage for each in ops.made] == ["apply", "config", "interrupt", "post-interrupt"]
    assert ops.cordoned_for < timedelta(seconds=60)


class TestWhatCannotBePulled:
    def failing(self, reason: str = "ImagePullBackOff") -> Pulling:
        """Return a world in which an image of the pod cannot be pulled."""
        ops = pulling().make("demo", {"base": pkg(interrupt=NOOP)}).run(5)
        meta = ops.pulls[0]["metadata"]
        waiting = {"name": "image-0", "image": "", "imageID": "", "ready": False, "restartCount": 0}
        statuses = [{**waiting, "state": {"waiting": {"reason": reason}}}]
        body = {"status": {"phase": "Pending", "containerStatuses": statuses}}
        ops.world.objects.patch(PODS, meta["namespace"], meta["name"], body, subresource="status")
        return ops

    def test_it_is_told_once_and_explained(self) -> None:
        ops = self.failing()
        ops.run(20)
        text = "an image cannot be pulled (ImagePullBackOff); the node waits for it for at most 10m0s"
        assert [note for note in ops.told if "cannot be pulled" in note] == [f"{text} [skyhook:demo]"]
        causes = ops.explain("packages-nodes", node_key("n0"))[0].because
        assert [(each.code, each.text) for each in causes] == [("image-pulling", text)]

    def test_after_the_time_limit_the_node_goes_on(self) -> None:
        ops = pulling(pre_pull_timeout=timedelta(seconds=30)).make("demo", PACKAGES).run(29)
        assert not ops.is_cordoned()
        ops.run(10)
        assert ops.is_cordoned()
        notes = [note for note in ops.told if "were not pulled within" in note]
        assert notes == ["the images for [skyhook:demo] were not pulled within 30s: the node is cordoned without them"]
        ops.run(900)
        assert ops.phase("demo") == "complete"

    def test_a_pod_that_the_node_refuses_holds_up_nothing(self) -> None:
        ops = pulling().make("demo", {"base": pkg(interrupt=NOOP)}).run(5)
        meta = ops.pulls[0]["metadata"]
        body = {"status": {"phase": "Failed", "reason": "OutOfcpu"}}
        ops.world.objects.patch(PODS, meta["namespace"], meta["name"], body, subresource="status")
        ops.run(10)
        assert ops.is_cordoned()
        assert [note for note in ops.told if "could not be pulled" in note] != []
