"""`haulout rbac`: what each surface has to be allowed, as YAML."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import click

from haulout.cli.manifests import picked, say
from haulout.manifests.documents import MANAGED, NAMESPACE, Json
from haulout.manifests.rights import NAMES, OPTIONS, WORKLOAD, Choice, Option, PlacedRole, Right, placed_roles

GROUP = "rbac.authorization.k8s.io"
ACCOUNT = "haulout"
# What the names are in `haulout.yaml`.
SETTINGS = {
    "leader_lease": "leader.lease",
    "webhook_secret": "webhooks.secret",
    "lease_namespace": "leaseNamespace of nodemaintenance",
}


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that choose rights; `choice_of` reads them."""
    for name, default in reversed(NAMES.items()):
        flag, text = f"--{name.replace('_', '-')}", f"The setting {SETTINGS[name]}."
        command = click.option(flag, default=default, metavar="NAME", show_default=True, help=text)(command)
    for option in reversed(OPTIONS.values()):
        command = _click_option(option)(command)
    return command


def _click_option(option: Option) -> Callable[[Callable[..., None]], Callable[..., None]]:
    flag = f"--{option.name.replace('_', '-')}"
    if option.lists:
        text = f"{option.help} Any number of times."
        return click.option(flag, option.name, multiple=True, metavar=option.lists, callback=_listed, help=text)
    if option.default:
        return click.option(f"{flag}/--no-{flag[2:]}", default=True, help=option.help)
    return click.option(flag, is_flag=True, help=option.help)


def _listed(_: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Return the names by their namespaces."""
    assert parameter.name is not None
    option, found = OPTIONS[parameter.name], dict[str, tuple[str, ...]]()
    for text in given:
        namespace, slash, name = text.partition("/")
        if not namespace or bool(slash) is not option.has_names or (slash and not name) or "/" in name:
            raise click.BadParameter(f"{text!r} is not {option.lists}")
        found[namespace] = (*found.get(namespace, ()), *([name] if name else []))
    return found


def choice_of(namespace: str, account: str, given: Mapping[str, Any]) -> Choice:
    return Choice(
        namespace=namespace,
        account=account,
        names={name: given[name] for name in NAMES},
        flags=frozenset(name for name, option in OPTIONS.items() if not option.lists and given[name]),
        lists={name: given[name] for name, option in OPTIONS.items() if option.lists},
    )


@click.command("rbac", short_help="Print the roles that surfaces need.")
@click.argument("surfaces", nargs=-1, metavar="[SURFACE]...")
@click.option("-n", "--namespace", default=NAMESPACE, metavar="NAME", show_default=True, help="Where Haulout runs.")
@click.option(
    "--service-account", default=ACCOUNT, metavar="NAME", show_default=True, help="The account that it runs as."
)
@click.option("--workload", is_flag=True, help="Print what clusterapi needs in the clusters of its machines instead.")
@with_options
def command(surfaces: tuple[str, ...], namespace: str, service_account: str, workload: bool, **given: Any) -> None:
    """Prints the roles that the SURFACEs need, or all of them, and binds them to a service account, as YAML.

    `kernel` is what all surfaces share. What only some configurations need is allowed only where an option asks for it.
    With `--workload` it is a role for the account of a kubeconfig that clusterapi goes to another cluster with, to be
    applied there.
    """
    choice = choice_of(namespace, service_account, given)
    chosen = picked(surfaces)
    if workload:
        if surfaces and chosen != ("clusterapi",):
            raise click.UsageError("--workload: only clusterapi goes to other clusters")
        say(documents([PlacedRole(WORKLOAD, "", WORKLOAD.rights)], choice))
        return
    for surface in chosen:
        say(documents_of(surface, choice))


def documents_of(surface: str, choice: Choice) -> Iterator[Json]:
    """The roles of a surface and their bindings, after the namespace that one of them lies in."""
    if surface == "nodemaintenance":
        yield lease_namespace(choice)
    yield from documents(placed_roles(surface, choice), choice)


def lease_namespace(choice: Choice) -> Json:
    """The operator may not create it: a role in it can be granted only where it is there."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": choice.names["lease_namespace"]}}


def documents(roles: Iterable[PlacedRole], choice: Choice) -> Iterator[Json]:
    subject = {"kind": "ServiceAccount", "name": choice.account, "namespace": choice.namespace}
    for placed in roles:
        yield {**head(placed), "rules": [rule(right) for right in placed.rights]}
        if placed.role.bound:
            reference = {"apiGroup": GROUP, "kind": placed.role.kind, "name": placed.role.name}
            yield {**head(placed, "Binding"), "roleRef": reference, "subjects": [subject]}


def head(placed: PlacedRole, suffix: str = "") -> Json:
    place = {"namespace": placed.namespace} if placed.namespace else {}
    meta = {"name": placed.role.name, **place, "labels": MANAGED}
    return {"apiVersion": f"{GROUP}/v1", "kind": f"{placed.role.kind}{suffix}", "metadata": meta}


def rule(right: Right) -> Json:
    if right.urls:
        return {"nonResourceURLs": list(right.urls), "verbs": list(right.verbs)}
    made: Json = {"apiGroups": [right.group], "resources": list(right.resources), "verbs": list(right.verbs)}
    return {**made, "resourceNames": list(right.names)} if right.names else made
