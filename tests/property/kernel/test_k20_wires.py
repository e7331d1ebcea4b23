"""K20 where objects come in: whatever times an object holds, those of its row are within bounds.

The objects are made from the types that the wires declare, so that a new field is tried as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from haulout.base.bounds import EARLIEST, LATEST
from haulout.cluster.project import RESOURCES, Keep, Projector, Resource
from haulout.cluster.rows import ObjectRow, Taint
from haulout.core.budgets.wire import NODE_BUDGETS
from haulout.surfaces.clusterapi.surface import CLUSTERAPI
from haulout.surfaces.nodemaintenance.surface import NODEMAINTENANCE
from haulout.surfaces.notify.surface import NOTIFY
from haulout.surfaces.packages.skyhook.intent import NodePick, picks_of
from haulout.surfaces.packages.skyhook.wave_gates import instant_of
from haulout.surfaces.packages.surface import PACKAGES
from haulout.surfaces.packages.wire import RESOURCE as SKYHOOKS
from haulout.surfaces.packages.wire import SkyhookRow
from haulout.surfaces.profiles.surface import PROFILES

DECLARATIONS = (CLUSTERAPI, NODEMAINTENANCE, NOTIFY, PACKAGES, PROFILES)
WIRES = (*RESOURCES.values(), NODE_BUDGETS, *(kind for each in DECLARATIONS for kind in each.kinds))
# An API server keeps the time zone of a time in a custom resource.
EXTREMES = [
    "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59Z",
    "9999-12-31T23:59:59-12:00",
]


def filled(kind: inspect.Type, at: str) -> Any:
    """Return JSON of this type in which no field is left out, every time and every text is `at`, and numbers are large."""
    match kind:
        case inspect.StructType():
            return {field.encode_name: filled(field.type, at) for field in kind.fields}
        case inspect.DictType():
            return {"key": filled(kind.value_type, at)}
        case inspect.VarTupleType() | inspect.ListType() | inspect.FrozenSetType():
            return several(filled(kind.item_type, at))
        case inspect.UnionType():
            return filled(next(each for each in kind.types if not isinstance(each, inspect.NoneType)), at)
        case inspect.IntType():
            return 2**62
        case inspect.BoolType():
            return True
        case inspect.AnyType() | inspect.DateTimeType() | inspect.StrType():
            return at
    raise AssertionError(f"no value is known for {kind}")


def several(item: Any) -> list[Any]:
    """Return the item; where it is a condition, one of each type whose time becomes a part of a row."""
    if not isinstance(item, dict) or not {"type", "status"} <= item.keys():
        return [item]
    return [{**item, "type": kind, "status": "True"} for kind in ("Ready", "Complete")]


def instants(value: Any) -> Iterator[datetime]:
    """Return every time in a row, however deep. That of a taint is left out: it is written back, and nothing else."""
    if isinstance(value, datetime):
        yield value
    elif isinstance(value, Taint):
        return
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from instants(getattr(value, name))
    elif isinstance(value, Mapping):
        yield from instants(tuple(value.values()))
    elif isinstance(value, tuple | list | frozenset):
        for each in value:
            yield from instants(each)


def row_of(resource: Resource, at: str) -> ObjectRow:
    """Return the row of an object of which every time is `at`."""
    obj = msgspec.convert(filled(inspect.type_info(resource.model), at), type=resource.model)
    return Projector(resource, "", Keep(details=True)).row(obj)


def is_bounded(at: datetime) -> bool:
    return EARLIEST <= at <= LATEST and at.tzinfo is UTC


@pytest.mark.parametrize("at", EXTREMES)
@pytest.mark.parametrize("resource", WIRES, ids=lambda resource: resource.kind)
def test_k20_every_time_of_a_row_is_within_bounds(resource: Resource, at: str) -> None:
    found = list(instants(row_of(resource, at)))
    # Every object has the times of its creation and its deletion.
    assert len(found) >= 2
    assert [each for each in found if not is_bounded(each)] == []


@pytest.mark.parametrize("at", EXTREMES)
def test_k20_every_time_that_a_rollout_stores_as_text_is_within_bounds(at: str) -> None:
    row = row_of(SKYHOOKS, at)
    assert isinstance(row, SkyhookRow)
    waves = [each.gate for each in row.status.compartment_statuses.values()]
    texts = [wave.since for wave in waves if wave is not None]
    found = [
        *(instant_of(text) for text in texts),
        *(each.picked_at for each in picks_of(row) if isinstance(each, NodePick)),
    ]
    assert len(found) == 2
    assert [each for each in found if each is None or not is_bounded(each)] == []
