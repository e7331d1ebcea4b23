"""The settings of a process, which `haulout run` and `haulout as` both make, and those of some commands."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, TypeVar

import msgspec

from haulout.core.setting import OriginalLease

S = TypeVar("S", bound=msgspec.Struct)


class Lease(msgspec.Struct, frozen=True):
    """The Lease of the leader election. All times are in seconds.

    `namespace` empty: that of the pod. `outside`: the namespace for a process outside of a pod; empty: such a process
    does not start. `release`: whether the leader releases the Lease when it ends.
    """

    name: str
    namespace: str = ""
    outside: str = ""
    duration: float = 15.0
    renew_within: float = 10.0
    retry: float = 2.0
    release: bool = True


class PodRule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule about pods for every drain of the process. `action` and `selector` are spelled as in the file."""

    action: str
    namespaces: tuple[str, ...] = ()
    selector: str = ""
    controller_kinds: tuple[str, ...] = ()
    restart_policies: tuple[str, ...] = ()
    order: int = 0


class PodRules(msgspec.Struct, frozen=True, kw_only=True):
    """The rules about pods for every drain of the process, whichever surface drains.

    `annotation`: whether drains also heed the annotation haulout.dev/drain of pods.
    `cluster_api_label`: whether they also heed Cluster API's label for pods that are not to be drained.
    """

    rules: tuple[PodRule, ...] = ()
    annotation: bool = False
    cluster_api_label: bool = False


class Webhooks(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of the server for admission webhooks.

    `certificates`: `self`, `cert-manager`, or a directory with tls.crt and tls.key. Drop-ins also use `original`, the
    folders where the original looks, and `skyhook`, a Secret of the form that the Skyhook operator gives it.
    `outside`: the namespace of the Secret for a process outside of a pod; empty: that of the kubeconfig's context.
    `published`: the process issues the certificate into the Secret, which is mounted as the files that it reads.
    `services`: further Services that the certificate names.
    """

    address: str = "0"
    certificates: str = "self"
    service: str = "haulout-webhook"
    secret: str = "haulout-webhook-cert"  # noqa: S105 - the name of a Secret
    outside: str = ""
    published: bool = False
    services: tuple[str, ...] = ()


class Logbook(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of the logbook. `people`: full, hash or none. `most`: how many closed records are kept."""

    people: str = "full"
    keeps_for: timedelta = timedelta(days=90)
    most: int = 5000


class Traces(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of the traces of maintenances.

    `endpoint`: the address of the collector; empty: the variables of OpenTelemetry say it. `percent`: the percentage of
    maintenances whose traces are exported; 0: none. `slow_for`: an eviction that takes at least so long has a span.
    """

    endpoint: str = ""
    percent: int = 0
    slow_for: timedelta = timedelta(seconds=30)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a process.

    `turns`: whether surfaces take turns on a node. `alone`: whether one surface behaves exactly as its original.
    `ready_at_once`: whether the readiness probe succeeds before the cluster has been listed.
    `log_level`: a level of `logging`. `log_times`: a time encoding of zap.
    `as_user`, `as_groups`: the user and the groups to impersonate.
    `pod_first`: in a pod its service account is used, whatever `context` says.
    `request_for`: how many seconds a write may take before it counts as lost.
    `surfaces`: the surfaces that a flag picks, with commas; empty without the flag.
    """

    kubeconfig: str = ""
    context: str = ""
    pod_first: bool = False
    namespace: str = ""
    as_user: str = ""
    as_groups: tuple[str, ...] = ()
    request_for: float = 30.0
    http: str = ":8080"
    health: str = ":8081"
    webhooks: Webhooks = Webhooks()
    # Serve metrics over TLS, to clients that the API server authorizes.
    guarded: bool = False
    # Serve metrics over TLS 1.3 with the certificate of the webhooks, to all clients.
    metrics_over_tls: bool = False
    lease: Lease | None = None
    turns: bool = True
    # Kinds that the role need not allow to list. Surfaces work without them.
    optional_kinds: tuple[str, ...] = ()
    ready_at_once: bool = False
    log_format: str = "json"
    log_level: int = 20
    log_times: str = "iso8601"
    alone: bool = False
    # The surfaces to serve by their names, each with its settings.
    blocks: Mapping[str, msgspec.Struct] = {}
    pod_rules: PodRules = PodRules()
    logbook: Logbook = Logbook()
    traces: Traces = Traces()
    # The file that is watched for changes, and the flags that win over it.
    file: str = ""
    flags: tuple[tuple[str, str], ...] = ()
    surfaces: str = ""

    def of(self, kind: type[S]) -> S | None:
        """Return the settings of this type, or None if their surface is not served."""
        return next((block for block in self.blocks.values() if isinstance(block, kind)), None)

    @property
    def surface_leases(self) -> dict[str, str]:
        """The surfaces that act only while the Lease of their original is held, each with the Lease's namespace."""
        leases = {name: getattr(block, "lease", None) for name, block in self.blocks.items()}
        return {name: lease.namespace for name, lease in leases.items() if isinstance(lease, OriginalLease)}


class DemoSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The options of `haulout demo`.

    `once`: end after one roll. `svg`: the file for the last picture. `kubeconfig`: the file to write; empty: a new one.
    """

    nodes: int = 60
    zones: int = 3
    once: bool = False
    kubeconfig: str = ""
    svg: str = ""


class PlanSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The options of `haulout plan`.

    `nodes`: how many nodes to make up; 0: plan for those of the `snapshot`, else of a cluster.
    `labels`: set on every node at the start. `cluster`: the options that name the cluster.
    `after`: state, seconds, label and value: the label is set on a node so long after it has entered the state.
    """

    config: str
    nodes: int = 0
    zones: int = 3
    # For each surface, the value of its label on every node.
    node_labels: Mapping[str, str] = {}
    snapshot: str = ""
    days: float = 30.0
    labels: tuple[tuple[str, str], ...] = ()
    after: tuple[tuple[str, float, str, str], ...] = ()
    at: str = ""
    seed: int = 0
    output: str = "text"
    svg: str = ""
    cluster: tuple[tuple[str, Any], ...] = ()
    # Surfaces to plan for instead of those that the configuration switches on, with commas between them.
    surfaces: str = ""
    # Nodes to make NodeMaintenances for: names with commas between them, or a label selector.
    maintain: str = ""
    work_for: float = 3600.0


class ClusterSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The options of `haulout cluster`.

    `speed`: how many seconds of the embedded cluster pass in one real second.
    """

    nodes: int = 60
    zones: int = 3
    workloads: str = ""
    speed: float = 1.0
    listen: str = "127.0.0.1:0"
    kubeconfig: str = ""
