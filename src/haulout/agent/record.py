"""The agent's result as one JSON object, which Kubernetes shows as the message of the terminated container."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

LARGEST = 4096
CUTS = (1000, 400, 150, 60, 20)


@dataclass(frozen=True, slots=True)
class FailedStep:
    """The step that made a mode fail. Its exit code is None if the step was not started."""

    name: str
    path: str
    exit_code: int | None
    signal: int | None = None
    timed_out: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """How a run ended: succeeded, failed, noop or terminated."""

    result: str
    ran: int = 0
    skipped: int = 0
    failed_step: FailedStep | None = None
    error: str | None = None
    log: str | None = None

    @property
    def exit_code(self) -> int:
        return 0 if self.result in ("succeeded", "noop") else 1


def failure_result(error: str) -> Result:
    return Result("failed", error=error)


def record(mode: str, package: str, version: str, result: Result) -> bytes:
    """Return the record of a run as JSON, with long strings cut to make it fit. It has no arguments or variables."""
    for cut in CUTS:
        text = json.dumps(_document(mode, package, version, result, cut), separators=(",", ":")).encode()
        if len(text) <= LARGEST:
            return text
    return json.dumps({"result": result.result}).encode()


def _document(mode: str, package: str, version: str, result: Result, cut: int) -> dict[str, Any]:
    step = result.failed_step
    return {
        "mode": mode[:cut],
        "package": package[:cut],
        "version": version[:cut],
        "result": result.result,
        "ran": result.ran,
        "skipped": result.skipped,
        "failedStep": step
        and {
            "name": step.name[:cut],
            "path": step.path[:cut],
            "exitCode": step.exit_code,
            "signal": step.signal,
            "timedOut": step.timed_out,
        },
        "error": result.error and result.error[:cut],
        "log": result.log and result.log[:cut],
    }
