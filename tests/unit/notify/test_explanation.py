"""The explanation of a NotifyMaintenance in each state: the rule that applies, what it waits for, which party has to act."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from haulout.cluster.view import View
from haulout.surfaces.notify.present import explanation
from haulout.surfaces.notify.situation import situation_of
from haulout.surfaces.notify.wire import notice_key
from tests.build.notices import HOME, Notices, options

ALL_ON = {
    "scheduler": {"enabled": False},
    "drainer": {"enabled": True},
    "runner": {
        "enabled": True,
        "defaultClient": "rec",
        "recipes": [{"name": "rec", "type": "webhook", "url": "https://x"}],
    },
    "returner": {"enabled": True},
}


def told(given: Notices) -> tuple[int, str, str]:
    found = situation_of(notice_key(HOME, "a"), View(given.kernel.store, explaining=True), given.now)
    assert found is not None
    made = explanation(found)
    return made.rule, made.waits_for, made.actor


Act = Callable[[Notices], object]
STATES: list[tuple[str, Act, int, str, str]] = [
    (
        "unknown",
        lambda ops: ops.make("a", "n9").run(),
        0,
        "node n9, which does not exist",
        "a person: bring the node back, or kubectl delete notifymaintenance",
    ),
    ("scheduled", lambda ops: ops.make("a").run(), 7, "the label maintenance/mid and a cordon", "a scheduler"),
    ("labelled", lambda ops: ops.make("a").label("n0", "mid").run(), 7, "a cordon on node n0", "a scheduler"),
    ("started", lambda ops: ops.started("a"), 7, "the node to be drained", "a drainer"),
    (
        "not ready",
        lambda ops: ops.started("a").annotate("a", ready="false").run(),
        6,
        "maintenance/readyForMaintenance is 'false'",
        "another drainer",
    ),
    (
        "drained",
        lambda ops: ops.drained("a"),
        7,
        "maintenance/maintenanceClient to be set",
        "another maintenance client",
    ),
    (
        "at work",
        lambda ops: ops.drained("a").annotate("a", client="inprogress").run(),
        4,
        "it has to become 'complete' or 'incomplete'",
        "another maintenance client",
    ),
    (
        "validated",
        lambda ops: ops.drained("a").annotate("a", client="complete", validation="validated").run(),
        5,
        "the maintenance to be deleted and its node uncordoned",
        "its owner",
    ),
    (
        "failed",
        lambda ops: ops.drained("a").annotate("a", client="incomplete").run(),
        7,
        "has failed",
        "a person: repair node n0",
    ),
    (
        "ending",
        lambda ops: ops.started("a").delete("a").run(),
        7,
        "node n0 is still cordoned",
        "a person: kubectl uncordon n0",
    ),
    (
        "released",
        lambda ops: ops.started("a").uncordon("n0").run(),
        0,
        "nothing",
        "a person, once it is no longer needed: kubectl delete notifymaintenance",
    ),
]


@pytest.mark.parametrize(
    ("act", "rule", "waits", "actor"), [each[1:] for each in STATES], ids=[each[0] for each in STATES]
)
def test_every_state_is_explained(act: Act, rule: int, waits: str, actor: str) -> None:
    given = Notices(options())
    act(given)
    found = told(given)
    assert found[0] == rule
    assert waits in found[1]
    assert actor in found[2]


def test_our_own_operators_are_named() -> None:
    given = Notices(options(json.dumps({"slaPeriod": "1h", "operators": ALL_ON})))
    given.started("a")
    assert told(given)[2] == "the drainer of Haulout"
    given.run(30)
    assert told(given)[2] == "the runner of Haulout, by the recipe rec"
