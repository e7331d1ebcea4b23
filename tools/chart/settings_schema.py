"""The JSON schema of `haulout.yaml`, from the structs that the process reads: the value `settings` of the chart."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec

from haulout.core.setting import Setting, split
from haulout.core.surface_names import BUILT_IN
from haulout.settings.blocks import File, item_type, struct_in, surface_settings

Json = dict[str, Any]
# Numbers and durations may be written as texts, and texts as numbers.
SCALARS: dict[type[Any], Json] = {
    bool: {"type": "boolean"},
    int: {"type": ["integer", "string"], "pattern": "^-?[0-9]+$"},
    str: {"type": ["string", "integer"]},
    timedelta: {"type": ["string", "integer"]},
}


def settings_schema() -> Json:
    """Return the schema. A surface that is not ours has a block of its own, which the chart's templates judge."""
    made = _struct(File)
    own = {name: _struct(kind) for name, kind in surface_settings().items() if name in BUILT_IN}
    made["properties"]["surfaces"] = {"type": "object", "properties": own, "additionalProperties": {"type": "object"}}
    return made


def _struct(kind: type[msgspec.Struct]) -> Json:
    fields = {
        field.encode_name: _field(field.type) for field in msgspec.structs.fields(kind) if field.name != "surfaces"
    }
    return {"type": "object", "properties": fields, "additionalProperties": False}


def _field(annotation: Any) -> Json:
    kind, setting = split(annotation)
    item = item_type(kind)
    found = {"type": "array", "items": _one(item, setting)} if item is not None else _one(kind, setting)
    return {"description": setting.help, **found} if setting.help else found


def _one(kind: Any, setting: Setting) -> Json:
    struct = struct_in(kind)
    if struct is not None:
        return _struct(struct)
    return {"enum": list(setting.words)} if setting.words else SCALARS[kind]
