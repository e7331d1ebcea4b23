"""The nodemaintenance surface, declared."""

from __future__ import annotations

from collections.abc import Iterator

from haulout.cluster.key import Key
from haulout.cluster.rows import Value
from haulout.cluster.view import CONFIG
from haulout.core.declaration import Declaration
from haulout.surfaces.nodemaintenance.given import SURFACE
from haulout.surfaces.nodemaintenance.options import Options
from haulout.surfaces.nodemaintenance.surface import DECIDERS, OWN_KINDS, sources
from haulout.surfaces.nodemaintenance.wire import KIND

CONFIG_KEY = Key("", CONFIG, "", SURFACE)


def _rows(options: Options) -> Iterator[Value]:
    yield Value(key=CONFIG_KEY, value=options)


NODEMAINTENANCE = Declaration(
    name=SURFACE,
    deciders=DECIDERS,
    sources=lambda options: sources(options or Options()),
    rows=_rows,
    kinds=OWN_KINDS,
    drains=True,
    controllers=dict.fromkeys((decider.name for decider in DECIDERS), SURFACE),
    lease="135b1886.medik8s.io",
    explains={KIND: SURFACE},
)
