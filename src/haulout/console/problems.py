"""The errors of the console's API: RFC 9457 problems with a stable code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from aiohttp import web
from msgspec import UNSET, UnsetType

from haulout.acts.answers import Written
from haulout.console.page_headers import HEADERS

CONTENT_TYPE = "application/problem+json"
# With every 401, as RFC 9110 asks for. No browser opens a dialog of its own for this scheme.
CHALLENGE = 'Bearer realm="haulout"'

# Every code, with the status that it is sent with and what it means. The description of the API lists them.
CODES = {
    "malformed": (400, "The request cannot be understood; `detail` names the part."),
    "not-logged-in": (401, "There is no session, or the token is not valid."),
    "wrong-secret": (401, "The secret of a login is not the one that the console printed."),
    "missing-right": (403, "The caller lacks the right that `verb`, `group`, `resource` and `namespace` name."),
    "cross-site": (403, "The request was sent by a page of another origin."),
    "not-found": (404, "There is no such path or object."),
    "not-followed": (
        404,
        "The console does not follow objects of this kind; `detail` names the command that does, or the setting.",
    ),
    "wrong-method": (405, "The path does not take this method."),
    "invalid": (400, "There is no such act, or it does not take this object or these arguments."),
    "changed": (409, "The object has changed meanwhile; look again."),
    "refused": (422, "The API server or an admission webhook refused the write."),
    "not-possible": (409, "The object does not allow the act in its present state."),
    "too-large": (413, "The body of the request is too long."),
    "not-json": (415, "The body of a POST has to be application/json."),
    "wrong-host": (421, "The Host header names another server than this one."),
    "too-many": (429, "Too many requests of this kind are under way."),
    "failed": (500, "The console failed; its log says why."),
    "no-answer": (503, "The API server did not answer, so it is not known whether this is allowed or done."),
    "not-yet": (503, "The cluster has not been read yet."),
}


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """A problem detail (RFC 9457). `code` is stable; `detail` says to a person what is wrong and what to do.

    `verb`, `group`, `resource`, `namespace`: the missing right, where the code is `missing-right`. The namespace is empty
    where the right is for the whole cluster.
    `done`: the writes of an act that were stored before it was refused.
    """

    type: str
    title: str
    status: int
    code: str
    detail: str
    verb: str | UnsetType = UNSET
    group: str | UnsetType = UNSET
    resource: str | UnsetType = UNSET
    namespace: str | UnsetType = UNSET
    done: tuple[Written, ...] = ()


class Refused(Exception):
    """Raised by a handler that answers with a problem. `headers`: what the answer says beside it."""

    def __init__(self, code: str, detail: str, **right: Any) -> None:
        status, _ = CODES[code]
        self.problem = Problem("about:blank", code.replace("-", " "), status, code, detail, **right)
        self.headers: Mapping[str, str] = {}
        super().__init__(detail)

    def response(self) -> web.Response:
        headers = {"Cache-Control": "no-store", **self.headers}
        if self.problem.status == 401:
            headers["WWW-Authenticate"] = CHALLENGE
        body = msgspec.json.encode(self.problem)
        return web.Response(body=body, status=self.problem.status, content_type=CONTENT_TYPE, headers=headers)


def malformed_answer(status: int) -> web.Response:
    """Return the answer to a request that is not HTTP as the server reads it, or with which the server failed."""
    failed = Refused("failed", "the console failed; its log says why")
    malformed = Refused("malformed", "this is not an HTTP request with a Host and headers that the console reads")
    answer = (failed if status >= 500 else malformed).response()
    answer.headers.update(HEADERS)
    return answer


def missing_right(verb: str, group: str, resource: str, namespace: str = "") -> Refused:
    """Return the refusal that names a missing right."""
    where = f" in namespace {namespace}" if namespace else ""
    named = f"{resource}.{group}" if group else resource
    return Refused(
        "missing-right",
        f"you may not {verb} {named}{where}",
        verb=verb,
        group=group,
        resource=resource,
        namespace=namespace,
    )
