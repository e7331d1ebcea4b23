"""A table of when the agent runs a step and when it skips it, which tests run in local mode, a chroot and containers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.build.agent import step

# A step of the table appends its argument to the file that TRACE names.
TRACE = 'echo "$1" >> "$TRACE"'
CHECK = [step("trace.sh", "checked")]
MODES: dict[str, list[dict[str, Any]]] = {
    "apply": [step("trace.sh", "once"), step("trace.sh", "always", idempotence=True)],
    "apply_check": CHECK,
    "config": [step("trace.sh", "config")],
    "config_check": CHECK,
    "post_interrupt": [step("trace.sh", "after")],
    "post_interrupt_check": CHECK,
    "uninstall": [step("trace.sh", "uninstall")],
    "uninstall_check": CHECK,
}


@dataclass(frozen=True)
class Row:
    """A run of the agent, with the expected result and what its steps write down. The rows follow one another."""

    mode: str
    result: str
    skipped: int
    traced: tuple[str, ...]
    always_run_step: bool = False


ROWS = (
    Row("apply", "succeeded", 0, ("once", "always")),
    Row("apply", "succeeded", 1, ("always",)),
    Row("apply", "succeeded", 0, ("once", "always"), always_run_step=True),
    Row("apply-check", "succeeded", 0, ("checked",)),
    Row("config", "succeeded", 0, ("config",)),
    Row("config", "succeeded", 0, ("config",)),
    Row("post-interrupt", "succeeded", 0, ("after",)),
    Row("post-interrupt", "succeeded", 1, ()),
    Row("upgrade", "noop", 0, ()),
    Row("mode-of-a-later-version", "noop", 0, ()),
    Row("uninstall", "succeeded", 0, ("uninstall",)),
    Row("uninstall-check", "succeeded", 0, ("checked",)),
    Row("apply", "succeeded", 0, ("once", "always")),
)
