"""The scale subresource, and the binding of pods to nodes."""

from __future__ import annotations

from typing import Any

from haulout.base.selector import from_object
from haulout.embedded.interfaces import Json
from haulout.embedded.rules import fields, misfits, refusals
from haulout.embedded.rules.refusals import wrong
from haulout.embedded.store.kinds import Kind
from haulout.embedded.store.registry import Registry
from haulout.kube.errors import ApiError


class Scales:
    """The scale subresource of all kinds. Definitions of custom kinds say where their replicas are."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        # Table name -> JSON paths of spec.replicas, status.replicas and the selector's text.
        self.paths: dict[str, tuple[str, str, str]] = {}

    def get(self, kind: Kind, obj: Json, *, strict: bool = False) -> Json:
        meta = obj["metadata"]
        kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        wanted, present, selector = self._read(kind, obj, strict=strict)
        status: Json = {"replicas": present}
        if selector:
            status["selector"] = selector
        return {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": {name: meta[name] for name in kept if name in meta},
            "spec": {"replicas": wanted} if wanted else {},
            "status": status,
        }

    def replace(self, kind: Kind, old: Json, scale: Any, *, dry_run: bool = False) -> Json:
        name = old["metadata"]["name"]
        try:
            sent = fields.normalise("autoscaling.Scale", scale, None, [])
        except fields.Misfit:
            why = misfits.diagnose("autoscaling.Scale", scale)
            raise refusals.bad_request(f'Scale in version "v1" cannot be handled as a Scale: {why}') from None
        version, uid = sent["metadata"].get("resourceVersion"), sent["metadata"].get("uid")
        if version and version != old["metadata"]["resourceVersion"]:
            raise refusals.conflict(kind.plural, kind.group, name)
        if uid and uid != old["metadata"]["uid"]:
            why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {old['metadata']['uid']}"
            raise refusals.conflict(kind.plural, kind.group, name, why)
        replicas = sent["spec"].get("replicas", 0)
        if replicas < 0:
            problem = wrong("spec.replicas", replicas, "must be greater than or equal to 0")
            raise refusals.invalid("Scale", "autoscaling", name, [problem])
        changed = _put(old, self._paths(kind)[0], replicas)
        revised = self._registry.revise(kind, old, changed)
        return self.get(kind, self._registry.replace(kind, old, revised, dry_run=dry_run))

    def _paths(self, kind: Kind) -> tuple[str, str, str]:
        return self.paths.get(kind.table_name, (".spec.replicas", ".status.replicas", ""))

    def _read(self, kind: Kind, obj: Json, *, strict: bool) -> tuple[int, int, str]:
        spec_path, status_path, selector_path = self._paths(kind)
        wanted, present = _look(obj, spec_path), _look(obj, status_path) or 0
        if wanted is None and strict:
            raise refusals.internal(f'the spec replicas field "{spec_path}" does not exist')
        wanted = wanted or 0
        if kind.custom:
            return wanted, present, str(_look(obj, selector_path) or "") if selector_path else ""
        return wanted, present, str(from_object(obj["spec"].get("selector") or {}))


def _look(obj: Any, path: str) -> Any:
    for step in path.strip(".").split("."):
        obj = obj.get(step) if isinstance(obj, dict) else None
    return obj


def _put(obj: Json, path: str, value: Any) -> Json:
    """Return a copy of the object with the value at the path."""
    result = dict(obj)
    at, steps = result, path.strip(".").split(".")
    for step in steps[:-1]:
        at[step] = dict(at.get(step) or {})
        at = at[step]
    at[steps[-1]] = value
    return result


def bind(registry: Registry, kind: Kind, pod: Json, binding: Json, *, dry_run: bool = False) -> None:
    """Assign a pod to a node. Raises `Conflict` if it has one."""
    name, target = pod["metadata"]["name"], binding.get("target") or {}
    if (binding.get("metadata") or {}).get("name", name) != name:
        raise refusals.bad_request("name in URL does not match name in Binding object")
    node, kind_of_target, problems = target.get("name", ""), target.get("kind") or "Node", []
    if kind_of_target != "Node":
        problems.append(refusals.unsupported_value("target.kind", kind_of_target, ("Node", "<empty>")))
    if not node:
        problems.append(refusals.missing("target.name"))
    if problems:
        raise refusals.unaccounted_problems(problems)
    if taken := pod["spec"].get("nodeName"):
        raise _unbindable(name, f'pod {name} is already assigned to node "{taken}"')
    if "deletionTimestamp" in pod["metadata"]:
        raise _unbindable(name, f"pod {name} is being deleted, cannot be assigned to a host")
    scheduled = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": registry.stamp(),
    }
    conditions = [each for each in pod["status"].get("conditions", ()) if each["type"] != "PodScheduled"]
    status = {**pod["status"], "conditions": [*conditions, scheduled]}
    bound = {**pod, "spec": {**pod["spec"], "nodeName": node}, "status": status}
    annotations = (binding.get("metadata") or {}).get("annotations")
    if annotations:
        meta = pod["metadata"]
        bound["metadata"] = {**meta, "annotations": {**meta.get("annotations", {}), **annotations}}
    if not dry_run:
        registry.storage.put(registry.table(kind), bound, pod)


def _unbindable(name: str, why: str) -> ApiError:
    return refusals.conflict("pods/binding", "", name, why)
