"""What the Deployments of the operator and of the console share: security contexts, placement, and a disruption budget."""

from __future__ import annotations

from collections.abc import Mapping

from haulout.manifests.documents import Json

PRIORITY = "system-cluster-critical"
RESOURCES: Json = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "512Mi"}}
# Without a user, because OpenShift's restricted-v2 gives each namespace a range of its own. The image's user is a number.
POD_SECURITY: Json = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
CONTAINER_SECURITY: Json = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
TOLERATIONS: list[Json] = [
    {"key": f"node-role.kubernetes.io/{role}", "operator": "Exists", "effect": "NoSchedule"}
    for role in ("control-plane", "master")
]


def placement(labels: Mapping[str, str]) -> Json:
    """Return the fields of a pod's spec that spread its replicas, because the operator drains the nodes that it runs on."""
    selector = {"matchLabels": dict(labels)}
    apart = {"weight": 100, "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}}
    return {
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [apart]}},
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": selector,
            }
        ],
    }


def disruption_budget(meta: Json, labels: Mapping[str, str]) -> Json:
    """Return the PodDisruptionBudget that lets one pod go at a time. A pod that is not ready never blocks a drain."""
    spec = {
        "maxUnavailable": 1,
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
        "selector": {"matchLabels": dict(labels)},
    }
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": spec}
