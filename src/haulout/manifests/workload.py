"""The objects that run the operator in a cluster: its ServiceAccount, settings, Service, Deployment and disruption budget."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from haulout import __version__
from haulout.manifests.deployment import (
    CONTAINER_SECURITY,
    POD_SECURITY,
    PRIORITY,
    RESOURCES,
    TOLERATIONS,
    disruption_budget,
    placement,
)
from haulout.manifests.documents import MANAGED, POD_LABELS, Json
from haulout.manifests.webhooks import PORT

IMAGE = f"haulout:{__version__}"
FOLDER = "/etc/haulout"
ACCOUNT = "haulout"


def config_volume(name: str, secret: str = "") -> Json:
    """Return the pod's volume with the configuration file of a surface. The pod starts without the object, too."""
    if secret:
        return {"name": name, "secret": {"secretName": secret, "optional": True}}
    return {"name": name, "configMap": {"name": f"haulout-{name}", "optional": True}}


def workload(
    namespace: str, image: str, replicas: int, settings: str, *, files: Iterable[Json], secrets: Iterable[str] = ()
) -> Iterator[Json]:
    """Yield the ServiceAccount, the ConfigMap with the settings, the Service, the Deployment and its disruption budget.

    `files`: volumes with configuration files. `secrets`: Secrets whose keys become environment variables.
    """
    meta = {"name": "haulout", "namespace": namespace, "labels": MANAGED}
    yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {**meta, "name": ACCOUNT}}
    yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"haulout.yaml": settings}}
    ports = [{"name": "http", "port": 8080, "targetPort": "http", "protocol": "TCP"}]
    yield {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": meta,
        "spec": {"selector": POD_LABELS, "ports": ports},
    }
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": POD_LABELS},
        "template": {"metadata": {"labels": MANAGED}, "spec": _pod(image, list(files), secrets)},
    }
    yield {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}
    # With one replica it would keep its node from being drained.
    if replicas > 1:
        yield disruption_budget(meta, POD_LABELS)


def _pod(image: str, files: list[Json], secrets: Iterable[str]) -> Json:
    volumes: list[Json] = [{"name": "settings", "configMap": {"name": "haulout"}}, *files]
    mounts = [{"name": "settings", "mountPath": FOLDER, "readOnly": True}]
    mounts += [{"name": each["name"], "mountPath": f"{FOLDER}/{each['name']}", "readOnly": True} for each in files]
    environment = [{"secretRef": {"name": name}} for name in secrets]
    return {
        "serviceAccountName": ACCOUNT,
        "priorityClassName": PRIORITY,
        # 65 s for a last scrape of the metrics, and some more to finish writes and to release the Lease.
        "terminationGracePeriodSeconds": 75,
        "securityContext": POD_SECURITY,
        "tolerations": TOLERATIONS,
        **placement(POD_LABELS),
        "volumes": volumes,
        "containers": [
            {
                "name": "haulout",
                "image": image,
                "args": ["run", "--config", f"{FOLDER}/haulout.yaml"],
                **({"envFrom": environment} if environment else {}),
                "ports": [
                    {"name": "http", "containerPort": 8080},
                    {"name": "probes", "containerPort": 8081},
                    {"name": "webhooks", "containerPort": PORT},
                ],
                "livenessProbe": _probe("/healthz", 15, 20),
                "readinessProbe": _probe("/readyz", 5, 10),
                "resources": RESOURCES,
                "securityContext": CONTAINER_SECURITY,
                "volumeMounts": mounts,
            }
        ],
    }


def _probe(path: str, delay: int, period: int) -> Json:
    return {"httpGet": {"path": path, "port": "probes"}, "initialDelaySeconds": delay, "periodSeconds": period}
