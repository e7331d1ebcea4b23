"""Objects converted to a Table: columns, and one row for each object."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import msgspec

from haulout.embedded.face.printing.cells import age, values_at
from haulout.embedded.face.printing.rows import PLAIN, PRINTED
from haulout.embedded.interfaces import Json
from haulout.embedded.store.kinds import Column, Kind

_NAME = Column("Name", "string", "name")
_NAME_TEXT = "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names"


def table(kind: Kind, objects: Iterable[Json], now: datetime, *, include: str = "", headed: bool = True) -> Json:
    """Return the objects as a Table. `include`: what each row has: "None", "Object", or by default metadata."""
    columns, row = (_custom_columns(kind), None) if kind.custom else PRINTED.get(kind.table_name, PLAIN)
    rows = []
    for obj in objects:
        cells = _custom_row(kind, obj, now) if row is None else row(obj, now)
        rows.append({"cells": cells, "object": _included(kind, obj, include)})
    result: Json = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {}}
    result["columnDefinitions"] = [_definition(column) for column in columns] if headed else None
    result["rows"] = rows
    return result


def metadata_only(obj: Json) -> Json:
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}


def _included(kind: Kind, obj: Json, include: str) -> Json | None:
    if include == "None":
        return None
    if include == "Object":
        return obj if kind.to_wire is None else kind.to_wire(obj)
    return metadata_only(obj)


def _definition(column: Column) -> Json:
    description = column.description
    if column.format == "name":
        description = _NAME_TEXT
    elif column.path and not description:
        description = f"Custom resource definition column (in JSONPath format): {column.path}"
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": description,
        "priority": column.priority,
    }


def _custom_columns(kind: Kind) -> tuple[Column, ...]:
    return (_NAME, *kind.columns)


def _custom_row(kind: Kind, obj: Json, now: datetime) -> list[Any]:
    return [obj["metadata"]["name"], *(_cell(column, obj, now) for column in kind.columns)]


def _cell(column: Column, obj: Json, now: datetime) -> Any:
    found = values_at(obj, column.path)
    if not found:
        return None
    value = found[0]
    match column.type:
        case "date":
            return age(value, now) if isinstance(value, str) else "<unknown>"
        case "integer" | "number" | "boolean":
            return value
        case _ if isinstance(value, str):
            return value
        case _:
            # The real server prints other values as JSON: true, 3, ["a","b"].
            return msgspec.json.encode(value).decode()
