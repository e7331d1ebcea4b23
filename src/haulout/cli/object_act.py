"""Makes the commands of acts. Their options are the arguments that the acts of this name declare."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import click

from haulout.acts.declared import declared_acts
from haulout.cli import completions
from haulout.cli.options import KubectlFlags, act_options, act_target

NAMESPACE, WITH = "namespace", "with"
# Arguments that commands take in another way than by an option of their name.
HIDDEN = frozenset({NAMESPACE, "nodes"})


class ActCommand(KubectlFlags):
    """A command of an act. `--with profile NAME` names a profile in two words."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words = list(args)
        for number, word in enumerate(words[:-2] if "--profile" not in words else ()):
            if word == "--with" and words[number + 1] == "profile" and not words[number + 2].startswith("-"):
                words[number + 2 : number + 3] = ["--profile", words[number + 2]]
                break
        return super().parse_args(ctx, words)


def object_act(name: str, short: str, about: str, metavar: str = "KIND/[NAMESPACE/]NAME") -> click.Command:
    """Return the command of an act that takes one object."""

    def run(target: str, way: str, reason: str, dry_run: bool, output: str, **options: Any) -> int:
        from haulout.acts.commands import run_order
        from haulout.acts.orders import Order

        args = arguments(name, way, options)
        return run_order(Order(name, act_target(target, options[NAMESPACE]), args, reason, dry_run), options, output)

    command = click.command(
        name,
        cls=ActCommand,
        short_help=short,
        help=f"{about}\n\nExit codes: 0 done; 1 refused or failed; 2 wrong command line or arguments.",
    )(with_arguments(name, act_options(run)))
    command.params.insert(0, click.Argument(["target"], metavar=metavar, shell_complete=completions.act_targets))
    return command


def with_arguments(name: str, function: Any) -> Any:
    """Add the options of all acts of a name: their arguments, and which of them is meant."""
    acts = [each.act for each in declared_acts() if each.act.name == name]
    found = {argument.name: argument for act in acts for argument in act.arguments if argument.name not in HIDDEN}
    for argument in reversed(found.values()):
        kind = click.Choice(argument.choices) if argument.choices else click.STRING
        option = "--" + re.sub("([A-Z])", r"-\1", argument.name).lower()
        function = click.option(option, argument.name, default="", type=_OrEmpty(kind), help=argument.help)(function)
    ways = sorted({act.way for act in acts if act.way})
    return click.option(
        "--with",
        "way",
        default="",
        type=_OrEmpty(click.Choice(ways)),
        hidden=not ways,
        help="The surface to use if several apply.",
    )(function)


def arguments(name: str, way: str, options: Mapping[str, Any]) -> dict[str, str]:
    """Return the arguments of an act from the options of its command."""
    acts = [each.act for each in declared_acts() if each.act.name == name]
    found = {argument.name for act in acts for argument in act.arguments}
    args = {each: options[each] for each in sorted(found - HIDDEN) if options.get(each)}
    if any(argument.name == NAMESPACE for act in acts if act.way == way for argument in act.arguments):
        args |= {NAMESPACE: options[NAMESPACE]} if options[NAMESPACE] else {}
    return {**args, **({WITH: way} if way else {})}


class _OrEmpty(click.ParamType[Any]):
    """The type of an option that may be left out, which leaves its text empty."""

    def __init__(self, kind: click.ParamType[Any]) -> None:
        self.name = kind.name
        self._kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return self._kind.convert(value, param, ctx) if value else ""

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        return self._kind.get_metavar(param, ctx)
