"""JSON schemas of documents, made from structs."""

from __future__ import annotations

from datetime import datetime

import msgspec

from haulout.base.json_schema import schema_of


class Part(msgspec.Struct, rename="camel", omit_defaults=True):
    """A part. `is_there`: whether it is."""

    name: str
    is_there: bool = False
    parts: tuple[Part, ...] = ()


class Whole(msgspec.Struct, rename="camel"):
    """A whole."""

    first_part: Part | None = None
    ends_at: datetime | None = None


class Other(msgspec.Struct):
    """Another document."""

    at: datetime


def test_all_fields_are_required_that_are_always_written() -> None:
    parts = schema_of(Whole)["$defs"]
    assert parts["Whole"]["required"] == ["firstPart", "endsAt"]
    assert "default" not in parts["Whole"]["properties"]["firstPart"]
    assert parts["Part"]["required"] == ["name"]


def test_a_field_that_may_be_unset_is_not_required() -> None:
    kind = msgspec.defstruct("Kind", [("name", str), ("since", datetime | msgspec.UnsetType, msgspec.UNSET)])
    kind.__doc__ = "A kind."
    found = schema_of(kind)["$defs"]["Kind"]
    assert found["required"] == ["name"]
    assert found["properties"]["since"]["format"] == "date-time"


def test_instants_have_their_format() -> None:
    parts = schema_of(Whole, Other)["$defs"]
    assert parts["Other"]["properties"]["at"] == {"type": "string", "format": "date-time"}
    assert {"type": "string", "format": "date-time"} in parts["Whole"]["properties"]["endsAt"]["anyOf"]


def test_descriptions_name_fields_as_they_are_written() -> None:
    assert schema_of(Whole)["$defs"]["Part"]["description"] == "A part. `isThere`: whether it is."


def test_a_document_of_several_structs_is_any_of_them() -> None:
    assert schema_of(Whole, Other)["anyOf"] == [{"$ref": "#/$defs/Whole"}, {"$ref": "#/$defs/Other"}]
