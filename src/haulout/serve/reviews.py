"""Decodes AdmissionReviews from JSON, within bounds, and encodes the verdicts on them (decision 0143)."""

from __future__ import annotations

import base64
import functools
from typing import Any, Generic, TypeVar

import msgspec

from haulout.core.admission import AdmissionRequest, Unreadable, Verdict
from haulout.kube.errors import shorten
from haulout.kube.excerpt import count_values

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"


# The API server cuts longer warnings off, and logs an error.
LONGEST_WARNING = 256
# The most JSON values in an object's spec. Decoding one blocks the event loop for about a microsecond, and takes memory.
MOST_VALUES = 20_000
# The API server shows 4 KiB of warnings in all.
MOST_WARNINGS = 32
# Longer than any message that a person reads.
LONGEST_MESSAGE = 8 * 1024
T = TypeVar("T")


class Malformed(Exception):
    """The body is not an AdmissionReview that can be answered."""


class _Kind(msgspec.Struct, frozen=True):
    kind: str = ""


class _User(msgspec.Struct, frozen=True):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] | None = None
    extra: dict[str, tuple[str, ...]] | None = None


class _Request(msgspec.Struct, frozen=True, rename="camel"):
    uid: str
    operation: str
    kind: _Kind = _Kind()
    name: str = ""
    namespace: str = ""
    sub_resource: str = ""
    user_info: _User = _User()
    dry_run: bool | None = None
    object: msgspec.Raw = msgspec.Raw()
    old_object: msgspec.Raw = msgspec.Raw()


class _Review(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    request: _Request | None = None


_decoder = msgspec.json.Decoder(_Review)


class _TypedRequest(_Request, Generic[T], frozen=True, rename="camel"):
    object: T | None = None  # type: ignore[assignment]
    old_object: T | None = None  # type: ignore[assignment]


class _TypedReview(msgspec.Struct, Generic[T], frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    request: _TypedRequest[T] | None = None


@functools.cache
def _typed(kind: type[msgspec.Struct]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(_TypedReview[kind])  # type: ignore[valid-type]


def read_review(body: bytes, kind: type[msgspec.Struct]) -> AdmissionRequest:
    """Return the request of a review, with its objects decoded as `kind`. Raises Malformed.

    Well-formed objects are decoded in one pass over the body, which blocks the event loop half as long as two passes.
    """
    if len(body) > 2 * MOST_VALUES and count_values(body) > MOST_VALUES:
        return decode(body).read(kind)
    try:
        review = _typed(kind).decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return decode(body).read(kind)
    asked = _checked(review)
    return msgspec.structs.replace(_request(asked), object=asked.object, old_object=asked.old_object)


class Received(msgspec.Struct, frozen=True):
    """A decoded review whose objects are still JSON."""

    request: AdmissionRequest
    object: bytes
    old_object: bytes

    def read(self, kind: type[msgspec.Struct]) -> AdmissionRequest:
        """Return the request with its objects decoded as `kind`."""
        return msgspec.structs.replace(
            self.request, object=_part(self.object, kind), old_object=_part(self.old_object, kind)
        )


def decode(body: bytes) -> Received:
    """Decode a review without its objects, which may have any size and shape. Raises Malformed."""
    try:
        review = _decoder.decode(body)
    except RecursionError:
        raise Malformed("the body is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Malformed(f"the body is not an AdmissionReview: {error}") from None
    asked = _checked(review)
    return Received(_request(asked), bytes(asked.object), bytes(asked.old_object))


def _checked(review: _Review | _TypedReview[Any]) -> Any:
    if (review.api_version, review.kind) != (API_VERSION, KIND):
        raise Malformed(f"{review.api_version!r} {review.kind!r} was sent where {API_VERSION} {KIND} was expected")
    asked = review.request
    if asked is None:
        raise Malformed("the AdmissionReview has no request")
    if not asked.uid:
        raise Malformed("the request has no uid")
    return asked


def _request(asked: _Request) -> AdmissionRequest:
    return AdmissionRequest(
        uid=asked.uid,
        operation=asked.operation,
        kind=asked.kind.kind,
        name=asked.name,
        namespace=asked.namespace,
        subresource=asked.sub_resource,
        user=asked.user_info.username,
        user_uid=asked.user_info.uid,
        groups=asked.user_info.groups or (),
        extra=tuple(sorted((asked.user_info.extra or {}).items())),
        dry_run=bool(asked.dry_run),
    )


def _part(content: bytes, kind: type[msgspec.Struct]) -> msgspec.Struct | Unreadable | None:
    if content in (b"", b"null"):
        return None
    try:
        if len(content) > 2 * MOST_VALUES and count_values(content) > MOST_VALUES:
            _check_values(content)
        return msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return Unreadable(str(error))


class _Spec(msgspec.Struct, frozen=True):
    """The spec of an object, which rules decode whole. Of metadata and status, which may be long, they read little."""

    spec: msgspec.Raw = msgspec.Raw(b"{}")


def _check_values(content: bytes) -> None:
    if count_values(msgspec.json.decode(content, type=_Spec).spec) > MOST_VALUES:
        raise msgspec.ValidationError(f"its spec has more than {MOST_VALUES} values")


def encode(uid: str, verdict: Verdict) -> bytes:
    response: dict[str, Any] = {"uid": uid, "allowed": verdict.allowed}
    if not verdict.allowed:
        response["status"] = status_body(verdict.code, verdict.reason, shorten(verdict.message, LONGEST_MESSAGE))
    if verdict.allowed and verdict.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(msgspec.json.encode(verdict.patch)).decode()
    if verdict.warnings:
        response["warnings"] = [warning[:LONGEST_WARNING] for warning in verdict.warnings[:MOST_WARNINGS]]
    return msgspec.json.encode({"apiVersion": API_VERSION, "kind": KIND, "response": response})


def status_body(code: int, reason: str, message: str) -> dict[str, Any]:
    return {"code": code, "reason": reason, "message": message}
