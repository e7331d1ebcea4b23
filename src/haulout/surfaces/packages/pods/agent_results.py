"""The agent's result in the termination message of its container, as text for events and reasons."""

from __future__ import annotations

import msgspec
from msgspec import Struct

# The kubelet keeps 4 KiB of a termination message. An event note has room for 1 KiB, which this text shares with
# others.
LONGEST = 512


class _Step(Struct, frozen=True, rename="camel"):
    name: str | None = None
    path: str | None = None
    exit_code: int | None = None
    signal: int | str | None = None
    timed_out: bool | None = None


class _Result(Struct, frozen=True, rename="camel"):
    failed_step: _Step | None = None
    error: str | None = None
    log: str | None = None


_DECODER = msgspec.json.Decoder(_Result)


def failure_of(message: str) -> str:
    """Return which step of the agent failed and how; empty if the termination message does not say."""
    try:
        result = _DECODER.decode(message)
    except (msgspec.DecodeError, RecursionError):
        return ""
    if result.failed_step is None:
        return (result.error or "")[:LONGEST]
    log = f", see {result.log} on the host" if result.log else ""
    return f"{_described(result.failed_step)}{log}"[:LONGEST]


def _described(step: _Step) -> str:
    named = f"step {step.name} ({step.path})" if step.name and step.name != step.path else f"step {step.path}"
    if step.timed_out:
        return f"{named} took too long"
    if step.signal is not None:
        return f"{named} was ended by signal {step.signal}"
    return f"{named} ended with exit code {step.exit_code}"
