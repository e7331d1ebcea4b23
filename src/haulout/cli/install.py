"""`haulout manifests`: everything that a cluster needs to run Haulout, as YAML."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from haulout.cli import completions
from haulout.cli.manifests import namespace_option, say, say_definitions, surfaces_in_order
from haulout.cli.rbac import ChoosesRights, choice_of, documents, documents_of
from haulout.core.budgets.declare import OWN_CERTIFICATES, WEBHOOK_SECRET
from haulout.core.budgets.override_registration import override_policy
from haulout.core.surface import Surface
from haulout.manifests.account_policy import account_policy as policy_of_account
from haulout.manifests.account_policy import user_of
from haulout.manifests.documents import MANAGED
from haulout.manifests.rights import Choice
from haulout.manifests.viewer import viewer_roles
from haulout.manifests.webhooks import certificate_secret, registrations
from haulout.manifests.workload import ACCOUNT, FOLDER, IMAGE, config_volume, workload
from haulout.surfaces.registry import KERNEL, surface


@click.command("manifests", cls=ChoosesRights, short_help="Print the manifests that install Haulout.")
@click.argument("surfaces", nargs=-1, metavar="[SURFACE]...", shell_complete=completions.surfaces)
@namespace_option
@click.option("--image", default=IMAGE, metavar="IMAGE", show_default=True, help="The image to run.")
@click.option(
    "--replicas", default=2, metavar="N", show_default=True, help="The number of replicas, of which one acts at a time."
)
@click.option("--with-namespace/--without-namespace", default=True, help="Whether to include the namespace.")
@click.option(
    "--account-policy/--no-account-policy",
    default=True,
    help="Whether to include the ValidatingAdmissionPolicy that limits the operator's account (Kubernetes 1.30 and later).",
)
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
    help="Load every entry of this Secret as an environment variable. Repeatable.",
)
def command(
    surfaces: tuple[str, ...],
    namespace: str,
    image: str,
    replicas: int,
    with_namespace: bool,
    account_policy: bool,
    config_secret: tuple[str, ...],
    env_from_secret: tuple[str, ...],
    **choices: Any,
) -> None:
    """Prints the manifests that install Haulout with the SURFACEs, for `kubectl apply -f -`. Some surfaces are
    installed only if named.

    They are the definitions, the roles, a ConfigMap with the settings, the Deployment, and the registration of the
    webhooks, whose certificate Haulout creates. A surface reads its configuration file from the ConfigMap
    haulout-SURFACE, or from a Secret if the file contains passwords.
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
    if account_policy:
        say(policy_of_account(user_of(namespace, ACCOUNT)))


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
