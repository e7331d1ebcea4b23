"""The blocks of `haulout.yaml` as structs: their settings, defaults and helps."""

from __future__ import annotations

import typing
from datetime import timedelta
from functools import cache
from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec

from haulout.base.url import without_secrets
from haulout.core.logbook.options import People
from haulout.core.setting import Setting, more_than_zero, not_negative
from haulout.surfaces.registry import surfaces


class LogBlock(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The block `log` of `haulout.yaml`: how log lines are written, and from which level on."""

    format: Annotated[str, Setting(help="How log lines are written: json or console.", is_public=True)] = "json"
    level: Annotated[str, Setting(help="From which level on: debug, info, warning or error.", is_public=True)] = "info"


class ListenBlock(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The block `listen` of `haulout.yaml`: the addresses of the HTTP servers."""

    http: Annotated[str, Setting(help="The address of metrics and information; 0 for none.", is_public=True)] = ":8080"
    health: Annotated[str, Setting(help="The address of the probes; 0 for none.", is_public=True)] = ":8081"
    webhooks: Annotated[str, Setting(help="The address of admission webhooks; 0 for none.", is_public=True)] = ":9443"


class WebhooksBlock(msgspec.Struct, frozen=True):
    """The block `webhooks` of `haulout.yaml`: the certificates and the Service of the admission webhooks."""

    certificates: Annotated[
        str,
        Setting(help="self, cert-manager, or a directory with tls.crt and tls.key (docs/webhooks.md).", is_public=True),
    ] = "self"
    service: Annotated[str, Setting(help="The Service by which API servers reach them.", is_public=True)] = (
        "haulout-webhook"
    )
    secret: Annotated[str, Setting(help="The Secret in which the certificate is kept.")] = "haulout-webhook-cert"  # noqa: S105 - the name of a Secret


class LeaderBlock(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The block `leader` of `haulout.yaml`: whether replicas elect a leader, and by which Lease."""

    elect: Annotated[bool, Setting(help="Act only while holding the Lease.")] = True
    lease: Annotated[str, Setting(help="The name of the Lease.", is_public=True)] = "haulout"


class RuleBlock(msgspec.Struct, frozen=True, rename="camel"):
    """One rule in the block `drain`: the pods that it fits, and what a drain does with them.

    A condition that is left out fits every pod.
    """

    action: Annotated[str, Setting(help="ignore, wait, evict, delete or block.", is_public=True)] = ""
    namespaces: Annotated[tuple[str, ...], Setting(help="Pods of these namespaces.", is_public=True)] = ()
    selector: Annotated[str, Setting(help="Pods with these labels.")] = ""
    controller_kinds: Annotated[
        tuple[str, ...], Setting(help="Pods of controllers of these kinds.", is_public=True)
    ] = ()
    restart_policies: Annotated[
        tuple[str, ...], Setting(help="Pods with one of these restart policies.", is_public=True)
    ] = ()
    order: Annotated[int, Setting(help="Pods with a lower order leave the node first.")] = 0


class DrainBlock(msgspec.Struct, frozen=True):
    """The block `drain` of `haulout.yaml`: what every drain does with certain pods, whichever surface drains."""

    honor_pod_annotations: Annotated[bool, Setting(help="Heed the annotation haulout.dev/drain of pods.")] = (
        msgspec.field(default=True, name="honorPodAnnotations")
    )
    honor_cluster_api_label: Annotated[
        bool, Setting(help="On nodes of Cluster API, heed the label cluster.x-k8s.io/drain of pods.")
    ] = msgspec.field(default=False, name="honorClusterAPILabel")
    rules: Annotated[
        tuple[RuleBlock, ...], Setting(help="What is done with certain pods: the first rule that fits a pod decides.")
    ] = ()


class RetentionBlock(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The block `logbook.retention` of `haulout.yaml`: how long records of ended maintenances are kept, and how many."""

    age: Annotated[
        timedelta,
        Setting(
            help="How long a record is kept after its maintenance has ended.",
            right="a duration such as 2160h",
            check=more_than_zero,
        ),
    ] = timedelta(days=90)
    records: Annotated[
        int,
        Setting(
            help="How many records of ended maintenances are kept at most.",
            right="a number from 1",
            check=more_than_zero,
        ),
    ] = 5000


class LogbookBlock(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The block `logbook` of `haulout.yaml`: what is recorded of people, and how long records are kept."""

    people: Annotated[
        str,
        Setting(
            help="How records name the users who asked: full, hash or none.",
            words=tuple(People),
            is_public=True,
        ),
    ] = "full"
    retention: RetentionBlock = RetentionBlock()


def _collector(endpoint: str) -> None:
    """Raise ValueError unless the endpoint is empty or an address to which traces can be sent."""
    parts = urlsplit(endpoint)
    if not endpoint:
        return
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError(f"{without_secrets(endpoint)!r} is no address of a collector")
    if parts.username or parts.password:
        raise ValueError("a login in an address can be read by all who may read the settings")
    # Reading the port checks it.
    _ = parts.port


def _percentage(value: int) -> None:
    if not 1 <= value <= 100:
        raise ValueError(f"{value} is no percentage")


class TracesBlock(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The block `traces` of `haulout.yaml`: whether and where traces of maintenances are exported."""

    enabled: Annotated[
        bool, Setting(help="Export a trace of each maintenance by OTLP/HTTP (needs the extra `otel`).")
    ] = False
    endpoint: Annotated[
        str,
        Setting(
            help="The address of the collector; empty: OTEL_EXPORTER_OTLP_ENDPOINT, else http://localhost:4318.",
            check=_collector,
            right="an address such as http://collector:4318; headers are set by OTEL_EXPORTER_OTLP_HEADERS",
        ),
    ] = ""
    sample_percent: Annotated[
        int,
        Setting(help="The percentage of maintenances whose traces are exported.", check=_percentage, right="1 to 100"),
    ] = msgspec.field(default=100, name="samplePercent")
    slow_eviction: Annotated[
        timedelta,
        Setting(help="An eviction that takes at least so long has a span of its own.", check=not_negative),
    ] = msgspec.field(default=timedelta(seconds=30), name="slowEviction")


class File(msgspec.Struct, frozen=True):
    """The content of `haulout.yaml`. A surface is switched on by its block in `surfaces`."""

    namespace: Annotated[
        str,
        Setting(
            help="The namespace of the Lease and of the webhooks' Secret; empty: the service account's, else haulout-system.",
            is_public=True,
        ),
    ] = ""
    kubeconfig: Annotated[
        str,
        Setting(help="Path of a kubeconfig; empty: KUBECONFIG, else the pod's service account, else ~/.kube/config."),
    ] = ""
    context: Annotated[str, Setting(help="The context of the kubeconfig; empty: its current one.", is_public=True)] = ""
    request_timeout: Annotated[str, Setting(help="A write that takes longer counts as lost; at most 30s.")] = (
        msgspec.field(default="30s", name="requestTimeout")
    )
    log: LogBlock = LogBlock()
    listen: ListenBlock = ListenBlock()
    leader: LeaderBlock = LeaderBlock()
    webhooks: WebhooksBlock = WebhooksBlock()
    drain: DrainBlock = DrainBlock()
    logbook: LogbookBlock = LogbookBlock()
    traces: TracesBlock = TracesBlock()
    # The type is made from the declared surfaces by `surfaces_block`.
    surfaces: msgspec.Struct | None = None

    @property
    def blocks(self) -> dict[str, msgspec.Struct]:
        """The settings of the surfaces that are switched on, by their names."""
        if self.surfaces is None:
            return {}
        return {name: block for name, block in msgspec.structs.asdict(self.surfaces).items() if block is not None}


@cache
def surface_settings() -> dict[str, type[msgspec.Struct]]:
    """Return the settings struct of each surface that can be served by itself."""
    return {each.name: each.settings for each in surfaces() if each.settings is not None and not each.within}


@cache
def surfaces_block() -> type[msgspec.Struct]:
    """Return the struct of the block `surfaces` of `haulout.yaml`. A surface whose block is None is switched off."""
    fields = [(name, kind | None, None) for name, kind in surface_settings().items()]
    return msgspec.defstruct("SurfacesBlock", fields, frozen=True)


def struct_in(kind: Any) -> type[msgspec.Struct] | None:
    """Return the struct type in the annotation `Struct` or `Struct | None`; None if there is none."""
    for each in (kind, *typing.get_args(kind)):
        if each is msgspec.Struct:
            return surfaces_block()
        if isinstance(each, type) and issubclass(each, msgspec.Struct):
            return each
    return None


def item_type(kind: Any) -> Any:
    """Return the item type in the annotation `tuple[Item, ...]`; None for any other annotation."""
    return typing.get_args(kind)[0] if typing.get_origin(kind) is tuple else None
