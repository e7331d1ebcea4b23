"""The errors of requests to an API server: one class for each kind of refusal, and for a missing or unusable answer."""

from __future__ import annotations

import msgspec

from haulout.base.number import digits

# The errors with which msgspec rejects a text that does not fit its type. For bytes that are not UTF-8, and for nesting
# deeper than Python's limit, it raises Python's errors instead of its own.
UNFIT = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
# Longer than the messages of API servers and admission webhooks. The text goes into events and logs.
_LONGEST_MESSAGE = 1000
_LONGEST_NAME = 100
# The longest Retry-After in seconds. A server that asks for a longer pause gets this one.
LONGEST_PAUSE = 3600


def shorten(text: str, longest: int = _LONGEST_NAME) -> str:
    """Return a foreign text for a message. A text that is too long is cut off, and ends with an ellipsis."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def one_line(text: str) -> str:
    """Return a text as one line without control and invisible characters, at most as long as a message may be."""
    words = "".join(each if each.isprintable() else " " for each in text[: 2 * _LONGEST_MESSAGE])
    return shorten(" ".join(words.split()), _LONGEST_MESSAGE)


class KubeError(Exception):
    """The base of all errors of talking to a cluster. Its message is cut off after 1,000 characters."""

    def __init__(self, message: str = "") -> None:
        super().__init__(shorten(message, _LONGEST_MESSAGE))


class ConnectionFailed(KubeError):
    """No answer: refused, reset, TLS failure, name not found. The request had no effect unless `sent`."""

    def __init__(self, message: str, *, sent: bool = False) -> None:
        super().__init__(message)
        self.sent = sent


class RequestTimeout(KubeError):
    """No answer in time: whether the request had an effect is unknown."""


class ConfigInvalid(KubeError):
    """The kubeconfig, or the credentials it names, cannot be used as they stand."""


class ConfigRefused(ConfigInvalid):
    """A foreign kubeconfig would run a program, read a file or reach an address, and is not allowed to."""


class StatusCause(msgspec.Struct, frozen=True):
    """One cause of a refusal: a StatusCause of meta/v1. `field` is the field of the object that it is about."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(msgspec.Struct, frozen=True, rename="camel"):
    """The details of a refusal: StatusDetails of meta/v1, in part."""

    name: str = ""
    kind: str = ""
    causes: tuple[StatusCause, ...] = ()
    retry_after_seconds: int = 0


class Status(msgspec.Struct, frozen=True):
    """The body of a refusal, and of an ERROR event in a watch stream."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: StatusDetails | None = None


class ApiError(KubeError):
    """The server answered with a refusal."""

    code = 0

    def __init__(self, status: Status, retry_after: float | None = None) -> None:
        super().__init__(one_line(status.message or status.reason) or f"answered with HTTP {status.code}")
        self.status = status
        self.retry_after = retry_after

    @property
    def cause(self) -> str:
        """The reason of the status's first cause, such as `DisruptionBudget` or `NamespaceTerminating`; else empty."""
        causes = self.status.details.causes if self.status.details else ()
        return causes[0].reason if causes else ""


class BadRequest(ApiError):
    """The server could not read the request (400)."""

    code = 400


class Unauthorized(ApiError):
    """The server does not accept the credentials (401)."""

    code = 401


class Forbidden(ApiError):
    """The user has no right to do this, or an admission plugin refuses it (403)."""

    code = 403


class NotFound(ApiError):
    """The server has no such object, or does not serve its kind (404)."""

    code = 404

    @property
    def of_object(self) -> bool:
        """Whether an API server itself says that the object does not exist.

        A 404 for a kind that is not served, or from a load balancer that has lost its servers, does not name an object.
        """
        details = self.status.details
        return self.status.reason == "NotFound" and details is not None and bool(details.name)


class MethodNotAllowed(ApiError):
    """The kind does not have this verb (405)."""

    code = 405


class TooLarge(KubeError):
    """An answer, or a line of one, is longer than the bounds allow. It was not read to its end."""


class Overfull(KubeError):
    """There are more objects of a kind than may be read, so the list of them is incomplete."""


class Compressed(KubeError):
    """An answer is compressed although that was not asked for. It was not read."""


class Conflict(ApiError):
    """The object does not have the version or UID of the precondition; or the name of a new object is taken (409)."""

    code = 409

    @property
    def exists(self) -> bool:
        return self.status.reason == "AlreadyExists"


class Gone(ApiError):
    """The resource version is too old to continue a watch or list from (410)."""

    code = 410


class UnsupportedMediaType(ApiError):
    """The server does not read this content type; for custom resources, a strategic merge patch (415)."""

    code = 415


class Invalid(ApiError):
    """The object breaks a rule of its kind (422). The causes of the status name the fields."""

    code = 422


class TooManyRequests(ApiError):
    """A budget, a webhook or the server itself asks to try again later (429)."""

    code = 429

    @property
    def by_budget(self) -> bool:
        """Whether a PodDisruptionBudget refused an eviction. Otherwise the server asks for fewer requests."""
        return self.cause == "DisruptionBudget"


class ServerFailure(ApiError):
    """The server failed (5xx). Only after a 504 may the request have had an effect."""

    code = 500


_BY_CODE: dict[int, type[ApiError]] = {
    error.code: error
    for error in (
        BadRequest,
        Unauthorized,
        Forbidden,
        NotFound,
        MethodNotAllowed,
        Conflict,
        Gone,
        UnsupportedMediaType,
        Invalid,
        TooManyRequests,
    )
}


class _Reply(msgspec.Struct, frozen=True):
    kind: str = ""


_REPLY = msgspec.json.Decoder(_Reply)
_STATUS = msgspec.json.Decoder(Status)


def error_from_status(status: Status, retry_after: float | None = None) -> ApiError:
    kind = _BY_CODE.get(status.code) or (ServerFailure if status.code >= 500 else ApiError)
    if retry_after is None and status.details and status.details.retry_after_seconds:
        retry_after = status.details.retry_after_seconds
    return kind(status, None if retry_after is None else float(min(max(retry_after, 0), LONGEST_PAUSE)))


def error_from_reply(code: int, body: bytes, retry_after: str | None = None) -> ApiError:
    """Return the error for an answer of 400 and above.

    Its message is taken only from a Status object. The server may be one that a tenant chose, and the tenant reads the
    message in an event: any other body would show the tenant what an internal server answers.
    """
    try:
        status = _STATUS.decode(body) if _REPLY.decode(body).kind == "Status" else Status()
    except UNFIT:
        status = Status()
    if status.code != code:
        status = msgspec.structs.replace(status, code=code)
    seconds = digits(retry_after or "", 400)
    return error_from_status(status, seconds)
