"""How the API server is told to ask Haulout: the registrations of the surfaces' webhooks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from haulout.manifests.documents import MANAGED, POD_LABELS, Json

SERVICE, SECRET = "haulout-webhook", "haulout-webhook-cert"
PORT = 9443

# Names, paths and answers are the originals', so that ours take their places.
WEBHOOKS: dict[str, tuple[str, Json]] = {
    "nodemaintenance": (
        "node-maintenance-operator-validating-webhook-configuration",
        {
            "name": "vnodemaintenance.kb.io",
            "path": "/validate-nodemaintenance-medik8s-io-v1beta1-nodemaintenance",
            "rules": [
                {
                    "apiGroups": ["nodemaintenance.medik8s.io"],
                    "apiVersions": ["v1beta1"],
                    "operations": ["CREATE", "UPDATE"],
                    "resources": ["nodemaintenances"],
                }
            ],
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 15,
        },
    )
}


def registrations(
    surfaces: Iterable[str], namespace: str, service: str = SERVICE, url: str = "", certificates: str = "self"
) -> list[Json]:
    chosen = [WEBHOOKS[name] for name in surfaces if name in WEBHOOKS]
    if not chosen:
        return []
    documents = [_registration(name, hook, namespace, service, url, certificates) for name, hook in chosen]
    return [*_surroundings(namespace, service, url, certificates), *documents]


def _surroundings(namespace: str, service: str, url: str, certificates: str) -> Iterator[Json]:
    meta: Json = {"name": service, "namespace": namespace, "labels": MANAGED}
    if not url:
        ports = [{"name": "webhooks", "port": 443, "targetPort": PORT, "protocol": "TCP"}]
        yield {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": meta,
            "spec": {"selector": POD_LABELS, "ports": ports},
        }
    if certificates == "cert-manager":
        version = "cert-manager.io/v1"
        yield {"apiVersion": version, "kind": "Issuer", "metadata": meta, "spec": {"selfSigned": {}}}
        yield {
            "apiVersion": version,
            "kind": "Certificate",
            "metadata": {**meta, "name": SECRET},
            "spec": {
                "secretName": SECRET,
                "dnsNames": [f"{service}.{namespace}.svc", f"{service}.{namespace}.svc.cluster.local"],
                "issuerRef": {"kind": "Issuer", "name": service},
                "privateKey": {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always"},
            },
        }


def _registration(name: str, hook: Json, namespace: str, service: str, url: str, certificates: str) -> Json:
    path = hook["path"]
    where = {"service": {"name": service, "namespace": namespace, "path": path, "port": 443}}
    client = {"url": f"{url.rstrip('/')}{path}"} if url else where
    meta: Json = {"name": name, "labels": MANAGED}
    if certificates == "cert-manager":
        meta["annotations"] = {"cert-manager.io/inject-ca-from": f"{namespace}/{SECRET}"}
    rest = {key: value for key, value in hook.items() if key not in ("name", "path")}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": meta,
        "webhooks": [{"name": hook["name"], "clientConfig": client, **rest}],
    }
