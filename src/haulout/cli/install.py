"""`haulout manifests`: everything that a cluster needs to run Haulout, as YAML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import click

from haulout import __version__
from haulout.cli.manifests import picked, say, say_definitions
from haulout.cli.rbac import ACCOUNT, ChoosesRights, choice_of, documents, documents_of
from haulout.core.surface import Surface
from haulout.manifests.documents import MANAGED, NAMESPACE, POD_LABELS, Json
from haulout.manifests.rights import Choice
from haulout.manifests.viewer import viewer_roles
from haulout.manifests.webhooks import PORT, registrations
from haulout.surfaces.registry import KERNEL, surface

IMAGE = f"haulout:{__version__}"
FOLDER = "/etc/haulout"


@click.command("manifests", cls=ChoosesRights, short_help="Print everything that installs Haulout.")
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
    wanted = (name for name in picked(surfaces) if name != KERNEL)
    chosen = tuple(name for name in wanted if surfaces or not surface(name).is_installed_by_name)
    choice = choice_of(namespace, ACCOUNT, given)
    if with_namespace:
        say([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": MANAGED}}])
    say_definitions((KERNEL, *chosen))
    for name in (KERNEL, *chosen):
        say(documents_of(name, choice))
    say(documents(viewer_roles(chosen, choice), choice))
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
    top = ["log: {format: json}", *_name_lines(surface(KERNEL), choice)]
    lines = [f"  {name}: {{{', '.join(_entries(surface(name), choice))}}}" for name in surfaces]
    return "\n".join((*top, "surfaces:", *lines, ""))


def _entries(declared: Surface, choice: Choice) -> Iterator[str]:
    """The settings in a surface's block."""
    if declared.config_file is not None:
        yield f"{declared.config_file.setting}: {FOLDER}/{declared.name}/{declared.config_file.name}"
    yield from (option.setting for option in declared.options if option.setting and option.name in choice.flags)
    for name in declared.names:
        if choice.names[name.name] != name.default:
            yield f"{name.setting.rpartition('.')[2]}: {choice.names[name.name]}"


def _name_lines(kernel: Surface, choice: Choice) -> Iterator[str]:
    for name in kernel.names:
        if choice.names[name.name] != name.default:
            block, _, setting = name.setting.partition(".")
            yield f"{block}: {{{setting}: {choice.names[name.name]}}}"


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
