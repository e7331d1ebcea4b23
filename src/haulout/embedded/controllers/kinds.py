"""The kinds that the actors work with, and how an owner reference leads to one of them."""

from __future__ import annotations

from collections.abc import Mapping

from haulout.embedded.seams import Json, Resource

ADMISSION, RBAC = "admissionregistration.k8s.io", "rbac.authorization.k8s.io"
CONTROLLER_REVISIONS = Resource("apps", "v1", "controllerrevisions")
CUSTOM_RESOURCE_DEFINITIONS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions")
DAEMON_SETS = Resource("apps", "v1", "daemonsets")
DEPLOYMENTS = Resource("apps", "v1", "deployments")
DISRUPTION_BUDGETS = Resource("policy", "v1", "poddisruptionbudgets")
JOBS = Resource("batch", "v1", "jobs")
LEASES = Resource("coordination.k8s.io", "v1", "leases")
NODES = Resource("", "v1", "nodes")
PODS = Resource("", "v1", "pods")
REPLICA_SETS = Resource("apps", "v1", "replicasets")
STATEFUL_SETS = Resource("apps", "v1", "statefulsets")

# By group and kind, as owner references name them: all that is built in, but for events.
OWNED_AND_OWNING: Mapping[tuple[str, str], Resource] = {
    ("", "ConfigMap"): Resource("", "v1", "configmaps"),
    ("", "Namespace"): Resource("", "v1", "namespaces"),
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
    """Of an owner reference: `("apps", "ReplicaSet")`."""
    group, slash, _ = reference.get("apiVersion", "").partition("/")
    return (group if slash else "", reference.get("kind", ""))
