"""The built-in kinds of the embedded API server, each with its rules."""

from __future__ import annotations

from typing import Any

from haulout.embedded.interfaces import Json
from haulout.embedded.rules import budgets, events, metadata, nodes, pods, services, small_kinds, workloads
from haulout.embedded.store.kinds import Kind, Select, decoder, path_selector, status_decoder


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
    return _built_in("", plural, kind, kind, **rest)


def _grouped(group: str, plural: str, kind: str, **rest: Any) -> Kind:
    return _built_in(group, plural, kind, f"{group.partition('.')[0]}.{kind}", **rest)


def _built_in(group: str, plural: str, kind: str, type_name: str, **rest: Any) -> Kind:
    rest.setdefault("selectable", _BY_BOTH)
    if rest.get("has_status"):
        rest["decode_status"] = status_decoder(type_name)
    return Kind(group=group, version="v1", plural=plural, kind=kind, type=type_name, decode=decoder(type_name), **rest)


BUILT_IN: tuple[Kind, ...] = (
    _core(
        "configmaps",
        "ConfigMap",
        short_names=("cm",),
        check=small_kinds.check_config_map,
        recheck=small_kinds.fixed_config_map,
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
        name_rule=small_kinds.namespace_name,
        default=small_kinds.default_namespace,
        prepare=small_kinds.prepare_namespace,
        reprepare=small_kinds.reprepare_namespace,
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
        default=small_kinds.default_secret,
        check=small_kinds.check_secret,
        recheck=small_kinds.fixed_secret,
        selectable={**_BY_BOTH, "type": path_selector("type")},
    ),
    _core(
        "services",
        "Service",
        status_type="ServiceStatus",
        short_names=("svc",),
        categories=_ALL,
        has_status=True,
        name_rule=metadata.label,
        default=services.default,
        allocate=services.allocate,
        check=services.check,
        recheck=services.changed_fixed_fields,
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
        name_rule=metadata.path_segment,
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
        check=small_kinds.check_lease,
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
        default=small_kinds.default_webhooks,
        check=small_kinds.check_webhooks,
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
        default=small_kinds.default_webhooks,
        check=small_kinds.check_webhooks,
        respecified=_webhooks_changed,
        selectable=_BY_NAME,
        unconditional_update=False,
    ),
    # They are stored, so that an installation can be applied, but not evaluated.
    _grouped(
        "admissionregistration.k8s.io",
        "validatingadmissionpolicies",
        "ValidatingAdmissionPolicy",
        namespaced=False,
        categories=_EXTENSIONS,
        selectable=_BY_NAME,
    ),
    _grouped(
        "admissionregistration.k8s.io",
        "validatingadmissionpolicybindings",
        "ValidatingAdmissionPolicyBinding",
        namespaced=False,
        categories=_EXTENSIONS,
        selectable=_BY_NAME,
    ),
    _grouped(
        _RBAC,
        "clusterroles",
        "ClusterRole",
        namespaced=False,
        name_rule=metadata.path_segment,
        check=small_kinds.check_role,
        selectable=_BY_NAME,
        create_on_update=True,
    ),
    _grouped(
        _RBAC,
        "clusterrolebindings",
        "ClusterRoleBinding",
        namespaced=False,
        name_rule=metadata.path_segment,
        default=small_kinds.default_binding,
        check=small_kinds.check_cluster_role_binding,
        recheck=small_kinds.fixed_role_ref,
        selectable=_BY_NAME,
        create_on_update=True,
    ),
    _grouped(
        _RBAC, "roles", "Role", name_rule=metadata.path_segment, check=small_kinds.check_role, create_on_update=True
    ),
    _grouped(
        _RBAC,
        "rolebindings",
        "RoleBinding",
        name_rule=metadata.path_segment,
        default=small_kinds.default_binding,
        check=small_kinds.check_role_binding,
        recheck=small_kinds.fixed_role_ref,
        create_on_update=True,
    ),
)
