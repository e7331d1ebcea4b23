"""The notify surface, declared."""

from __future__ import annotations

from collections.abc import Iterator

from haulout.cluster.key import Key
from haulout.cluster.rows import Value
from haulout.cluster.view import CONFIG
from haulout.core.declaration import Declaration
from haulout.surfaces.notify.options import Options
from haulout.surfaces.notify.surface import DECIDERS, OWN_KINDS, sources
from haulout.surfaces.notify.wire import KIND, LEASE, SURFACE

CONFIG_KEY = Key("", CONFIG, "", SURFACE)
CONTROLLER = "notifymaintenance"


def _rows(options: Options) -> Iterator[Value]:
    yield Value(key=CONFIG_KEY, value=options)


NOTIFY = Declaration(
    name=SURFACE,
    deciders=DECIDERS,
    sources=sources,
    rows=_rows,
    kinds=OWN_KINDS,
    controllers=dict.fromkeys((decider.name for decider in DECIDERS), CONTROLLER),
    lease=LEASE,
    explains={KIND: SURFACE},
)
