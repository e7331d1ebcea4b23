"""`haulout rerun`: runs a package on a node again, with the steps that were done before."""

from __future__ import annotations

from haulout.cli.object_act import object_act

command = object_act(
    "rerun",
    "Rerun all steps of a package on a node.",
    "Reruns a package on a node, including the steps that have succeeded.",
)
