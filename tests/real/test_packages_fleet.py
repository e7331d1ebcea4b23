"""A fleet of nodes, a tenth of them at a time, with pods that fail, hang and vanish, and a Skyhook that is edited meanwhile."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from haulout.cli.skyhook.command import main
from haulout.surfaces.packages.entries.entry import NodeState, parse
from tests.real.profiles import Sampled, sampled
from tests.rig.api import CRDS, Api, ApiError, Json
from tests.rig.kwok import Kwok
from tests.rig.operator import SkyhookOperator
from tests.rig.plane import ControlPlane
from tests.rig.rights import grant, printed
from tests.rig.wait import eventually

pytestmark = pytest.mark.tools("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")

SKYHOOKS = "skyhook.nvidia.com/v1alpha1/skyhooks"
P = "skyhook.nvidia.com/"
# HAULOUT_FLEET=200 is the fleet that the figures are about; a smaller one shows the same in a third of the time.
NODES = int(os.environ.get("HAULOUT_FLEET", "60"))
PERCENT, CEILING = 10, NODES // 10
MANAGED = "haulout.test/managed"


class Cordons(Sampled):
    """The nodes that the Skyhook keeps cordoned at every event. `most`: how many there were at once."""

    def __init__(self, skyhook: str) -> None:
        super().__init__()
        self._mark = f"{P}cordon_{skyhook}"

    def take(self, event: dict[str, Any]) -> None:
        meta = event["object"]["metadata"]
        if event["type"] not in ("ADDED", "MODIFIED", "DELETED"):
            return
        if self._mark in meta.get("annotations", {}) and event["type"] != "DELETED":
            self.inside.add(meta["name"])
        else:
            self.inside.discard(meta["name"])
        self.most = max(self.most, len(self.inside))


class Roll:
    """A Skyhook whose packages keep their nodes cordoned from the first stage to the last."""

    def __init__(self, api: Api, prefix: str) -> None:
        self.api, self.name = api, prefix
        self.packages: Json = {
            "kernel": {"version": "1.0.0", "image": "reg.test/kernel", "interrupt": {"type": "reboot"}},
            "tuning": {
                "version": "1.0.0",
                "image": "reg.test/tuning",
                "dependsOn": {"kernel": "1.0.0"},
                "configMap": {"a.conf": "1"},
            },
        }

    def create(self) -> None:
        spec = {
            "nodeSelectors": {"matchLabels": {MANAGED: self.name}},
            "interruptionBudget": {"percent": PERCENT},
            "packages": self.packages,
        }
        body = {"apiVersion": f"{P}v1alpha1", "kind": "Skyhook", "metadata": {"name": self.name}, "spec": spec}
        self.api.create(SKYHOOKS, body)

    def change(self, **packages: Json) -> None:
        """Change fields of packages."""
        for name, fields in packages.items():
            self.packages[name] = {**self.packages[name], **fields}
        self.edit(packages=self.packages)

    def edit(self, **spec: Any) -> None:
        self.api.patch(SKYHOOKS, self.name, {"spec": spec})

    @property
    def status(self) -> Json:
        found: Json = self.api.get(SKYHOOKS, self.name).get("status", {})
        return found

    def complete(self) -> int:
        return int(self.status.get("completeNodes", "0/0").partition("/")[0])

    def is_complete(self) -> bool:
        found = self.api.get(SKYHOOKS, self.name)
        status = found.get("status", {})
        seen = status.get("observedGeneration") == found["metadata"]["generation"]
        return seen and (status.get("status"), status.get("completeNodes")) == ("complete", f"{NODES}/{NODES}")

    def nodes(self) -> list[Json]:
        return self.api.items("nodes", labelSelector=f"{MANAGED}={self.name}")

    def states(self) -> list[NodeState]:
        return [parse(node["metadata"]["annotations"][f"{P}nodeState_{self.name}"]) for node in self.nodes()]

    def pods(self) -> list[Json]:
        return self.api.items("pods", self.name, labelSelector=f"{P}name={self.name}")


def define(api: Api) -> None:
    """Have Skyhooks served, if they are not yet."""
    for crd in printed("crds", "packages"):
        if api.find(CRDS, crd["metadata"]["name"]) is None:
            api.create(CRDS, crd)
    eventually(lambda: api.items(SKYHOOKS) is not None, "Skyhooks are served", refused=(ApiError,))


@pytest.fixture
def roll(managed_plane: ControlPlane, managed_kwok: Kwok, managed_namespace: str) -> Roll:
    api = managed_plane.api()
    define(api)
    managed_kwok.nodes(managed_namespace, NODES, labels={MANAGED: managed_namespace})
    return Roll(api, managed_namespace)


@pytest.mark.timeout(1200)
def test_the_budget_holds_whatever_happens_to_the_roll(
    managed_plane: ControlPlane, roll: Roll, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cordons = Cordons(roll.name)
    words = ("kernel", "packages", "-n", roll.name, f"--packages-namespace={roll.name}")
    user = grant(managed_plane, roll.name, *words).user
    with (
        sampled(managed_plane, f"{MANAGED}={roll.name}", cordons),
        SkyhookOperator(managed_plane, tmp_path, roll.name, user=user) as operator,
    ):
        roll.create()
        eventually(lambda: roll.complete() >= CEILING, "a tenth is complete", 180)
        # Everything begins anew, on nodes that were done and on those that were not.
        roll.change(kernel={"version": "1.1.0"}, tuning={"dependsOn": {"kernel": "1.1.0"}})
        eventually(lambda: roll.complete() < CEILING, "they are not complete any more")
        eventually(lambda: roll.complete() >= CEILING, "a tenth is complete again", 240)
        roll.change(tuning={"configMap": {"a.conf": "2"}})
        roll.edit(priority=150)
        _pause(managed_plane, roll, user)
        operator.process.kill()
        operator.start()
        assert main(["resume", roll.name, "-y", "--kubeconfig", str(managed_plane.kubeconfig())]) == 0
        eventually(roll.is_complete, "all are complete", 600)
        assert {key for state in roll.states() for key in state} == {"kernel|1.1.0", "tuning|1.0.0"}
        assert cordons.inside == set()
        roll.change(kernel={"version": "1.2.0"}, tuning={"dependsOn": {"kernel": "1.2.0"}})
        eventually(lambda: len(cordons.inside) > 1, "another roll has begun")
        roll.api.delete(SKYHOOKS, roll.name)
        eventually(lambda: roll.api.find(SKYHOOKS, roll.name) is None, "the Skyhook is gone", 120)
        eventually(lambda: not cordons.inside, "and so are its cordons")
        eventually(lambda: not roll.pods(), "and its pods", 120)
    assert 1 < cordons.most <= CEILING
    nodes = roll.nodes()
    assert not [node["metadata"]["name"] for node in nodes if node["spec"].get("unschedulable")]
    left = {mark for node in nodes for mark in (*node["metadata"]["annotations"], *node["metadata"]["labels"])}
    assert {mark for mark in left if mark.startswith(P)} == {f"{P}nodeState_{roll.name}"}


def _pause(plane: ControlPlane, roll: Roll, user: str) -> None:
    """Pause the roll, and see that the operator creates no more pods."""
    assert main(["pause", roll.name, "-y", "--kubeconfig", str(plane.kubeconfig())]) == 0
    eventually(lambda: roll.status.get("status") == "paused", "it is paused")
    since = plane.audit.mark()
    time.sleep(3)
    assert plane.audit.entries(since=since, user=user, verb="create", what="pods") == []
