"""`haulout run`: serves any set of surfaces in one process (decision 0003)."""

from __future__ import annotations

import os
from pathlib import Path

import click
import msgspec

from haulout.cli import completions
from haulout.cli.options import impersonation_options
from haulout.settings.settings import Settings


@click.command("run", short_help="Serve surfaces from haulout.yaml.")
@click.option(
    "--config",
    default="",
    metavar="FILE",
    shell_complete=completions.files,
    help="Settings file; without one, ./haulout.yaml if it is there.",
)
@click.option(
    "--surfaces",
    default="",
    metavar="A,B",
    shell_complete=completions.surface_list,
    help="Serve only these surfaces.",
)
@click.option(
    "--kubeconfig", default="", metavar="FILE", shell_complete=completions.files, help="Kubeconfig of the home cluster."
)
@click.option("--context", default="", metavar="NAME", help="Context of the kubeconfig to use.")
@click.option("-n", "--namespace", default="", metavar="NAME", help="Namespace of the lease.")
@impersonation_options
@click.option("--log-format", default="", metavar="FORMAT", help="json or console.")
@click.option("--log-level", default="", metavar="LEVEL", help="debug, info, warning or error.")
@click.option("--listen-http", default="", metavar="ADDRESS", help="Address of metrics; 0 for none.")
@click.option("--listen-health", default="", metavar="ADDRESS", help="Address of the probes; 0 for none.")
@click.option("--listen-webhooks", default="", metavar="ADDRESS", help="Address of the webhooks; 0 for none.")
@click.option("--leader-elect", default=None, type=click.BOOL, help="Whether to act only while holding the Lease.")
def command(
    config: str, surfaces: str, leader_elect: bool | None, as_user: str, as_groups: tuple[str, ...], **named: str
) -> Settings:
    """Serves the surfaces that haulout.yaml enables, until SIGTERM or SIGINT.

    Flags override environment variables (HAULOUT_LOG__LEVEL for log.level), which override the file.
    """
    from haulout.settings.file import SettingsProblem, names_surfaces, read_settings

    names = {"log_format": "log.format", "log_level": "log.level", "listen_http": "listen.http"}
    names |= {"listen_health": "listen.health", "listen_webhooks": "listen.webhooks"}
    flags = {names.get(name, name): text for name, text in named.items() if text}
    if leader_elect is not None:
        flags["leader.elect"] = str(leader_elect).lower()
    path = Path(config or "haulout.yaml")
    if not config and not path.exists() and not names_surfaces(surfaces, os.environ):
        raise click.ClickException(
            "there is no haulout.yaml here (`haulout init` writes one to begin with; --config names another file, "
            "--surfaces serves surfaces with their defaults)"
        )
    try:
        data = path.read_bytes() if config or path.exists() else b""
        settings = read_settings(data, str(path), os.environ, flags, surfaces)
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror}") from None
    except SettingsProblem as problem:
        raise click.ClickException(str(problem)) from None
    return msgspec.structs.replace(settings, as_user=as_user, as_groups=as_groups)
