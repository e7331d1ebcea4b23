"""Steps that a web server carries out: the call, its answer, and later questions for the result."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec

from haulout.cluster.view import FactDemand
from haulout.core.action import Send
from haulout.surfaces.notify.notice import messages
from haulout.surfaces.notify.recipes.recipe import Recipe
from haulout.surfaces.notify.recipes.roles import RUNNER, StepRole
from haulout.surfaces.notify.situation import NoticeSituation

CHANNEL, PROBE = "notify-hooks", "notify-hook-status"
SUCCESS, FAILURE, PENDING, ACCEPTED = "success", "failure", "pending", "accepted"
FIRST_FOR, LONGEST_FOR = timedelta(seconds=1), timedelta(minutes=1)


class HookCall(msgspec.Struct, frozen=True):
    """A call of a recipe's web server. The process adds credentials when it makes the call."""

    role: str
    recipe: str
    key: str
    body: bytes


class HookAnswer(msgspec.Struct, frozen=True):
    """The answer of a recipe's web server.

    `result`: success, failure, pending (ask `status_url` later) or accepted.
    """

    result: str
    message: str = ""
    status_url: str = ""


class StatusQuestion(msgspec.Struct, frozen=True):
    """The question for the result of a call, at the address that its answer named."""

    role: str
    recipe: str
    url: str


def call(
    situation: NoticeSituation, role: StepRole, recipe: Recipe, attempt: int
) -> tuple[tuple[Send, ...], datetime | None]:
    """Return the call to make now, or when to repeat it. Every repetition has the same key."""
    name = _name(situation, role, attempt)
    outcome = situation.view.outcome(name)
    if outcome is not None and outcome.state in ("pending", "done"):
        return (), None
    if outcome is not None and isinstance(outcome.value, datetime):
        at = outcome.value + min(FIRST_FOR * 2.0 ** min(outcome.failures - 1, 20), LONGEST_FOR)
        if situation.now < at:
            return (), at
    key = f"{situation.row.uid}-{role.phase}-{attempt}"
    content = HookCall(role.name, recipe.name, key, messages.go_json(_body(situation, role, attempt)))
    return (Send(name, CHANNEL, content, disrupts=role is RUNNER),), None


def hook_outcome(situation: NoticeSituation, role: StepRole, recipe: Recipe, attempt: int) -> HookAnswer | None:
    """Return the answer to a call, or the result that was asked for later; None if there is no answer yet."""
    outcome = situation.view.outcome(_name(situation, role, attempt))
    if outcome is None:
        return None
    if outcome.state == "failed" and outcome.failures > recipe.request_retries:
        return HookAnswer(FAILURE, f"RequestFailed: {outcome.error}")
    if outcome.state != "done" or not isinstance(outcome.content, HookAnswer):
        return None
    answer = outcome.content
    if answer.result != PENDING:
        return answer
    question = StatusQuestion(role.name, recipe.name, answer.status_url)
    pace = max(recipe.poll_interval, timedelta(seconds=1))
    fact = situation.view.fact(FactDemand(PROBE, question, pace))
    return fact.value if isinstance(fact.value, HookAnswer) and fact.value.result in (SUCCESS, FAILURE) else answer


def _name(situation: NoticeSituation, role: StepRole, attempt: int) -> str:
    return f"notify-hook/{situation.row.uid}/{role.phase}/{attempt}"


def _body(situation: NoticeSituation, role: StepRole, attempt: int) -> dict[str, Any]:
    row = situation.row
    return {
        "message": messages.fields_of(row, role.event),
        "phase": role.phase,
        "uid": row.uid,
        "attempt": attempt,
        "callback": {
            "namespace": row.key.namespace,
            "name": row.key.name,
            "annotation": role.annotation,
            "success": role.success,
            "failure": role.failure,
        },
    }
