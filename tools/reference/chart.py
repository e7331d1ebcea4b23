"""The reference of the Helm chart's values, in the form of helm-docs."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tools.chart.shapes import Json
from tools.chart.values import GROUPS, Value, values
from tools.reference.table import code, table

HEAD = ("Key", "Type", "Default", "Description")


def lines() -> Iterator[str]:
    yield "# Values of the Helm chart"
    yield ""
    yield "Every value of `deploy/chart` ([how to install it](../install.md)). Made by `python -m tools.chart` and `python -m tools.reference`"
    yield "from the same list as `values.yaml` and `values.schema.json`, by which Helm refuses other values."
    yield ""
    groups: dict[str, list[Value]] = {}
    for value in values():
        group, dot, _ = value.path.partition(".")
        groups.setdefault(group if dot else "", []).append(value)
    for group, members in groups.items():
        yield f"## {code(group) if group else 'At the top'}"
        yield ""
        if group in GROUPS:
            yield GROUPS[group]
            yield ""
        yield from table(HEAD, [_row(value) for value in members])


def _row(value: Value) -> tuple[str, ...]:
    return code(value.path), _type(value.schema), code(json.dumps(value.default)), value.help


def _type(schema: Json) -> str:
    if "enum" in schema:
        return " or ".join(code(each) for each in schema["enum"])
    if "oneOf" in schema:
        return "number or percentage"
    kind = schema["type"]
    names = {"object": "map", "array": "list", "string": "text", "boolean": "true or false", "integer": "number"}
    kinds: list[str] = kind if isinstance(kind, list) else [kind]
    return " or ".join(names.get(each, each) for each in kinds)
