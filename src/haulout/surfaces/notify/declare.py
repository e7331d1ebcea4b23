"""The notify surface, declared."""

from __future__ import annotations

from haulout.core.surface import Original, Surface

ORIGINAL = Original(name="pika", lease="a316e27f.nvidia.com")

SURFACE = Surface(
    name="notify",
    package=__package__ or "",
    summary="NotifyMaintenances: announce maintenance of nodes, run it at its time, and say when it is over.",
    decisions="haulout.surfaces.notify.surface:NOTIFY",
    original=ORIGINAL,
    crds=("notifymaintenances", "platforminfos"),
)
