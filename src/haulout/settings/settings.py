"""What a process is started with; `run` and `as` both make it, and the composition root takes it from there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from haulout.core.setting import OriginalLease

S = TypeVar("S", bound=msgspec.Struct)


class Lease(msgspec.Struct, frozen=True):
    """Leader election, all spans in seconds.

    `namespace` empty: the pod's own. `outside`: the namespace outside of a pod, where the process has none of its own; empty:
    there is no election there.
    """

    name: str
    namespace: str = ""
    outside: str = ""
    duration: float = 15.0
    renew_within: float = 10.0
    retry: float = 2.0
    release: bool = True


class PodRule(msgspec.Struct, frozen=True, kw_only=True):
    """What every drain of the process does with certain pods; `action` and `selector` in the words of the file."""

    action: str
    namespaces: tuple[str, ...] = ()
    selector: str = ""
    controller_kinds: tuple[str, ...] = ()
    restart_policies: tuple[str, ...] = ()
    order: int = 0


class PodRules(msgspec.Struct, frozen=True, kw_only=True):
    """What every drain of the process does with certain pods, whichever surface drains.

    `annotation`: whether annotations of pods count, too.
    `cluster_api_label`: whether Cluster API's label for pods that are not to be drained counts, too.
    """

    rules: tuple[PodRule, ...] = ()
    annotation: bool = False
    cluster_api_label: bool = False


class Webhooks(msgspec.Struct, frozen=True, kw_only=True):
    """How admission webhooks are served: address, certificate, Service and Secret.

    `certificates`: self, cert-manager, or a directory with tls.crt and tls.key; originals: where theirs look, and
    `skyhook` for a Secret of the form that the Skyhook operator gives it.

    `outside`: the namespace of the Secret outside of a pod, where none is set; empty: the context's. `published`: the
    certificate in the Secret is ours, and comes back to us as the files of a mounted directory. `services`: more
    Services that the certificate is for.
    """

    address: str = "0"
    certificates: str = "self"
    service: str = "haulout-webhook"
    secret: str = "haulout-webhook-cert"  # noqa: S105 - the name of a Secret
    outside: str = ""
    published: bool = False
    services: tuple[str, ...] = ()


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a process is started with.

    `turns`: surfaces take turns on a node. `ready_at_once`: the readiness probe does not wait for the cluster.

    `alone`: one surface with its original's behaviour, which knows nothing of others. `log_level` is one of `logging`'s, `log_times` a word of zap's.
    `as_user`, `as_groups`: whom to impersonate. `pod_first`: in a pod its service account counts, whatever `context` says.
    `request_for`: how long a write may take before it counts as lost.
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
    # Metrics over TLS, for users whom the API server allows to see them.
    guarded: bool = False
    # Metrics over TLS 1.3 with the certificate of the webhooks, for all callers.
    metrics_over_tls: bool = False
    lease: Lease | None = None
    turns: bool = True
    # Kinds that surfaces do without where the role does not allow to list them.
    optional_kinds: tuple[str, ...] = ()
    ready_at_once: bool = False
    log_format: str = "json"
    log_level: int = 20
    log_times: str = "iso8601"
    alone: bool = False
    # The surfaces to serve by their names, each with its settings.
    blocks: Mapping[str, msgspec.Struct] = {}
    pod_rules: PodRules = PodRules()
    # The file that is watched for changes, and the flags that win over it.
    file: str = ""
    flags: tuple[tuple[str, str], ...] = ()
    surfaces: str = ""

    def of(self, kind: type[S]) -> S | None:
        """Return the settings of the surface that has this type of them, or None if the surface is not served."""
        return next((block for block in self.blocks.values() if isinstance(block, kind)), None)

    @property
    def surface_leases(self) -> dict[str, str]:
        """The surfaces that act only while the Lease of their original is held, each with the Lease's namespace."""
        leases = {name: getattr(block, "lease", None) for name, block in self.blocks.items()}
        return {name: lease.namespace for name, lease in leases.items() if isinstance(lease, OriginalLease)}


class DemoSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line of `demo` asks for.

    `once`: to the end of one roll. `svg`: where the last picture is left. `kubeconfig` empty: a file of its own.
    """

    nodes: int = 60
    zones: int = 3
    once: bool = False
    kubeconfig: str = ""
    svg: str = ""


class PlanSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line of `plan` asks for.

    `nodes` above 0: so many made-up nodes; else those of a `snapshot`, else of a cluster.

    `labels` are set on every node at the start. `after`: state, seconds and a label that a node then gets: what is done
    to it from outside. `cluster`: how to get to one, in the words of the command line.
    """

    config: str
    nodes: int = 0
    zones: int = 3
    # By surface: what its label is set to on every node, as its option of `plan` says.
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
    """What the command line of `cluster` asks for.

    `speed`: how many seconds of the embedded cluster pass in one real second.
    """

    nodes: int = 60
    zones: int = 3
    workloads: str = ""
    speed: float = 1.0
    listen: str = "127.0.0.1:0"
    kubeconfig: str = ""
