"""The OpenAPI description of the console's API, made from its operations and from the structs of its documents."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import msgspec

from haulout import __version__
from haulout.base.json_schema import schema_of
from haulout.console.operations import ALWAYS, OPERATIONS, Operation, Parameter
from haulout.console.problems import CODES, CONTENT_TYPE, Problem

BASE = "/api/v1/"


def description() -> dict[str, Any]:
    """Return the description as plain values."""
    paths: dict[str, dict[str, Any]] = defaultdict(dict)
    for each in OPERATIONS:
        paths[f"{BASE}{each.path}"][each.method.lower()] = _operation(each)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Haulout console",
            "version": __version__,
            "description": "What the console shows and does. Errors are problems (RFC 9457) with a stable `code`.",
        },
        "paths": dict(paths),
        "components": {
            "schemas": _schemas(),
            "securitySchemes": {
                "local": {"type": "apiKey", "in": "cookie", "name": "haulout_session"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
        },
        "security": [{"local": []}, {"bearer": []}],
    }


def _operation(operation: Operation) -> dict[str, Any]:
    made: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "responses": {
            str(operation.status): _answer(operation),
            **_problems((*operation.problems, *ALWAYS)),
        },
    }
    if operation.parameters:
        made["parameters"] = [_parameter(each) for each in operation.parameters]
    if operation.body is not None:
        content = {"application/json": {"schema": _reference(operation.body)}}
        made["requestBody"] = {"required": True, "content": content}
    if operation.name == "login":
        made["security"] = []
    return made


def _answer(operation: Operation) -> dict[str, Any]:
    if operation.status == 204:
        return {"description": "Done."}
    schema: dict[str, Any] = {"type": "string"}
    if operation.answers:
        references = [_reference(each) for each in operation.answers]
        schema = references[0] if len(references) == 1 else {"anyOf": references}
    return {"description": operation.summary, "content": {operation.content_type: {"schema": schema}}}


def _problems(codes: tuple[str, ...]) -> dict[str, Any]:
    by_status: dict[int, list[str]] = defaultdict(list)
    for code in dict.fromkeys(codes):
        by_status[CODES[code][0]].append(code)
    content = {CONTENT_TYPE: {"schema": _reference(Problem)}}
    return {
        str(status): {"description": " ".join(f"`{code}`: {CODES[code][1]}" for code in found), "content": content}
        for status, found in sorted(by_status.items())
    }


def _parameter(parameter: Parameter) -> dict[str, Any]:
    made = {"name": parameter.name, "in": parameter.place, "description": parameter.help, "schema": parameter.schema}
    return {**made, "required": True} if parameter.required else made


def _reference(struct: type[msgspec.Struct]) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{struct.__name__}"}


def _schemas() -> dict[str, Any]:
    bodies = [each.body for each in OPERATIONS if each.body is not None]
    answers = [answer for each in OPERATIONS for answer in each.answers]
    structs: list[type[msgspec.Struct]] = [Problem, *bodies, *answers]
    found = schema_of(*dict.fromkeys(structs))["$defs"]
    return {name: _rebased(schema) for name, schema in sorted(found.items())}


def _rebased(value: Any) -> Any:
    """Return a schema whose references point to where OpenAPI keeps schemas."""
    if isinstance(value, dict):
        return {name: _rebased(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_rebased(each) for each in value]
    return value.replace("#/$defs/", "#/components/schemas/") if isinstance(value, str) else value
