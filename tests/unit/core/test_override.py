"""Overrides: which texts are one, who may write one, and what admission asks."""

from __future__ import annotations

import json

import msgspec
import pytest

from haulout.core.admission import AdmissionRequest, Answer, Question, Unanswered, Verdict
from haulout.core.budgets.admit import AccessReview, OverridingObject, admit
from haulout.core.override import Override, read_override
from haulout.core.steering import OVERRIDE
from tests.build.rows import at

NOW = at(0)
UNTIL = at(3600).strftime("%Y-%m-%dT%H:%M:%SZ")


def text(**changes: str) -> str:
    return json.dumps({"limit": "night", "reason": "outage", "until": UNTIL} | changes)


def test_the_form_of_an_override() -> None:
    assert read_override(text()) == Override("night", "outage", at(3600))


@pytest.mark.parametrize(
    "wrong",
    [
        "yes",
        "{}",
        text(until="tomorrow"),
        text(until="2026-01-01T00:00:00"),
        text().replace("night", "\\u006eight"),
        '{"limit": "mine", "limit": "night", "reason": "x", "until": "2026-01-01T00:00:00Z"}',
        "[" * 5000,
    ],
    ids=lambda wrong: wrong[:40],
)
def test_a_text_that_could_be_read_in_two_ways_is_none(wrong: str) -> None:
    assert isinstance(read_override(wrong), str)


def request(new: str | None, old: str | None = None, operation: str = "UPDATE") -> AdmissionRequest:
    def body(value: str | None) -> OverridingObject:
        notes = {OVERRIDE: value} if value is not None else {}
        return msgspec.convert({"metadata": {"annotations": notes}}, OverridingObject)

    old_object = body(old) if operation == "UPDATE" else None
    return AdmissionRequest(
        uid="u", operation=operation, user="tenant", groups=("team",), object=body(new), old_object=old_object
    )


def answered(asked: AdmissionRequest, answer: Answer) -> Verdict:
    (question,) = admit(asked, NOW).questions
    return admit(msgspec.structs.replace(asked, answers={question: answer}), NOW)


def test_the_right_to_override_the_budget_is_asked_for_the_user() -> None:
    (question,) = admit(request(text()), NOW).questions
    assert isinstance(question, Question)
    spec = json.loads(question.body)["spec"]
    attributes = {"group": "haulout.dev", "resource": "nodedisruptionbudgets", "verb": "override", "name": "night"}
    assert (spec["user"], spec["groups"], spec["resourceAttributes"]) == ("tenant", ["team"], attributes)


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
def test_who_has_the_right_may_and_who_lacks_it_may_not(operation: str) -> None:
    asked = request(text(), operation=operation)
    assert answered(asked, msgspec.convert({"status": {"allowed": True}}, AccessReview)).allowed
    refused = answered(asked, AccessReview())
    assert (refused.allowed, refused.code) == (False, 403)
    assert "override resource nodedisruptionbudgets in API group haulout.dev" in refused.message
    assert answered(asked, Unanswered(0, "no answer")).code == 500


@pytest.mark.parametrize(("new", "old"), [(None, text()), (text(), text()), (None, None)], ids=str)
def test_what_sets_no_override_is_not_asked_about(new: str | None, old: str | None) -> None:
    assert admit(request(new, old), NOW) == Verdict(allowed=True)


@pytest.mark.parametrize("wrong", ["yes", text(until=at(90_000).strftime("%Y-%m-%dT%H:%M:%SZ")), text(reason=" ")])
def test_an_override_that_would_have_no_effect_is_refused(wrong: str) -> None:
    assert (admit(request(wrong), NOW).allowed, admit(request(wrong), NOW).questions) == (False, ())
