"""Admission webhooks as pure rules: the request of the API server to review a write, and the answer of a surface.

See decisions 0009, 0058.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.view import View


class Unreadable(msgspec.Struct, frozen=True):
    """An object in an admission request that does not fit its type."""

    why: str


class Question(msgspec.Struct, frozen=True):
    """A GET that has to be answered before a rule can decide, because no watched kind shows the answer in time.

    `reads`: the type that the answer is decoded as.
    `path`: a name in it must be checked by the rule, so that it leads to no other object.
    `body`: it is posted to the path, which creates no object, as that of an access review.
    `lists`: the path is that of a collection, which no review can choose, and the answer is `Items` of that type.
    """

    path: str
    reads: type[msgspec.Struct]
    lists: bool = False
    body: bytes = b""


class Items(msgspec.Struct, frozen=True):
    """The answer to a question about a collection: those of its objects that can be read."""

    objects: tuple[Any, ...] = ()


class Unanswered(msgspec.Struct, frozen=True):
    """The answer to a question that the API server refused or did not answer.

    `code` is 0 where it did not answer at all.
    """

    code: int
    why: str


# None: the object does not exist.
Answer = msgspec.Struct | Unanswered | None


class AdmissionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request of the API server to review a write, as admission rules read it.

    `object`, `old_object`: the fields that `Webhook.reads` declares; None where the request has no such object. A rule
    must not trust their content.
    `user`: any user who can reach the server. `user_uid`, `groups`, `extra`: what else the API server knows of the user.
    `answers`: the answers to the questions of the rule's earlier verdict on this request.
    """

    uid: str
    operation: str
    kind: str = ""
    name: str = ""
    namespace: str = ""
    subresource: str = ""
    user: str = ""
    user_uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()
    dry_run: bool = False
    object: msgspec.Struct | Unreadable | None = None
    old_object: msgspec.Struct | Unreadable | None = None
    answers: Mapping[Question, Answer] = {}


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of an admission rule to one request.

    `doubts`: objects that the answer depends on and whose rows may be out of date. They are read from the API server
    and the rule runs once more, so that no request is refused because of an old state.
    `patch`: what a mutating webhook changes in the object, as operations of a JSON patch.
    `questions`: GETs to be answered before that. A verdict with questions is not final: the rule runs again with the
    answers.
    """

    allowed: bool
    code: int = 403
    reason: str = "Forbidden"
    message: str = ""
    warnings: tuple[str, ...] = ()
    doubts: tuple[Key, ...] = ()
    patch: tuple[Mapping[str, Any], ...] = ()
    questions: tuple[Question, ...] = ()


Rule = Callable[[AdmissionRequest, View], Verdict]


class Webhook(msgspec.Struct, frozen=True):
    """An admission webhook: which objects it reviews, and the rule that answers.

    `name`: the name of its entry in the webhook configuration `registration`. Empty: it is served but not registered by
    us.
    `reads`: the fields that the rule reads of an object. Nothing else is decoded, however much is sent.
    `mutates`: the registration is a MutatingWebhookConfiguration; otherwise it is a ValidatingWebhookConfiguration.
    `rules`: the `rules` of the entry, which say which requests are reviewed. Empty: the administrator chooses them.
    """

    name: str
    path: str
    rule: Rule
    reads: type[msgspec.Struct]
    registration: str = ""
    mutates: bool = False
    rules: tuple[Mapping[str, Any], ...] = ()


ALLOWED = Verdict(allowed=True)


def denial(message: str, *doubts: Key) -> Verdict:
    return Verdict(allowed=False, message=message, doubts=doubts)


def unreadable(message: str) -> Verdict:
    """Return the answer to a review whose object cannot be read."""
    return Verdict(allowed=False, code=400, reason="BadRequest", message=message)
