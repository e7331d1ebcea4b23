"""Objects of both groups of packages in one small world: Skyhooks and NodeWrights of the same names."""

from __future__ import annotations

import json
from typing import Any, Self

from haulout.embedded import NODES, PODS, Json, Resource
from haulout.surfaces.packages.groups import NODEWRIGHT, SKYHOOK, VERSION, Group
from haulout.surfaces.packages.node.prefixes import condition_unit, unit_in
from tests.build.skyhooks import CONFIG_MAPS, About, Skyhooks

JOBS = Resource("batch", "v1", "jobs")
RESOURCES = {group: Resource(group.name, VERSION, group.plural) for group in (SKYHOOK, NODEWRIGHT)}


class Units(Skyhooks):
    """A world in which objects are made, edited and deleted in either group."""

    def create(self, group: Group, packages: dict[str, Json], name: str = "demo", **more: Any) -> Self:
        metadata = {"name": name, "annotations": more.pop("annotations", {}), "finalizers": more.pop("finalizers", [])}
        body = {"apiVersion": group.api_version, "kind": group.kind, "metadata": metadata}
        self.world.objects.create(RESOURCES[group], {**body, "spec": {"packages": packages, **more}})
        return self

    def change(self, group: Group, body: Json, name: str = "demo", subresource: str = "") -> Self:
        self.world.objects.patch(RESOURCES[group], "", name, body, subresource=subresource)
        return self

    def annotate(self, group: Group, **notes: str | None) -> Self:
        return self.change(group, {"metadata": {"annotations": {group.prefix + key: notes[key] for key in notes}}})

    def remove(self, group: Group, name: str = "demo") -> Self:
        self.world.objects.delete(RESOURCES[group], "", name)
        return self

    def object(self, group: Group, name: str = "demo") -> Json | None:
        return self.world.objects.get(RESOURCES[group], "", name)

    def counts(self, group: Group, name: str = "demo") -> tuple[str | None, str | None]:
        status = (self.object(group, name) or {}).get("status", {})
        return status.get("status"), status.get("completeNodes")

    def has_condition(self, group: Group, kind: str, name: str = "demo") -> tuple[str, str] | None:
        conditions = (self.object(group, name) or {}).get("status", {}).get("conditions", [])
        return next(((each["status"], each["reason"]) for each in conditions if each["type"] == kind), None)

    def entries(self, node: str, group: Group, name: str = "demo") -> dict[str, str]:
        notes = self.node(node)["metadata"].get("annotations", {})
        found = json.loads(notes.get(f"{group.prefix}nodeState_{name}", "{}"))
        return {key: f"{entry['stage']}/{entry['state']}" for key, entry in found.items()}

    def keys(self, node: str, group: Group, name: str = "demo") -> set[str]:
        """Return the names of annotations, labels and conditions of a unit under one prefix."""
        found = self.node(node)
        metadata = found["metadata"]
        names = (*metadata.get("annotations", {}), *metadata.get("labels", {}))
        kinds = (each["type"] for each in found.get("status", {}).get("conditions", []))
        return {each for each in names if unit_in(each, group) == name} | {
            each for each in kinds if condition_unit(each, group) == name
        }

    def owners(self) -> set[str]:
        """Return the kinds that own pods, Jobs and ConfigMaps."""
        kinds = (PODS, JOBS, CONFIG_MAPS)
        found = [each for kind in kinds for each in self.world.objects.list(kind, self.options.namespace)]
        return {owner["kind"] for each in found for owner in each["metadata"].get("ownerReferences", [])} - {"Job"}

    def stamp(self, node: str, group: Group, entries: Json, **notes: str) -> Self:
        """Leave the keys of a complete unit on a node, as an operator does."""
        values = {"nodeState": json.dumps(entries), "status": "complete", "version": "v0.17.1", **notes}
        annotations = {f"{group.prefix}{word}_demo": value for word, value in values.items()}
        labels = {f"{group.prefix}status_demo": "complete"}
        self.world.objects.patch(NODES, "", node, {"metadata": {"annotations": annotations, "labels": labels}})
        return self


def resource_id(about: About) -> str:
    containers = about.pod["spec"]["initContainers"]
    return next(str(each["value"]) for each in containers[-1]["env"] if each["name"] == "SKYHOOK_RESOURCE_ID")


def copy_directory(about: About) -> str:
    return str(about.pod["spec"]["initContainers"][-1]["args"][2])


def entry(version: str = "1.0.0", stage: str = "config", state: str = "complete", name: str = "base") -> Json:
    body = {"name": name, "version": version, "image": "reg.test/agentless", "stage": stage, "state": state}
    return {f"{name}|{version}": body}


def job(owner: Json, stage: str, *, suspend: bool = False) -> Json:
    """Return the Job in which NodeWright v0.18 and later runs a stage of package `base` on node n0."""
    p = NODEWRIGHT.prefix
    uid = owner["metadata"]["uid"]
    about = {"name": "base", "version": "1.0.0", "skyhook": "demo", "stage": stage, "image": "reg.test/agentless"}
    labels = {f"{p}name": "demo", f"{p}package": "base-1.0.0", f"{p}stage": stage, f"{p}node": "n0"}
    notes = {f"{p}package": json.dumps(about)}
    env = [{"name": "SKYHOOK_RESOURCE_ID", "value": f"demo-{uid}-1_base_1.0.0"}]
    container = {"name": f"base-{stage}", "image": "reg.test/agent", "env": env}
    spec = {
        "nodeName": "n0",
        "restartPolicy": "Never",
        "initContainers": [container],
        "containers": [{"name": "done", "image": "reg.test/agent"}],
    }
    reference = {
        "apiVersion": NODEWRIGHT.api_version,
        "kind": "NodeWright",
        "name": "demo",
        "uid": uid,
        "controller": True,
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": f"demo-base-{stage}",
            "namespace": "skyhook",
            "labels": labels,
            "annotations": notes,
            "ownerReferences": [reference],
        },
        "spec": {"suspend": suspend, "template": {"metadata": {"labels": labels, "annotations": notes}, "spec": spec}},
    }
