"""NotifyMaintenances on a real control plane: the whole cycle by hand and by recipe, killed at every write."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.rig.api import Json
from tests.rig.crash import CrashTest, normalised
from tests.rig.fleet import node_object, pod_object
from tests.rig.kwok import Kwok
from tests.rig.notices import CLIENT, JOBS, NMS, READY, NotifyOperator, define, notice, status_of
from tests.rig.operator import HAULOUT
from tests.rig.plane import ControlPlane
from tests.rig.process import free_port
from tests.rig.wait import eventually

pytestmark = pytest.mark.tools("etcd", "kube-apiserver")


class Scene:
    """One maintenance `a` of one node, in a namespace of its own."""

    def __init__(self, plane: ControlPlane, prefix: str, directory: Path, config: Json) -> None:
        self.plane, self.api, self.prefix = plane, plane.api(), prefix
        self.node, self.directory = f"{prefix}-node", directory
        self.file = directory / "notify.yaml"
        self.file.write_text(json.dumps(config))
        define(self.api)

    def wipe(self) -> None:
        found = self.api.find(NMS, "a", self.prefix)
        if found is not None:
            self.api.patch(NMS, "a", {"metadata": {"finalizers": None}}, self.prefix)
            self.api.delete(NMS, "a", self.prefix)
        self.plane.wipe(self.prefix)

    def make(self) -> None:
        self.wipe()
        self.api.create("namespaces", {"metadata": {"name": self.prefix}})
        pod = pod_object(f"{self.prefix}-pod", self.prefix, self.node, grace=0)
        self.plane.load([node_object(self.node), pod])
        body = {
            "apiVersion": "ngn2.nvidia.com/v1alpha1",
            "kind": "NotifyMaintenance",
            "metadata": {"name": "a", "namespace": self.prefix},
            "spec": {"nodeObject": self.node, "maintenanceID": "mid", "maintenanceType": "planned"},
        }
        self.api.create(NMS, body, self.prefix)

    def becomes(self, status: str) -> None:
        def there() -> bool:
            return bool(self.api.get(NMS, "a", self.prefix).get("status", {}).get("maintenanceStatus") == status)

        eventually(there, f"it is {status}")

    def annotate(self, key: str, value: str) -> None:
        self.api.patch(NMS, "a", {"metadata": {"annotations": {key: value}}}, self.prefix)

    def claim(self) -> None:
        labels = {"maintenance/mid": ""}
        marks = {"haulout.dev/cordoned-by": f"{self.prefix}/a"}
        body = {"metadata": {"labels": labels, "annotations": marks}, "spec": {"unschedulable": True}}
        self.api.patch("nodes", self.node, body)

    def is_over(self) -> bool:
        spec = self.api.get("nodes", self.node)["spec"]
        return self.api.find(NMS, "a", self.prefix) is None and not spec.get("unschedulable")

    def end(self) -> Any:
        found = self.api.get("nodes", self.node)
        jobs = [job["metadata"]["labels"]["haulout.dev/attempt"] for job in self.api.items(JOBS, self.prefix)]
        labels, marks = found["metadata"].get("labels"), found["metadata"].get("annotations")
        return normalised([labels, marks, found["spec"].get("unschedulable", False), jobs])

    def crash(self, act: Callable[[], None], *apart: str) -> CrashTest:
        """`apart`: parts of the paths of writes at which the operator is not killed."""
        # The certificate of the webhook is kept apart from decisions.
        passed_over = ("/secrets", "/events", *apart)
        health = f"127.0.0.1:{free_port()}"
        argv: list[str | Path] = [HAULOUT, "as", "pika", "--config", self.file, f"--health-probe-bind-address={health}"]
        argv += [
            f"--metrics-port={free_port()}",
            f"--cert-dir={self.directory}",
            "--zap-devel=false",
            "--listen-webhooks=0",
        ]
        return CrashTest(
            self.plane,
            self.directory,
            argv,
            make_world=self.make,
            act=act,
            settled=self.is_over,
            end_state=self.end,
            env={"NAMESPACE": self.prefix},
            counted=lambda write: not any(part in write.path for part in passed_over),
            quiet=0.3,
        )


def test_a_life_by_hand_survives_every_crash(plane: ControlPlane, prefix: str, tmp_path: Path) -> None:
    scene = Scene(plane, prefix, tmp_path, {"slaPeriod": "1h"})

    def live() -> None:
        scene.becomes("MaintenanceScheduled")
        scene.claim()
        scene.becomes("MaintenanceStarted")
        scene.annotate(READY, "true")
        scene.becomes("ObjectsDrained")
        scene.annotate(CLIENT, "complete")
        scene.becomes("Validating")
        scene.api.delete(NMS, "a", prefix)
        body = {"metadata": {"annotations": {"haulout.dev/cordoned-by": None}}, "spec": {"unschedulable": None}}
        scene.api.patch("nodes", scene.node, body)

    report = scene.crash(live).verify()
    assert len(report.writes) <= 9, report.writes
    scene.wipe()


def test_the_operators_survive_every_crash(plane: ControlPlane, prefix: str, tmp_path: Path) -> None:
    """Drainer, runner, validator and returner: no pod is evicted twice, and no attempt gets a second Job."""
    template = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "x"}]}}}}
    recipe = {"name": "rec", "type": "job", "namespace": "@nm", "template": template}
    operators = {
        "drainer": {"enabled": True, "settle": "0s", "unmanagedPods": "Evict"},
        "runner": {"enabled": True, "defaultClient": "rec", "recipes": [recipe]},
        "validator": {"enabled": True, "onMissingRecipe": "Pass"},
        "returner": {"enabled": True},
    }
    scene = Scene(plane, prefix, tmp_path, {"slaPeriod": "1h", "operators": operators})

    def live() -> None:
        scene.becomes("MaintenanceScheduled")
        scene.claim()
        [job] = eventually(lambda: scene.api.items(JOBS, prefix), "a Job")
        stamp = "2026-01-01T00:00:00Z"
        kinds = ("SuccessCriteriaMet", "Complete")
        conditions = [{"type": kind, "status": "True", "lastTransitionTime": stamp} for kind in kinds]
        done = {"startTime": stamp, "completionTime": stamp, "succeeded": 1, "conditions": conditions}
        scene.api.patch(JOBS, job["metadata"]["name"], {"status": done}, prefix, sub="status")

    # How often the progress of a drain is told depends on how quickly its pods go.
    report = scene.crash(live, "notifymaintenances/a/status").verify()
    assert sum("eviction" in write for write in report.writes) == 1, report.writes
    assert sum("POST" in write and "/jobs" in write for write in report.writes) == 1, report.writes
    scene.wipe()


def test_a_job_that_takes_too_long_goes_with_its_pods(
    managed_plane: ControlPlane, managed_kwok: Kwok, managed_namespace: str, tmp_path: Path
) -> None:
    """Otherwise the work of the maintenance would go on unseen."""
    api, name = managed_plane.api(), managed_namespace
    define(api)
    [node] = managed_kwok.nodes(name, 1)
    containers = [{"name": "c", "image": "x"}]
    # By its own deadline the Job controller would end it, and the operator would have nothing to do.
    template = {"spec": {"activeDeadlineSeconds": 3600, "template": {"spec": {"containers": containers}}}}
    recipe = {"name": "rec", "type": "job", "timeout": "5s", "template": template}
    runner = {"enabled": True, "match": {"namespaces": [name]}, "defaultClient": "rec", "recipes": [recipe]}
    with NotifyOperator(managed_plane, tmp_path, name, {"slaPeriod": "1h", "operators": {"runner": runner}}):
        api.create(NMS, notice("a", node, "mid", annotations={READY: "true"}), name)
        api.patch("nodes", node, {"metadata": {"labels": {"maintenance/mid": ""}}, "spec": {"unschedulable": True}})
        eventually(lambda: api.items("pods", name), "its pod is there")
        eventually(lambda: status_of(api.get(NMS, "a", name)) == "MaintenanceIncomplete", "it has taken too long")
        eventually(lambda: not api.items(JOBS, name) and not api.items("pods", name), "neither Job nor pod is left")
