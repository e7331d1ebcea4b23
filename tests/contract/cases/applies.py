"""Server-side apply: what it writes, who manages which field then, and conflicts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.contract.build import SELECTOR, config_map, container, deployment, service, template, widget
from tests.contract.registry import case, each
from tests.contract.world import DEPLOYMENTS, LEASES, PDBS, WIDGETS, World

Json = dict[str, Any]

# Annotations of Deployments are left out: the real controller writes them at its own pace.
SHOWN = "spec data rules metadata.labels metadata.finalizers"
ROLES = "rbac.authorization.k8s.io/v1/roles"
KINDS = {
    "configmaps": ("v1", "ConfigMap"),
    "services": ("v1", "Service"),
    "serviceaccounts": ("v1", "ServiceAccount"),
    DEPLOYMENTS: ("apps/v1", "Deployment"),
    LEASES: ("coordination.k8s.io/v1", "Lease"),
    PDBS: ("policy/v1", "PodDisruptionBudget"),
    ROLES: ("rbac.authorization.k8s.io/v1", "Role"),
    WIDGETS: ("contract.test/v1", "Widget"),
}


def typed(resource: str, body: Json) -> Json:
    api_version, kind = KINDS[resource]
    return {"apiVersion": api_version, "kind": kind, **body}


def apply(w: World, resource: str, body: Json, *, by: str = "me", sub: str | None = None, **query: str) -> None:
    """Apply an object, and note which fields each manager has then."""
    name = body["metadata"]["name"]
    w.patch(resource, name, typed(resource, body), sub, kind="apply", show=SHOWN, fieldManager=by, **query)
    managers(w, resource, name)


def managers(w: World, resource: str, name: str) -> None:
    entries = (w.peek(resource, name).get("metadata") or {}).get("managedFields") or []
    noted = [
        [each["manager"], each["operation"], each.get("subresource", ""), sorted(leaves(each["fieldsV1"]))]
        for each in entries
        if each["manager"] != "kube-controller-manager"
    ]
    w.note(f"managers of {name}", sorted(each for each in noted if each[-1]))


def leaves(fields: Json, path: str = "") -> Iterator[str]:
    """Yield the fields of a FieldsV1 that have no members. That a map itself belongs to a manager is left out."""
    members = {name: inner for name, inner in fields.items() if name != "."}
    if path and not members and ("." not in fields or path.rpartition(" ")[2][0] != "f"):
        yield path
    for name, inner in members.items():
        yield from leaves(inner, f"{path} {name}")


@case
def apply_creates_and_goes_on(w: World) -> None:
    apply(w, "configmaps", config_map(a="1", b="2", labels={"app": "a"}))
    apply(w, "configmaps", config_map(a="1", b="2", labels={"app": "a"}))
    apply(w, "configmaps", config_map(a="2"))
    w.get("configmaps", "a")


@case
def apply_beside_an_update(w: World) -> None:
    w.create("configmaps", config_map(a="1", b="1", c="1"), fieldManager="creator")
    managers(w, "configmaps", "a")
    apply(w, "configmaps", config_map(a="1"))
    apply(w, "configmaps", config_map(a="2"))
    apply(w, "configmaps", config_map(a="2", b="2"))
    apply(w, "configmaps", config_map(a="2", b="2"), force="true")
    apply(w, "configmaps", config_map(b="2"))
    w.get("configmaps", "a")


@case
def update_after_an_apply(w: World) -> None:
    apply(w, "configmaps", config_map(a="1", b="1"))
    w.patch("configmaps", "a", {"data": {"b": "2", "c": "3"}}, fieldManager="other", show="data")
    managers(w, "configmaps", "a")
    apply(w, "configmaps", config_map(a="1"))
    apply(w, "configmaps", config_map(a="1", b="1"))
    w.patch("configmaps", "a", {"data": {"b": None}}, fieldManager="other", show="data")
    managers(w, "configmaps", "a")
    w.replace("configmaps", config_map(z="1"), fieldManager="third", show="data")
    managers(w, "configmaps", "a")


@case
def two_who_apply(w: World) -> None:
    apply(w, "configmaps", config_map(a="1", b="1"), by="one")
    apply(w, "configmaps", config_map(a="1", c="1"), by="two")
    apply(w, "configmaps", config_map(a="2", b="1"), by="one")
    apply(w, "configmaps", config_map(b="1"), by="one")
    apply(w, "configmaps", config_map(c="1"), by="two")
    apply(w, "configmaps", config_map(b="2"), by="three")
    apply(w, "configmaps", config_map(b="2", c="2"), by="three", force="true")
    w.get("configmaps", "a")


@case
def apply_of_a_deployment(w: World) -> None:
    env = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    ports = [{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}]
    side = container("side")

    def body(*containers: Json, **spec: Any) -> Json:
        return deployment(template=template(containers=[*containers], **spec))

    apply(w, DEPLOYMENTS, body(container(env=env, ports=ports), side, nodeSelector={"a": "b", "c": "d"}))
    apply(w, DEPLOYMENTS, body(container(env=env[1:], ports=ports[:1]), nodeSelector={"a": "b"}))
    apply(w, DEPLOYMENTS, body(side, container(env=[*env, {"name": "C", "value": "3"}])))
    mine: Json = {
        "metadata": {"name": "a"},
        "spec": {"template": {"spec": {"containers": [{"name": "main", "image": "x"}]}}},
    }
    apply(w, DEPLOYMENTS, mine, by="other")
    apply(w, DEPLOYMENTS, mine, by="other", force="true")
    apply(w, DEPLOYMENTS, {"metadata": {"name": "a"}}, by="other")


@case
def apply_of_services_and_roles(w: World) -> None:
    apply(w, "services", service(80, 81))
    apply(w, "services", service(80))
    w.patch("services", "a", {"spec": {"selector": {"other": "x"}}}, fieldManager="other")
    apply(w, "services", service(80))
    apply(w, "services", service(80), force="true")
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    apply(w, ROLES, {"metadata": {"name": "a"}, "rules": rules})
    w.patch(ROLES, "a", {"rules": [*rules, *rules]}, fieldManager="other")
    apply(w, ROLES, {"metadata": {"name": "a"}, "rules": rules})


@case
def apply_of_a_budget(w: World) -> None:
    apply(w, PDBS, {"metadata": {"name": "a"}, "spec": {"minAvailable": 1, "selector": SELECTOR}})
    # A selector is one value.
    other = {"matchLabels": {"app": "b"}}
    w.patch(PDBS, "a", {"spec": {"selector": other}}, fieldManager="other")
    apply(w, PDBS, {"metadata": {"name": "a"}, "spec": {"minAvailable": 1, "selector": SELECTOR}})


@case
def apply_of_a_custom_object(w: World) -> None:
    apply(w, WIDGETS, widget())
    apply(w, WIDGETS, widget("a"), by="two")
    apply(w, WIDGETS, {"metadata": {"name": "a", "labels": {"x": "y"}}})
    managers(w, WIDGETS, "a")


@case
def apply_of_metadata(w: World) -> None:
    meta: Json = {"name": "a", "finalizers": ["a.test/a"], "annotations": {"a.test/a": "1"}}
    apply(w, "configmaps", {"metadata": meta})
    apply(w, "configmaps", {"metadata": {**meta, "finalizers": ["a.test/b"]}}, by="two")
    apply(w, "configmaps", {"metadata": {"name": "a"}})
    apply(w, "configmaps", {"metadata": {"name": "a"}}, by="two")


@each(
    {
        "no-manager": ({}, {}),
        "managed-fields": ({"metadata": {"name": "a", "managedFields": [{"manager": "x"}]}}, {"fieldManager": "me"}),
        "another-name": ({"metadata": {"name": "b"}}, {"fieldManager": "me"}),
        "another-namespace": ({"metadata": {"name": "a", "namespace": "other"}}, {"fieldManager": "me"}),
        "dry-run": ({"metadata": {"name": "a"}, "data": {"a": "2"}}, {"fieldManager": "me", "dryRun": "All"}),
        "old-version": ({"metadata": {"name": "a", "resourceVersion": "1"}}, {"fieldManager": "me"}),
        "unknown-field": ({"metadata": {"name": "a"}, "extra": 1}, {"fieldManager": "me", "fieldValidation": "Strict"}),
    }
)
def apply_with(w: World, value: tuple[Json, dict[str, str]]) -> None:
    body, query = value
    for _ in range(2):
        sent = typed("configmaps", {"metadata": {"name": "a"}, **body})
        w.patch("configmaps", "a", sent, kind="apply", show="data", **query)
        w.create("configmaps", config_map(a="1"))


@case
def apply_of_yaml(w: World) -> None:
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  a: '1'\n"
    w.patch("configmaps", "a", text, kind="apply", show="data", fieldManager="me")
    managers(w, "configmaps", "a")


@case
def kubectl_goes_over_to_server_side_apply(w: World) -> None:
    """kubectl renames its own entry, so that fields which it wrote before are its own."""
    w.create("configmaps", config_map(a="1", b="1"), fieldManager="kubectl-client-side-apply")
    entry = w.peek("configmaps", "a")["metadata"]["managedFields"][0]
    renamed = {**entry, "manager": "kubectl", "operation": "Apply"}
    operations = [{"op": "replace", "path": "/metadata/managedFields", "value": [renamed]}]
    w.patch("configmaps", "a", operations, kind="json", show="data", fieldManager="kubectl")
    managers(w, "configmaps", "a")
    apply(w, "configmaps", config_map(a="2"), by="kubectl")


@case
def apply_of_a_status(w: World) -> None:
    apply(w, LEASES, {"metadata": {"name": "a"}, "spec": {"holderIdentity": "me"}})
    apply(w, WIDGETS, widget())
    status = {"metadata": {"name": "a"}, "status": {"phase": "Ready"}}
    apply(w, WIDGETS, status, by="two", sub="status")
    apply(w, WIDGETS, status)
    w.patch(WIDGETS, "a", {"status": {"phase": "Gone"}}, "status", fieldManager="three")
    apply(w, WIDGETS, status, by="two", sub="status")


@case
def apply_of_a_list_with_another_order(w: World) -> None:
    names = ("a", "b", "c")
    containers = {name: container(name) for name in (*names, "x", "y")}

    def body(*names: str) -> Json:
        return deployment(template=template(containers=[containers[name] for name in names]))

    apply(w, DEPLOYMENTS, body("a", "b"), by="one")
    apply(w, DEPLOYMENTS, body("x", "b", "y"), by="two")
    apply(w, DEPLOYMENTS, body("b", "c", "a"), by="one")


@case
def apply_of_wrong_kinds(w: World) -> None:
    for body in (
        {"kind": "ConfigMap", "metadata": {"name": "a"}},
        {"apiVersion": "v1", "metadata": {"name": "a"}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "x": 1},
        {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1"}},
    ):
        w.patch("configmaps", "a", body, kind="apply", fieldManager="me", show="data")
    w.patch(WIDGETS, "a", {"kind": "Widget", "metadata": {"name": "a"}}, kind="apply", fieldManager="me")
    w.patch("configmaps", "a", b"[1, 2]", kind="apply", fieldManager="me")
    w.patch("configmaps", "a", b"{no", kind="apply", fieldManager="me")
    w.patch("configmaps", "a", {"metadata": {"name": "a"}}, "nothing", kind="apply", fieldManager="me")
