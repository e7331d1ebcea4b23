"""`haulout rerun`: runs a package on a node again, with the steps that were done before."""

from __future__ import annotations

from haulout.cli.object_act import object_act

command = object_act(
    "rerun",
    "Run a package on a node again, with all its steps.",
    "Runs a package on a node again, with the steps that were done before.",
)
