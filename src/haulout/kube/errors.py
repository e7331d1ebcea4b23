"""What an API server answers when it does not do as asked, as typed errors."""

from __future__ import annotations

import msgspec

# What msgspec raises for a text that is not as its type: for bytes that are not UTF-8, and for nesting deeper than
# Python's limit, it raises other errors than its own.
UNFIT = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
# Longer than the messages of API servers and admission webhooks. The text goes into events and logs.
_LONGEST_MESSAGE = 1000
_LONGEST_NAME = 100
# No server is left alone for longer, whatever it asks for.
LONGEST_PAUSE = 3600


def shortened(text: str, longest: int = _LONGEST_NAME) -> str:
    """Return a foreign text as it stands in a message: the beginning of one that is too long."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def one_line(text: str) -> str:
    """Return a text without line ends, control and invisible characters, at most as long as a message may be."""
    words = "".join(each if each.isprintable() else " " for each in text[: 2 * _LONGEST_MESSAGE])
    return shortened(" ".join(words.split()), _LONGEST_MESSAGE)


class KubeError(Exception):
    """Base of everything that talking to a cluster may raise. What others wrote makes no message longer than a line."""

    def __init__(self, message: str = "") -> None:
        super().__init__(shortened(message, _LONGEST_MESSAGE))


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
    """It would run a program, read a file or reach an address that its writer has no say about."""


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
        """The server's own word for why, where it gives one (`DisruptionBudget`, `NamespaceTerminating`)."""
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
        """An API server's own word that it has no such object.

        A kind that is not served is answered without it, and so is anything by a balancer that has lost its servers.
        """
        details = self.status.details
        return self.status.reason == "NotFound" and details is not None and bool(details.name)


class MethodNotAllowed(ApiError):
    """The kind does not have this verb (405)."""

    code = 405


class TooLarge(KubeError):
    """An answer, or a line of one, is longer than we take in. It was not read to its end."""


class Overfull(KubeError):
    """There are more objects of a kind than are read. What was seen of them is no complete picture."""


class Compressed(KubeError):
    """An answer is compressed although that was not asked for. It was not read."""


class Conflict(ApiError):
    """The version or UID in the precondition is not the object's (or, on creation, the name is taken)."""

    code = 409

    @property
    def exists(self) -> bool:
        return self.status.reason == "AlreadyExists"


class Gone(ApiError):
    """The resource version is too old to go on from."""

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
        """A PodDisruptionBudget refused an eviction, as opposed to the server asking for less traffic."""
        return self.cause == "DisruptionBudget"


class ServerFailure(ApiError):
    """5xx: the effect is unknown only for 504; the others were not carried out."""

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

    Only what an API server says of itself is repeated. The server may be one that a tenant chose, and any other body
    would be shown to them by an event.
    """
    try:
        status = _STATUS.decode(body) if _REPLY.decode(body).kind == "Status" else Status()
    except UNFIT:
        status = Status()
    if status.code != code:
        status = msgspec.structs.replace(status, code=code)
    seconds = float(retry_after) if retry_after and retry_after.isascii() and retry_after.isdecimal() else None
    return error_from_status(status, seconds)
