"""Reads the command line of `skyhook` and runs the command that it names."""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence
from datetime import timedelta
from functools import cache
from typing import Any, NamedTuple

import click

from haulout import __version__
from haulout.base.duration import quote
from haulout.cli.skyhook.completion import ASK, SHELLS, candidates, script
from haulout.cli.skyhook.flags import BOOL, DURATION, NUMBER, TEXTS, Flag, FlagError, Parsed, read_flags
from haulout.cli.skyhook.output import FORMATS, TABLE, Failed
from haulout.runtime.interruption import run_command
from haulout.surfaces.packages import groups

PROGRAM, RENAMED = "skyhook", "nodewright"
VERSION_PREFIX = "Skyhook plugin:"
STAGES = ("apply", "config", "interrupt", "post-interrupt")

GLOBAL = (
    Flag("as", "Username to impersonate for the operation."),
    Flag("as-group", "Group to impersonate for the operation, repeatable.", TEXTS, ()),
    Flag("as-uid", "UID to impersonate for the operation."),
    Flag("as-user-extra", "Extra of the user to impersonate, as KEY=VALUE, repeatable.", TEXTS, ()),
    Flag("cache-dir", "Accepted for kubectl's sake, without effect."),
    Flag("certificate-authority", "File with the authority of the API server."),
    Flag("client-certificate", "File with a client certificate."),
    Flag("client-key", "File with the key of the client certificate."),
    Flag("cluster", "The cluster of the kubeconfig to use."),
    Flag("context", "The context of the kubeconfig to use."),
    Flag("disable-compression", "Accepted for kubectl's sake, without effect.", BOOL, False),
    Flag("insecure-skip-tls-verify", "Do not check the certificate of the API server.", BOOL, False),
    Flag("kubeconfig", "The kubeconfig to use."),
    Flag("namespace", "The namespace of the operator.", default="skyhook", short="n"),
    Flag("password", "Password for basic authentication."),
    Flag("request-timeout", "How long one request may take.", DURATION, timedelta()),
    Flag("server", "The address of the API server.", short="s"),
    Flag("tls-server-name", "The name by which the certificate of the API server is checked."),
    Flag("token", "Bearer token to use."),
    Flag("user", "The user of the kubeconfig to use."),
    Flag("username", "Name for basic authentication."),
    Flag("output", f"Output format: {', '.join(FORMATS)}.", default=TABLE, short="o"),
    Flag("verbose", "Report what is skipped.", BOOL, False, "v"),
    Flag("dry-run", "Show what would happen without changing anything.", BOOL, False),
    Flag("help", "Show help.", BOOL, False, "h"),
    Flag("version", "Show the version of this program.", BOOL, False),
)
SKYHOOK = Flag("skyhook", "Name of the Skyhook.")
NODES = Flag("node", "Name of a node or a regular expression, repeatable.", TEXTS, ())
STAGE = Flag("stage", f"Stage: {', '.join(STAGES)}.")
CONFIRM = Flag("confirm", "Skip the confirmation.", BOOL, False, "y")
FOLLOW = Flag("follow", "Follow the logs.", BOOL, False, "f")
TAIL = Flag("tail", "How many lines to show from the end; -1 for all.", NUMBER, -1)
TIMEOUT = Flag("timeout", "How long the cluster may take to answer.", DURATION, timedelta(seconds=10))
CLIENT_ONLY = Flag("client-only", "Print only the version of this program.", BOOL, False)
SKIP_BATCHES = Flag("skip-batch-reset", "Keep the batch state.", BOOL, False)
ONE_PACKAGE = Flag("package", "Only this package, as NAME or NAME:VERSION.")
SELECTOR = Flag("selector", "Only nodes with these labels.", short="l")
ADD = Flag("add", "Also add the package to nodes that have no state of it.", BOOL, False)


class Command(NamedTuple):
    """One command of the `skyhook` program.

    `words`: its arguments, as help shows them. `run`: module and function that run it. `least`, `most`: how many
    arguments it takes; `most` None: any number. `required`: the flags that must be set.
    """

    words: str
    help: str
    run: str
    least: int = 0
    most: int | None = 0
    flags: tuple[Flag, ...] = ()
    required: tuple[str, ...] = ()


COMMANDS: dict[tuple[str, ...], Command] = {
    ("version",): Command("", "Show the versions.", "lifecycle:version", flags=(TIMEOUT, CLIENT_ONLY)),
    ("pause",): Command("SKYHOOK", "Pause a Skyhook.", "lifecycle:pause", 1, 1, (CONFIRM,)),
    ("resume",): Command("SKYHOOK", "Resume a paused Skyhook.", "lifecycle:resume", 1, 1, (CONFIRM,)),
    ("disable",): Command("SKYHOOK", "Disable a Skyhook.", "lifecycle:disable", 1, 1, (CONFIRM,)),
    ("enable",): Command("SKYHOOK", "Enable a disabled Skyhook.", "lifecycle:enable", 1, 1, (CONFIRM,)),
    ("reset",): Command("SKYHOOK", "Run a Skyhook anew.", "reset:reset", 1, 1, (CONFIRM, SKIP_BATCHES, ONE_PACKAGE)),
    ("update-state",): Command(
        "SKYHOOK PACKAGE VERSION STAGE STATE",
        "Set where a package is on nodes.",
        "update_state:update_state",
        5,
        5,
        (NODES, SELECTOR, ADD, CONFIRM),
    ),
    ("deployment-policy", "reset"): Command("SKYHOOK", "Begin the waves anew.", "reset:reset_policy", 1, 1, (CONFIRM,)),
    ("node", "list"): Command(
        "", "List the nodes of a Skyhook.", "node_show:list_nodes", flags=(SKYHOOK,), required=("skyhook",)
    ),
    ("node", "status"): Command(
        "[NODE...]", "Show what Skyhooks do on nodes.", "node_show:node_status", 0, None, (SKYHOOK,)
    ),
    ("node", "reset"): Command(
        "NODE...", "Run a Skyhook again on nodes.", "node_edit:reset", 1, None, (SKYHOOK, CONFIRM), ("skyhook",)
    ),
    ("node", "ignore"): Command("NODE...", "Exclude nodes from all Skyhooks.", "node_edit:ignore", 1, None),
    ("node", "unignore"): Command("NODE...", "Include ignored nodes again.", "node_edit:unignore", 1, None),
    ("package", "status"): Command(
        "PACKAGE", "Show a package on nodes.", "package_status:status", 1, 1, (SKYHOOK, NODES), ("skyhook",)
    ),
    ("package", "rerun"): Command(
        "PACKAGE",
        "Run a package again on nodes.",
        "package_status:rerun",
        1,
        1,
        (SKYHOOK, NODES, STAGE, CONFIRM),
        ("skyhook", "node"),
    ),
    ("package", "logs"): Command(
        "PACKAGE",
        "Show the logs of a package.",
        "package_logs:logs",
        1,
        1,
        (SKYHOOK, NODES, STAGE, FOLLOW, TAIL),
        ("skyhook",),
    ),
}
# The same flag by the names of both programs.
_FLAG = re.compile(r"^--(?:skyhook|nodewright)(=.*)?$", re.DOTALL)
GROUPS = {path[0] for path in COMMANDS if len(path) == 2}
ALIASES = {"dp": "deployment-policy"}
COMPLETION, COMPLETION_HELP = ("completion",), "Print the completion script of a shell."


def main(words: Sequence[str], program: str = PROGRAM) -> int:
    """Run a command. Return 0 on success. On failure print the error to stderr and return 1."""
    try:
        if tuple(words[:1]) == (ASK,):
            known = {path: (each.help, each.flags) for path, each in commands_of(program).items()}
            known[COMPLETION] = (COMPLETION_HELP, ())
            click.echo("".join(f"{text}\n" for text in candidates(words[1:], known, GLOBAL)), nl=False)
            return 0
        return _main(words, program)
    except (Failed, FlagError) as error:
        click.echo(str(error), err=True)
        return 1


def nodewright(words: Sequence[str]) -> int:
    """Run a command as `nodewright`, whose flags, help and messages have that word. Both programs know the flags of both."""
    return main(words, RENAMED)


@cache
def commands_of(program: str) -> dict[tuple[str, ...], Command]:
    """Return the commands in the words of a program."""
    if program != RENAMED:
        return COMMANDS
    return {
        path: each._replace(
            words=_in_new_words(each.words),
            help=_in_new_words(each.help),
            flags=tuple(
                flag._replace(name=_in_new_words(flag.name), help=_in_new_words(flag.help)) for flag in each.flags
            ),
            required=tuple(map(_in_new_words, each.required)),
        )
        for path, each in COMMANDS.items()
    }


def _in_new_words(text: str) -> str:
    for old, new in (("Skyhook", "NodeWright"), ("SKYHOOK", "NODEWRIGHT"), ("skyhook", "nodewright")):
        text = text.replace(old, new)
    return text


def _completion(words: Sequence[str], program: str) -> int:
    """Print the completion script of a shell; without a shell, what it is for, as the original does."""
    (shell, *_) = words or [""]
    if shell in SHELLS:
        click.echo(script(shell, program), nl=False)
        return 0
    click.echo(
        f"Print the completion script of a shell, to be sourced: source <({program} completion bash)\n\n"
        f"Usage: {program} completion {{{'|'.join(SHELLS)}}}"
    )
    return 0


def _main(words: Sequence[str], program: str) -> int:
    words = [_FLAG.sub(rf"--{program}\1", word) for word in words]
    commands = commands_of(program)
    parsed = read_flags(words, (*GLOBAL, *(flag for command in commands.values() for flag in command.flags)))
    if parsed.values.get("version") and not parsed.words:
        click.echo(f"{VERSION_PREFIX} v{__version__}")
        return 0
    if tuple(parsed.words[:1]) == ("help",):
        return _main((*parsed.words[1:], "--help"), program)
    if tuple(parsed.words[:1]) == COMPLETION:
        return _completion(parsed.words[1:], program)
    path = _path(parsed.words)
    if path not in commands:
        return _without_command(path, parsed, program)
    command = commands[path]
    if parsed.values.get("help"):
        _show_help(path, command, program)
        return 0
    values = _values(command, parsed, program)
    # The functions of the commands know the flag by its first name.
    values["skyhook"] = values.get(program, "")
    values["is-renamed"] = program == RENAMED
    values["group"] = groups.NODEWRIGHT if program == RENAMED else groups.SKYHOOK
    if program == RENAMED and "namespace" not in parsed.values:
        # The namespace in which the operator is found.
        values["namespace"] = ""
    rest = parsed.words[len(path) :]
    _check_count(command, len(rest))
    module, _, function = command.run.partition(":")
    run = getattr(importlib.import_module(f"haulout.cli.skyhook.{module}"), function)
    run_command(run(rest, values))
    return 0


def _path(words: Sequence[str]) -> tuple[str, ...]:
    first = ALIASES.get(words[0], words[0]) if words else ""
    return tuple([first, *words[1:2]] if first in GROUPS else [first] if first else [])


def _without_command(path: tuple[str, ...], parsed: Parsed, program: str) -> int:
    """Show help for the program or a group of commands. Raises Failed for an unknown command.

    Like the original, an unknown command of a group shows the help of the group.
    """
    if path and path[0] not in GROUPS:
        raise Failed(f"unknown command {quote(path[-1])} for {quote(program)}")
    path = path[:1]
    commands = {known: each for known, each in commands_of(program).items() if known[: len(path)] == path}
    click.echo(f"Usage: {' '.join([program, *path])} COMMAND [FLAGS]\n\nCommands:")
    for known, command in commands.items():
        click.echo(f"  {' '.join([*known, command.words]).strip():<36}{command.help}")
    if not path:
        click.echo(f"  {'completion SHELL':<36}{COMPLETION_HELP}")
    _show_flags("Flags of all commands", GLOBAL)
    return 0


def _show_help(path: tuple[str, ...], command: Command, program: str) -> None:
    usage = " ".join(filter(None, [program, *path, command.words, "[FLAGS]"]))
    click.echo(f"{command.help}\n\nUsage: {usage}")
    if command.flags:
        _show_flags("Flags", command.flags)
    _show_flags("Flags of all commands", GLOBAL)


def _show_flags(title: str, flags: Sequence[Flag]) -> None:
    click.echo(f"\n{title}:")
    for flag in flags:
        short = f"-{flag.short}, " if flag.short else "    "
        kind = "" if flag.kind == BOOL else f" {flag.kind}"
        click.echo(f"  {short}--{flag.name + kind:<32}{flag.help}")


def _values(command: Command, parsed: Parsed, program: str) -> dict[str, Any]:
    """Return the values of all flags of the command. Raises FlagError for an unknown or a missing flag."""
    known = {flag.name: flag.default for flag in (*GLOBAL, *command.flags)}
    if foreign := [name for name in parsed.values if name not in known]:
        raise FlagError(f"unknown flag: --{foreign[0]}")
    if absent := [name for name in command.required if name not in parsed.values]:
        raise FlagError(f"required flag(s) {', '.join(map(quote, absent))} not set")
    values = {**known, **parsed.values}
    _check_values(values, command, program)
    return values


def _check_values(values: dict[str, Any], command: Command, program: str) -> None:
    output = values["output"]
    values["output"] = output.lower()
    if values["output"] not in FORMATS:
        raise FlagError(f"invalid output format {quote(output)}")
    if program in command.required and not values[program]:
        raise FlagError(f"--{program} flag is required")
    stage = values.get("stage", "")
    if stage and stage not in STAGES:
        raise FlagError(f"invalid stage {quote(stage)}: must be one of {', '.join(STAGES)}")


def _check_count(command: Command, count: int) -> None:
    if command.most == command.least != count:
        raise FlagError(f"accepts {command.least} arg(s), received {count}")
    if count < command.least:
        raise FlagError(f"requires at least {command.least} arg(s), only received {count}")
