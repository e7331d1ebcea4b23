"""`haulout approve`: gives the approval that a maintenance waits for: the label of a profile or of a Machine, or the annotation of a NotifyMaintenance."""

from __future__ import annotations

from haulout.cli.object_act import object_act

command = object_act(
    "approve",
    "Allow a maintenance that waits for an approval.",
    "Gives the approval that a maintenance waits for: the label of a profile or of a Machine, or the annotation of a NotifyMaintenance.",
)
