"""JSON schemas of the documents that commands print, made from the structs that the documents are."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec.inspect import DateTimeType, Field, StructType, type_info

DRAFT = "https://json-schema.org/draft/2020-12/schema"
ITEMS = ("item_type", "key_type", "value_type")


def schema_of(*documents: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the JSON schema of a document that is one of these structs.

    A field is required unless its struct has `omit_defaults`, or it may be unset. A struct with `forbid_unknown_fields` is a request, in which
    those fields are required that have no default. Docstrings become descriptions; the names of fields in
    them are replaced by their JSON names.
    """
    roots, definitions = msgspec.json.schema_components(documents, ref_template="#/$defs/{name}")
    structs = {each.cls.__name__: each for document in documents for each in _structs(type_info(document), set())}
    for name, definition in definitions.items():
        found = structs.get(name)
        if found is None:
            # An enumeration: its docstring is its description, and its values are all that there is.
            definition["description"] = inspect.cleandoc(definition["description"])
            continue
        config = found.cls.__struct_config__
        if not config.omit_defaults and not config.forbid_unknown_fields:
            unset = {field.encode_name for field in msgspec.structs.fields(found.cls) if field.default is msgspec.UNSET}
            definition["required"] = [each for each in definition["properties"] if each not in unset]
            for part in definition["properties"].values():
                part.pop("default", None)
        for field in found.fields:
            if any(isinstance(part, DateTimeType) for part in (field.type, *getattr(field.type, "types", ()))):
                _as_instant(definition["properties"][field.encode_name])
        definition["description"] = _description(definition["description"], found.fields)
    root = roots[0] if len(roots) == 1 else {"anyOf": list(roots)}
    return {"$schema": DRAFT, **root, "$defs": definitions}


def _as_instant(schema: dict[str, Any]) -> None:
    for part in (schema, *schema.get("anyOf", ())):
        if part.get("type") == "string":
            part["format"] = "date-time"


def _description(text: str, fields: tuple[Field, ...]) -> str:
    for field in fields:
        text = text.replace(f"`{field.name}`", f"`{field.encode_name}`")
    return inspect.cleandoc(text)


def _structs(found: Any, seen: set[type]) -> Iterator[StructType]:
    """Yield every struct within a type once."""
    if isinstance(found, StructType):
        if found.cls in seen:
            return
        seen.add(found.cls)
        yield found
        parts = [field.type for field in found.fields]
    else:
        parts = [*getattr(found, "types", ()), *(getattr(found, name) for name in ITEMS if hasattr(found, name))]
    for part in parts:
        yield from _structs(part, seen)
