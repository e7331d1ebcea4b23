"""`haulout retry`: tries the work on a node again that has failed: a package, or a NotifyMaintenance."""

from __future__ import annotations

from haulout.cli.object_act import object_act

command = object_act(
    "retry",
    "Retry failed work.",
    "Retries failed work on a node: a package, or a NotifyMaintenance.",
)
