"""The clusterapi surface, declared."""

from __future__ import annotations

from collections.abc import Iterator

from haulout.cluster.key import Key
from haulout.cluster.rows import Value
from haulout.cluster.view import CONFIG
from haulout.core.declaration import Declaration
from haulout.surfaces.clusterapi import cleanup, machine, orphans
from haulout.surfaces.clusterapi.options import Options
from haulout.surfaces.clusterapi.record import recorded
from haulout.surfaces.clusterapi.surface import DECIDERS, OWN_KINDS, sources
from haulout.surfaces.clusterapi.wire import MACHINE, SURFACE

CONFIG_KEY = Key("", CONFIG, "", SURFACE)


def _rows(options: Options) -> Iterator[Value]:
    yield Value(key=CONFIG_KEY, value=options)


CLUSTERAPI = Declaration(
    name=SURFACE,
    deciders=tuple(map(recorded, DECIDERS)),
    sources=lambda options: sources(options or Options()),
    rows=_rows,
    kinds=OWN_KINDS,
    claims=False,
    controllers=dict.fromkeys((cleanup.RELEASE, orphans.DECIDER), machine.DECIDER),
    lease="runtime-extension-maintenance-controller",
    explains={MACHINE: machine.DECIDER},
)
