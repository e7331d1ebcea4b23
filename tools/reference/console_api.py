"""The reference of the console's HTTP API, from its description in OpenAPI."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tools.reference.table import code, table

OPENAPI = Path(__file__).parents[2] / "src/haulout/console/openapi.json"
# Answers that every path may give. They are described once.
COMMON = {
    "401": "the request has no valid session or token",
    "403": "the caller lacks a right, which the problem names",
    "405": "the path has no such method",
    "421": "the Host header names another server",
    "429": "the caller, or all callers together, ask too much at once",
    "500": "an error of the console, which its log tells of",
    "503": "the API server or the console cannot answer now",
}


def lines() -> Iterator[str]:
    described: dict[str, Any] = json.loads(OPENAPI.read_text())
    yield "# The console's API"
    yield ""
    yield "What the page of `haulout console` asks, and other programs may ask, too. Made by `python -m tools.reference` from"
    yield "`src/haulout/console/openapi.json`, which describes all forms. [The console](../console.md) says how to log in."
    yield ""
    yield "Errors are problems (RFC 9457) with a stable `code`. Every path may answer with these:"
    yield ""
    yield from table(("Status", "Meaning"), [(code(status), text) for status, text in COMMON.items()])
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            yield from _operation(f"{method.upper()} {path}", operation)


def _operation(title: str, operation: Mapping[str, Any]) -> Iterator[str]:
    yield f"## {code(title)}"
    yield ""
    yield operation["summary"]
    yield ""
    parameters = operation.get("parameters", [])
    if parameters:
        rows = [
            (code(each["name"]), each["in"], _type(each["schema"]), each.get("description", "")) for each in parameters
        ]
        yield from table(("Parameter", "In", "Type", "Meaning"), rows)
    if "requestBody" in operation:
        yield f"It takes {_form(operation['requestBody'])}."
        yield ""
    own = {status: answer for status, answer in operation["responses"].items() if status not in COMMON}
    yield from table(("Status", "Answer"), [(code(status), _form(answer)) for status, answer in own.items()])


def _form(body: Mapping[str, Any]) -> str:
    """Return what a body or an answer is: the form that it has, or else its description."""
    for kind, content in body.get("content", {}).items():
        schema = content.get("schema", {})
        if "$ref" in schema:
            return f"{code(schema['$ref'].rpartition('/')[2])} as {code(kind)}"
        return code(kind)
    return str(body.get("description", "no body"))


def _type(schema: Mapping[str, Any]) -> str:
    return code(" or ".join(map(str, schema.get("enum", ())))) or str(schema.get("type", ""))
