"""What Haulout has to be allowed, as data: `haulout rbac`, `haulout manifests`, the chart and the docs follow from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from haulout.manifests.webhooks import SECRET, WEBHOOKS

MEDIK8S = "nodemaintenance.medik8s.io"
CLUSTER_API = "cluster.x-k8s.io"
COORDINATION = "coordination.k8s.io"
EVENTS = "events.k8s.io"
OURS = "haulout.dev"

READ = ("get", "list", "watch")
FOLLOW = ("list", "watch")
TELL = ("create", "patch")

# Where a Role holds. Any other place is the name of an option that lists namespaces: one Role in each of them.
CLUSTER, HOME, DEFAULT, LEASES = "cluster", "home", "default", "leases"
# In the names of a right: those that the option lists for the namespace.
EACH = "{each}"
# The names that settings may change, with what they are where nothing is said.
NAMES = {"leader_lease": "haulout", "webhook_secret": SECRET, "lease_namespace": "medik8s-leases"}
# Of the originals: which Lease each of them holds.
ORIGINAL_LEASES = {
    "profiles": "maintenance-controller-leader-election.cloud.sap",
    "nodemaintenance": "135b1886.medik8s.io",
    "clusterapi": "runtime-extension-maintenance-controller",
}


class Option(msgspec.Struct, frozen=True):
    """A choice that adds rights.

    `lists` is empty for a flag, else what the option is given, any number of times: a namespace, or NAMESPACE/NAME.
    `setting` is the line of the surface's block in `haulout.yaml` that needs the right, where there is such a line.
    """

    name: str
    help: str
    lists: str = ""
    setting: str = ""
    default: bool = False

    @property
    def has_names(self) -> bool:
        return "/" in self.lists


OPTIONS = {
    option.name: option
    for option in (
        Option("delete_pods", "Allow to delete pods: for drains that are told to go past disruption budgets."),
        Option("hypervisors", "Allow what the Hypervisor checks and triggers of profiles need."),
        Option("stagger", "Allow a Lease of a stagger check, by its whole name.", "NAMESPACE/LEASE"),
        Option("slack_thread", "Allow the Lease of a slackThread notifier.", "NAMESPACE/LEASE"),
        Option("cloud_secret", "Allow to read this cloudProviderSecret of Kubernikus.", "NAMESPACE/SECRET"),
        Option("node_conditions", "Allow what the setting nodeConditions needs.", setting="nodeConditions: true"),
        Option(
            "eviction_requests",
            "Allow what evictionBackend: evictionrequest needs.",
            setting="evictionBackend: evictionrequest",
        ),
        Option("own_certificates", "Allow to make the webhooks' certificate and to register it.", default=True),
        Option("metal3", "Allow what enableMetal3Maintenance needs.", setting="enableMetal3Maintenance: true"),
        Option("kubeconfigs", "Read kubeconfigs in this namespace, and not in all of them.", "NAMESPACE"),
        Option("original_lease", "Allow the Leases of the originals in this namespace.", "NAMESPACE"),
    )
}


class Right(msgspec.Struct, frozen=True):
    """One rule of a role. `option`: only with it. `unless`: only without it. `urls` are paths that are no resources."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    purpose: str = ""
    names: tuple[str, ...] = ()
    option: str = ""
    unless: str = ""
    urls: tuple[str, ...] = ()


class Role(msgspec.Struct, frozen=True):
    """Rights that hold in one place. `option`: only with it. `title`: the name, where it does not follow from the rest.

    `bound` is off for roles of people, whom we do not know.
    """

    surface: str
    place: str
    rights: tuple[Right, ...]
    suffix: str = ""
    option: str = ""
    title: str = ""
    bound: bool = True

    @property
    def name(self) -> str:
        return self.title or "-".join(filter(None, ("haulout", self.surface, self.suffix)))

    @property
    def kind(self) -> str:
        return "ClusterRole" if self.place == CLUSTER else "Role"


class Choice(msgspec.Struct, frozen=True):
    """What an installation says: where it runs, which options it takes, and what these list (namespace to names)."""

    namespace: str
    account: str
    names: Mapping[str, str]
    flags: frozenset[str]
    lists: Mapping[str, Mapping[str, tuple[str, ...]]]

    def has(self, option: str) -> bool:
        return option in self.flags or bool(self.lists.get(option))

    def wants(self, what: Right | Role) -> bool:
        unless = what.unless if isinstance(what, Right) else ""
        return (not what.option or self.has(what.option)) and not (unless and self.has(unless))


class PlacedRole(msgspec.Struct, frozen=True):
    """A role in its namespace, which is empty for the whole cluster; its rights have the names that count there."""

    role: Role
    namespace: str
    rights: tuple[Right, ...]


def placed_roles(surface: str, choice: Choice, *, every_right: bool = False) -> Iterator[PlacedRole]:
    """The roles of a surface as an installation needs them; with `every_right` whatever the options say about it."""
    for role in ROLES:
        if role.surface == surface and choice.wants(role):
            for namespace, names in _places(role, choice):
                wanted = [right for right in role.rights if every_right or choice.wants(right)]
                yield PlacedRole(role, namespace, tuple(_named(right, choice, names) for right in wanted))


def _places(role: Role, choice: Choice) -> Iterator[tuple[str, tuple[str, ...]]]:
    fixed = {CLUSTER: "", HOME: choice.namespace, DEFAULT: DEFAULT, LEASES: choice.names["lease_namespace"]}
    if role.place in fixed:
        yield fixed[role.place], ()
    else:
        yield from choice.lists.get(role.place, {}).items()


def _named(right: Right, choice: Choice, each: tuple[str, ...]) -> Right:
    names = [name for given in right.names for name in (each if given == EACH else (given.format(**choice.names),))]
    return msgspec.structs.replace(right, names=tuple(names))


def _drains() -> tuple[Right, ...]:
    return (
        Right("", ("nodes",), (*READ, "patch"), "follow nodes, cordon, label, annotate and taint them"),
        Right("", ("pods",), READ, "know which pods run where"),
        Right("", ("pods/eviction",), ("create",), "drain: evict pods, as their budgets let it"),
        Right("", ("pods",), ("delete",), "drain past budgets where that is asked for", option="delete_pods"),
        Right(EVENTS, ("events",), TELL, "events about pods, in their namespaces"),
    )


def _original(surface: str) -> Role:
    lease = ORIGINAL_LEASES[surface]
    rights = (
        # A rule cannot limit `create` by name: what is created has none yet when the rule is asked.
        Right(COORDINATION, ("leases",), ("create",), "hold the original's Lease beside it"),
        Right(COORDINATION, ("leases",), ("get", "update"), "hold the original's Lease beside it", (lease,)),
    )
    return Role(surface, "original_lease", rights, "original", "original_lease")


def _people(surface: str, word: str, group: str, plural: str) -> tuple[Role, ...]:
    return tuple(
        Role(
            surface,
            CLUSTER,
            (Right(group, (plural,), verbs), Right(group, (f"{plural}/status",), ("get",))),
            title=f"{word}-{who}-role",
            bound=False,
        )
        for who, verbs in (("editor", (*READ, "create", "delete", "patch", "update")), ("viewer", READ))
    )


# A surface's roles are enough together with the kernel's.
ROLES: tuple[Role, ...] = (
    Role(
        "kernel",
        CLUSTER,
        (
            Right(OURS, ("nodedisruptionbudgets",), READ, "follow budgets"),
            Right(OURS, ("nodedisruptionbudgets/status",), ("patch",), "say how full a budget is"),
        ),
    ),
    Role(
        "kernel",
        HOME,
        (
            Right(COORDINATION, ("leases",), ("create",), "elect a leader"),
            Right(COORDINATION, ("leases",), ("get", "update"), "elect a leader", ("{leader_lease}",)),
            Right("", ("events",), TELL, "events about itself, without profiles"),
            Right(EVENTS, ("events",), TELL, "events about itself, with profiles"),
        ),
    ),
    # Events about what has no namespace lie there.
    Role("kernel", DEFAULT, (Right(EVENTS, ("events",), ("create",), "events about budgets"),), "events"),
    Role(
        "kernel", CLUSTER, (Right("", (), ("get",), urls=("/metrics",)),), title="haulout-metrics-reader", bound=False
    ),
    *_people("kernel", "nodedisruptionbudget", OURS, "nodedisruptionbudgets"),
    Role(
        "profiles",
        CLUSTER,
        (
            *_drains(),
            Right("policy", ("poddisruptionbudgets",), FOLLOW, "pace drains by disruption budgets"),
            Right(
                "apps",
                ("daemonsets", "deployments", "replicasets", "statefulsets"),
                FOLLOW,
                "count the pods that maintenance moves, by their owners",
            ),
            Right(
                "kvm.cloud.sap",
                ("hypervisors",),
                (*READ, "patch"),
                "checks and triggers for Hypervisors",
                option="hypervisors",
            ),
        ),
    ),
    Role(
        "profiles",
        "stagger",
        (
            Right(COORDINATION, ("leases",), (*FOLLOW, "create"), "stagger checks"),
            Right(COORDINATION, ("leases",), ("get", "patch"), "stagger checks", (EACH,)),
        ),
        "stagger",
        "stagger",
    ),
    Role(
        "profiles",
        "slack_thread",
        (
            Right(COORDINATION, ("leases",), ("create",), "remember a thread in Slack"),
            Right(COORDINATION, ("leases",), ("get", "patch"), "remember a thread in Slack", (EACH,)),
        ),
        "slack-thread",
        "slack_thread",
    ),
    Role(
        "profiles",
        "cloud_secret",
        (Right("", ("secrets",), ("get",), "credentials of Kubernikus", (EACH,)),),
        "cloud-secret",
        "cloud_secret",
    ),
    _original("profiles"),
    Role(
        "nodemaintenance",
        CLUSTER,
        (
            *_drains(),
            Right("", ("nodes/status",), ("patch",), "conditions on nodes", option="node_conditions"),
            Right("policy", ("poddisruptionbudgets",), READ, "pace drains; the guard of etcd on OpenShift"),
            Right("apps", ("daemonsets",), FOLLOW, "know which pods come back by themselves"),
            Right(MEDIK8S, ("nodemaintenances",), (*READ, "patch"), "follow NodeMaintenances, set their finalizer"),
            Right(MEDIK8S, ("nodemaintenances/status",), ("patch",), "say how far a NodeMaintenance is"),
            Right("", ("namespaces",), ("get",), "see that the namespace of leases is there", ("{lease_namespace}",)),
            Right(
                "lifecycle.k8s.io",
                ("evictionrequests",),
                (*READ, *TELL),
                "drain by EvictionRequests",
                option="eviction_requests",
            ),
            Right(
                "admissionregistration.k8s.io",
                ("validatingwebhookconfigurations",),
                ("get", "watch", "patch"),
                "register the authority of the webhook's certificate",
                (WEBHOOKS["nodemaintenance"][0],),
                option="own_certificates",
            ),
        ),
    ),
    Role(
        "nodemaintenance",
        LEASES,
        (Right(COORDINATION, ("leases",), (*READ, *TELL, "delete"), "the Leases of nodes in maintenance"),),
    ),
    Role(
        "nodemaintenance",
        DEFAULT,
        (Right("", ("events",), TELL, "events about NodeMaintenances and their nodes"),),
        "events",
    ),
    Role(
        "nodemaintenance",
        HOME,
        (
            Right("", ("secrets",), ("create",), "make the webhook's certificate"),
            Right(
                "", ("secrets",), ("get", "watch", "update"), "keep the webhook's certificate", ("{webhook_secret}",)
            ),
        ),
        "webhooks",
        "own_certificates",
    ),
    _original("nodemaintenance"),
    *_people("nodemaintenance", "nodemaintenance", MEDIK8S, "nodemaintenances"),
    Role(
        "clusterapi",
        CLUSTER,
        (
            # Kubeconfigs lie in the namespaces of the machines, whichever those are.
            Right("", ("secrets",), FOLLOW, "kubeconfigs of workload clusters", unless="kubeconfigs"),
            Right("", ("events",), TELL, "events about Machines, in their namespaces"),
            Right(CLUSTER_API, ("machines",), (*READ, "patch"), "follow Machines, set hooks and approvals"),
            Right(CLUSTER_API, ("clusters",), FOLLOW, "see which clusters are paused"),
            Right(
                "metal3.io",
                ("baremetalhosts",),
                (*READ, "patch"),
                "switch hosts off and on",
                option="metal3",
            ),
        ),
    ),
    Role(
        "clusterapi",
        "kubeconfigs",
        (Right("", ("secrets",), FOLLOW, "kubeconfigs of workload clusters"),),
        "kubeconfigs",
        "kubeconfigs",
    ),
    _original("clusterapi"),
)
# All that clusterapi needs in the clusters whose machines it looks after.
WORKLOAD = Role(
    "clusterapi",
    CLUSTER,
    (Right("", ("nodes",), (*READ, "patch"), "tell nodes of a workload cluster what is asked, read their approval"),),
    "workload",
)
