"""The profiles surface, declared."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.rows import Value
from haulout.cluster.view import CONFIG
from haulout.core.decision import Source
from haulout.core.declaration import Declaration
from haulout.surfaces.profiles.decide import MODE
from haulout.surfaces.profiles.engine import SURFACE, Config, Mode
from haulout.surfaces.profiles.surface import DECIDERS, OWN_KINDS, decided_upon

CONFIG_KEY = Key("", CONFIG, "", SURFACE)


class Options(msgspec.Struct, frozen=True):
    """The configuration that maintenance.yaml holds, and how it is served."""

    config: Config
    mode: Mode = Mode()


def mode_row(mode: Mode) -> Value:
    return Value(key=Key("", CONFIG, "", MODE), value=mode)


def _rows(options: Options) -> Iterator[Value]:
    yield Value(key=CONFIG_KEY, value=options.config)
    yield mode_row(options.mode)


def _sources(options: Options | None) -> frozenset[Source]:
    return decided_upon(options.config if options else None)


PROFILES = Declaration(
    name=SURFACE,
    deciders=DECIDERS,
    sources=_sources,
    rows=_rows,
    kinds=OWN_KINDS,
    drains=True,
    controllers=dict.fromkeys((decider.name for decider in DECIDERS), SURFACE),
    lease="maintenance-controller-leader-election.cloud.sap",
    explains={"Node": SURFACE},
)
