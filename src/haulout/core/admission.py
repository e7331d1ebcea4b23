"""What the API server asks before it stores an object, and what a surface answers: a pure rule per webhook."""

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
    """A GET whose answer a rule wants before it decides, because nothing that is watched can answer it in time.

    `reads`: the type that the answer is decoded as. What names the object in `path` must not lead anywhere else.
    `lists`: the path is that of a collection, which no review can choose, and the answer is `Items` of that type.
    """

    path: str
    reads: type[msgspec.Struct]
    lists: bool = False


class Items(msgspec.Struct, frozen=True):
    """The objects of a collection, as far as they can be read."""

    objects: tuple[Any, ...] = ()


class Unanswered(msgspec.Struct, frozen=True):
    """The answer to a question that the API server did not give. `code` is 0 where it did not answer at all."""

    code: int
    why: str


# None: there is no such object.
Answer = msgspec.Struct | Unanswered | None


class AdmissionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request of the API server to review a write, as admission rules read it.

    The objects are what `Webhook.reads` takes from them, None if there is none. A rule trusts nothing in them.

    `user` may be any user who can reach the server. `answers`: to the questions of an earlier verdict about it.
    """

    uid: str
    operation: str
    kind: str = ""
    name: str = ""
    namespace: str = ""
    subresource: str = ""
    user: str = ""
    dry_run: bool = False
    object: msgspec.Struct | Unreadable | None = None
    old_object: msgspec.Struct | Unreadable | None = None
    answers: Mapping[Question, Answer] = {}


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of an admission rule to one request.

    `doubts`: objects on which the answer hangs and of which our picture may be old.

    They are looked at and the rule is asked once more, so that no request is refused for a state that has changed meanwhile.

    `patch`: what a mutating webhook changes in the object, as operations of a JSON patch.
    `questions` are answered before that. A verdict with questions is none yet.
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

    `name` is that of its entry in the webhook configuration `registration`. Empty: it is served, and we register it nowhere.

    `reads`: the fields that the rule reads of an object. Nothing else is decoded, however much is sent.

    `mutates`: the registration is a MutatingWebhookConfiguration; otherwise it is a ValidatingWebhookConfiguration.

    `rules`: what the entry must say about which requests are reviewed. Empty: that is the administrator's business.
    """

    name: str
    path: str
    rule: Rule
    reads: type[msgspec.Struct]
    registration: str = ""
    mutates: bool = False
    rules: tuple[Mapping[str, Any], ...] = ()


ALLOWED = Verdict(allowed=True)


def denied(message: str, *doubts: Key) -> Verdict:
    return Verdict(allowed=False, message=message, doubts=doubts)


def unreadable(message: str) -> Verdict:
    """Return the answer to a review whose object cannot be read."""
    return Verdict(allowed=False, code=400, reason="BadRequest", message=message)
