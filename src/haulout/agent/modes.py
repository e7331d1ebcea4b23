"""The agent's modes, and which mode checks the work of which."""

from __future__ import annotations

MODES = (
    "uninstall",
    "uninstall-check",
    "upgrade",
    "upgrade-check",
    "apply",
    "apply-check",
    "config",
    "config-check",
    "interrupt",
    "post-interrupt",
    "post-interrupt-check",
)
INTERRUPT = "interrupt"
ACTIONS = ("uninstall", "upgrade", "apply", "config", "post-interrupt")
# These modes write flags like the others, but run their steps even if there is a flag.
WITHOUT_IDEMPOTENCE = ("config", "uninstall", "upgrade")
WITH_VERSIONS = ("upgrade", "upgrade-check")
WITHOUT_OVERLAY = ("uninstall", "uninstall-check")
WRITING_HISTORY = ("apply-check", "upgrade-check", "uninstall-check")
# The last checks of a stage. After them the copies of earlier generations are not needed any more.
REMOVING_COPIES = ("config-check", "post-interrupt-check", "uninstall-check")


def check_of(action: str) -> str:
    return f"{action}-check"


def is_check(mode: str) -> bool:
    return mode.endswith("-check")


def constant(mode: str) -> str:
    """Return a mode's name as messages about the package format spell it: POST_INTERRUPT."""
    return mode.upper().replace("-", "_")
