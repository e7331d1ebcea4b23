"""What the decisions of the clusterapi surface read of its settings."""

from __future__ import annotations

import msgspec

from haulout.cluster.view import View
from haulout.core.declaration import Context
from haulout.surfaces.clusterapi.declare import NAME
from haulout.surfaces.clusterapi.settings import ClusterApiSettings


class Options(ClusterApiSettings, frozen=True):
    """The settings, and what follows from how the surface is served.

    `owned_hosts_only`: a host is switched off only for the Machine that uses it, in its own namespace.
    """

    owned_hosts_only: bool = False


def served(settings: ClusterApiSettings, context: Context) -> Options:
    """Return what decisions read. An original alone accepts hosts that name no consumer, as its users know it."""
    return Options(**msgspec.structs.asdict(settings), owned_hosts_only=not context.alone)


def options_of(view: View) -> Options:
    row = view.config(NAME)
    return row.value if row is not None and isinstance(row.value, Options) else Options()
