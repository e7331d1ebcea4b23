"""`haulout as skyhook-operator`: starts with the original's environment, ports, Lease, Secret and exit codes.

The original has no flags.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import click
import msgspec

from haulout.base import duration
from haulout.base.number import digits
from haulout.core.setting import describe
from haulout.settings.settings import Lease, Settings, Webhooks
from haulout.surfaces.packages.declare import LEASE, NAME, ORIGINAL
from haulout.surfaces.packages.settings import AGENT_IMAGE, PAUSE_IMAGE, PackagesSettings, problems

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR}
TRUE, FALSE = ("1", "t", "T", "true", "TRUE", "True"), ("0", "f", "F", "false", "FALSE", "False")


class EnvironmentProblem(Exception):
    """The environment has invalid variables. The message names all of them in one line."""


def main(words: Sequence[str]) -> int | Settings:
    return settings_of(words, ORIGINAL.name, {"AGENT_IMAGE": AGENT_IMAGE, "PAUSE_IMAGE": PAUSE_IMAGE})


def settings_of(
    words: Sequence[str], name: str, defaults: Mapping[str, str], *, guards_metrics: bool = False
) -> int | Settings:
    """Return the settings from the environment.

    `defaults`: values of variables that are not in it. `guards_metrics`: metrics are served over TLS to clients that the
    API server authorizes.
    """
    if words and words[0] in ("-h", "--help"):
        click.echo(f"Usage: haulout as {name}\n\nEverything is set by the environment (docs/packages.md).")
        return 0
    try:
        found = settings({**defaults, **os.environ})
        return msgspec.structs.replace(found, guarded=guards_metrics)
    except EnvironmentProblem as problem:
        click.echo(f"invalid options: {problem}", err=True)
        return 1


def settings(environment: Mapping[str, str]) -> Settings:
    """Return the settings of the process from environment variables. Raises EnvironmentProblem."""
    wrong: list[str] = []
    environment = {**{each.name: each.default for each in ORIGINAL.variables}, **environment}
    packages = _packages(environment, wrong)
    wrong += problems(packages)
    elects = _flag(environment, "LEADER_ELECTION", False, wrong)
    admits = _flag(environment, "ENABLE_WEBHOOKS", True, wrong)
    level = environment["LOG_LEVEL"].lower()
    if level not in LEVELS:
        wrong.append(f"log level is invalid: {level}")
    if wrong:
        raise EnvironmentProblem(", ".join(wrong))
    encoder = environment["LOG_ENCODER"].lower()
    return Settings(
        kubeconfig=environment["KUBECONFIG"],
        namespace=packages.namespace,
        http=environment["METRICS_PORT"],
        health=environment["PROBE_PORT"],
        webhooks=Webhooks(
            address=":9443" if admits else "0",
            certificates="skyhook",
            service=environment["WEBHOOK_SERVICE_NAME"],
            secret=environment["WEBHOOK_SECRET_NAME"],
            outside=packages.namespace,
        ),
        lease=Lease(LEASE, packages.namespace) if elects else None,
        turns=False,
        alone=True,
        ready_at_once=not admits,
        log_format="console" if encoder == "console" else "json",
        log_level=LEVELS[level],
        log_times=environment["LOG_TIME_ENCODER"].lower(),
        blocks={NAME: packages},
    )


def _packages(environment: Mapping[str, str], wrong: list[str]) -> PackagesSettings:
    """Return the settings of the packages surface. The variable of a field has the field's name in capitals.

    Problems are added to `wrong`.
    """
    fields: dict[str, Any] = {"agent_image": AGENT_IMAGE, "pause_image": PAUSE_IMAGE}
    for each in describe(PackagesSettings):
        name, variable = each.path[-1], each.path[-1].upper()
        if len(each.path) > 1 or variable not in environment:
            continue
        if isinstance(each.default, bool):
            fields[name] = _flag(environment, variable, fields.get(name, each.default), wrong)
        elif isinstance(each.default, int):
            fields[name] = _number(environment, variable, wrong)
        elif isinstance(each.default, timedelta):
            fields[name] = _span(environment, variable, each.default, wrong)
        elif isinstance(each.default, tuple):
            fields[name] = tuple(filter(None, (part.strip() for part in environment[variable].split(","))))
        elif isinstance(each.default, str):
            fields[name] = environment[variable]
    return PackagesSettings(**fields)


def _span(environment: Mapping[str, str], name: str, default: timedelta, wrong: list[str]) -> timedelta:
    try:
        return duration.parse(environment[name])
    except duration.DurationError as error:
        wrong.append(f"{name}: {error}")
        return default


def _flag(environment: Mapping[str, str], name: str, default: bool, wrong: list[str]) -> bool:
    text = environment.get(name, "")
    if not text:
        return default
    if text not in (*TRUE, *FALSE):
        wrong.append(f"{name} must be true or false, not {text!r}")
    return text in TRUE


def _number(environment: Mapping[str, str], name: str, wrong: list[str]) -> int:
    text = environment[name]
    number = digits(text.removeprefix("-"))
    if number is not None and text.startswith("-"):
        return -number
    if number is None:
        wrong.append(f"{name} must be a number, not {text[:64]!r}")
    return number or 0
