"""`haulout manifests`: everything that a cluster needs to run Haulout, as YAML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import click

from haulout import __version__
from haulout.cli import completions
from haulout.cli.manifests import namespace_option, say, say_definitions, surfaces_in_order
from haulout.cli.rbac import ACCOUNT, ChoosesRights, choice_of, documents, documents_of
from haulout.core.budgets.declare import OWN_CERTIFICATES, WEBHOOK_SECRET
from haulout.core.budgets.override_registration import override_policy
from haulout.core.surface import Surface
from haulout.manifests.documents import MANAGED, POD_LABELS, Json
from haulout.manifests.rights import Choice
from haulout.manifests.viewer import viewer_roles
from haulout.manifests.webhooks import PORT, certificate_secret, registrations
from haulout.surfaces.registry import KERNEL, surface

IMAGE = f"haulout:{__version__}"
FOLDER = "/etc/haulout"


@click.command("manifests", cls=ChoosesRights, short_help="Print everything that installs Haulout.")
@click.argument("surfaces", nargs=-1, metavar="[SURFACE]...", shell_complete=completions.surfaces)
@namespace_option
@click.option("--image", default=IMAGE, metavar="IMAGE", show_default=True, help="The image to run.")
@click.option(
    "--replicas", default=2, metavar="N", show_default=True, help="The number of replicas, of which one acts at a time."
)
@click.option("--with-namespace/--without-namespace", default=True, help="Whether to print the namespace, too.")
@click.option(
    "--config-secret",
    multiple=True,
    metavar="[SURFACE=]NAME",
    help="Mount a surface's configuration file from this Secret instead of the ConfigMap haulout-SURFACE.",
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
    config_secret: tuple[str, ...],
    env_from_secret: tuple[str, ...],
    **choices: Any,
) -> None:
    """Prints what installs Haulout with the SURFACEs for `kubectl apply -f -`. Some surfaces are installed only by name.

    Definitions, roles, the settings in a ConfigMap, the Deployment and the registration of its webhooks, whose
    certificate it makes itself. A surface reads its own configuration file from the ConfigMap haulout-SURFACE, or from
    a Secret where the file holds passwords.
    """
    wanted = (name for name in surfaces_in_order(surfaces) if name != KERNEL)
    chosen = tuple(name for name in wanted if surfaces or not surface(name).is_installed_by_name)
    choice = choice_of(namespace, ACCOUNT, choices)
    files = [config_volume(name, secret) for name, secret in _config_secrets(chosen, config_secret).items()]
    if with_namespace:
        say([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": MANAGED}}])
    say_definitions((KERNEL, *chosen))
    for name in (KERNEL, *chosen):
        say(documents_of(name, choice))
    say(documents(viewer_roles(chosen, choice), choice))
    if choice.has(OWN_CERTIFICATES) and any(surface(name).webhooks for name in chosen):
        say([certificate_secret(namespace, choice.names[WEBHOOK_SECRET])])
    say(workload(namespace, image, replicas, settings_text(chosen, choice), files=files, secrets=env_from_secret))
    # A process that serves any webhook serves that of the kernel.
    serves = any(surface(name).webhooks for name in chosen)
    say(registrations((KERNEL, *chosen) if serves else chosen, namespace))
    # The policy guards overrides also while no replica answers, and where webhooks are not wanted.
    say(override_policy())


def _config_secrets(chosen: tuple[str, ...], pairs: tuple[str, ...]) -> dict[str, str]:
    """Return the surfaces that have a configuration file, each with its Secret; an empty name means the ConfigMap."""
    found = {name: "" for name in chosen if surface(name).config_file is not None}
    for text in pairs:
        name, equals, secret = text.rpartition("=")
        if not equals:
            # Before several surfaces had a file, the option was the name of the Secret alone. It still means the surface
            # that had one then, which is the first in the registry.
            name = next(iter(found), "")
        if name not in found or not secret:
            known = ", ".join(f"{each}=NAME" for each in found) or "no surface here has a configuration file"
            raise click.UsageError(f"--config-secret: {text!r} names no surface and its Secret ({known})")
        found[name] = secret
    return found


def config_volume(name: str, secret: str = "") -> Json:
    """Return the pod's volume with the configuration file of a surface. The pod starts without the object, too."""
    if secret:
        return {"name": name, "secret": {"secretName": secret, "optional": True}}
    return {"name": name, "configMap": {"name": f"haulout-{name}", "optional": True}}


def workload(
    namespace: str, image: str, replicas: int, settings: str, *, files: Iterable[Json], secrets: Iterable[str] = ()
) -> Iterator[Json]:
    """Yield the ServiceAccount, the ConfigMap with the settings, the Service and the Deployment.

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


def settings_text(surfaces: tuple[str, ...], choice: Choice) -> str:
    """Return the content of `haulout.yaml`. A feature whose rights an option grants is switched on in it."""
    top = ["log: {format: json}", *_name_lines(surface(KERNEL), choice)]
    lines = [f"  {name}: {{{', '.join(_entries(surface(name), choice))}}}" for name in surfaces]
    return "\n".join((*top, "surfaces:", *lines, ""))


def _entries(declared: Surface, choice: Choice) -> Iterator[str]:
    """Yield the settings in a surface's block of `haulout.yaml`."""
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


def _pod(image: str, files: list[Json], secrets: Iterable[str]) -> Json:
    volumes: list[Json] = [{"name": "settings", "configMap": {"name": "haulout"}}, *files]
    mounts = [{"name": "settings", "mountPath": FOLDER, "readOnly": True}]
    mounts += [{"name": each["name"], "mountPath": f"{FOLDER}/{each['name']}", "readOnly": True} for each in files]
    environment = [{"secretRef": {"name": name}} for name in secrets]
    tolerated = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
    return {
        "serviceAccountName": ACCOUNT,
        "priorityClassName": "system-cluster-critical",
        # 65 s for a last scrape of the metrics, and some more to finish writes and to release the Lease.
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
