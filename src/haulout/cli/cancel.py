"""`haulout cancel`: ends a maintenance and gives its node back."""

from __future__ import annotations

from haulout.cli.object_act import object_act

command = object_act(
    "cancel",
    "End a maintenance and return its node to service.",
    "Ends a maintenance the way its surface does: pods that have not been evicted stay, and the node returns to service.",
)
