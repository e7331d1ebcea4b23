"""`haulout as nodewright-operator`: the operator of NodeWrights and Skyhooks with the defaults of nodewright v0.20."""

from __future__ import annotations

from collections.abc import Sequence

from haulout.cli.as_skyhook_operator import settings_of
from haulout.settings.settings import Settings
from haulout.surfaces.packages.settings import PAUSE_IMAGE, USUAL_TAINTS

NAME = "nodewright-operator"
# Variables whose defaults differ from those of the skyhook operator.
DEFAULTS = {
    "NAMESPACE": "nodewright",
    "AGENT_IMAGE": "ghcr.io/nvidia/nodewright/agent:latest",
    "PAUSE_IMAGE": PAUSE_IMAGE,
    "RUNTIME_REQUIRED_TAINT": USUAL_TAINTS[1],
    "WEBHOOK_SERVICE_NAME": "nodewright-webhook-service",
    "METRICS_PORT": ":8443",
}


def main(words: Sequence[str]) -> int | Settings:
    return settings_of(words, NAME, DEFAULTS, guards_metrics=True)
