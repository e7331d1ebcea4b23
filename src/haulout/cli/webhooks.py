"""`haulout webhooks`: how the API server is told to ask us, as YAML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import click

from haulout.cli.manifests import MANAGED, NAMESPACE, POD_LABELS, Json, picked, say

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


@click.command("webhooks", short_help="Print how webhooks of surfaces are registered.")
@click.argument("surfaces", nargs=-1, metavar="[SURFACE]...")
@click.option("-n", "--namespace", default=NAMESPACE, metavar="NAME", show_default=True, help="Where Haulout runs.")
@click.option("--service", default=SERVICE, metavar="NAME", show_default=True, help="The Service in front of it.")
@click.option("--url", default="", metavar="URL", help="Call this address instead of a Service, as https://HOST:PORT.")
@click.option(
    "--certificates",
    type=click.Choice(["self", "cert-manager", "mounted"]),
    default="self",
    show_default=True,
    help="Who makes the certificate and registers its authority.",
)
def command(surfaces: tuple[str, ...], namespace: str, service: str, url: str, certificates: str) -> None:
    """Prints what registers the webhooks of the SURFACEs, or of all of them, as YAML: to be applied with kubectl.

    With `self`, Haulout makes the certificate and writes its authority into the registration. With `cert-manager` that
    does both. With `mounted` the authority is for you to fill in.
    """
    if url and not url.startswith("https://"):
        raise click.UsageError("--url: webhooks are called over TLS alone: it begins with https://")
    say(registrations(picked(surfaces), namespace, service, url, certificates))


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
