"""`haulout let-go`: gives a node back whose maintenance has vanished."""

from __future__ import annotations

from haulout.cli.object_act import object_act

command = object_act(
    "let-go",
    "Give back a node whose maintenance has vanished.",
    "Gives a node back that is still cordoned for a maintenance whose object no longer exists: restores what the annotation "
    "haulout.dev/cordon remembers, and removes the taint of the maintenance. It is refused while an object claims the node, "
    "or while that cannot be read.",
    "node/NAME",
)
