"""The reference of `haulout.yaml`: every block and setting, with its type, default and variable of the environment."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import msgspec

from haulout.core.setting import Setting, split
from haulout.settings.blocks import File, surface_settings
from haulout.settings.environment import environment_names
from haulout.surfaces.registry import surface
from tools.reference.table import code, shown, table

KINDS = {str: "text", bool: "true or false", int: "number", timedelta: "duration"}
HEAD = ("Setting", "Type", "Default", "Environment", "Meaning")

Field = tuple[tuple[str, ...], Any, Any, Setting]


def lines() -> Iterator[str]:
    yield "# Settings"
    yield ""
    yield "Every setting of `haulout.yaml` ([how the file is read](../settings.md)). Made by `python -m tools.reference`"
    yield "from the structs that the process reads."
    yield ""
    variables = {path: name for name, path in environment_names().items()}
    blocks: dict[str, list[Field]] = {}
    for field in _fields(File, ()):
        blocks.setdefault(_block(field[0]), []).append(field)
    for block, fields in blocks.items():
        yield f"## {code(block) if block else 'At the top'}"
        yield ""
        if block.startswith("surfaces."):
            yield surface(block.removeprefix("surfaces.")).summary
            yield ""
        yield from table(HEAD, [_row(field, variables) for field in fields])


def _block(path: tuple[str, ...]) -> str:
    return ".".join(path[:2]) if path[0] == "surfaces" else ".".join(path[:1] if len(path) > 1 else ())


def _row(field: Field, variables: dict[tuple[str, ...], str]) -> tuple[str, ...]:
    path, kind, default, setting = field
    return code(".".join(path)), _kind(kind, setting), shown(default), code(variables.get(path, "")), setting.help


def _kind(kind: Any, setting: Setting) -> str:
    if setting.words:
        return " or ".join(code(word) for word in setting.words)
    if typing.get_origin(kind) is tuple:
        return f"list of {KINDS.get(typing.get_args(kind)[0], 'rules')}s".replace("ruless", "rules")
    return KINDS[kind]


def _fields(struct: type[msgspec.Struct], path: tuple[str, ...]) -> Iterator[Field]:
    """Yield the settings of a struct and of the structs in it. The entries of a list have `[]` in their paths."""
    for field in msgspec.structs.fields(struct):
        kind, setting = split(field.type)
        inner = (*path, field.encode_name)
        if inner == ("surfaces",):
            for name, own in surface_settings().items():
                yield from _fields(own, (*inner, name))
            continue
        nested = _nested(kind)
        if nested is not None and typing.get_origin(kind) is not tuple:
            yield from _fields(nested, inner)
            continue
        yield inner, kind, field.default, setting
        if nested is not None:
            yield from _fields(nested, (*inner[:-1], f"{inner[-1]}[]"))


def _nested(kind: Any) -> type[msgspec.Struct] | None:
    candidates = (kind, *typing.get_args(kind))
    return next((each for each in candidates if isinstance(each, type) and issubclass(each, msgspec.Struct)), None)
