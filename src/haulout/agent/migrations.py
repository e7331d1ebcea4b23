"""Migrates a config.json from the schema version in which it was written to the newest one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from haulout.agent.errors import AgentError
from haulout.agent.schema import Violation, violation

Document = dict[str, Any]
Validator = Callable[[Any], Violation | None]
Hop = tuple[str, Callable[[Document], Document]]

NEWEST = "v1"
VALIDATORS: Mapping[str, Validator] = {"v1": violation}
HOPS: Mapping[str, Hop] = {}


class SchemaError(AgentError):
    """A document that breaks the schema of its version."""

    def __init__(self, found: Violation) -> None:
        super().__init__(found.message)
        self.path = found.path


def migrate(
    document: Any,
    newest: str = NEWEST,
    validators: Mapping[str, Validator] = VALIDATORS,
    hops: Mapping[str, Hop] = HOPS,
) -> Document:
    """Return the document in the newest schema version. It is validated before the first migration and after each."""
    version = _version(document)
    current: Document = document
    _validate(current, version, validators)
    while version != newest:
        if version not in hops:
            raise _unknown(version)
        version, hop = hops[version]
        current = hop(current)
        _validate(current, version, validators)
    return current


def _version(document: Any) -> Any:
    if not isinstance(document, dict):
        raise SchemaError(Violation(f"{document!r} is not of type 'object'", ()))
    if "schema_version" not in document:
        raise SchemaError(Violation("'schema_version' is a required property", ()))
    return document["schema_version"]


def _validate(document: Document, version: Any, validators: Mapping[str, Validator]) -> None:
    if not isinstance(version, str) or version not in validators:
        raise _unknown(version)
    found = validators[version](document)
    if found is not None:
        raise SchemaError(found)


def _unknown(version: Any) -> AgentError:
    return AgentError(f"Unknown skyhook-agent schema version: {version}")
