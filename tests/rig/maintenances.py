"""NodeMaintenances on a real API server: the definition, the objects, and how they and their nodes are read."""

from __future__ import annotations

import yaml
from click.testing import CliRunner

from haulout.cli.root import root
from tests.rig.api import CRDS, Api, ApiError, Json
from tests.rig.wait import eventually

NMS = "nodemaintenance.medik8s.io/v1beta1/nodemaintenances"
BUDGETS = "policy/v1/poddisruptionbudgets"
LEASES = "coordination.k8s.io/v1/leases"
LEASE_NAMESPACE = "medik8s-leases"
EXCLUDE = "remediation.medik8s.io/exclude-from-remediation"
OUT = (True, ["medik8s.io/drain", "node.kubernetes.io/unschedulable"], "true")
IN: tuple[bool, list[str], str | None] = (False, [], None)


def define(api: Api) -> None:
    """Create the definition as it is printed, and wait until the API server serves it."""
    done = CliRunner().invoke(root, ["crds", "nodemaintenance"])
    assert done.exit_code == 0, done.output
    for crd in yaml.safe_load_all(done.output):
        if api.find(CRDS, crd["metadata"]["name"]) is None:
            api.create(CRDS, crd)
    eventually(lambda: api.items(NMS) is not None, "NodeMaintenances are served", refused=(ApiError,))


def maintenance(name: str, node: str, **drain: object) -> Json:
    spec: Json = {"nodeName": node, **({"drain": drain} if drain else {})}
    body = {"apiVersion": "nodemaintenance.medik8s.io/v1beta1", "kind": "NodeMaintenance"}
    return {**body, "metadata": {"name": name}, "spec": spec}


def budget(name: str, app: str, **spec: object) -> Json:
    selector = {"matchLabels": {"app": app}}
    return {"metadata": {"name": name}, "spec": {"selector": selector, **spec}}


def status(api: Api, name: str) -> Json:
    found: Json = api.get(NMS, name).get("status") or {}
    return found


def phase(api: Api, name: str) -> str:
    return str(status(api, name).get("phase", ""))


def succeeds(api: Api, *names: str, within: float = 120) -> None:
    for name in names:
        eventually(lambda name=name: phase(api, name) == "Succeeded", f"{name} succeeds", within)  # type: ignore[misc]


def ends(api: Api, *names: str) -> None:
    """Delete maintenances, and wait until they are gone."""
    for name in names:
        api.delete(NMS, name)
    for name in names:
        eventually(lambda name=name: api.find(NMS, name) is None, f"{name} is gone")  # type: ignore[misc]


def marks(api: Api, node: str) -> tuple[bool, list[str], str | None]:
    """Return whether a node is cordoned, the keys of its taints, and its label that prevents remediation."""
    found = api.get("nodes", node)
    taints = sorted(taint["key"] for taint in found["spec"].get("taints") or [])
    return bool(found["spec"].get("unschedulable")), taints, found["metadata"]["labels"].get(EXCLUDE)


def lease(api: Api, node: str) -> Json | None:
    return api.find(LEASES, f"node-{node}", LEASE_NAMESPACE)


def pods_on(api: Api, node: str, ns: str) -> list[str]:
    return [pod["metadata"]["name"] for pod in api.items("pods", ns, fieldSelector=f"spec.nodeName={node}")]
