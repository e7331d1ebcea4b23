"""The kinds that the server knows: how each is addressed, decoded, completed, checked and selected."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

import msgspec

from haulout.embedded import fields, names
from haulout.embedded.refusals import Problem
from haulout.embedded.rules import budgets, events, nodes, others, pods, services, workloads
from haulout.embedded.seams import Json, Resource

# What the object looks like on the wire, given what stood there before; unknown fields are named in the list.
Decode = Callable[[Any, Json | None, list[str]], Json]
Select = Callable[[Json], str]

Default = Callable[[Json, Json | None], None]


def _leave(obj: Json, old: Json | None) -> None: ...


def _ready(obj: Json) -> None: ...


def _keep(obj: Json, old: Json) -> None: ...


def _fine(obj: Json) -> list[Problem]:
    return []


def _unchanged(obj: Json, old: Json) -> list[Problem]:
    return []


class Column(msgspec.Struct, frozen=True):
    """One column of `kubectl get`; `path` is a JSON path, for custom kinds."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0
    path: str = ""


class Kind(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One kind in one version. Functions get objects that are theirs at the top, and shared below."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    singular: str = ""
    # Kinds that are two views of the same objects name the same table.
    table: str = ""
    # The Go type; custom kinds have none.
    type: str = ""
    decode: Decode
    has_status: bool = False
    # The Go type of the status that a new object begins with, whatever was sent; "" where `prepare` sees to it.
    status_type: str = ""
    has_scale: bool = False
    verbs: tuple[str, ...] = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
    name_rule: names.NameRule = names.subdomain
    # Fills in what is not given; also of changed objects.
    default: Default = _leave
    # Gives a new or changed object what no two may have; the others are at hand.
    allocate: Callable[[Json, Iterable[Json]], None] | None = None
    # What new objects have to keep to, beyond `check`.
    check_new: Callable[[Json], list[Problem]] = _fine
    # Before a new object, or a changed one, is checked: what the sender has no say in.
    prepare: Callable[[Json], None] = _ready
    reprepare: Callable[[Json, Json], None] = _keep
    reprepare_status: Callable[[Json, Json], None] = _keep
    check: Callable[[Json], list[Problem]] = _fine
    recheck: Callable[[Json, Json], list[Problem]] = _unchanged
    recheck_status: Callable[[Json, Json], list[Problem]] = _unchanged
    # Whether a change counts as one of the specification; None for kinds without generations.
    respecified: Callable[[Json, Json], bool] | None = None
    selectable: dict[str, Select] = {}
    unconditional_update: bool = True
    create_on_update: bool = False
    # What becomes of dependents where a deletion does not say: "Background", "Orphan", or "" where they never matter.
    propagation: str = "Background"
    returns_deleted: bool = False
    graceful: Callable[[Json, int | None], int] | None = None
    # Between the stored form and that of this version.
    to_wire: Callable[[Json], Json] | None = None
    to_stored: Callable[[Json], Json] | None = None
    columns: tuple[Column, ...] = ()
    custom: bool = False
    # Of custom kinds.
    schema: Json = {}
    # What clients are warned of who use this version.
    deprecation: str = ""

    @property
    def has_plain_status(self) -> bool:
        """Whether its status is of a known type and is stored as it is shown."""
        return self.has_status and bool(self.type) and self.to_wire is None

    @property
    def resource(self) -> Resource:
        return Resource(self.group, self.version, self.plural)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def one(self) -> str:
        return self.singular or self.kind.lower()

    @property
    def table_name(self) -> str:
        return self.table or (f"{self.plural}.{self.group}" if self.group else self.plural)


def decoder(type_name: str) -> Decode:
    convert = fields.converter(type_name)

    def decode(value: Any, old: Json | None, unknown: list[str]) -> Json:
        result: Json = convert(value, old, unknown)
        return result

    return decode


@lru_cache(None)
def status_decoder(type_name: str) -> Decode:
    """Decodes the status of a type alone."""
    return decoder(fields.fields_of(type_name)["status"].type)


def path_selector(*steps: str, empty: str = "") -> Select:
    def select(obj: Json) -> str:
        value: Any = obj
        for step in steps:
            value = value.get(step) if isinstance(value, dict) else None
        if isinstance(value, bool):
            return "true" if value else "false"
        return empty if value is None else str(value)

    return select


def _spec_changed(obj: Json, old: Json) -> bool:
    return obj["spec"] is not old["spec"] and bool(obj["spec"] != old["spec"])


def _webhooks_changed(obj: Json, old: Json) -> bool:
    return obj.get("webhooks") != old.get("webhooks")


_BY_NAME: dict[str, Select] = {"metadata.name": path_selector("metadata", "name")}
_BY_BOTH = {**_BY_NAME, "metadata.namespace": path_selector("metadata", "namespace")}

_POD_FIELDS = {
    **_BY_BOTH,
    "spec.nodeName": path_selector("spec", "nodeName"),
    "spec.restartPolicy": path_selector("spec", "restartPolicy"),
    "spec.schedulerName": path_selector("spec", "schedulerName"),
    "spec.serviceAccountName": path_selector("spec", "serviceAccountName"),
    "spec.hostNetwork": path_selector("spec", "hostNetwork", empty="false"),
    "status.phase": path_selector("status", "phase"),
    "status.podIP": path_selector("status", "podIP"),
    "status.nominatedNodeName": path_selector("status", "nominatedNodeName"),
}
_EVENT_FIELDS = {
    **_BY_BOTH,
    **{
        f"involvedObject.{member}": path_selector("involvedObject", member)
        for member in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
    },
    "reason": path_selector("reason"),
    "reportingComponent": path_selector("reportingComponent"),
    "source": lambda event: event["source"].get("component", "") or event.get("reportingComponent", ""),
    "type": path_selector("type"),
}
_NEW_EVENT_FIELDS = {
    name.replace("involvedObject.", "regarding.").replace("reportingComponent", "reportingController"): select
    for name, select in _EVENT_FIELDS.items()
}

_ALL = ("all",)
_EXTENSIONS = ("api-extensions",)
_RBAC = "rbac.authorization.k8s.io"


def _core(plural: str, kind: str, **rest: Any) -> Kind:
    rest.setdefault("selectable", _BY_BOTH)
    return Kind(group="", version="v1", plural=plural, kind=kind, type=kind, decode=decoder(kind), **rest)


def _grouped(group: str, plural: str, kind: str, **rest: Any) -> Kind:
    rest.setdefault("selectable", _BY_BOTH)
    name = f"{group.partition('.')[0]}.{kind}"
    return Kind(group=group, version="v1", plural=plural, kind=kind, type=name, decode=decoder(name), **rest)


BUILT_IN: tuple[Kind, ...] = (
    _core(
        "configmaps",
        "ConfigMap",
        short_names=("cm",),
        check=others.check_config_map,
        recheck=others.fixed_config_map,
    ),
    _core(
        "events",
        "Event",
        short_names=("ev",),
        check=events.check_core,
        selectable=_EVENT_FIELDS,
        propagation="",
        create_on_update=True,
    ),
    _core(
        "namespaces",
        "Namespace",
        namespaced=False,
        short_names=("ns",),
        has_status=True,
        verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
        name_rule=others.namespace_name,
        default=others.default_namespace,
        prepare=others.prepare_namespace,
        reprepare=others.reprepare_namespace,
        selectable={**_BY_NAME, "status.phase": path_selector("status", "phase")},
    ),
    _core(
        "nodes",
        "Node",
        namespaced=False,
        short_names=("no",),
        has_status=True,
        default=nodes.default,
        reprepare_status=nodes.default,
        check=nodes.check,
        recheck=nodes.recheck,
        recheck_status=nodes.recheck,
        selectable={**_BY_NAME, "spec.unschedulable": path_selector("spec", "unschedulable", empty="false")},
    ),
    _core(
        "pods",
        "Pod",
        short_names=("po",),
        categories=_ALL,
        has_status=True,
        default=pods.default,
        prepare=pods.prepare,
        reprepare_status=pods.prepare_status,
        check=pods.check,
        recheck=pods.recheck,
        recheck_status=pods.recheck_status,
        respecified=_spec_changed,
        selectable=_POD_FIELDS,
        returns_deleted=True,
        graceful=pods.grace,
    ),
    _core(
        "secrets",
        "Secret",
        default=others.default_secret,
        check=others.check_secret,
        recheck=others.fixed_secret,
        selectable={**_BY_BOTH, "type": path_selector("type")},
    ),
    _core(
        "services",
        "Service",
        status_type="ServiceStatus",
        short_names=("svc",),
        categories=_ALL,
        has_status=True,
        name_rule=names.label,
        default=services.default,
        allocate=services.allocate,
        check=services.check,
        recheck=services.fixed,
        selectable={
            **_BY_BOTH,
            "spec.clusterIP": path_selector("spec", "clusterIP"),
            "spec.type": path_selector("spec", "type"),
        },
        create_on_update=True,
        returns_deleted=True,
    ),
    _core("serviceaccounts", "ServiceAccount", short_names=("sa",), returns_deleted=True),
    _grouped("apps", "controllerrevisions", "ControllerRevision"),
    _grouped(
        "apps",
        "daemonsets",
        "DaemonSet",
        status_type="apps.DaemonSetStatus",
        short_names=("ds",),
        categories=_ALL,
        has_status=True,
        default=workloads.default_daemon_set,
        prepare=workloads.prepare_daemon_set,
        reprepare=workloads.reprepare_daemon_set,
        check=workloads.check_daemon_set,
        recheck=workloads.fixed_selector,
        respecified=_spec_changed,
    ),
    _grouped(
        "apps",
        "deployments",
        "Deployment",
        status_type="apps.DeploymentStatus",
        short_names=("deploy",),
        categories=_ALL,
        has_status=True,
        has_scale=True,
        default=workloads.default_deployment,
        check=workloads.check_deployment,
        recheck=workloads.fixed_selector,
        respecified=_spec_changed,
    ),
    _grouped(
        "apps",
        "replicasets",
        "ReplicaSet",
        status_type="apps.ReplicaSetStatus",
        short_names=("rs",),
        categories=_ALL,
        has_status=True,
        has_scale=True,
        default=workloads.default_replica_set,
        check=workloads.check_replica_set,
        recheck=workloads.fixed_selector,
        respecified=_spec_changed,
        selectable={**_BY_BOTH, "status.replicas": path_selector("status", "replicas")},
    ),
    _grouped(
        "apps",
        "statefulsets",
        "StatefulSet",
        status_type="apps.StatefulSetStatus",
        short_names=("sts",),
        categories=_ALL,
        has_status=True,
        has_scale=True,
        default=workloads.default_stateful_set,
        check=workloads.check_stateful_set,
        recheck=workloads.fixed_stateful_set,
        respecified=_spec_changed,
    ),
    _grouped(
        "batch",
        "jobs",
        "Job",
        categories=_ALL,
        has_status=True,
        default=workloads.default_job,
        prepare=workloads.prepare_job,
        check=workloads.check_job,
        recheck=workloads.fixed_job,
        respecified=_spec_changed,
        unconditional_update=False,
        propagation="Orphan",
        selectable={**_BY_BOTH, "status.successful": path_selector("status", "succeeded", empty="0")},
    ),
    _grouped(
        "policy",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        short_names=("pdb",),
        has_status=True,
        name_rule=names.path_segment,
        prepare=budgets.prepare,
        check=budgets.check,
        recheck_status=budgets.check_status,
        respecified=_spec_changed,
        unconditional_update=False,
    ),
    _grouped(
        "coordination.k8s.io",
        "leases",
        "Lease",
        check=others.check_lease,
        create_on_update=True,
        unconditional_update=False,
    ),
    _grouped(
        "events.k8s.io",
        "events",
        "Event",
        short_names=("ev",),
        table="events",
        check=events.check_new,
        recheck=events.recheck_new,
        to_wire=events.to_new,
        to_stored=events.to_core,
        selectable=_NEW_EVENT_FIELDS,
        propagation="",
        create_on_update=True,
    ),
    _grouped(
        "admissionregistration.k8s.io",
        "mutatingwebhookconfigurations",
        "MutatingWebhookConfiguration",
        namespaced=False,
        categories=_EXTENSIONS,
        default=others.default_webhooks,
        check=others.check_webhooks,
        respecified=_webhooks_changed,
        selectable=_BY_NAME,
        unconditional_update=False,
    ),
    _grouped(
        "admissionregistration.k8s.io",
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
        namespaced=False,
        categories=_EXTENSIONS,
        default=others.default_webhooks,
        check=others.check_webhooks,
        respecified=_webhooks_changed,
        selectable=_BY_NAME,
        unconditional_update=False,
    ),
    _grouped(
        _RBAC,
        "clusterroles",
        "ClusterRole",
        namespaced=False,
        name_rule=names.path_segment,
        check=others.check_role,
        selectable=_BY_NAME,
        create_on_update=True,
    ),
    _grouped(
        _RBAC,
        "clusterrolebindings",
        "ClusterRoleBinding",
        namespaced=False,
        name_rule=names.path_segment,
        default=others.default_binding,
        check=others.check_cluster_role_binding,
        recheck=others.fixed_role_ref,
        selectable=_BY_NAME,
        create_on_update=True,
    ),
    _grouped(_RBAC, "roles", "Role", name_rule=names.path_segment, check=others.check_role, create_on_update=True),
    _grouped(
        _RBAC,
        "rolebindings",
        "RoleBinding",
        name_rule=names.path_segment,
        default=others.default_binding,
        check=others.check_role_binding,
        recheck=others.fixed_role_ref,
        create_on_update=True,
    ),
)


class Catalog:
    """The kinds that are served at the moment."""

    def __init__(self, kinds: Iterable[Kind]) -> None:
        self._kinds: dict[Resource, Kind] = {}
        # Grows with each change, for whoever keeps something computed from the kinds.
        self.edition = 0
        for kind in kinds:
            self.add(kind)

    def add(self, kind: Kind) -> None:
        self._kinds[kind.resource] = kind
        self.edition += 1

    def remove(self, resource: Resource) -> None:
        if self._kinds.pop(resource, None):
            self.edition += 1

    def get(self, resource: Resource) -> Kind | None:
        return self._kinds.get(resource)

    def __iter__(self) -> Iterator[Kind]:
        return iter(self._kinds.values())
