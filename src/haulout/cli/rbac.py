"""`haulout rbac`: what each surface has to be allowed, as YAML."""

from __future__ import annotations

from collections.abc import Iterator

import click
import msgspec

from haulout.cli.manifests import MANAGED, NAMESPACE, Json, picked, say
from haulout.cli.webhooks import SECRET

GROUP = "rbac.authorization.k8s.io"
ACCOUNT = "haulout"
READ = ("get", "list", "watch")
MEDIK8S = "nodemaintenance.medik8s.io"
CLUSTER_API = "cluster.x-k8s.io"


class Allow(msgspec.Struct, frozen=True):
    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()

    def rule(self) -> Json:
        rule: Json = {"apiGroups": [self.group], "resources": list(self.resources), "verbs": list(self.verbs)}
        return {**rule, "resourceNames": list(self.names)} if self.names else rule


# Cluster-wide. A surface's role is enough together with the kernel's.
CLUSTER: dict[str, tuple[Allow, ...]] = {
    "kernel": (
        Allow("", ("nodes",), (*READ, "patch")),
        Allow("", ("events",), ("create", "patch")),
        Allow("events.k8s.io", ("events",), ("create", "patch")),
        Allow("haulout.dev", ("nodedisruptionbudgets",), READ),
        Allow("haulout.dev", ("nodedisruptionbudgets/status",), ("get", "patch", "update")),
        Allow("admissionregistration.k8s.io", ("validatingwebhookconfigurations",), (*READ, "patch")),
        Allow("authentication.k8s.io", ("tokenreviews",), ("create",)),
        Allow("authorization.k8s.io", ("subjectaccessreviews",), ("create",)),
    ),
    "profiles": (
        Allow("", ("nodes",), (*READ, "patch", "update")),
        Allow("", ("pods",), (*READ, "delete")),
        Allow("", ("pods/eviction",), ("create",)),
        Allow("policy", ("poddisruptionbudgets",), READ),
        Allow("apps", ("daemonsets", "deployments", "replicasets", "statefulsets"), READ),
        Allow("kvm.cloud.sap", ("hypervisors",), (*READ, "patch")),
        Allow("coordination.k8s.io", ("leases",), (*READ, "create", "patch", "update")),
    ),
    "nodemaintenance": (
        Allow("", ("namespaces",), (*READ, "create")),
        Allow("", ("nodes",), (*READ, "patch", "update")),
        Allow("", ("pods",), READ),
        Allow("", ("pods/eviction",), ("create",)),
        Allow("", ("events",), ("create", "patch")),
        Allow("events.k8s.io", ("events",), ("create", "patch")),
        Allow("apps", ("daemonsets",), READ),
        Allow("policy", ("poddisruptionbudgets",), READ),
        Allow("coordination.k8s.io", ("leases",), (*READ, "create", "delete", "patch", "update")),
        Allow(MEDIK8S, ("nodemaintenances",), (*READ, "patch", "update")),
        Allow(MEDIK8S, ("nodemaintenances/status",), ("get", "patch", "update")),
        Allow(MEDIK8S, ("nodemaintenances/finalizers",), ("update",)),
    ),
    "clusterapi": (
        # Kubeconfigs lie in the namespaces of the machines, whichever those are.
        Allow("", ("secrets",), READ),
        Allow("", ("events",), ("create", "patch")),
        Allow(CLUSTER_API, ("machines",), (*READ, "patch")),
        Allow(CLUSTER_API, ("clusters",), READ),
        # With `lease` in its settings it holds that of its original, too, in a namespace that is not known here.
        Allow("coordination.k8s.io", ("leases",), ("create",)),
        Allow("coordination.k8s.io", ("leases",), ("get", "update"), ("runtime-extension-maintenance-controller",)),
    ),
}

# In the namespace that Haulout runs in.
LOCAL: dict[str, tuple[Allow, ...]] = {
    "kernel": (
        Allow("coordination.k8s.io", ("leases",), ("get", "create", "patch", "update")),
        # What is created has no name yet that a rule could ask for.
        Allow("", ("secrets",), ("create",)),
        Allow("", ("secrets",), (*READ, "update"), (SECRET,)),
    )
}

# Roles for people, whoever binds them.
PEOPLE: dict[str, tuple[tuple[str, tuple[Allow, ...]], ...]] = {
    "kernel": (
        (
            "nodedisruptionbudget-editor-role",
            (
                Allow("haulout.dev", ("nodedisruptionbudgets",), (*READ, "create", "delete", "patch", "update")),
                Allow("haulout.dev", ("nodedisruptionbudgets/status",), ("get",)),
            ),
        ),
        (
            "nodedisruptionbudget-viewer-role",
            (
                Allow("haulout.dev", ("nodedisruptionbudgets",), READ),
                Allow("haulout.dev", ("nodedisruptionbudgets/status",), ("get",)),
            ),
        ),
    ),
    "nodemaintenance": (
        (
            "nodemaintenance-editor-role",
            (
                Allow(MEDIK8S, ("nodemaintenances",), (*READ, "create", "delete", "patch", "update")),
                Allow(MEDIK8S, ("nodemaintenances/status",), ("get",)),
            ),
        ),
        (
            "nodemaintenance-viewer-role",
            (
                Allow(MEDIK8S, ("nodemaintenances",), READ),
                Allow(MEDIK8S, ("nodemaintenances/status",), ("get",)),
            ),
        ),
    ),
}
METAL3 = Allow("metal3.io", ("baremetalhosts",), (*READ, "patch"))
# What a surface needs only where it is told to do so.
ON_REQUEST: dict[str, tuple[str, Allow]] = {
    "delete_pods": ("nodemaintenance", Allow("", ("pods",), ("delete",))),
    "node_conditions": ("nodemaintenance", Allow("", ("nodes/status",), ("patch",))),
    "eviction_requests": (
        "nodemaintenance",
        Allow("lifecycle.k8s.io", ("evictionrequests",), (*READ, "create", "patch")),
    ),
    "metal3": ("clusterapi", METAL3),
}
# All that clusterapi needs in the clusters whose machines it looks after.
WORKLOAD = (Allow("", ("nodes",), (*READ, "patch")),)
SCRAPER = "haulout-metrics-reader"


@click.command("rbac", short_help="Print the roles that surfaces need.")
@click.argument("surfaces", nargs=-1, metavar="[SURFACE]...")
@click.option("-n", "--namespace", default=NAMESPACE, metavar="NAME", show_default=True, help="Where Haulout runs.")
@click.option(
    "--service-account", default=ACCOUNT, metavar="NAME", show_default=True, help="The account that it runs as."
)
@click.option("--delete-pods", is_flag=True, help="Also allow to delete pods: for drains past disruption budgets.")
@click.option("--node-conditions", is_flag=True, help="Also allow what the setting nodeConditions needs.")
@click.option("--eviction-requests", is_flag=True, help="Also allow what evictionBackend: evictionrequest needs.")
@click.option("--metal3", is_flag=True, help="Also allow what enableMetal3Maintenance needs.")
@click.option("--workload", is_flag=True, help="Print what clusterapi needs in the clusters of its machines instead.")
def command(surfaces: tuple[str, ...], namespace: str, service_account: str, workload: bool, **requests: bool) -> None:
    """Prints the roles that the SURFACEs need, or all of them, and binds them to a service account, as YAML.

    `kernel` is what all surfaces share. Drains delete pods only where a NodeMaintenance or the settings say
    `disableEviction` or `ForceDelete`. With `--workload` it is a role for the account of a kubeconfig that clusterapi
    goes to another cluster with, to be applied there.
    """
    subject = {"kind": "ServiceAccount", "name": service_account, "namespace": namespace}
    chosen = picked(surfaces)
    if workload:
        if surfaces and chosen != ("clusterapi",):
            raise click.UsageError("--workload: only clusterapi goes to other clusters")
        say(_bound("haulout-clusterapi-workload", WORKLOAD, subject))
        return
    for surface in chosen:
        more = tuple(
            ON_REQUEST[name][1] for name, wanted in requests.items() if wanted and ON_REQUEST[name][0] == surface
        )
        say(documents_of(surface, namespace, subject, more))


def documents_of(surface: str, namespace: str, subject: Json, more: tuple[Allow, ...] = ()) -> Iterator[Json]:
    name = f"haulout-{surface}"
    yield from _bound(name, (*CLUSTER[surface], *more), subject)
    if surface in LOCAL:
        meta = {"name": name, "namespace": namespace}
        yield _role("Role", meta, LOCAL[surface])
        yield _binding("Role", meta, subject)
    if surface == "kernel":
        rules = [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
        yield {**_role("ClusterRole", {"name": SCRAPER}, ()), "rules": rules}
    for people, allows in PEOPLE.get(surface, ()):
        yield _role("ClusterRole", {"name": people}, allows)


def _bound(name: str, allows: tuple[Allow, ...], subject: Json) -> Iterator[Json]:
    yield _role("ClusterRole", {"name": name}, allows)
    yield _binding("ClusterRole", {"name": name}, subject)


def _role(kind: str, meta: Json, allows: tuple[Allow, ...]) -> Json:
    rules = [allow.rule() for allow in allows]
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {**meta, "labels": MANAGED}, "rules": rules}


def _binding(kind: str, meta: Json, subject: Json) -> Json:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": f"{kind}Binding",
        "metadata": {**meta, "labels": MANAGED},
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": meta["name"]},
        "subjects": [subject],
    }
