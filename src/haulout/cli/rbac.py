"""`haulout rbac`: prints the roles that each surface needs, as YAML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import click

from haulout.cli import completions
from haulout.cli.manifests import namespace_option, say, surfaces_in_order
from haulout.core.rights import Option, Right
from haulout.manifests.console import ROLES as CONSOLE_ROLES
from haulout.manifests.console import as_account, console_roles
from haulout.manifests.documents import MANAGED, Json
from haulout.manifests.rights import Choice, PlacedRole, object_names, options, placed_roles
from haulout.manifests.viewer import NAME as VIEWER
from haulout.manifests.viewer import viewer_roles
from haulout.manifests.workload import ACCOUNT
from haulout.surfaces.registry import surface
from haulout.surfaces.registry import surfaces as all_surfaces

GROUP = "rbac.authorization.k8s.io"


class ChoosesRights(click.Command):
    """A click command with the options by which users choose rights; `choice_of` reads them.

    Surfaces declare these options. Their declarations are imported only when the command is used.
    """

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        *own, help_option = super().get_params(ctx)
        return [*own, *_choices(), help_option]


def _choices() -> Iterator[click.Option]:
    yield from map(_click_option, options().values())
    for name in object_names().values():
        flag, text = f"--{name.name.replace('_', '-')}", f"The setting {name.setting}."
        yield click.Option([flag], default=name.default, metavar="NAME", show_default=True, help=text)


def _click_option(option: Option) -> click.Option:
    flag = f"--{option.name.replace('_', '-')}"
    if option.lists:
        text = f"{option.help} Any number of times."
        return click.Option([flag, option.name], multiple=True, metavar=option.lists, callback=_listed, help=text)
    if option.default:
        return click.Option([f"{flag}/--no-{flag[2:]}"], default=True, help=option.help)
    return click.Option([flag], is_flag=True, help=option.help)


def _listed(_: click.Context, parameter: click.Parameter, entries: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Parse values NAMESPACE or NAMESPACE/NAME of an option. Return the names by namespace. Raises BadParameter."""
    assert parameter.name is not None
    option, found = options()[parameter.name], dict[str, tuple[str, ...]]()
    for text in entries:
        namespace, slash, name = text.partition("/")
        if not namespace or bool(slash) is not option.has_names or (slash and not name) or "/" in name:
            raise click.BadParameter(f"{text!r} is not {option.lists}")
        found[namespace] = (*found.get(namespace, ()), *([name] if name else []))
    return found


def choice_of(namespace: str, account: str, choices: Mapping[str, Any]) -> Choice:
    return Choice(
        namespace=namespace,
        account=account,
        names={name: choices[name] for name in object_names()},
        flags=frozenset(name for name, option in options().items() if not option.lists and choices[name]),
        lists={name: choices[name] for name, option in options().items() if option.lists},
    )


@click.command("rbac", cls=ChoosesRights, short_help="Print the roles that surfaces need.")
@click.argument("surfaces", nargs=-1, metavar="[SURFACE]...", shell_complete=completions.surfaces)
@namespace_option
@click.option(
    "--service-account", default=ACCOUNT, metavar="NAME", show_default=True, help="The service account that it runs as."
)
@click.option("--workload", is_flag=True, help="Print the roles for workload clusters instead.")
def command(surfaces: tuple[str, ...], namespace: str, service_account: str, workload: bool, **choices: Any) -> None:
    """Prints, as YAML, the roles that the SURFACEs (default: all) need, bound to a service account.

    `kernel` names the rights that all surfaces share. `viewer` prints a role for people, without a binding: it
    is enough for every command that only reads (such as `explain`, `status` and `plan`), for the SURFACEs named
    beside it or for all, and allows no change. `console-viewer`, `console-operator` and `console-approver` print
    roles for people who use the console, without a binding; `console` prints that of the console's own account in a
    cluster. Rights that only some configurations need are granted only where an option asks for them. `--workload`
    prints the roles that surfaces need in workload clusters, to be applied there for the user of the kubeconfig.
    """
    choice = choice_of(namespace, service_account, choices)
    if people := [each for each in surfaces if each in CONSOLE_ROLES]:
        rest = surfaces_in_order(tuple(each for each in surfaces if each not in CONSOLE_ROLES))
        for word in people:
            say(documents(console_roles(word, rest, choice), as_account(choice)))
        return
    if VIEWER in surfaces:
        say(
            documents(
                viewer_roles(surfaces_in_order(tuple(each for each in surfaces if each != VIEWER)), choice), choice
            )
        )
        return
    chosen = surfaces_in_order(surfaces)
    if workload:
        abroad = {name: surface(name).workload_roles for name in chosen}
        if surfaces and not all(abroad.values()):
            known = ", ".join(each.name for each in all_surfaces() if each.workload_roles)
            raise click.UsageError(f"--workload: only {known} works in other clusters")
        say(documents((PlacedRole(role, "", role.rights) for roles in abroad.values() for role in roles), choice))
        return
    for name in chosen:
        say(documents_of(name, choice))


def documents_of(name: str, choice: Choice) -> Iterator[Json]:
    """Yield the namespaces of a surface, then its roles and their bindings."""
    yield from namespaces_of(name, choice)
    yield from documents(placed_roles(name, choice), choice)


def namespaces_of(name: str, choice: Choice) -> Iterator[Json]:
    """Yield the namespaces that a surface needs. The operator has no right to create them, and its roles lie in them."""
    for each in surface(name).names:
        if each.is_namespace:
            yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": choice.names[each.name]}}


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
