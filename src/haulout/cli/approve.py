"""`haulout approve`: gives the approval that a maintenance waits for: the label of a profile or of a Machine, or the annotation of a NotifyMaintenance."""

from __future__ import annotations

from haulout.cli.object_act import object_act

command = object_act(
    "approve",
    "Approve a maintenance that waits for approval.",
    "Approves a maintenance: sets the label that a profile or a Machine waits for, or the annotation of a NotifyMaintenance.",
)
