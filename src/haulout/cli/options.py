"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import click

from haulout.cli import completions

if TYPE_CHECKING:
    from haulout.acts.prepare import Target

F = TypeVar("F", bound=Callable[..., Any])

# The values that kubectl's switches and its --dry-run may have.
_ON, _OFF = ("true", "1", "client", "server"), ("false", "0", "none")


class KubectlFlags(click.Command):
    """A click command whose switches may have a value, as kubectl's: `--force=true` or `--dry-run=client`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        flags = {
            name for param in self.params if isinstance(param, click.Option) and param.is_flag for name in param.opts
        }
        words: list[str] = []
        for word in args:
            name, equals, value = word.partition("=")
            if not equals or name not in flags or value not in (*_ON, *_OFF):
                words.append(word)
            elif value in _ON:
                words.append(name)
        return super().parse_args(ctx, words)


def node_names(ctx: click.Context, param: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of nodes without the prefix `node/`. Raises BadParameter for an empty name."""
    return tuple(node_name(name) for name in names)


def node_name(word: str) -> str:
    """Return the name of a node from NAME or node/NAME. Raises BadParameter for anything else."""
    kind, slash, name = word.rpartition("/")
    if slash and kind.lower() not in ("node", "nodes", "no"):
        raise click.BadParameter(f"{word!r} is not the name of a node (NAME or node/NAME)")
    if not name.strip():
        raise click.BadParameter("the name of a node is empty")
    return name


def act_options(command: F, *, needs_reason: bool = False) -> F:
    """Add the options that all acts have, and those that name the cluster and the user.

    `needs_reason`: the help says that a reason is required; the command refuses to run without it.
    """
    about = f"The reason, which is stored on the object{' (required)' if needs_reason else ''}."
    options = (
        click.option("--reason", default="", metavar="TEXT", help=about),
        click.option("--dry-run", is_flag=True, help="Have the API server check the writes without storing them."),
        click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="Output format."),
    )
    command = cluster_options(command)
    for option in reversed(options):
        command = option(command)
    return command


def act_target(word: str, namespace: str = "") -> Target:
    """Return the object that KIND/NAME or KIND/NAMESPACE/NAME names. Raises BadParameter for anything else.

    `namespace`: the namespace of an object that is named without one.
    """
    from haulout.acts.declared import kind_named, kinds_of_acts
    from haulout.acts.prepare import Target

    kind, *place = word.split("/")
    endpoint = kind_named(kind)
    if endpoint is None or not place or len(place) > 1 + endpoint.is_namespaced or not all(place):
        there = ", ".join(dict.fromkeys(each.kind.lower() for each in kinds_of_acts().values()))
        raise click.BadParameter(f"{word!r} is not KIND/NAME or KIND/NAMESPACE/NAME (kinds with acts: {there})")
    if endpoint.is_namespaced and len(place) == 1:
        place = [namespace or "default", *place]
    return Target(endpoint.kind, place[0] if endpoint.is_namespaced else "", place[-1])


def label_selector(ctx: click.Context, param: click.Parameter, text: str) -> str:
    """Return the label selector unchanged. Raises BadParameter if it is malformed."""
    from haulout.base.selector import SelectorError, parse

    try:
        parse(text)
    except SelectorError as error:
        raise click.BadParameter(str(error)) from None
    return text


def long_span(ctx: click.Context, param: click.Parameter, text: str) -> timedelta | None:
    """Return a duration such as 90m, 36h or 7d; None without one. Raises BadParameter if it is malformed."""
    from haulout.base.duration import DurationError, parse
    from haulout.base.number import digits

    if not text:
        return None
    days, day, rest = text.partition("d")
    number = digits(days, 5) if day else None
    try:
        span = parse(text) if number is None else parse(rest or "0") + timedelta(days=number)
    except DurationError as error:
        raise click.BadParameter(f"{error} (a duration such as 36h or 7d)") from None
    if span <= timedelta():
        raise click.BadParameter("it must be positive")
    return span


def span_option(name: str, text: str, default: str = "") -> Callable[[F], F]:
    """Return the decorator that adds an option with a duration, which may be in days."""
    return click.option(name, default=default, metavar="DURATION", callback=long_span, help=text)


def config_option(command: F) -> F:
    """Add the option `--config`. Without it, a command finds the operator's settings in the cluster."""
    return click.option(
        "--config",
        default="",
        metavar="FILE",
        shell_complete=completions.files,
        help="haulout.yaml, or the profiles' own file.",
    )(command)


def cluster_options(command: F) -> F:
    """Add kubectl's options that name the cluster and the user."""
    options = (
        click.option(
            "--kubeconfig",
            default="",
            metavar="FILE",
            shell_complete=completions.files,
            help="Kubeconfig to use instead of KUBECONFIG.",
        ),
        click.option(
            "--context",
            default="",
            metavar="NAME",
            shell_complete=completions.contexts,
            help="Context of the kubeconfig to use.",
        ),
        click.option(
            "-n", "--namespace", default="", metavar="NAME", help="Namespace to use instead of the context's."
        ),
    )
    command = impersonation_options(command)
    for option in reversed(options):
        command = option(command)
    return command


def impersonation_options(command: F) -> F:
    """Add kubectl's options for impersonation. They replace what the kubeconfig says about it."""
    command = click.option(
        "--as-group",
        "as_groups",
        multiple=True,
        metavar="GROUP",
        callback=_with_user,
        help="Act as a member of this group.",
    )(command)
    user = click.option(
        "--as", "as_user", default="", metavar="USER", is_eager=True, help="Act as this user (impersonation)."
    )
    return user(command)


def _with_user(ctx: click.Context, option: click.Parameter, groups: tuple[str, ...]) -> tuple[str, ...]:
    if groups and not ctx.params["as_user"]:
        raise click.UsageError("--as-group needs --as: groups are impersonated together with a user")
    return groups
