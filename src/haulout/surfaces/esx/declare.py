"""The declaration of the esx surface. Like in the original, it shares the turn and the lease of profiles."""

from __future__ import annotations

from haulout.core.remains import Mark, Place, Remains
from haulout.core.surface import Lint, Surface

LEASE = "maintenance-controller-leader-election.cloud.sap"

SURFACE = Surface(
    name="esx",
    package=__package__ or "",
    summary="ESX hosts: take the virtual machines of nodes down before their host's maintenance, and up again after it.",
    reporter="esx-maintenance",
    within="profiles",
    kept_annotations=("cloud.sap/esx-reboot-initiated",),
    remains=Remains(
        nodes=(
            Mark(Place.ANNOTATION, "cloud.sap/esx-reboot-initiated"),
            Mark(Place.ANNOTATION, "haulout.dev/esx-initiated-at"),
            Mark(Place.LABEL, "cloud.sap/esx-in-maintenance"),
            Mark(Place.LABEL, "cloud.sap/esx-version"),
        ),
        advice=(("cloud.sap/esx-reboot-initiated", "its virtual machine may be powered off: power it on in vCenter"),),
    ),
    lint=(Lint(stem="esx", recognizes="haulout.surfaces.esx.lint:is_esx", check="haulout.surfaces.esx.lint:lint"),),
    decisions="haulout.surfaces.esx.surface:ESX",
    reasons="haulout.surfaces.esx.reasons:REASONS",
    part="haulout.app.esx:Esx",
)
