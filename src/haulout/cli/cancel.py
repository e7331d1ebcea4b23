"""`haulout cancel`: ends a maintenance and gives its node back."""

from __future__ import annotations

from haulout.cli.object_act import object_act

command = object_act(
    "cancel",
    "End a maintenance and give its node back.",
    "Ends a maintenance as its surface ends it: pods that have not been evicted stay, and the node is given back.",
)
