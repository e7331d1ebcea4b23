"""The logging flags that every original built on controller-runtime has."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from haulout.base.number import digits
from haulout.cli.goflags import FlagProblem
from haulout.core.surface import Flag

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "error": logging.ERROR, "panic": logging.CRITICAL}
# For each flag, its name in the error message of controller-runtime (pkg/log/zap/flags.go) and its values in lower case.
ZAP_WORDS = {
    "zap-encoder": ("encoder value", {"json", "console"}),
    "zap-stacktrace-level": ("stacktrace level", {"info", "error", "panic"}),
    "zap-time-encoding": (
        "time-encoding value",
        {"epoch", "millis", "nano", "iso8601", "rfc3339", "rfc3339nano"},
    ),
}


def zap_flags(time_encoding: str) -> tuple[Flag, ...]:
    return (
        Flag("zap-devel", True, "Logs for people: readable lines, and debug messages."),
        Flag("zap-encoder", "", "How logs are written: json or console."),
        Flag("zap-log-level", "", "debug, info, error, panic, or a number above 0 for more detail."),
        Flag("zap-stacktrace-level", "", "From which level on traces are logged: info, error or panic."),
        Flag("zap-time-encoding", time_encoding, "epoch, millis, nano, iso8601, rfc3339 or rfc3339nano."),
    )


def log_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of `Settings` that the logging flags set. Raises FlagProblem for an invalid value."""
    return {"log_level": _level(values), "log_format": _format(values), "log_times": _times(values)}


def _format(values: Mapping[str, Any]) -> str:
    encoder: str = values["zap-encoder"].lower()
    return encoder or ("console" if values["zap-devel"] else "json")


def _times(values: Mapping[str, Any]) -> str:
    times: str = values["zap-time-encoding"].lower()
    return times or "iso8601"


def _level(values: Mapping[str, Any]) -> int:
    for name, (what, known) in ZAP_WORDS.items():
        if values[name] and values[name].lower() not in known:
            raise _refused(name, values[name], what)
    text: str = values["zap-log-level"]
    if not text:
        return logging.DEBUG if values["zap-devel"] else logging.INFO
    if text.lower() in LEVELS:
        return LEVELS[text.lower()]
    if digits(text):
        return logging.DEBUG
    raise _refused("zap-log-level", text, "log level")


def _refused(name: str, text: str, what: str) -> FlagProblem:
    return FlagProblem(f'invalid value "{text}" for flag -{name}: invalid {what} "{text}"')
