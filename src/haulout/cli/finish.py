"""`haulout finish`: ends the work on a node: the label of a profile or of a Machine, or the result of a NotifyMaintenance."""

from __future__ import annotations

from haulout.cli.object_act import object_act

command = object_act(
    "finish",
    "Say that the work on a node is over.",
    "Ends the work on a node: the label of a profile or of a Machine, or the result of a NotifyMaintenance.",
)
