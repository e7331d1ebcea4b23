"""HTTP responses: objects in the form that the client accepts, refusals and warnings; and the bodies of requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import yaml

from haulout.base.yaml import YamlError, load
from haulout.embedded.face import protobuf
from haulout.embedded.face.protobuf import PROTOBUF
from haulout.embedded.face.watches import Watch
from haulout.embedded.interfaces import Json
from haulout.embedded.rules import refusals
from haulout.kube.errors import ApiError
from haulout.kube.transport import JSON

YAML = "application/yaml"
DISCOVERY_V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class Response(msgspec.Struct, frozen=True):
    """An HTTP response of the embedded API server.

    It has either a body, or a watch whose lines are the body.
    """

    status: int
    body: bytes = b""
    content_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()
    watch: Watch | None = None


class Form(msgspec.Struct, frozen=True):
    """The form in which a client accepts objects.

    `shape`: the object as it is, a Table or metadata alone. `media`: JSON or YAML.
    """

    shape: str = ""
    media: str = JSON


PLAIN = Form()
_OFFERED = f"{JSON}, {YAML}, {PROTOBUF}"
# The characters of an unreadable body that a refusal quotes; in hexadecimal digits if it is not an object.
_SUMMARY = 30
_TYPE_META = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
_SHAPES = {
    "Table": "table",
    "PartialObjectMetadata": "metadata",
    "PartialObjectMetadataList": "metadata list",
    "APIGroupDiscoveryList": "discovery",
}


def negotiate(accept: str, *, custom: bool = False) -> Form:
    """Return the first form in an Accept header that the server has.

    Raises `NotAcceptable` if there is none. Its message differs for custom kinds.
    """
    if accept in {"", JSON, "*/*"}:
        return PLAIN
    unknown_shape = False
    for wish in accept.split(","):
        media, *parameters = (part.strip() for part in wish.split(";"))
        options = dict(part.partition("=")[::2] for part in parameters)
        shape = _SHAPES.get(options.get("as", "")) if "as" in options else ""
        if shape is None or (shape == "discovery" and options.get("v") != "v2"):
            unknown_shape = True
        elif media in {JSON, "*/*", "application/*"}:
            return Form(shape)
        elif media == YAML:
            return Form(shape, YAML)
    if unknown_shape or custom:
        raise refusals.refusal(406, "NotAcceptable", f"only the following media types are accepted: {_OFFERED}")
    streams = f"{JSON};stream=watch, {PROTOBUF};stream=watch"
    text = f"406: Not Acceptable\n\nAvailable representations: {_OFFERED}, {streams}"
    raise refusals.refusal(406, "NotAcceptable", text, details=refusals.Details())


def encode(value: Any, media: str) -> bytes:
    if media == YAML:
        return yaml.safe_dump(value, sort_keys=True).encode()
    return msgspec.json.encode(value)


def respond(status: int, value: Json, form: Form = PLAIN, warnings: Sequence[str] = ()) -> Response:
    return Response(status, encode(value, form.media), form.media, headers_of(warnings))


def headers_of(warnings: Sequence[str]) -> tuple[tuple[str, str], ...]:
    return tuple(("Warning", f"299 - {_quoted(text)}") for text in dict.fromkeys(warnings))


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(sign if sign.isprintable() else " " for sign in escaped) + '"'


def refuse(error: ApiError, warnings: Sequence[str] = ()) -> Response:
    headers = headers_of(warnings)
    if error.retry_after:
        headers += (("Retry-After", str(int(error.retry_after))),)
    return Response(error.status.code, msgspec.json.encode(refusals.body(error)), JSON, headers)


def text(status: int, words: str) -> Response:
    return Response(status, words.encode(), "text/plain; charset=utf-8")


def read_body(body: bytes, content_type: str, kind: str, type_name: str = "") -> Json | None:
    """Return the object in a request body, or None for null.

    Raises if it is not JSON, YAML or protobuf, as its content type says. Only built-in types have protobuf.
    """
    media = content_type.partition(";")[0].strip() or JSON
    if media == PROTOBUF and type_name:
        return _read_protobuf(body, kind, type_name)
    if media not in {JSON, YAML}:
        raise refusals.unknown_format((JSON, YAML, PROTOBUF))
    try:
        found = load(body) if media == YAML else msgspec.json.decode(body)
    except (msgspec.DecodeError, YamlError, UnicodeDecodeError) as error:
        raise _unreadable(body, kind, refusals.go_error(body, error)) from None
    if isinstance(found, dict) or found is None:
        return found
    raise _unreadable(body, kind, refusals.cannot_unmarshal(found, _TYPE_META))


def _unreadable(body: bytes, kind: str, why: str) -> ApiError:
    return unrecognized_body(body, kind, f"couldn't get version/kind; json parse error: {why}")


def unrecognized_body(body: bytes, kind: str, why: str) -> ApiError:
    text = f"the object provided is unrecognized (must be of type {kind}): {why} ({summary(body)})"
    return refusals.bad_request(text)


def summary(body: bytes) -> str:
    if not body:
        return "<empty>"
    start = body[:_SUMMARY]
    text = start.decode(errors="replace") if body.startswith(b"{") else start.hex()
    return text if len(body) <= _SUMMARY else f"{text} ..."


def _read_protobuf(body: bytes, kind: str, type_name: str) -> Json:
    try:
        return protobuf.decode(type_name, body)
    except (protobuf.Undecodable, UnicodeDecodeError, msgspec.DecodeError) as error:
        text = f"the object provided is unrecognized (must be of type {kind}): {error}"
        raise refusals.bad_request(text) from None
