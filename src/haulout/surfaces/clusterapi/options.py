"""The settings of the clusterapi surface in the form that its decisions read."""

from __future__ import annotations

import msgspec

from haulout.cluster.view import View
from haulout.core.declaration import Context
from haulout.surfaces.clusterapi.declare import NAME
from haulout.surfaces.clusterapi.settings import ClusterApiSettings


class Options(ClusterApiSettings, frozen=True):
    """The settings of the surface, and how it is served.

    `owned_hosts_only`: a host is switched off only for the Machine that uses it, in the same namespace.
    """

    owned_hosts_only: bool = False


def make_options(settings: ClusterApiSettings, context: Context) -> Options:
    """Return the options from the settings and the context.

    Like the original, the drop-in also accepts hosts that name no consumer.
    """
    return Options(**msgspec.structs.asdict(settings), owned_hosts_only=not context.alone)


def options_of(view: View) -> Options:
    row = view.config(NAME)
    return row.value if row is not None and isinstance(row.value, Options) else Options()
