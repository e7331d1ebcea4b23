"""`haulout as maintenance-controller`: the original's flags, defaults, files and exit codes."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from haulout.cli.goflags import Flag, FlagProblem, HelpWanted, parse_flags, usage
from haulout.cli.settings import Lease, Settings

PROGRAM = "maintenance-controller"
CONFIG_FILE = "./config/maintenance.yaml"
LEASE = "maintenance-controller-leader-election.cloud.sap"

FLAGS = (
    Flag("metrics-addr", ":8080", "The address on which metrics are served."),
    Flag("health-addr", ":8081", "The address on which the probes are served."),
    Flag("kubecontext", "", "The context of the kubeconfig to use (or KUBECONTEXT)."),
    Flag("kubeconfig", "", "Path of a kubeconfig (or KUBECONFIG); without one, the service account of the pod."),
    Flag("enable-leader-election", False, "Act only while holding a lease; needed with more than one replica."),
    Flag("metrics-timeout", timedelta(seconds=65), "At the end, wait so long for one more scrape.", "duration"),
    Flag("zap-devel", True, "Logs for people: readable lines, and debug messages."),
    Flag("zap-encoder", "", "How logs are written: json or console."),
    Flag("zap-log-level", "", "debug, info, error, panic, or a number above 0 for more detail."),
    Flag("zap-stacktrace-level", "", "From which level on traces are logged: info, error or panic."),
    Flag("zap-time-encoding", "iso8601", "epoch, millis, nano, iso8601, rfc3339 or rfc3339nano."),
)

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "error": logging.ERROR, "panic": logging.CRITICAL}
# In any case; what it is called in the words of controller-runtime's pkg/log/zap/flags.go, and what it may be.
ZAP_WORDS = {
    "zap-encoder": ("encoder value", {"json", "console"}),
    "zap-stacktrace-level": ("stacktrace level", {"info", "error", "panic"}),
    "zap-time-encoding": (
        "time-encoding value",
        {"epoch", "millis", "nano", "iso8601", "rfc3339", "rfc3339nano"},
    ),
}


def main(words: Sequence[str]) -> int | Settings:
    if words and words[0] == "validate-config":
        return validate_config(words[1] if len(words) > 1 else CONFIG_FILE)
    try:
        values, _ = parse_flags(FLAGS, words)
        level = _level(values)
    except HelpWanted:
        click.echo(usage(PROGRAM, FLAGS), err=True)
        return 0
    except FlagProblem as problem:
        click.echo(f"{problem}\n{usage(PROGRAM, FLAGS)}", err=True)
        return 2
    # Not released at the end: the next leader waits until it has run out, as the original has it.
    lease = Lease(LEASE, retry=5.0, release=False)
    return Settings(
        kubeconfig=values["kubeconfig"],
        context=values["kubecontext"] or os.environ.get("KUBECONTEXT", ""),
        http=values["metrics-addr"],
        health=values["health-addr"],
        lease=lease if values["enable-leader-election"] else None,
        turns=False,
        ready_at_once=True,
        scrape_within=values["metrics-timeout"].total_seconds(),
        log_format=_encoder(values),
        log_level=level,
        profiles_config=CONFIG_FILE,
    )


def validate_config(path: str) -> int:
    """0 if the file loads, with a line for everything odd in it; else the first error in the original's words."""
    from haulout.plugins.config import ConfigProblem
    from haulout.plugins.load import PluginProblem
    from haulout.surfaces.profiles.load import load, problems
    from haulout.surfaces.profiles.surface import known_plugins

    source = path.removeprefix("./")
    try:
        data, plugins = Path(path).read_bytes(), known_plugins()
        load(data, plugins, source=source, environment=os.environ)
    except OSError as error:
        click.echo(f"{path}: {error.strerror}", err=True)
        return 1
    except PluginProblem as error:
        click.echo(str(error), err=True)
        return 1
    except ConfigProblem as problem:
        place = f"{source}:{problem.place.line}:{problem.place.column}: " if problem.place else f"{source}: "
        right = f" ({problem.right})" if problem.right else ""
        click.echo(f"{place}{problem.text}{right}", err=True)
        return 1
    for line in problems(data, plugins, source=source, environment=os.environ):
        click.echo(str(line), err=True)
    return 0


def _encoder(values: Mapping[str, Any]) -> str:
    encoder: str = values["zap-encoder"].lower()
    return encoder or ("console" if values["zap-devel"] else "json")


def _level(values: Mapping[str, Any]) -> int:
    for name, (what, known) in ZAP_WORDS.items():
        if values[name] and values[name].lower() not in known:
            raise _refused(name, values[name], what)
    text: str = values["zap-log-level"]
    if not text:
        return logging.DEBUG if values["zap-devel"] else logging.INFO
    if text.lower() in LEVELS:
        return LEVELS[text.lower()]
    if text.isdecimal() and int(text) > 0:
        return logging.DEBUG
    raise _refused("zap-log-level", text, "log level")


def _refused(name: str, text: str, what: str) -> FlagProblem:
    return FlagProblem(f'invalid value "{text}" for flag -{name}: invalid {what} "{text}"')
