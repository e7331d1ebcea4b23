"""`haulout manifests`: everything that a cluster needs to run Haulout, as YAML."""

from __future__ import annotations

from collections.abc import Iterator

import click

from haulout import __version__
from haulout.cli.crds import CRDS
from haulout.cli.manifests import MANAGED, NAMESPACE, POD_LABELS, Json, crd, picked, say
from haulout.cli.rbac import ACCOUNT, METAL3, documents_of
from haulout.cli.webhooks import PORT, registrations

IMAGE = f"haulout:{__version__}"
FOLDER = "/etc/haulout"
# Of use in a management cluster alone, and it reads every Secret there: only by its name.
BY_NAME = ("clusterapi",)


@click.command("manifests", short_help="Print everything that installs Haulout.")
@click.argument("surfaces", nargs=-1, metavar="[SURFACE]...")
@click.option("-n", "--namespace", default=NAMESPACE, metavar="NAME", show_default=True, help="Where it is to run.")
@click.option("--image", default=IMAGE, metavar="IMAGE", show_default=True, help="The image to run.")
@click.option("--replicas", default=2, metavar="N", show_default=True, help="How many; one of them acts at a time.")
@click.option("--with-namespace/--without-namespace", default=True, help="Whether the namespace is among them.")
@click.option("--metal3", is_flag=True, help="With clusterapi, also switch Metal3 hosts off and on.")
def command(
    surfaces: tuple[str, ...], namespace: str, image: str, replicas: int, with_namespace: bool, metal3: bool
) -> None:
    """Prints what installs Haulout with the SURFACEs, or with all but clusterapi, for `kubectl apply -f -`.

    Definitions, roles, the settings in a ConfigMap, the Deployment and the registration of its webhooks, whose
    certificate it makes itself. Profiles read their `maintenance.yaml` from the ConfigMap haulout-profiles.
    """
    wanted = picked(surfaces)
    chosen = tuple(name for name in wanted if name != "kernel" and (surfaces or name not in BY_NAME))
    if with_namespace:
        say([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": MANAGED}}])
    for surface in ("kernel", *chosen):
        for name in CRDS.get(surface, ()):
            click.echo(f"---\n{crd(name)}", nl=False)
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}
    for surface in ("kernel", *chosen):
        more = (METAL3,) if metal3 and surface == "clusterapi" else ()
        say(documents_of(surface, namespace, subject, more))
    say(workload(namespace, image, replicas, _settings(chosen, metal3=metal3), profiles="profiles" in chosen))
    say(registrations(chosen, namespace))


def workload(namespace: str, image: str, replicas: int, settings: str, *, profiles: bool) -> Iterator[Json]:
    """The account, the settings, the Service and the Deployment."""
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
        "template": {"metadata": {"labels": MANAGED}, "spec": _pod(image, profiles=profiles)},
    }
    yield {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}


def _settings(surfaces: tuple[str, ...], *, metal3: bool) -> str:
    blocks = {"profiles": f"  profiles: {{config: {FOLDER}/profiles/maintenance.yaml}}"}
    if metal3:
        blocks["clusterapi"] = "  clusterapi: {enableMetal3Maintenance: true}"
    lines = [blocks.get(name, f"  {name}: {{}}") for name in surfaces]
    return "\n".join(("log: {format: json}", "surfaces:", *lines, ""))


def _pod(image: str, *, profiles: bool) -> Json:
    volumes: list[Json] = [{"name": "settings", "configMap": {"name": "haulout"}}]
    mounts = [{"name": "settings", "mountPath": FOLDER, "readOnly": True}]
    if profiles:
        # Without the ConfigMap it runs, and says that there is no configuration.
        volumes.append({"name": "profiles", "configMap": {"name": "haulout-profiles", "optional": True}})
        mounts.append({"name": "profiles", "mountPath": f"{FOLDER}/profiles", "readOnly": True})
    tolerated = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
    return {
        "serviceAccountName": ACCOUNT,
        "priorityClassName": "system-cluster-critical",
        # As long as profiles wait for a last scrape, and a while to say everything and give the lease back.
        "terminationGracePeriodSeconds": 75,
        "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
        "tolerations": [{"key": key, "operator": "Exists", "effect": "NoSchedule"} for key in tolerated],
        "volumes": volumes,
        "containers": [
            {
                "name": "haulout",
                "image": image,
                "args": ["run", "--config", f"{FOLDER}/haulout.yaml"],
                "ports": [
                    {"name": "http", "containerPort": 8080},
                    {"name": "probes", "containerPort": 8081},
                    {"name": "webhooks", "containerPort": PORT},
                ],
                "livenessProbe": _probe("/healthz", 15, 20),
                "readinessProbe": _probe("/readyz", 5, 10),
                "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "512Mi"}},
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                },
                "volumeMounts": mounts,
            }
        ],
    }


def _probe(path: str, delay: int, period: int) -> Json:
    return {"httpGet": {"path": path, "port": "probes"}, "initialDelaySeconds": delay, "periodSeconds": period}
