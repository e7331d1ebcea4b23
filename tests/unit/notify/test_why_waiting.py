"""What `haulout explain` prints about a maintenance that the scheduler has not started, for each reason."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from haulout.cluster.view import View
from haulout.embedded import Json
from haulout.explain.notices import as_text
from haulout.model.meta import wire_time
from haulout.surfaces.notify.present import NoticeExplanation, explanation
from haulout.surfaces.notify.situation import situation_of
from haulout.surfaces.notify.wire import notice_key
from tests.build.notices import HOME, Notices, options
from tests.build.workloads import pod

ALL = {"name": "all", "maxUnavailable": 1}
GATE = {"url": "http://prometheus", "query": "ALERTS{severity='page'}"}
# The scenarios begin on a Thursday, at midnight.
NIGHT, NOW = {"days": ["Fri"], "start": "22:00", "end": "22:01"}, {"days": ["Thu"], "start": "00:00", "end": "06:00"}


def ops(**scheduler: Any) -> Notices:
    settings = {"enabled": True, "budgets": [ALL], **scheduler}
    return Notices(options(json.dumps({"slaPeriod": "1h", "operators": {"scheduler": settings}})))


def told(given: Notices, name: str = "a") -> NoticeExplanation:
    found = situation_of(notice_key(HOME, name), View(given.kernel.store, explaining=True), given.now)
    assert found is not None
    return explanation(found)


def busy(where: str, lasts: str) -> Json:
    made = pod("train", nodeName=where, restartPolicy="Never")
    made["metadata"]["annotations"] = {"haulout.dev/expected-duration": lasts, "haulout.dev/drain": "wait"}
    return made


def _failed(given: Notices) -> None:
    for number in range(2):
        given.drained(f"f{number}", f"n{number + 1}").annotate(f"f{number}", client="incomplete").run()
    given.make("a").run(5)


def _unlikely(given: Notices) -> None:
    given.world.make(busy("n0", "10h"))
    given.run(5).make("a").run(5)


def _too_long(given: Notices) -> None:
    given.world.make(busy("n0", "30h"))
    given.run(5).make("a").run(5)


def _busy(given: Notices) -> None:
    given.drained("other", mid="m2").make("a").run(5)


def _reserved(given: Notices) -> None:
    given.make("first", "n1", "m1").run(5).make("a").make("now", "n2", "m2", maintenanceType="unplanned").run(5)


def _later(given: Notices) -> None:
    at = wire_time(given.now + timedelta(hours=5))
    given.make("a", annotations={"haulout.dev/not-before": at}).run(5)


Act = Callable[[Notices], object]
STATES: list[tuple[str, Json, Act, str, str, str]] = [
    (
        "held",
        {},
        lambda o: o.make("a", annotations={"haulout.dev/hold": "true"}).run(5),
        "Held",
        "holds it",
        "remove the",
    ),
    ("not before", {}, _later, "NotBefore", "names a later time", "the scheduler"),
    ("no node", {}, lambda o: o.make("a", "n9").run(5), "", "node n9, which does not exist", "a person"),
    (
        "cordoned",
        {},
        lambda o: o.cordon("n0").make("a").run(5),
        "NodeCordonedElsewhere",
        "was cordoned by a person",
        "uncordon the node",
    ),
    (
        "failures",
        {"failureThreshold": 2, "budgets": [{**ALL, "maxUnavailable": 9}]},
        _failed,
        "FailureThreshold",
        "failed: fleet/f0, fleet/f1",
        "delete or retry",
    ),
    (
        "alerts",
        {"alertGate": GATE},
        lambda o: o.make("a").run(5),
        "AlertsFiring",
        "query: ALERTS{",
        "resolve the alerts",
    ),
    ("window", {"windows": [NIGHT]}, lambda o: o.make("a").run(5), "OutsideWindow", "no window", "the scheduler"),
    (
        "blackout",
        {"blackouts": [{"from": "2020-01-01T00:00:00Z", "to": "2040-01-01T00:00:00Z"}]},
        lambda o: o.make("a").run(5),
        "Blackout",
        "a blackout holds",
        "the scheduler",
    ),
    (
        "fit",
        {"windows": [NOW], "requireFit": True},
        _too_long,
        "DoesNotFit",
        "would not end before the window closes",
        "the scheduler",
    ),
    (
        "unlikely",
        {"minLikelihood": 0.5},
        _unlikely,
        "UnlikelyToDrain",
        "it is started all the same, as starved, at ",
        "the scheduler",
    ),
    ("busy", {}, _busy, "NodeBusy", "there: fleet/other", "the scheduler"),
    (
        "budget",
        {},
        lambda o: o.make("first", "n1", "m1").run(5).make("a").run(5),
        "BudgetExhausted(all)",
        "1 at most; in maintenance: fleet/first",
        "the scheduler",
    ),
    ("reserved", {}, _reserved, "BudgetExhausted(all)", "the next place is kept for fleet/now", "the scheduler"),
    (
        "starved",
        {"starvationAfter": "1m"},
        lambda o: o.make("first", "n1", "m1").run(5).make("a").run(90),
        "BudgetExhausted(all)",
        "it is unplanned or starved",
        "the scheduler",
    ),
    ("dry run", {"dryRun": True}, lambda o: o.make("a").run(5), "DryRun", "dryRun is set", "set dryRun to false"),
    ("at once", {}, lambda o: o.make("a").run(0.5), "", "the next choice", "the scheduler"),
]


@pytest.mark.parametrize(
    ("settings", "act", "reason", "waits", "actor"), [each[1:] for each in STATES], ids=[each[0] for each in STATES]
)
def test_every_reason_is_explained(settings: Json, act: Act, reason: str, waits: str, actor: str) -> None:
    given = ops(**settings)
    act(given)
    found = told(given)
    assert found.reason == reason
    assert waits in found.waits_for
    assert actor in found.actor
    assert f"waits for: {found.waits_for}" in as_text(found)


@pytest.mark.parametrize("name", ["not before", "window", "blackout", "fit"])
def test_what_time_alone_changes_has_an_instant(name: str) -> None:
    settings, act = next(each[1:3] for each in STATES if each[0] == name)
    given = ops(**settings)
    act(given)
    found = told(given)
    assert found.not_before is not None
    assert f"not before: {found.not_before:%Y-%m-%dT%H:%M:%SZ}" in as_text(found)


def test_one_that_was_started_is_no_candidate() -> None:
    given = ops().make("a").run(5)
    assert (told(given).reason, told(given).state) == ("", "MaintenanceStarted")


def test_a_joined_one_waits_for_the_drain() -> None:
    given = ops().make("a").run(5).make("b", mid="m2").run(5)
    assert told(given, "b").waits_for.startswith("the node to be drained")
    assert "schedulerDecision: selected (Joined)" in told(given, "b").notes[0]
