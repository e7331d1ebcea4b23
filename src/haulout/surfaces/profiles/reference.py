"""The reference of `maintenance.yaml`, made from the plugins: a JSON schema for editors, and a page for people."""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from haulout.base.duration import to_text
from haulout.plugins.api import Check, Notifier, Trigger
from haulout.plugins.config import Config
from haulout.plugins.shape import Field, Kind, ListOf, MapOf, Nested, Shape, plan
from haulout.surfaces.profiles.load import Plugins, known_plugins, written_file
from haulout.surfaces.profiles.schedules import SCHEDULES
from haulout.surfaces.profiles.wire import State

Json = dict[str, Any]
Known = Plugins[Check, Notifier, Trigger]
Plugin = Check | Notifier | Trigger

# The example at the end of the docstring of a plugin's settings: an instance as it is written in the file.
EXAMPLE = re.compile(r"\n\n *- \{type: (?:.|\n)*$")

# The schema is as lenient as the reader: text may be a number, and numbers may be text.
_PLAIN: dict[Kind, Json] = {
    Kind.STRING: {"type": ["string", "number", "boolean"]},
    Kind.INT: {"type": ["integer", "number", "string"]},
    Kind.FLOAT: {"type": ["number", "string"]},
    Kind.BOOL: {"type": ["boolean", "string"]},
    Kind.DURATION: {"type": ["string", "number"], "description": "90s, 1h30m, or a number of seconds"},
    Kind.DURATION_TEXT: {"type": "string", "description": "90s, 1h30m"},
    Kind.ANY: {},
    Kind.BLOCK: {"type": ["object", "null"]},
    Kind.FIELDS: {"type": "object"},
}
_WORDS = {
    Kind.STRING: "text",
    Kind.INT: "whole number",
    Kind.FLOAT: "number",
    Kind.BOOL: "true or false",
    Kind.DURATION: "duration",
    Kind.DURATION_TEXT: "duration",
    Kind.ANY: "anything",
    Kind.BLOCK: "block",
    Kind.FIELDS: "names and values",
}


def file_schema() -> Json:
    """Return the JSON schema of a `maintenance.yaml` with the plugins that are installed."""
    return schema(known_plugins())


def plugins_page() -> Iterator[str]:
    """Return the lines of the page about the installed plugins."""
    return page(known_plugins())


def schema(plugins: Known) -> Json:
    """Return the JSON Schema 2020-12 of the whole file."""
    body = _object(written_file())
    instances = body["properties"]["instances"]["properties"]
    for name, kinds in (("check", plugins.checks), ("trigger", plugins.triggers), ("notify", plugins.notifiers)):
        item = _item(instances[name])
        item["required"] = ["type", "name"]
        item["properties"]["type"] = {"enum": sorted(kinds)}
        item["allOf"] = [_if_type(plugin, kinds[plugin].config) for plugin in sorted(kinds)]
    schedule = _item(instances["notify"])["properties"]["schedule"]
    schedule["properties"]["type"] = {"enum": sorted(SCHEDULES)}
    states = [str(state) for state in State]
    profile = _item(body["properties"]["profiles"])
    for state in states:
        transition = _item(profile["properties"][state]["properties"]["transitions"])
        transition["properties"]["next"] = {"enum": states}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "maintenance.yaml",
        "description": "Profiles of node maintenance",
        **body,
    }


def _if_type(name: str, config: type[Config]) -> Json:
    return {
        "if": {"properties": {"type": {"const": name}}, "required": ["type"]},
        "then": {"properties": {"config": _object(config)}},
    }


def _item(shape: Json) -> Json:
    """Return the schema of a list's items."""
    found: Json = shape["anyOf"][0]["items"]
    return found


def _object(config: type[Config]) -> Json:
    fields = plan(config)
    if any(field.shape is Kind.FIELDS for field in fields):
        return {"type": "object"}
    properties = {field.wire: _shape(field.shape) for field in fields}
    required = [field.wire for field in fields if field.is_required and not isinstance(field.shape, Nested)]
    made: Json = {"type": ["object", "null"], "properties": properties}
    if required:
        made |= {"type": "object", "required": required}
    return made


def _shape(shape: Shape) -> Json:
    match shape:
        case ListOf(item):
            return {"anyOf": [{"type": "array", "items": _shape(item)}, _shape(item)]}
        case MapOf(item):
            return {"type": "object", "additionalProperties": _shape(item)}
        case Nested(kind):
            return _object(kind)
        case _:
            return dict(_PLAIN[shape])


def page(plugins: Known) -> Iterator[str]:
    """Yield the lines of a Markdown page: every plugin with its own description and its settings."""
    yield "# Plugins"
    yield ""
    yield "What can be an instance in `maintenance.yaml`; made by `haulout plugins` from the plugins themselves."
    for title, kinds in (
        ("Checks", plugins.checks),
        ("Triggers", plugins.triggers),
        ("Notifications", plugins.notifiers),
    ):
        yield from ("", f"## {title}")
        for name in sorted(kinds):
            yield from _described(name, kinds[name])


def _described(name: str, plugin: Plugin) -> Iterator[str]:
    module = sys.modules[plugin.config.__module__]
    first = (module.__doc__ or "").strip().removeprefix(f"{name}:").strip()
    yield from ("", f"### {name}", "", f"{first[:1].upper()}{first[1:]}")
    own = inspect.cleandoc(plugin.config.__dict__.get("__doc__") or "")
    if own and not own.startswith(plugin.config.__name__):
        yield from ("", *EXAMPLE.sub("", own).splitlines())
    rows = list(_rows(plan(plugin.config)))
    if rows:
        yield from ("", "| Setting | Kind | Default |", "|---|---|---|", *rows)
    if found := EXAMPLE.search(own):
        yield from ("", "```yaml", *textwrap.dedent(found[0]).split("\n")[2:], "```")


def _rows(fields: tuple[Field, ...], prefix: str = "") -> Iterator[str]:
    for field in fields:
        name = f"{prefix}{field.wire}"
        if isinstance(field.shape, Nested):
            yield from _rows(plan(field.shape.kind), f"{name}.")
            continue
        if field.shape is Kind.FIELDS:
            yield f"| the block itself | {_word(field.shape)} | |"
            continue
        default = "required" if field.is_required else _value_text(field.default)
        yield f"| `{name}` | {_word(field.shape)} | {default} |"


def _word(shape: Shape) -> str:
    match shape:
        case ListOf(item):
            return f"list of {_word(item)}"
        case MapOf(item):
            return f"names and {_word(item)}"
        case Nested():
            return "block"
        case _:
            return _WORDS[shape]


def _value_text(value: object) -> str:
    match value:
        case None | "" | () | Mapping():
            return ""
        case bool():
            return f"`{str(value).lower()}`"
        case timedelta():
            return f"`{to_text(value)}`" if value else ""
        case _:
            return f"`{value}`"
