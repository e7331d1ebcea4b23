"""Maintenances of four surfaces that are in flight at once, one for each of four nodes, and the operator that serves them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from tests.build.all_surfaces import GO, OPERATORS, PROFILE
from tests.rig.api import Api, Json
from tests.rig.notices import CLIENT, NMS, notice, status_of
from tests.rig.operator import Platform
from tests.rig.plane import ControlPlane

MAINTENANCES = "nodemaintenance.medik8s.io/v1beta1/nodemaintenances"
SKYHOOKS = "skyhook.nvidia.com/v1alpha1/skyhooks"
STATE = "cloud.sap/maintenance-state"
PLACE = "default"


class InFlight:
    """The wishes for four nodes: a NodeMaintenance, a profile, a NotifyMaintenance and a Skyhook."""

    def __init__(self, api: Api, nodes: Sequence[str]) -> None:
        self.api = api
        self.out, self.labelled, self.noticed, self.rolled = nodes

    def wish(self) -> None:
        package = {"version": "1.0.0", "image": "reg.test/base", "interrupt": {"type": "noop"}}
        chosen = {"matchLabels": {"kubernetes.io/hostname": self.rolled}}
        self.api.patch("nodes", self.rolled, {"metadata": {"labels": {"kubernetes.io/hostname": self.rolled}}})
        self.create(SKYHOOKS, "Skyhook", "demo", {"packages": {"base": package}, "nodeSelectors": chosen})
        self.maintain(self.out)
        self.api.create(NMS, notice(self.noticed, self.noticed, "together"), PLACE)
        labels = {"cloud.sap/maintenance-profile": "p", GO: "yes"}
        self.api.patch("nodes", self.labelled, {"metadata": {"labels": labels}})

    def maintain(self, node: str) -> None:
        self.create(MAINTENANCES, "NodeMaintenance", node, {"nodeName": node})

    def create(self, resource: str, kind: str, name: str, spec: Json) -> None:
        version = resource.rpartition("/")[0]
        self.api.create(resource, {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec})

    def has_begun(self) -> bool:
        out, labelled, rolled = (self.api.get("nodes", each) for each in (self.out, self.labelled, self.rolled))
        return (
            any(each["key"] == "medik8s.io/drain" for each in out["spec"].get("taints", []))
            and labelled["metadata"]["labels"].get(STATE) == "in-maintenance"
            and status_of(self.api.get(NMS, self.noticed, PLACE)) == "ObjectsDrained"
            and "skyhook.nvidia.com/cordon_demo" in rolled["metadata"].get("annotations", {})
            and bool(self.api.items("pods", "skyhook"))
        )

    def is_maintained(self, node: str) -> bool:
        return bool(self.api.get(MAINTENANCES, node).get("status", {}).get("phase") == "Succeeded")

    def end(self) -> None:
        """Do what people do to end the maintenances. The operator validates the node of the NotifyMaintenance itself."""
        for each in self.api.items(MAINTENANCES):
            self.api.delete(MAINTENANCES, each["metadata"]["name"])
        self.api.delete(SKYHOOKS, "demo")
        self.api.patch("nodes", self.labelled, {"metadata": {"labels": {"done": "yes"}}})
        self.api.patch(NMS, self.noticed, {"metadata": {"annotations": {CLIENT: "complete"}}}, PLACE)


def operator_of(plane: ControlPlane, folder: Path, namespace: str) -> Platform:
    """Return an operator with four surfaces, as `haulout run` in a namespace."""
    surfaces = {
        "profiles": {"config": "config/maintenance.yaml", "metricsTimeout": "0s"},
        "nodemaintenance": {},
        "packages": {},
        "notify": {"config": "config/notify.yaml"},
    }
    # The maintenance by the profile ends when a person sets a label.
    profile = PROFILE.replace(
        "{type: wait, name: done, config: {duration: 5s}}", "{type: hasLabel, name: done, config: {key: done}}"
    )
    settings = f"namespace: {namespace}\nleader: {{elect: true}}"
    operator = Platform(
        plane, folder, profile.replace("requeue: 30s", "requeue: 2s"), settings, surfaces=json.dumps(surfaces)
    )
    smoke = {"name": "smoke", "type": "builtin", "checks": {"readyFor": "0s"}}
    operators = {**OPERATORS, "validator": {"enabled": True, "default": "smoke", "recipes": [smoke]}}
    operator.write(json.dumps({"slaPeriod": "1h", "operators": operators}), "config/notify.yaml")
    return operator
