"""What the API server does not take of a pass."""

from __future__ import annotations

import pytest

from haulout.cluster.key import node_key
from haulout.cluster.view import View
from haulout.core.action import Say
from haulout.runtime.requests import Change, Refused
from haulout.surfaces.profiles.info import node_info
from tests.build.profiles import IN_MAINTENANCE, OPERATIONAL, REQUIRED, Profiles, config_text, worker

SPOILT = "- {type: alterLabel, name: spoil, config: {key: spoilt, value: 'a b!'}}"
INVALID = 'Node "n" is invalid: metadata.labels: Invalid value: "a b!"'
LINE = "Failed to patch node on the API server"
GOOD_AND_BAD = """
- name: good
  operational: {transitions: [{check: a, trigger: mark, next: in-maintenance}]}
- name: plain
  operational: {transitions: [{check: a, next: maintenance-required}]}
- name: bad
  operational: {transitions: [{check: a, trigger: other && spoil, next: maintenance-required}]}
"""
BAD_INSIDE = """
- name: bad
  operational: {transitions: [{check: a, next: maintenance-required}]}
  maintenance-required: {enter: spoil, transitions: [{check: a, next: operational}]}
"""


def forbidden(patch: Change) -> Refused | None:
    """As the server does with labels that cannot be one."""
    labels = patch.body.get("metadata", {}).get("labels", {})
    return Refused(422, INVALID) if "a b!" in labels.values() else None


def fleet(text: str, profiles: str) -> Profiles:
    made = Profiles(config_text(text, triggers=SPOILT), worker(profiles=profiles))
    made.desk.world.forbids = forbidden
    made.settle().label(a="")
    return made


def shown(profiles: Profiles) -> dict[str, tuple[str, str]]:
    info = node_info(node_key("n"), View(profiles.desk.store, explaining=True), profiles.now)
    assert info is not None
    return {each["name"]: (each["applied"]["next"], each["applied"]["error"]) for each in info["profiles"]}


@pytest.mark.parametrize("goes_to", [IN_MAINTENANCE, REQUIRED], ids=["with a grant", "without one"])
@pytest.mark.parametrize("order", ["good--plain--bad", "bad--plain--good"])
def test_whoever_wanted_it_fails_alone(order: str, goes_to: str) -> None:
    profiles = fleet(GOOD_AND_BAD.replace(IN_MAINTENANCE, goes_to), order)
    for _ in range(3):
        profiles.step()
    profiles.wait(1.5)
    for _ in range(3):
        profiles.step()
    assert profiles.current() == {"good": goes_to, "plain": REQUIRED, "bad": OPERATIONAL}
    labels = profiles.row().labels
    assert labels["marked"] == "yes"
    assert "other" not in labels
    note = "At least one trigger plugin failed for profile bad: Will stay in operational state"
    assert [tell.note for tell in profiles.events if tell.reason == "ChangeMaintenanceStateFailed"] == [note]
    counter = "maintenance_controller_transition_failure_count"
    assert {(each.counter, each.labels) for each in profiles.counted} == {(counter, (("profile", "bad"),))}
    error = f"Trigger instances other, spoil failed: {LINE}: {INVALID}"
    assert shown(profiles)["bad"] == (OPERATIONAL, error)
    assert Say(LINE, (("node", "n"), ("error", INVALID)), "error") in profiles.lines
    (line,) = [line for line in profiles.lines if line.message == "At least one trigger plugin failed"]
    assert dict(line.fields) == {"state": OPERATIONAL, "profile": "bad", "node": "n", "error": error}


def test_it_is_tried_again_less_and_less_often_and_counted_each_time() -> None:
    profiles = fleet(GOOD_AND_BAD, "bad")
    for _ in range(4 * 120):
        profiles.step().wait(0.25)
    tries = [at for at, body in profiles.desk.handed_out if isinstance(body, Change)][1:]
    assert [round((tries[n + 1] - tries[n]).total_seconds()) for n in range(5)] == [2, 4, 8, 16, 32]
    assert len(profiles.counted) == len(tries) == 6


def test_mended_it_goes_on_at_once() -> None:
    profiles = fleet(GOOD_AND_BAD, "bad").step()
    profiles.configure(config_text(GOOD_AND_BAD, triggers=SPOILT.replace("a b!", "fine")))
    profiles.step()
    assert profiles.current() == {"bad": REQUIRED}
    assert profiles.row().labels["spoilt"] == "fine"
    assert shown(profiles)["bad"] == (REQUIRED, "")


def test_on_entering_it_fails_to_enter() -> None:
    profiles = fleet(BAD_INSIDE, "bad").step().step().step()
    note = "Failed to enter state maintenance-required for profile bad: Will stay in maintenance-required state"
    assert note in profiles.notes
    assert shown(profiles)["bad"] == (REQUIRED, f"Trigger instance spoil failed: {LINE}: {INVALID}")


@pytest.mark.parametrize("code", [403, 500])
def test_a_node_that_may_not_be_written_at_all_shows_so(code: int) -> None:
    profiles = fleet(GOOD_AND_BAD, "plain")
    profiles.desk.world.forbids = lambda patch: Refused(code, "no touching")
    profiles.step()
    assert shown(profiles)["plain"] == (OPERATIONAL, f"{LINE}: no touching")
    assert [line for line in profiles.lines if line.message == LINE] == [
        Say(LINE, (("node", "n"), ("error", "no touching")), "error")
    ]
    profiles.desk.world.forbids = lambda patch: None
    profiles.wait(1).step()
    assert profiles.current() == {"plain": REQUIRED}


def test_a_conflict_is_nobodys_fault() -> None:
    profiles = fleet(GOOD_AND_BAD, "good")
    profiles.desk.world.forbids = lambda patch: Refused(409, "the object has been modified")
    profiles.step()
    assert shown(profiles)["good"][1] == ""
    assert [line for line in profiles.lines if line.level == "error"] == []
