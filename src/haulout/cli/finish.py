"""`haulout finish`: ends the work on a node: the label of a profile or of a Machine, or the result of a NotifyMaintenance."""

from __future__ import annotations

from haulout.cli.object_act import object_act

command = object_act(
    "finish",
    "Report that the work on a node is done.",
    "Reports that the work on a node is done: sets the label of a profile or of a Machine, or the result of a NotifyMaintenance.",
)
