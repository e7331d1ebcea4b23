"""One-line builders of objects for requests."""

from __future__ import annotations

from typing import Any

import yaml

from haulout.surfaces.registry import definition as definition_text

Json = dict[str, Any]


def is_active(body: Json) -> bool:
    return bool(body["status"]["phase"] == "Active")


def named(name: str, **fields: Any) -> Json:
    return {"metadata": {"name": name}, **fields}


def config_map(name: str = "a", *, labels: Json | None = None, **data: str) -> Json:
    return {"metadata": {"name": name, **({"labels": labels} if labels else {})}, "data": data}


def container(name: str = "main", **fields: Any) -> Json:
    return {"name": name, "image": "example.test/app:1", **fields}


def pod(name: str = "a", *, node: str = "", labels: Json | None = None, meta: Json | None = None, **spec: Any) -> Json:
    return {
        "metadata": {"name": name, "labels": labels or {"app": "a"}, **(meta or {})},
        "spec": {"containers": [container()], **({"nodeName": node} if node else {}), **spec},
    }


def template(**spec: Any) -> Json:
    return {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [container()], **spec}}


SELECTOR: Json = {"matchLabels": {"app": "a"}}


def deployment(name: str = "a", replicas: int = 0, **spec: Any) -> Json:
    return named(name, spec={"replicas": replicas, "selector": SELECTOR, "template": template(), **spec})


def replica_set(name: str = "a", replicas: int = 0, **spec: Any) -> Json:
    return named(name, spec={"replicas": replicas, "selector": SELECTOR, "template": template(), **spec})


def service(*ports: int, **spec: Any) -> Json:
    """Return a Service whose ports have the names p0, p1 and so on."""
    made = [{"name": f"p{number}", "port": port} for number, port in enumerate(ports)]
    return named("a", spec={"selector": {"app": "a"}, "ports": made, **spec})


def stateful_set(name: str = "a", replicas: int = 0, **spec: Any) -> Json:
    return named(
        name, spec={"replicas": replicas, "serviceName": "s", "selector": SELECTOR, "template": template(), **spec}
    )


def daemon_set(name: str = "a", **spec: Any) -> Json:
    return named(name, spec={"selector": SELECTOR, "template": template(nodeSelector={"no": "node"}), **spec})


def job(name: str = "a", **spec: Any) -> Json:
    return named(name, spec={"template": template(restartPolicy="Never"), "suspend": True, **spec})


def pdb(name: str = "a", **spec: Any) -> Json:
    return named(name, spec={"selector": SELECTOR, **spec})


def lease(name: str = "a", **spec: Any) -> Json:
    return named(name, spec={"holderIdentity": "me", "leaseDurationSeconds": 15, **spec})


def node(name: str, **spec: Any) -> Json:
    return named(name, spec=spec)


def owner(kind: str, api: str, name: str, uid: str, **flags: Any) -> Json:
    return {"apiVersion": api, "kind": kind, "name": name, "uid": uid, **flags}


def ready_pod(ready: bool = True) -> Json:
    """Return a patch of a pod's status."""
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    return {"status": {"phase": "Running", "conditions": [condition]}}


def crd(group: str, plural: str, kind: str, schema: Json, *, scope: str = "Namespaced", **version: Any) -> Json:
    return {
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"plural": plural, "kind": kind},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": schema}},
                    **version,
                }
            ],
        },
    }


WIDGET_SPEC: Json = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 10},
        "colour": {"type": "string", "enum": ["red", "green"], "default": "red"},
        "code": {"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 5},
        "amount": {"x-kubernetes-int-or-string": True},
        "maybe": {"type": "string", "nullable": True},
        "never": {"type": "string"},
        "ratio": {"type": "number"},
        "on": {"type": "boolean"},
        "at": {"type": "string", "format": "date-time"},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
        "steps": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string"}, "times": {"type": "integer", "default": 1}},
            },
        },
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "extra": {"type": "object", "additionalProperties": {"type": "string"}},
        "some": {"type": "array", "minItems": 1, "items": {"type": "string"}},
        "keyed": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}},
        },
        "unique": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "either": {
            "type": "object",
            "properties": {"x": {"type": "string"}, "y": {"type": "string"}},
            "oneOf": [{"required": ["x"]}, {"required": ["y"]}],
        },
        "nested": {
            "type": "object",
            "default": {},
            "properties": {"depth": {"type": "integer", "default": 3}, "label": {"type": "string"}},
        },
    },
}
STATUS: Json = {
    "type": "object",
    "properties": {"phase": {"type": "string"}, "replicas": {"type": "integer"}, "selector": {"type": "string"}},
}

WIDGET_CRD = crd(
    "contract.test",
    "widgets",
    "Widget",
    {"spec": WIDGET_SPEC, "status": STATUS},
    subresources={
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.size",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        },
    },
    additionalPrinterColumns=[
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Phase", "type": "string", "jsonPath": ".status.phase", "description": "where it stands"},
        {"name": "Code", "type": "string", "jsonPath": ".spec.code", "priority": 1},
        {"name": "Tags", "type": "string", "jsonPath": ".spec.tags", "priority": 1},
        {"name": "Nested", "type": "string", "jsonPath": ".spec.nested", "priority": 1},
        {"name": "On", "type": "string", "jsonPath": ".spec.on", "priority": 1},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ],
)
WIDGET_CRD["spec"]["names"].update(shortNames=["wd"], categories=["all"], singular="widget")

RACK_CRD = crd("contract.test", "racks", "Rack", {"spec": {"type": "object"}}, scope="Cluster")

# A definition with two versions, without a status subresource, and with a conversion of the version's name only.
GADGET_CRD = crd(
    "contract.test",
    "gadgets",
    "Gadget",
    {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}, "status": STATUS},
)
GADGET_CRD["spec"]["versions"].insert(
    0,
    {
        "name": "v1alpha1",
        "served": True,
        "storage": False,
        "deprecated": True,
        "schema": GADGET_CRD["spec"]["versions"][0]["schema"],
    },
)

SKYHOOK_CRD, POLICY_CRD = (yaml.safe_load(definition_text(name)) for name in ("skyhooks", "deploymentpolicies"))

SHARED_CRDS = (WIDGET_CRD, RACK_CRD, GADGET_CRD, SKYHOOK_CRD, POLICY_CRD)


def widget(name: str = "a", size: Any = 3, **spec: Any) -> Json:
    return {
        "apiVersion": "contract.test/v1",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": {"size": size, **spec},
    }
