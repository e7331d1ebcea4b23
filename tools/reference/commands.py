"""The reference of the command line: every command of `haulout`, its arguments and its options."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import cleandoc

import click

from haulout.cli.root import COMMANDS, root
from tools.reference.table import code, table

# The options of kubectl for the connection, which most commands have: they are described once.
SHARED = {"--kubeconfig", "--context", "--namespace", "--as", "--as-group"}


def lines() -> Iterator[str]:
    yield "# Commands"
    yield ""
    yield "Every command of `haulout`. Made by `python -m tools.reference` from the commands themselves; `haulout help COMMAND` prints the"
    yield "same. A command ends with 0 if it did what it was asked for, with 1 if that failed or was refused, and with 2 for a wrong command"
    yield "line; other codes are named with their command."
    yield ""
    context = click.Context(root, info_name="haulout", **root.context_settings)
    yield "## Options of the connection"
    yield ""
    yield "Commands that ask a cluster find it as kubectl does, and take these options of kubectl:"
    yield ""
    status = root.get_command(context, "status")
    assert status is not None
    yield from table(
        ("Option", "Default", "Meaning"), [_row(each, context) for each in _options(status) if each.opts[-1] in SHARED]
    )
    for name in sorted(COMMANDS):
        command = root.get_command(context, name)
        assert command is not None
        yield from _command(command, click.Context(command, context, info_name=name), "##")


def _command(command: click.Command, context: click.Context, heading: str) -> Iterator[str]:
    """Yield the section of a command, and those of the commands below it."""
    yield f"{heading} {code(context.command_path)}"
    yield ""
    yield f"    {context.command_path} {' '.join(command.collect_usage_pieces(context))}".rstrip()
    yield ""
    yield from _prose(command.help or "")
    options = _options(command)
    own = [each for each in options if each.opts[-1] not in SHARED]
    if own:
        yield from table(("Option", "Default", "Meaning"), [_row(each, context) for each in own])
    if len(own) < len(options):
        yield "It also takes the [options of the connection](#options-of-the-connection)."
        yield ""
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            if not below.hidden:
                yield from _command(below, click.Context(below, context, info_name=name), f"{heading}#")


def _prose(text: str) -> Iterator[str]:
    """Yield the help of a command as paragraphs.

    A paragraph that click prints as it is (it begins with a line of one backspace) is a block of code.
    """
    for paragraph in cleandoc(text.partition("\f")[0]).split("\n\n"):
        as_it_is = paragraph.startswith("\b\n")
        for line in paragraph.removeprefix("\b\n").splitlines():
            yield f"    {line}" if as_it_is else _escaped(line)
        yield ""


def _options(command: click.Command) -> list[click.Option]:
    return [each for each in command.params if isinstance(each, click.Option) and not each.hidden]


def _row(option: click.Option, context: click.Context) -> tuple[str, ...]:
    names = ", ".join(code(each) for each in (*option.opts, *option.secondary_opts))
    value = "" if option.is_flag or option.count else f" {code(option.make_metavar(context))}"
    extra = option.get_help_extra(context)
    default = "required" if option.required else code(str(extra["default"])) if extra.get("default") else ""
    several = " May be given several times." if option.multiple else ""
    return f"{names}{value}", default, f"{_escaped(' '.join((option.help or '').split()))}{several}"


def _escaped(text: str) -> str:
    """Return a text in which words between angle brackets are not taken for markup."""
    return text.replace("<", "&lt;").replace("*", "\\*")
