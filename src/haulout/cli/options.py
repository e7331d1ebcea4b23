"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from haulout.cli import completions

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


def label_selector(ctx: click.Context, param: click.Parameter, text: str) -> str:
    """Return the label selector unchanged. Raises BadParameter if it is malformed."""
    from haulout.base.selector import SelectorError, parse

    try:
        parse(text)
    except SelectorError as error:
        raise click.BadParameter(str(error)) from None
    return text


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
