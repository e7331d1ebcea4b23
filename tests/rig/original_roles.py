"""The roles that the originals publish, as data: what each allows everywhere, and in its own namespace.

The sources: skyhook's chart v0.15.1, and the manifests of node-maintenance-operator v0.20, maintenance-controller v2.1
and PIKA (`8a1803e`).
"""

from __future__ import annotations

import dataclasses

from tests.rig.api import Json
from tests.rig.plane import ControlPlane
from tests.rig.rights import GROUP

ALL = "create delete get list patch update watch"
READ = "get list watch"
HOOKS = "admissionregistration.k8s.io"


def rule(group: str, resources: str, verbs: str, names: str = "") -> Json:
    made: Json = {"apiGroups": [group], "resources": resources.split(), "verbs": verbs.split()}
    return {**made, "resourceNames": names.split()} if names else made


@dataclasses.dataclass(frozen=True)
class OriginalRole:
    """The rules of an original: everywhere, and in its own namespace."""

    everywhere: tuple[Json, ...]
    at_home: tuple[Json, ...] = ()


# The role for leader election that kubebuilder writes for all of them.
ELECTION = (
    rule("", "configmaps", ALL),
    rule("coordination.k8s.io", "leases", ALL),
    rule("", "events", "create patch"),
)
SKYHOOK = OriginalRole(
    (
        rule(
            HOOKS,
            "mutatingwebhookconfigurations validatingwebhookconfigurations",
            "get update",
            "skyhook-operator-validating-webhook skyhook-operator-mutating-webhook",
        ),
        rule(HOOKS, "mutatingwebhookconfigurations validatingwebhookconfigurations", "list watch"),
        rule("", "configmaps", ALL),
        rule("", "events", "create patch"),
        rule("", "nodes", "get list patch update watch"),
        rule("", "nodes/status", "get patch update"),
        rule("", "pods", ALL),
        rule("", "pods/eviction", "create"),
        rule("", "pods/status", "get"),
        rule("", "secrets", ALL),
        rule("skyhook.nvidia.com", "deploymentpolicies", READ),
        rule("skyhook.nvidia.com", "skyhooks", ALL),
        rule("skyhook.nvidia.com", "skyhooks/finalizers", "update"),
        rule("skyhook.nvidia.com", "skyhooks/status", "get patch update"),
    ),
    ELECTION,
)
NODE_MAINTENANCE = OriginalRole(
    (
        rule("", "namespaces", "create get"),
        rule("", "nodes", "get list patch update watch"),
        rule("", "pods", READ),
        rule("", "pods/eviction", "create"),
        rule("apps", "daemonsets deployments replicasets statefulsets", READ),
        rule("coordination.k8s.io", "leases", "create get list patch update watch"),
        rule("monitoring.coreos.com", "servicemonitors", "create get"),
        rule("nodemaintenance.medik8s.io", "nodemaintenances", ALL),
        rule("nodemaintenance.medik8s.io", "nodemaintenances/finalizers", "update"),
        rule("nodemaintenance.medik8s.io", "nodemaintenances/status", "get patch update"),
        rule("oauth.openshift.io", "*", "*"),
        rule("policy", "poddisruptionbudgets", READ),
        rule("authentication.k8s.io", "tokenreviews", "create"),
        rule("authorization.k8s.io", "subjectaccessreviews", "create"),
    ),
    ELECTION,
)
MAINTENANCE_CONTROLLER = OriginalRole(
    (
        rule("", "nodes pods", ALL),
        rule("", "nodes/status", "get patch update"),
        rule("coordination.k8s.io", "leases", ALL),
        rule("events.k8s.io", "events", "create patch update"),
        # The chart adds this for the metrics about moved pods.
        rule("apps", "daemonsets deployments replicasets statefulsets", READ),
    ),
    ELECTION,
)
PIKA = OriginalRole(
    (
        rule("", "nodes", "get list update watch"),
        rule("", "pods", READ),
        rule("ngn2.nvidia.com", "notifymaintenances", ALL),
        rule("ngn2.nvidia.com", "notifymaintenances/finalizers", "update"),
        rule("ngn2.nvidia.com", "notifymaintenances/status", "get patch update"),
        # The published role lacks what the library that makes PIKA's certificate asks for; without it PIKA does not start.
        rule(HOOKS, "validatingwebhookconfigurations", "get list update watch"),
    ),
    (*ELECTION, rule("", "secrets", "get list update watch")),
)


def grant_original(plane: ControlPlane, role: OriginalRole, ns: str) -> str:
    """Give a new user exactly the rules of an original, with `ns` as the namespace that it runs in."""
    user = plane.limited_user(list(role.everywhere))
    api, prefix = plane.api(), f"{GROUP}/v1/role"
    if role.at_home:
        api.create(f"{prefix}s", {"metadata": {"name": user}, "rules": list(role.at_home)}, ns)
        subjects = [{"apiGroup": GROUP, "kind": "User", "name": user}]
        binding: Json = {"metadata": {"name": user}, "subjects": subjects}
        binding["roleRef"] = {"apiGroup": GROUP, "kind": "Role", "name": user}
        api.create(f"{prefix}bindings", binding, ns)
    return user
