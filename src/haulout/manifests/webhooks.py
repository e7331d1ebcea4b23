"""Makes the webhook configurations by which the API server calls the surfaces' webhooks, and their Service."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from haulout.core.surface import Registration
from haulout.manifests.documents import MANAGED, POD_LABELS, Json
from haulout.surfaces.registry import surface

SERVICE, SECRET = "haulout-webhook", "haulout-webhook-cert"
PORT = 9443


def registrations(
    surfaces: Iterable[str], namespace: str, service: str = SERVICE, url: str = "", certificates: str = "self"
) -> list[Json]:
    """Return the webhook configurations of surfaces, after the Service and the certificate that they need."""
    chosen = [hook for name in surfaces for hook in surface(name).webhooks]
    if not chosen:
        return []
    return [
        *surroundings(namespace, service, url, certificates),
        *configurations(chosen, namespace, service, url, certificates),
    ]


def surroundings(namespace: str, service: str = SERVICE, url: str = "", certificates: str = "self") -> Iterator[Json]:
    """Yield the objects that all webhooks share: their Service, and a Certificate if cert-manager issues it."""
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


def certificate_secret(namespace: str, name: str) -> Json:
    """Return the Secret without data into which Haulout writes the certificate that it makes.

    The operator has no right to create it: with its token a thief could choose the type that Kubernetes fills with a token of
    another service account.
    """
    meta = {"name": name, "namespace": namespace, "labels": MANAGED}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": "Opaque"}


def configurations(
    hooks: Iterable[Registration],
    namespace: str,
    service: str = SERVICE,
    url: str = "",
    certificates: str = "self",
) -> Iterator[Json]:
    """Yield the webhook configurations. Webhooks with the same configuration name are in one object."""
    grouped: dict[tuple[bool, str], list[Registration]] = {}
    for hook in hooks:
        grouped.setdefault((hook.mutating, hook.configuration), []).append(hook)
    for (is_mutating, name), members in grouped.items():
        meta: Json = {"name": name, "labels": MANAGED}
        if certificates == "cert-manager":
            meta["annotations"] = {"cert-manager.io/inject-ca-from": f"{namespace}/{SECRET}"}
        yield {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": f"{'Mutating' if is_mutating else 'Validating'}WebhookConfiguration",
            "metadata": meta,
            "webhooks": [_entry(hook, namespace, service, url) for hook in members],
        }


def _entry(hook: Registration, namespace: str, service: str, url: str) -> Json:
    where = {"service": {"name": service, "namespace": namespace, "path": hook.path, "port": 443}}
    return {
        "name": hook.name,
        "clientConfig": {"url": f"{url.rstrip('/')}{hook.path}"} if url else where,
        "rules": list(hook.rules),
        "failurePolicy": "Ignore" if hook.fails_open else "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": hook.timeout_seconds,
        **({"matchConditions": list(hook.conditions)} if hook.conditions else {}),
    }
