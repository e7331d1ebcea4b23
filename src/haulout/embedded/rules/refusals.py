"""The refusals of the API server in the real server's words, as typed errors and as Status bodies."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from haulout.embedded.interfaces import Json
from haulout.kube.errors import ApiError, Status, StatusCause, StatusDetails, error_from_status


class Details(StatusDetails, frozen=True, rename="camel"):
    """The details of a Status with the group and UID, which only printed refusals have."""

    group: str = ""
    uid: str = ""


class Expired(Status, frozen=True):
    """The Status of a 410: the revision is too old. `resume` is the token that continues the list."""

    resume: str = ""


class Problem(NamedTuple):
    """One problem with one field of an object."""

    reason: str
    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


def wrong(field: str, value: Any, why: str) -> Problem:
    return Problem("FieldValueInvalid", field, f"Invalid value: {show(value)}: {why}")


def missing(field: str, why: str = "") -> Problem:
    return Problem("FieldValueRequired", field, f"Required value: {why}" if why else "Required value")


def forbidden_field(field: str, why: str) -> Problem:
    return Problem("FieldValueForbidden", field, f"Forbidden: {why}")


def unsupported_value(field: str, value: Any, supported: Iterable[str]) -> Problem:
    known = ", ".join(f'"{item}"' for item in supported)
    return Problem("FieldValueNotSupported", field, f"Unsupported value: {show(value)}: supported values: {known}")


def too_long(field: str, length: int) -> Problem:
    return Problem("FieldValueTooLong", field, f"Too long: may not be more than {length} bytes")


def unknown_reference(field: str, value: Any) -> Problem:
    return Problem("FieldValueNotFound", field, f"Not found: {show(value)}")


def duplicate(field: str, value: Any) -> Problem:
    return Problem("FieldValueDuplicate", field, f"Duplicate value: {show(value)}")


def show(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def refusal(
    code: int,
    reason: str,
    message: str,
    *,
    details: StatusDetails | None = None,
    retry_after: float | None = None,
) -> ApiError:
    return error_from_status(Status(code, reason, message, details), retry_after)


def _qualified(name: str, group: str) -> str:
    return f"{name}.{group}" if group else name


def invalid(kind: str, group: str, name: str, problems: Sequence[Problem]) -> ApiError:
    text = aggregate(map(str, problems))
    causes = tuple(StatusCause(problem.reason, problem.message, problem.field) for problem in problems)
    details = Details(name=name, kind=kind, group=group, causes=causes)
    return refusal(422, "Invalid", f'{_qualified(kind, group)} "{name}" is invalid: {text}', details=details)


def aggregate(texts: Iterable[str]) -> str:
    """Return several problems as one message, without repetitions."""
    seen = list(dict.fromkeys(texts))
    return seen[0] if len(seen) == 1 else f"[{', '.join(seen)}]"


def not_found(plural: str, group: str, name: str) -> ApiError:
    details = Details(name=name, kind=plural, group=group)
    return refusal(404, "NotFound", f'{_qualified(plural, group)} "{name}" not found', details=details)


def already_exists(plural: str, group: str, name: str, *, going: bool = False) -> ApiError:
    """Return the refusal to create an object that exists. `going`: the existing object is being deleted."""
    details = Details(name=name, kind=plural, group=group)
    text = f'{_qualified(plural, group)} "{name}" already exists'
    return refusal(409, "AlreadyExists", f"object is being deleted: {text}" if going else text, details=details)


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def conflict(plural: str, group: str, name: str, why: str = MODIFIED) -> ApiError:
    message = f'Operation cannot be fulfilled on {_qualified(plural, group)} "{name}": {why}'
    return refusal(409, "Conflict", message, details=Details(name=name, kind=plural, group=group))


def forbidden(plural: str, group: str, name: str, why: str) -> ApiError:
    message = f'{_qualified(plural, group)} "{name}" is forbidden: {why}'
    return refusal(403, "Forbidden", message, details=Details(name=name, kind=plural, group=group))


def bad_request(message: str) -> ApiError:
    return refusal(400, "BadRequest", message)


def no_such_resource() -> ApiError:
    return refusal(404, "NotFound", "the server could not find the requested resource", details=Details())


def no_such_method() -> ApiError:
    message = "the server does not allow this method on the requested resource"
    return refusal(405, "MethodNotAllowed", message, details=Details())


def unknown_format(accepted: Iterable[str]) -> ApiError:
    message = f"the body of the request was in an unknown format - accepted media types include: {', '.join(accepted)}"
    return refusal(415, "UnsupportedMediaType", message)


def expired_revision(message: str, resume: str = "") -> ApiError:
    """Return the 410 for a revision that is too old. `resume` is the token for the rest of the list as it is now."""
    return error_from_status(Expired(410, "Expired", message, resume=resume))


def too_large(wanted: int, current: int) -> ApiError:
    causes = (StatusCause("ResourceVersionTooLarge", "Too large resource version"),)
    message = f"Timeout: Too large resource version: {wanted}, current: {current}"
    return refusal(504, "Timeout", message, details=Details(causes=causes, retry_after_seconds=1))


def too_large_body(limit: int) -> ApiError:
    message = f"Request entity too large: limit is {limit}"
    return refusal(413, "RequestEntityTooLarge", message)


def budget_refuses(why: str, retry_after: int) -> ApiError:
    causes = (StatusCause("DisruptionBudget", why),)
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    return refusal(429, "TooManyRequests", message, details=Details(causes=causes, retry_after_seconds=retry_after))


def internal(message: str) -> ApiError:
    causes = (StatusCause(message=message),)
    text = f"Internal error occurred: {message}"
    return refusal(500, "InternalError", text, details=Details(causes=causes))


def unaccounted_problems(problems: Sequence[Problem]) -> ApiError:
    """Return a refusal for problems that the real server does not turn into a proper one."""
    return unclassified_error(aggregate(map(str, problems)))


def unclassified_error(message: str) -> ApiError:
    """Return the error that the real server sends for a case that it does not classify: code 500, no reason."""
    return refusal(500, "", message)


def body(error: ApiError) -> Json:
    """Return the refusal as the Status that the server prints."""
    status = error.status
    result: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    if status.message:
        result["message"] = status.message
    if status.reason:
        result["reason"] = status.reason
    if status.details is not None:
        result["details"] = _details(status.details)
    if isinstance(status, Expired) and status.resume:
        result["metadata"] = {"continue": status.resume}
    result["code"] = status.code
    return result


def _details(details: StatusDetails) -> Json:
    causes = [
        {name: text for name, text in (("reason", c.reason), ("message", c.message), ("field", c.field)) if text}
        for c in details.causes
    ]
    group, uid = (details.group, details.uid) if isinstance(details, Details) else ("", "")
    members: list[tuple[str, Any]] = [
        ("name", details.name),
        ("group", group),
        ("kind", details.kind),
        ("uid", uid),
        ("causes", causes),
        ("retryAfterSeconds", details.retry_after_seconds),
    ]
    return {name: value for name, value in members if value}


def success(plural: str = "", group: str = "", name: str = "", uid: str = "") -> Json:
    result: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if name:
        result["details"] = _details(Details(name=name, kind=plural, group=group, uid=uid))
    return result


def cannot_unmarshal(value: Any, wanted: str) -> str:
    """Return Go's error message for JSON that does not fit the wanted type."""
    names: list[tuple[type, str]] = [(dict, "object"), (list, "array"), (str, "string"), (bool, "bool")]
    found = next((name for kind, name in names if isinstance(value, kind)), "number")
    return f"json: cannot unmarshal {found} into Go value of type {wanted}"


def go_error(body: bytes, error: Exception) -> str:
    return "unexpected end of JSON input" if not body.strip() else str(error)
