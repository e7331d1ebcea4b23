"""Paths, media types, discovery, and the answers to malformed requests."""

from __future__ import annotations

from typing import Any

from tests.contract.build import config_map, deployment, named, node, pdb, pod, service, widget
from tests.contract.registry import case, each
from tests.contract.world import CRDS, DEPLOYMENTS, LEASES, PDBS, WIDGETS, World

Json = dict[str, Any]
META = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
META_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
ROWS = "application/json;as=Table;g=meta.k8s.io;v=v1"
OURS = {"", "apps", "batch", "policy", "coordination.k8s.io", "events.k8s.io", "apiextensions.k8s.io", "contract.test"}


@case
def metadata_only_of_one(w: World) -> None:
    w.create("pods", pod())
    w.ask("GET", w.path("pods", "a"), accept=META, show="*")
    w.create(WIDGETS, widget())
    w.ask("GET", w.path(WIDGETS, "a"), accept=META, show="*")


@case
def metadata_only_of_many(w: World) -> None:
    w.create("configmaps", config_map(a="1"))
    w.list("configmaps", accept=META_LIST, show="*")
    w.list("configmaps", accept=f"{META_LIST},application/json", show="kind")


@case
def metadata_only_in_a_wrong_way(w: World) -> None:
    w.create("configmaps", config_map())
    w.list("configmaps", accept=META, show="kind")
    w.ask("GET", w.path("configmaps", "a"), accept=META_LIST, show="kind")
    w.create(WIDGETS, widget())
    w.list(WIDGETS, accept=META, show="kind")
    w.create(DEPLOYMENTS, deployment())
    w.ask("GET", w.path(DEPLOYMENTS, "a"), accept=META_LIST, show="kind")


@case
def metadata_only_after_a_write(w: World) -> None:
    w.ask("POST", w.path("configmaps"), config_map(a="1"), accept=META, show="*")
    w.ask(
        "PATCH",
        w.path("configmaps", "a"),
        {"data": {"a": "2"}},
        accept=META,
        content_type="application/merge-patch+json",
        show="*",
    )


def published(number: int, **spec: Any) -> Json:
    """Return a Service with this port on every node."""
    return named("a", spec={"ports": [{"port": 80, "protocol": "UDP", "nodePort": number}], **spec})


@each(
    {
        "pods": ("pods", pod()),
        "configmaps": ("configmaps", config_map()),
        "deployments": (DEPLOYMENTS, deployment()),
        "pdbs": (PDBS, pdb(minAvailable=1)),
        "leases": (LEASES, {"metadata": {"name": "a"}, "spec": {"holderIdentity": "me"}}),
        "services": ("services", service(80, 443)),
        "services-headless": ("services", named("a", spec={"clusterIP": "None"})),
        "services-external": ("services", named("a", spec={"type": "ExternalName", "externalName": "example.test"})),
        # These node ports are not among those that the real server assigns at random in other cases.
        "services-nodeport": ("services", published(30080, type="NodePort")),
        "services-balanced": ("services", published(30081, type="LoadBalancer")),
    }
)
def table(w: World, given: tuple[str, Json]) -> None:
    resource, body = given
    w.create(resource, body)
    shown = "kind apiVersion columnDefinitions[].name columnDefinitions[].type columnDefinitions[].priority rows[].object.kind"
    answer = w.list(resource, accept=ROWS, show=shown)
    # The age runs.
    names = [column["name"] for column in answer.body.get("columnDefinitions", [])]
    rows = answer.body.get("rows", [])
    w.note(
        "cells", [dict(sorted((n, c) for n, c in zip(names, row["cells"], strict=True) if n != "Age")) for row in rows]
    )


@case
def table_of_a_node(w: World) -> None:
    body = node(w.ns, unschedulable=True)
    body["metadata"]["labels"] = {"node-role.kubernetes.io/worker": ""}
    w.create("nodes", body)
    answer = w.ask("GET", w.path("nodes", w.ns), accept=ROWS, show="kind columnDefinitions[].name")
    w.note("cells", answer.body["rows"][0]["cells"][:3])


@case
def table_without_objects(w: World) -> None:
    w.create("configmaps", config_map())
    w.list("configmaps", accept=ROWS, includeObject="None", show="rows[].object")
    w.list("configmaps", accept=ROWS, includeObject="Object", show="rows[].object.kind rows[].object.apiVersion")
    w.list("configmaps", accept=ROWS, includeObject="Sometimes")
    w.ask("GET", w.path("configmaps", "none"), accept=ROWS)


@case
def accept_of_what_is_not_offered(w: World) -> None:
    w.list("configmaps", accept="text/html")
    w.list("configmaps", accept="*/*", show="kind")
    w.list("configmaps", accept="text/html, application/json;q=0.5", show="kind")
    w.list(WIDGETS, accept="text/html")


@case
def body_of_a_wrong_type(w: World) -> None:
    w.ask("POST", w.path("configmaps"), config_map(), content_type="text/plain")
    w.ask(
        "POST", w.path("configmaps"), config_map(), content_type="application/json; charset=utf-8", show="metadata.name"
    )
    w.ask("POST", w.path(WIDGETS), widget(), content_type="text/plain")


@case
def body_in_yaml(w: World) -> None:
    w.ask(
        "POST", w.path("configmaps"), b"metadata:\n  name: a\n", content_type="application/yaml", show="metadata.name"
    )


@each({"configmaps": "configmaps", "widgets": WIDGETS, "deployments": DEPLOYMENTS})
def body_that_is_no_json(w: World, resource: str) -> None:
    w.ask("POST", w.path(resource), b"{not json")
    w.ask("POST", w.path(resource), b"[]")
    w.ask("POST", w.path(resource), b"")
    w.ask("POST", w.path(resource), b"null")


@case
def body_of_wrong_types(w: World) -> None:
    w.create("configmaps", {"metadata": {"name": "a"}, "data": []})
    w.create("configmaps", {"metadata": []})
    w.create("pods", {"metadata": {"name": "a"}, "spec": {"containers": {}}})
    w.create(DEPLOYMENTS, {"metadata": {"name": "a"}, "spec": {"replicas": "two"}})
    w.create(PDBS, pdb(minAvailable=[1]))
    w.create(LEASES, {"metadata": {"name": "a"}, "spec": {"renewTime": "now"}})
    w.create(WIDGETS, {**widget(), "metadata": []})


@case
def body_that_is_too_large(w: World) -> None:
    w.create("configmaps", config_map(a="x" * (1024 * 1024 + 1)))
    w.create("secrets", {"metadata": {"name": "a"}, "stringData": {"a": "x" * (1024 * 1024 + 1)}})
    w.create("configmaps", {"metadata": {"name": "a"}, "data": {"a": "x" * (3 * 1024 * 1024)}})


@case
def paths_that_lead_nowhere(w: World) -> None:
    for path in (
        "/nonsense",
        "/api/v2",
        "/api/v1/nonsense",
        "/apis/nonsense",
        "/apis/nonsense/v1/x",
        "/apis/apps/v2/deployments",
        "/apis/apps/v1/nonsense",
        "/apis/contract.test/v1/nonsense",
        "/apis/contract.test/v9/widgets",
        "/api/v1/namespaces/default/nodes",
        "/api/v1/configmaps/a",
        "/apis/contract.test/v1/widgets/a",
        "/api/v1/nodes/",
    ):
        w.ask("GET", path)


@case
def methods_that_are_not_there(w: World) -> None:
    w.ask("PUT", w.path("configmaps"), {})
    w.ask("POST", w.path("configmaps", "a"), config_map())
    w.ask("PATCH", w.path("configmaps"), {}, content_type="application/merge-patch+json")
    w.ask("PUT", w.path(WIDGETS), {})
    w.ask("POST", w.path(WIDGETS, "a"), {})
    w.ask("POST", w.path(WIDGETS, "a"), widget("b"), show="metadata.name")
    w.ask("POST", "/api/v1/configmaps", config_map())
    w.ask("DELETE", "/api/v1/configmaps")
    w.ask("DELETE", "/version")
    w.ask("DELETE", "/api/v1")
    w.ask("POST", "/api/v1/componentstatuses", {})


@case
def version_document(w: World) -> None:
    answer = w.ask("GET", "/version")
    w.note("kinds of values", {key: type(value).__name__ for key, value in sorted(answer.body.items())})
    w.note("major", answer.body.get("major"))


@case
def health(w: World) -> None:
    for path in ("/healthz", "/livez", "/readyz"):
        w.ask("GET", path, show="*")


@case
def discovery_of_the_core(w: World) -> None:
    w.ask("GET", "/api", show="kind versions")
    resources = {one["name"]: one for one in w.ask("GET", "/api/v1", show="kind groupVersion").body["resources"]}
    ours = ("nodes", "nodes/status", "pods", "pods/eviction", "pods/binding", "pods/status", "pods/log", "namespaces")
    more = (
        "namespaces/finalize",
        "namespaces/status",
        "configmaps",
        "secrets",
        "serviceaccounts",
        "services",
        "services/status",
        "events",
        "bindings",
    )
    for name in (*ours, *more):
        shown = {key: value for key, value in resources.get(name, {}).items() if key != "storageVersionHash"}
        w.note(name, shown)


@each(
    {
        "apps": "apps/v1",
        "batch": "batch/v1",
        "policy": "policy/v1",
        "leases": "coordination.k8s.io/v1",
        "events": "events.k8s.io/v1",
        "crds": "apiextensions.k8s.io/v1",
        "widgets": "contract.test/v1",
        "webhooks": "admissionregistration.k8s.io/v1",
        "reviews": "authorization.k8s.io/v1",
    }
)
def discovery_of_a_group(w: World, group_version: str) -> None:
    group = group_version.partition("/")[0]
    found = w.ask("GET", f"/apis/{group}", show="kind name").body
    served = [one["groupVersion"] for one in found.get("versions", [])]
    w.note("serves it", group_version in served)
    w.note("prefers", found.get("preferredVersion", {}).get("groupVersion"))
    resources = w.ask("GET", f"/apis/{group_version}", show="kind groupVersion apiVersion").body["resources"]
    ignored = ("controllerrevisions", "cronjobs", "validatingadmission", "mutatingadmission")
    for one in sorted(resources, key=lambda found: str(found["name"])):
        if not one["name"].startswith(ignored):
            w.note(one["name"], {key: value for key, value in one.items() if key != "storageVersionHash"})


@case
def discovery_of_groups(w: World) -> None:
    groups = {group["name"]: group for group in w.ask("GET", "/apis", show="kind apiVersion").body["groups"]}
    for name in sorted(OURS - {""}):
        w.note(name, groups.get(name, {}).get("preferredVersion"))


@case
def discovery_all_at_once(w: World) -> None:
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
    for path in ("/api", "/apis"):
        answer = w.ask("GET", path, accept=accept, show="kind apiVersion")
        for group in answer.body.get("items", []):
            for version in group["versions"]:
                for one in version["resources"]:
                    if one["resource"] in {"pods", "nodes", "widgets", "deployments", "poddisruptionbudgets"}:
                        w.note(f"{version['version']} {one['resource']}", one)


@case
def discovery_of_short_names(w: World) -> None:
    resources = w.ask("GET", "/apis/contract.test/v1", show="kind").body["resources"]
    w.note(
        "short names",
        {one["name"]: [one.get("shortNames"), one.get("categories"), one["singularName"]] for one in resources},
    )


@case
def openapi_documents_exist(w: World) -> None:
    w.ask("GET", "/openapi/v3")
    w.ask("GET", "/openapi/v3/apis/apps/v1")


@each(
    {
        "self": ("selfsubjectaccessreviews", {}),
        "other-user": ("subjectaccessreviews", {"user": "nobody-in-particular"}),
        "master": ("subjectaccessreviews", {"user": "x", "groups": ["system:masters"]}),
    }
)
def access_review(w: World, given: tuple[str, Json]) -> None:
    plural, who = given
    attributes = {"verb": "patch", "resource": "nodes", "name": "a"}
    kind = "SelfSubjectAccessReview" if plural.startswith("self") else "SubjectAccessReview"
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": {**who, "resourceAttributes": attributes}}
    w.ask("POST", f"/apis/authorization.k8s.io/v1/{plural}", body, show="kind apiVersion status.allowed spec")


@case
def access_review_that_is_invalid(w: World) -> None:
    kind = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    w.ask("POST", path, {**kind, "spec": {"resourceAttributes": {"verb": "get"}}})
    w.ask("POST", path, {**kind, "spec": {"user": "x"}})
    w.ask("GET", path)
    own = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
    w.ask("POST", path.replace("subject", "selfsubject"), {**own, "spec": {}})
    both = {"resourceAttributes": {"verb": "get"}, "nonResourceAttributes": {"verb": "get", "path": "/"}}
    w.ask("POST", path, {**kind, "spec": both})


@case
def without_credentials(w: World) -> None:
    w.ask("GET", w.path("configmaps"), token="nonsense")


@case
def pretty_print_and_unknown_parameters(w: World) -> None:
    w.list("configmaps", pretty="true", show="kind")
    w.list("configmaps", nonsense="true", show="kind")
    w.list("configmaps", timeoutSeconds="soon")


@case
def crd_table(w: World) -> None:
    answer = w.ask("GET", w.path(CRDS, "widgets.contract.test"), accept=ROWS, show="kind columnDefinitions[].name")
    w.note("cells", answer.body["rows"][0]["cells"][:1])
