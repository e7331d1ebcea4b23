"""`haulout let-go`: gives a node back whose maintenance has vanished."""

from __future__ import annotations

from haulout.cli.object_act import object_act

command = object_act(
    "let-go",
    "Release a node whose maintenance no longer exists.",
    "Releases a node that is still cordoned for a maintenance whose object no longer exists: restores the state that the "
    "annotation haulout.dev/cordon recorded, and removes the taint of the maintenance. It refuses if an object claims the node, "
    "or if that cannot be read.",
    "node/NAME",
)
