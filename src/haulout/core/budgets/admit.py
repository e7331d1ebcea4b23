"""The webhook that lets only those write an override who have the right to `override` its budget (decision 0180)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Any

import msgspec

from haulout.cluster.view import View
from haulout.core.admission import (
    ALLOWED,
    AdmissionRequest,
    Question,
    Unanswered,
    Unreadable,
    Verdict,
    Webhook,
    denial,
    unreadable,
)
from haulout.core.budgets.override_registration import OVERRIDES
from haulout.core.override import problem_of, read_override
from haulout.core.steering import BUDGETS, OVERRIDE

REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
VERB = "override"


class _Meta(msgspec.Struct, frozen=True):
    annotations: dict[str, str] | None = None


class OverridingObject(msgspec.Struct, frozen=True):
    """The part of any object that the rule reads."""

    metadata: _Meta = _Meta()

    @property
    def override(self) -> str | None:
        return (self.metadata.annotations or {}).get(OVERRIDE)


class _ReviewStatus(msgspec.Struct, frozen=True):
    allowed: bool = False


class AccessReview(msgspec.Struct, frozen=True):
    """The answer to a SubjectAccessReview, in part."""

    status: _ReviewStatus = _ReviewStatus()


def webhook(now: Any) -> Webhook:
    """Return the webhook. `now`: returns the time."""
    return Webhook(OVERRIDES.name, OVERRIDES.path, partial(_admit, now), OverridingObject, OVERRIDES.configuration)


def _admit(now: Any, request: AdmissionRequest, view: View) -> Verdict:
    return admit(request, now())


def admit(request: AdmissionRequest, now: datetime) -> Verdict:
    """Refuse an override that is new or changed, unless the user may `override` the budget that it names."""
    if request.operation not in ("CREATE", "UPDATE"):
        return ALLOWED
    new, old = request.object, request.old_object
    if isinstance(new, Unreadable):
        return unreadable(f"{OVERRIDE} cannot be read: {new.why}")
    text = new.override if isinstance(new, OverridingObject) else None
    if text is None or (isinstance(old, OverridingObject) and old.override == text):
        return ALLOWED
    found = read_override(text)
    if isinstance(found, str):
        return denial(f"annotation {OVERRIDE}: {found}")
    if problem := problem_of(found, now):
        return denial(f"annotation {OVERRIDE}: {problem}")
    question = _question(request, found.limit)
    answer = request.answers.get(question)
    if question not in request.answers:
        return Verdict(allowed=False, questions=(question,), message=_missing(request, found.limit))
    if isinstance(answer, AccessReview) and answer.status.allowed:
        return ALLOWED
    if isinstance(answer, Unanswered):
        why = answer.why or "no answer"
        text = f"whether {request.user} may {VERB} {BUDGETS.named} {found.limit} cannot be found out: {why}"
        return Verdict(allowed=False, code=500, reason="InternalError", message=text)
    return denial(_missing(request, found.limit))


def _missing(request: AdmissionRequest, budget: str) -> str:
    return (
        f"annotation {OVERRIDE}: user {request.user!r} lacks the right to {VERB} resource {BUDGETS.resource} in API group "
        f"{BUDGETS.group} with the name {budget!r}"
    )


def _question(request: AdmissionRequest, budget: str) -> Question:
    attributes = {"group": BUDGETS.group, "resource": BUDGETS.resource, "verb": VERB, "name": budget}
    spec: Mapping[str, Any] = {
        "resourceAttributes": attributes,
        "user": request.user,
        "uid": request.user_uid,
        "groups": list(request.groups),
        "extra": {name: list(values) for name, values in request.extra},
    }
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    return Question(REVIEWS, AccessReview, body=msgspec.json.encode(body))
