"""The command line with its list of commands; a command's module is imported when it is named."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import click

from haulout import __version__
from haulout.settings.settings import ClusterSettings, DemoSettings, PlanSettings, Settings
from haulout.surfaces.registry import SurfaceProblem

Made = Settings | DemoSettings | ClusterSettings | PlanSettings

COMMANDS = {
    "act": "haulout.cli.act",
    "approve": "haulout.cli.approve",
    "as": "haulout.cli.drop_in",
    "bundle": "haulout.cli.bundle",
    "cancel": "haulout.cli.cancel",
    "cluster": "haulout.cli.cluster",
    "completion": "haulout.cli.completion_script",
    "console": "haulout.cli.console",
    "cordon": "haulout.cli.cordon",
    "crds": "haulout.cli.crds",
    "demo": "haulout.cli.demo",
    "drain": "haulout.cli.drain",
    "explain": "haulout.cli.explain",
    "finish": "haulout.cli.finish",
    "history": "haulout.cli.history",
    "init": "haulout.cli.init",
    "let-go": "haulout.cli.let_go",
    "lint": "haulout.cli.lint",
    "manifests": "haulout.cli.install",
    "override": "haulout.cli.override",
    "package": "haulout.cli.package",
    "pause": "haulout.cli.pause",
    "plan": "haulout.cli.plan",
    "plugins": "haulout.cli.plugins",
    "rbac": "haulout.cli.rbac",
    "report": "haulout.cli.report",
    "resume": "haulout.cli.resume",
    "rerun": "haulout.cli.rerun",
    "retry": "haulout.cli.retry",
    "run": "haulout.cli.run",
    "schema": "haulout.cli.schema",
    "start": "haulout.cli.start",
    "status": "haulout.cli.status",
    "uncordon": "haulout.cli.uncordon",
    "uninstall": "haulout.cli.uninstall",
    "version": "haulout.cli.version",
    "wait": "haulout.cli.wait",
    "webhooks": "haulout.cli.webhooks",
}


class Lazy(click.Group):
    """A click group that imports the module of a command when it is used. Each module has a click command `command`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name == "help":
            return _help
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(COMMANDS[cmd_name]).command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command. The error for an unknown command suggests the one with the most similar name."""
        word = args[0] if args else ""
        if word and not word.startswith("-") and word != "help" and word not in COMMANDS:
            import difflib

            close = difflib.get_close_matches(word, COMMANDS, 1)
            hint = f" Did you mean {close[0]!r}?" if close else " `haulout help` lists the commands."
            raise click.UsageError(f"No such command {word!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)


@click.command("help", short_help="Describe haulout, one of its commands or a reason code.")
@click.argument("words", nargs=-1, metavar="[COMMAND | CODE]...")
@click.pass_context
def _help(ctx: click.Context, words: tuple[str, ...]) -> int:
    """Describes haulout, the command that the words name, or a reason CODE of `explain` and `status`."""
    if len(words) == 1 and words[0] not in COMMANDS:
        from haulout.explain.codes import help_of

        if text := help_of(words[0].strip("[]")):
            click.echo(text)
            return 0
    root.main([*words, "--help"], prog_name="haulout", standalone_mode=False)
    return 0


@click.group(cls=Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="haulout %(version)s")
def root() -> None:
    """Takes Kubernetes nodes out of service and puts them back."""


def main(words: Sequence[str]) -> int | Made:
    """Run a command and return its exit code (1 failed, 2 wrong command line), or the settings of a process to start."""
    try:
        result: Any = root.main(list(words), prog_name="haulout", standalone_mode=False)
    except click.UsageError as error:
        error.show()
        return 2
    except click.ClickException as error:
        error.show()
        return 1
    except SurfaceProblem as error:
        click.echo(f"Error: {error}", err=True)
        return 1
    except click.Abort:
        # click turns a KeyboardInterrupt into Abort. The entry point expects the former.
        raise KeyboardInterrupt from None
    return result if isinstance(result, int | Made) else 0
