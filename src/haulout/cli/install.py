"""`haulout manifests`: everything that a cluster needs to run Haulout, as YAML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import click

from haulout import __version__
from haulout.cli.crds import CRDS
from haulout.cli.manifests import picked, say
from haulout.cli.rbac import ACCOUNT, choice_of, documents_of, with_options
from haulout.manifests.documents import MANAGED, NAMESPACE, POD_LABELS, Json, crd
from haulout.manifests.rights import NAMES, OPTIONS, Choice
from haulout.manifests.webhooks import PORT, registrations

IMAGE = f"haulout:{__version__}"
FOLDER = "/etc/haulout"
# Printed only where they are named: clusterapi is of use in a management cluster alone, where it reads every Secret, and
# packages runs privileged pods.
BY_NAME = ("clusterapi", "packages")
# Which surface the setting of an option stands in.
SETTING_OPTIONS = {"nodemaintenance": ("node_conditions", "eviction_requests"), "clusterapi": ("metal3",)}


@click.command("manifests", short_help="Print everything that installs Haulout.")
@click.argument("surfaces", nargs=-1, metavar="[SURFACE]...")
@click.option("-n", "--namespace", default=NAMESPACE, metavar="NAME", show_default=True, help="Where it is to run.")
@click.option("--image", default=IMAGE, metavar="IMAGE", show_default=True, help="The image to run.")
@click.option("--replicas", default=2, metavar="N", show_default=True, help="How many; one of them acts at a time.")
@click.option("--with-namespace/--without-namespace", default=True, help="Whether the namespace is among them.")
@click.option(
    "--config-secret",
    default="",
    metavar="NAME",
    help="Mount maintenance.yaml from this Secret instead of the ConfigMap haulout-profiles.",
)
@click.option(
    "--env-from-secret",
    multiple=True,
    metavar="NAME",
    help="Make every entry of this Secret a variable of the environment. Any number of times.",
)
@with_options
def command(
    surfaces: tuple[str, ...],
    namespace: str,
    image: str,
    replicas: int,
    with_namespace: bool,
    config_secret: str,
    env_from_secret: tuple[str, ...],
    **given: Any,
) -> None:
    """Prints what installs Haulout with the SURFACEs, or with all but clusterapi, for `kubectl apply -f -`.

    Definitions, roles, the settings in a ConfigMap, the Deployment and the registration of its webhooks, whose
    certificate it makes itself. Profiles read their `maintenance.yaml` from the ConfigMap haulout-profiles, or from a
    Secret where it holds passwords.
    """
    wanted = picked(surfaces)
    chosen = tuple(name for name in wanted if name != "kernel" and (surfaces or name not in BY_NAME))
    choice = choice_of(namespace, ACCOUNT, given)
    if with_namespace:
        say([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": MANAGED}}])
    for surface in ("kernel", *chosen):
        for name in CRDS.get(surface, ()):
            click.echo(f"---\n{crd(name)}", nl=False)
    for surface in ("kernel", *chosen):
        say(documents_of(surface, choice))
    files = profile_files(config_secret) if "profiles" in chosen else None
    say(workload(namespace, image, replicas, _settings(chosen, choice), files=files, secrets=env_from_secret))
    say(registrations(chosen, namespace))


def profile_files(secret: str) -> Json:
    """The volume with `maintenance.yaml`. Without the object it runs, and says that there is no configuration."""
    if secret:
        return {"name": "profiles", "secret": {"secretName": secret, "optional": True}}
    return {"name": "profiles", "configMap": {"name": "haulout-profiles", "optional": True}}


def workload(
    namespace: str, image: str, replicas: int, settings: str, *, files: Json | None, secrets: Iterable[str] = ()
) -> Iterator[Json]:
    """The account, the settings, the Service and the Deployment; `files` is the volume of profiles, if they are on."""
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
        "template": {"metadata": {"labels": MANAGED}, "spec": _pod(image, files, secrets)},
    }
    yield {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}


def _settings(surfaces: tuple[str, ...], choice: Choice) -> str:
    """The settings that go with the rights: what is allowed on request is also switched on."""
    lines: list[str] = []
    for surface in surfaces:
        entries = [f"config: {FOLDER}/profiles/maintenance.yaml"] if surface == "profiles" else []
        entries += [OPTIONS[name].setting for name in SETTING_OPTIONS.get(surface, ()) if name in choice.flags]
        if surface == "nodemaintenance" and choice.names["lease_namespace"] != NAMES["lease_namespace"]:
            entries.append(f"leaseNamespace: {choice.names['lease_namespace']}")
        lines.append(f"  {surface}: {{{', '.join(entries)}}}")
    top = ["log: {format: json}"]
    if choice.names["leader_lease"] != NAMES["leader_lease"]:
        top.append(f"leader: {{lease: {choice.names['leader_lease']}}}")
    if choice.names["webhook_secret"] != NAMES["webhook_secret"]:
        top.append(f"webhooks: {{secret: {choice.names['webhook_secret']}}}")
    return "\n".join((*top, "surfaces:", *lines, ""))


def _pod(image: str, files: Json | None, secrets: Iterable[str]) -> Json:
    volumes: list[Json] = [{"name": "settings", "configMap": {"name": "haulout"}}]
    mounts = [{"name": "settings", "mountPath": FOLDER, "readOnly": True}]
    if files is not None:
        volumes.append(files)
        mounts.append({"name": "profiles", "mountPath": f"{FOLDER}/profiles", "readOnly": True})
    environment = [{"secretRef": {"name": name}} for name in secrets]
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
                **({"envFrom": environment} if environment else {}),
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
