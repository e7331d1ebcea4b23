"""Four surfaces of one process want the same nodes of a real control plane under one budget: all finish, each in its turn."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.build.all_surfaces import GO, MOST, OPERATORS, PROFILE
from tests.build.skyhooks import is_at_work
from tests.rig.api import CRDS, Api, ApiError, Json
from tests.rig.kwok import STOPS_AFTER, Kwok
from tests.rig.notices import CLIENT, NMS, notice, status_of
from tests.rig.operator import Platform
from tests.rig.plane import ControlPlane
from tests.rig.recorded import Objects, Recorded, recorded
from tests.rig.rights import printed
from tests.rig.wait import PATIENCE, eventually

pytestmark = pytest.mark.tools("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")

# HAULOUT_TOGETHER=10 is the run that the figures are about; fewer nodes show the same in a third of the time.
NODES = int(os.environ.get("HAULOUT_TOGETHER", "3"))
WITHIN = PATIENCE + 20 * NODES
MAINTENANCES = "nodemaintenance.medik8s.io/v1beta1/nodemaintenances"
SKYHOOKS = "skyhook.nvidia.com/v1alpha1/skyhooks"
BUDGETS = "haulout.dev/v1alpha1/nodedisruptionbudgets"
PROFILE_LABEL, STATE_LABEL = "cloud.sap/maintenance-profile", "cloud.sap/maintenance-state"
MANAGED = "haulout.test/managed"
SKYHOOK = "skyhook.nvidia.com/name"
KINDS = {"Node": "nodes", "Pod": "pods", "NodeMaintenance": MAINTENANCES, "NotifyMaintenance": NMS}


class Together:
    """Nodes with a service on them, and the wishes of four kinds of people for all of them."""

    def __init__(self, plane: ControlPlane, kwok: Kwok, prefix: str) -> None:
        self.plane, self.api, self.prefix = plane, plane.api(), prefix
        self.names = [f"{prefix}-{number}" for number in range(NODES)]
        for surface in ("kernel", "nodemaintenance", "packages", "notify"):
            for crd in printed("crds", surface):
                if self.api.find(CRDS, crd["metadata"]["name"]) is None:
                    self.api.create(CRDS, crd)
        for resource in (BUDGETS, MAINTENANCES, SKYHOOKS, NMS):
            eventually(lambda resource=resource: is_served(self.api, resource), f"{resource} is served")  # type: ignore[misc]
        kwok.nodes(prefix, NODES, labels={MANAGED: prefix})
        chosen = {"matchLabels": {MANAGED: prefix}}
        self._create(BUDGETS, "NodeDisruptionBudget", {"selector": chosen, "maxUnavailable": MOST})
        labels = {"app": "web"}
        spec = {"nodeSelector": {MANAGED: prefix}, "containers": [{"name": "c", "image": "x"}]}
        template = {"metadata": {"labels": labels, "annotations": {STOPS_AFTER: "200ms"}}, "spec": spec}
        replicas = {"replicas": NODES, "selector": {"matchLabels": labels}, "template": template}
        self.api.create("apps/v1/deployments", {"metadata": {"name": "web"}, "spec": replicas}, prefix)
        running = {"fieldSelector": "status.phase=Running"}
        eventually(lambda: len(self.api.items("pods", prefix, **running)) == NODES, "the service runs")

    @property
    def skyhooks(self) -> list[str]:
        return [self.prefix, f"{self.prefix}-b"]

    def _create(self, resource: str, kind: str, spec: Json, name: str = "") -> None:
        version, metadata = resource.rpartition("/")[0], {"name": name or self.prefix}
        self.api.create(resource, {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec})

    def wish(self) -> None:
        """Let all people want all nodes at once; of the two Skyhooks one comes after the other on each node."""
        package = {"version": "1.0.0", "image": "reg.test/base", "interrupt": {"type": "noop"}}
        chosen = {"matchLabels": {MANAGED: self.prefix}}
        packages = {"packages": {"base": package}, "interruptionBudget": {"percent": 100}, "nodeSelectors": chosen}
        for number, name in enumerate(self.skyhooks):
            self._create(SKYHOOKS, "Skyhook", {**packages, "priority": 100 + number}, name)
        for name in self.names:
            body = {"metadata": {"name": name}, "spec": {"nodeName": name}}
            version = MAINTENANCES.rpartition("/")[0]
            self.api.create(MAINTENANCES, {"apiVersion": version, "kind": "NodeMaintenance", **body})
            self.api.create(NMS, notice(name, name, "together"), self.prefix)
            self.api.patch("nodes", name, {"metadata": {"labels": {PROFILE_LABEL: "p", GO: "yes"}}})

    def unfinished(self) -> list[str]:
        """Do what people have to do, and return what is not done yet."""
        maintenances = [each for each in self.api.items(MAINTENANCES) if each["metadata"]["name"] in self.names]
        for each in maintenances:
            if is_succeeded(each):
                self.api.delete(MAINTENANCES, each["metadata"]["name"])
        notices = self.api.items(NMS, self.prefix)
        for each in notices:
            if status_of(each) == "ObjectsDrained":
                note = {"metadata": {"annotations": {CLIENT: "complete"}}}
                self.api.patch(NMS, each["metadata"]["name"], note, self.prefix)
        skyhooks = [self.api.get(SKYHOOKS, name) for name in self.skyhooks]
        wanting = [each for each in self.nodes() if GO in each["metadata"]["labels"]]
        left = [f"{each['kind']} {each['metadata']['name']}" for each in (*maintenances, *notices)]
        left += [f"profile of {each['metadata']['name']}" for each in wanting]
        open_skyhooks = [each for each in skyhooks if each.get("status", {}).get("status") != "complete"]
        return [*left, *(f"Skyhook {each['metadata']['name']}" for each in open_skyhooks)]

    def is_done(self) -> bool:
        left = self.unfinished()
        if left:
            raise Unfinished(left)
        return True

    def nodes(self) -> list[Json]:
        return self.api.items("nodes", labelSelector=f"{MANAGED}={self.prefix}")

    def marks(self) -> list[str]:
        """Return what nodes still carry of any claim."""
        found = []
        for node in self.nodes():
            meta, spec = node["metadata"], node["spec"]
            found += ["cordon"] if spec.get("unschedulable") else []
            found += [key for key in meta.get("annotations", {}) if "cordon" in key]
            found += [key for key in meta["labels"] if key.startswith("maintenance/")]
            found += [each["key"] for each in spec.get("taints", []) if each["key"] == "medik8s.io/drain"]
        return found


class Unfinished(Exception):
    """What is not done yet."""


def is_served(api: Api, resource: str) -> bool:
    try:
        return api.items(resource) is not None
    except ApiError:
        return False


def is_succeeded(maintenance: Json) -> bool:
    is_there = "deletionTimestamp" not in maintenance["metadata"]
    return is_there and maintenance.get("status", {}).get("phase") == "Succeeded"


def working(objects: Objects, node: Json, home: str) -> list[str]:
    """Return the surfaces that work on a node, as the stored objects show it."""
    name = node["metadata"]["name"]
    maintenance = objects.get(("NodeMaintenance", "", name))
    notices = objects.get(("NotifyMaintenance", home, name), {"metadata": {}})
    is_claimed = "maintenance/together" in node["metadata"]["labels"] and node["spec"].get("unschedulable")
    is_terminal = "maintenance.ngn2.nvidia.com/terminated" in notices["metadata"].get("annotations", {})
    works = {
        "profiles": node["metadata"]["labels"].get(STATE_LABEL) == "in-maintenance",
        "packages": any(is_working_pod(key, each, node) for key, each in objects.items()),
        "nodemaintenance": maintenance is not None and is_succeeded(maintenance),
        "notify": is_claimed and bool(notices["metadata"]) and not is_terminal,
    }
    return [surface for surface, is_working in works.items() if is_working]


def is_working_pod(key: tuple[str, str, str], pod: Json, node: Json) -> bool:
    if key[0] != "Pod" or SKYHOOK not in pod["metadata"].get("labels", {}):
        return False
    return pod["spec"].get("nodeName") == node["metadata"]["name"] and is_at_work(pod, node)


def faults(seen: Recorded, names: list[str], home: str) -> tuple[int, list[str]]:
    """Return how many nodes were out of service at most, and each time that more than one surface worked on a node."""
    most, found = 0, []
    for objects in seen.replayed():
        nodes = [objects[key] for name in names if (key := ("Node", "", name)) in objects]
        most = max(most, sum(bool(node["spec"].get("unschedulable")) for node in nodes))
        for node in nodes:
            surfaces = working(objects, node, home)
            if len(surfaces) > 1:
                version = max(int(each["metadata"]["resourceVersion"]) for each in objects.values())
                found.append(f"{version} {node['metadata']['name']}: {surfaces}")
    return most, found


def operator_of(
    plane: ControlPlane,
    folder: Path,
    name: str,
    *,
    user: str = "operator",
    server: str | None = None,
    settings: str = "",
    **more: Json,
) -> Platform:
    """Return an operator with four surfaces that works on the nodes of this name. `more`: further surfaces."""
    smoke = {"name": "smoke", "type": "builtin", "checks": {"readyFor": "0s"}}
    operators: dict[str, Json] = {**OPERATORS, "validator": {"enabled": True, "default": "smoke", "recipes": [smoke]}}
    match = {"match": {"namespaces": [name]}}
    config = {"slaPeriod": "1h", "operators": {key: {**block, **match} for key, block in operators.items()}}
    surfaces = {
        "profiles": {"config": "config/maintenance.yaml", "metricsTimeout": "0s"},
        "nodemaintenance": {"leaseNamespace": name},
        "packages": {"namespace": name},
        "notify": {"config": "config/notify.yaml"},
        **more,
    }
    profile = PROFILE.replace("duration: 5s", "duration: 1s").replace("requeue: 30s", "requeue: 2s")
    words = f"namespace: {name}\n{settings}"
    blocks = json.dumps(surfaces)
    operator = Platform(plane, folder, profile, words, surfaces=blocks, name=user, user=user, server=server)
    operator.write(json.dumps(config), "config/notify.yaml")
    return operator


@pytest.mark.timeout(600)
def test_four_surfaces_finish_on_the_same_nodes_under_one_budget(
    managed_plane: ControlPlane, managed_kwok: Kwok, managed_namespace: str, tmp_path: Path
) -> None:
    name = managed_namespace
    together = Together(managed_plane, managed_kwok, name)
    operator = operator_of(managed_plane, tmp_path, name, settings="leader: {elect: false}")
    with recorded(managed_plane, KINDS.items()) as seen:
        with operator:
            together.wish()
            eventually(together.is_done, "all are done", WITHIN, refused=(Unfinished,))
            eventually(lambda: not together.marks(), "all nodes are as they were")
        most, found = faults(seen, together.names, name)
    assert (most, found[:3]) == (MOST, [])
    for skyhook in together.skyhooks:
        together.api.delete(SKYHOOKS, skyhook)
