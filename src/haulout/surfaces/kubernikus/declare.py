"""Kubernikus maintenance, declared: a surface that shares the turn and the lease of profiles, as the original has it."""

from __future__ import annotations

from collections.abc import Iterator

from haulout.cluster.key import Key
from haulout.cluster.rows import Value
from haulout.cluster.view import CONFIG
from haulout.core.declaration import Declaration
from haulout.surfaces.kubernikus.options import Options
from haulout.surfaces.kubernikus.surface import DECIDERS, sources
from haulout.surfaces.kubernikus.wire import NAME

CONFIG_KEY = Key("", CONFIG, "", NAME)


def _rows(options: Options) -> Iterator[Value]:
    yield Value(key=CONFIG_KEY, value=options)


KUBERNIKUS = Declaration(
    name=NAME,
    deciders=DECIDERS,
    sources=lambda options: sources(),
    rows=_rows,
    drains=True,
    within="profiles",
    lease="maintenance-controller-leader-election.cloud.sap",
    explains={"Node": NAME},
)
