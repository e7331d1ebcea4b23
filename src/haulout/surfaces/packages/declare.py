"""The packages surface, declared."""

from __future__ import annotations

from haulout.core.surface import Surface

SURFACE = Surface(
    name="packages",
    package=__package__ or "",
    summary="Skyhooks: roll packages over nodes, with an agent that runs on the hosts.",
    crds=("skyhooks", "deploymentpolicies"),
    # It runs privileged pods.
    is_installed_by_name=True,
)
