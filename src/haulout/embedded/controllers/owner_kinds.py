"""The kinds that own objects or are owned, by group and kind as owner references name them."""

from __future__ import annotations

from collections.abc import Mapping

from haulout.embedded.interfaces import Json, Resource
from haulout.embedded.resources import (
    CONTROLLER_REVISIONS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DAEMON_SETS,
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    JOBS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
)

ADMISSION, RBAC = "admissionregistration.k8s.io", "rbac.authorization.k8s.io"

# By group and kind, as owner references name them: every built-in kind except events.
OWNED_AND_OWNING: Mapping[tuple[str, str], Resource] = {
    ("", "ConfigMap"): Resource("", "v1", "configmaps"),
    ("", "Namespace"): NAMESPACES,
    ("", "Node"): NODES,
    ("", "Pod"): PODS,
    ("", "Secret"): Resource("", "v1", "secrets"),
    ("", "Service"): Resource("", "v1", "services"),
    ("", "ServiceAccount"): Resource("", "v1", "serviceaccounts"),
    (ADMISSION, "MutatingWebhookConfiguration"): Resource(ADMISSION, "v1", "mutatingwebhookconfigurations"),
    (ADMISSION, "ValidatingWebhookConfiguration"): Resource(ADMISSION, "v1", "validatingwebhookconfigurations"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"): CUSTOM_RESOURCE_DEFINITIONS,
    ("apps", "ControllerRevision"): CONTROLLER_REVISIONS,
    ("apps", "DaemonSet"): DAEMON_SETS,
    ("apps", "Deployment"): DEPLOYMENTS,
    ("apps", "ReplicaSet"): REPLICA_SETS,
    ("apps", "StatefulSet"): STATEFUL_SETS,
    ("batch", "Job"): JOBS,
    ("coordination.k8s.io", "Lease"): LEASES,
    ("policy", "PodDisruptionBudget"): DISRUPTION_BUDGETS,
    (RBAC, "ClusterRole"): Resource(RBAC, "v1", "clusterroles"),
    (RBAC, "ClusterRoleBinding"): Resource(RBAC, "v1", "clusterrolebindings"),
    (RBAC, "Role"): Resource(RBAC, "v1", "roles"),
    (RBAC, "RoleBinding"): Resource(RBAC, "v1", "rolebindings"),
}


def group_kind(reference: Json) -> tuple[str, str]:
    """Return the group and kind of an owner reference: `("apps", "ReplicaSet")`."""
    group, slash, _ = reference.get("apiVersion", "").partition("/")
    return (group if slash else "", reference.get("kind", ""))
