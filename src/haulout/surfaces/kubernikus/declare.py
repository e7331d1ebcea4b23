"""The declaration of the kubernikus surface. Like in the original, it shares the turn and the lease of profiles."""

from __future__ import annotations

from haulout.core.remains import Mark, Place, Remains
from haulout.core.surface import Lint, Surface

LEASE = "maintenance-controller-leader-election.cloud.sap"

SURFACE = Surface(
    name="kubernikus",
    package=__package__ or "",
    summary="Kubernikus: label outdated kubelets, and delete the servers of nodes that are to go.",
    reporter="kubernikus-maintenance",
    within="profiles",
    remains=Remains(
        nodes=(
            Mark(Place.LABEL, "cloud.sap/kubelet-needs-update"),
            Mark(Place.ANNOTATION, "haulout.dev/deletion-begun-at"),
        ),
    ),
    lint=(
        Lint(
            stem="kubernikus",
            recognizes="haulout.surfaces.kubernikus.lint:is_kubernikus",
            check="haulout.surfaces.kubernikus.lint:lint",
        ),
    ),
    decisions="haulout.surfaces.kubernikus.surface:KUBERNIKUS",
    reasons="haulout.surfaces.kubernikus.reasons:REASONS",
    part="haulout.app.kubernikus:Kubernikus",
)
