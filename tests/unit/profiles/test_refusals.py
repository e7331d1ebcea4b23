"""What profiles do when the API server refuses a write."""

from __future__ import annotations

import pytest

from haulout.cluster.key import node_key
from haulout.cluster.project import within
from haulout.cluster.view import View
from haulout.core.action import Create, Say
from haulout.core.arbiter import Rules, arbiter
from haulout.kernel.requests import Change, Refused
from haulout.surfaces.profiles.info import node_info
from haulout.surfaces.profiles.surface import DECIDER
from haulout.surfaces.profiles.wire import SURFACE
from tests.build.checks import hypervisor
from tests.build.desk import Cluster, Desk
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


def forbidden(patch: Change | Create) -> Refused | None:
    """Refuse a write as the server refuses malformed labels."""
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


ELSEWHERE = """
- name: taking
  operational: {transitions: [{check: a && turn, next: maintenance-required}]}
- name: trying
  operational: {transitions: [{check: a && (turn || b), next: maintenance-required}]}
- name: going
  operational: {transitions: [{check: a, trigger: other && hv, next: maintenance-required}]}
- name: entering
  operational: {transitions: [{check: a, next: maintenance-required}]}
  maintenance-required: {enter: other && hv}
- name: good
  operational: {transitions: [{check: a, next: maintenance-required}]}
"""
TURN = "- {type: stagger, name: turn, config: {duration: 10s, leaseName: l, leaseNamespace: ns}}"
HV = "- {type: alterHypervisor, name: hv, config: {maintenance: bogus}}"
CHECK_FAILS = "had failed transition checks: failed check instances: turn"


def elsewhere(profile: str, *refusals: tuple[type[Change | Create], str, int]) -> Profiles:
    """Return a node with that profile and a good one, on a server that refuses writes of some other objects."""
    made = Profiles(None)
    lease, rules = within("Lease", "ns"), arbiter(Rules((SURFACE,), turns=False))
    world = Cluster(worker(profiles=f"{profile}--good", a=""), hypervisor("n"))
    made.desk = Desk(DECIDER, rules, world=world, kinds=("Node", "Hypervisor", lease))
    made.configure(config_text(ELSEWHERE, checks=TURN, triggers=HV))
    codes = {(verb, kind): code for verb, kind, code in refusals}
    world.forbids = lambda body: (
        Refused(code, "never") if (code := codes.get((type(body), body.target.kind.split("/")[0]))) else None
    )
    made.desk.feed.list()
    return made


@pytest.mark.parametrize(
    ("profile", "refusal", "state", "failure", "error"),
    [
        pytest.param(
            *("taking", (Create, "Lease", 404), OPERATIONAL, "At least one check plugin failed", CHECK_FAILS),
            id="a lease in a namespace that is missing",
        ),
        pytest.param(
            *("trying", (Create, "Lease", 403), OPERATIONAL, "At least one check plugin failed", CHECK_FAILS),
            id="a lease that may not be made",
        ),
        pytest.param(
            *("taking", (Change, "Lease", 403), OPERATIONAL, "At least one check plugin failed", CHECK_FAILS),
            id="a lease that may not be taken",
        ),
        pytest.param(
            *("going", (Change, "Hypervisor", 422), OPERATIONAL, "At least one trigger plugin failed"),
            "Trigger instance hv failed: never",
            id="what a trigger writes",
        ),
        pytest.param(
            *("entering", (Change, "Hypervisor", 500), REQUIRED, "Failed to enter state maintenance-required"),
            "Trigger instance hv failed: never",
            id="what is written on entering",
        ),
    ],
)
def test_what_is_refused_elsewhere_fails_its_profile_alone(
    profile: str, refusal: tuple[type[Change | Create], str, int], state: str, failure: str, error: str
) -> None:
    profiles = elsewhere(profile, refusal)
    for _ in range(8):
        profiles.step()
    assert profiles.current() == {profile: state, "good": REQUIRED}
    assert "other" not in profiles.row().labels
    assert shown(profiles)[profile] == (state, error)
    told = [tell.note for tell in profiles.events if tell.reason == "ChangeMaintenanceStateFailed"]
    assert told == [f"{failure} for profile {profile}: Will stay in {state} state"]
    assert len(profiles.counted) == 1
    for _ in range(4 * 30):
        profiles.step().wait(0.25)
    assert 3 <= len(profiles.counted) <= 5, "ever less often"
    profiles.desk.world.forbids = lambda body: None
    for _ in range(4 * 60):
        profiles.step().wait(0.25)
    assert profiles.current() == {profile: REQUIRED, "good": REQUIRED}
    assert shown(profiles)[profile][1] == ""


@pytest.mark.parametrize(
    ("profile", "refusal"),
    [("taking", (Change, "Lease", 409)), ("going", (Change, "Hypervisor", 404)), ("taking", (Create, "Lease", 429))],
)
def test_what_passes_elsewhere_is_nobodys_fault(profile: str, refusal: tuple[type[Change | Create], str, int]) -> None:
    profiles = elsewhere(profile, refusal)
    for _ in range(8):
        profiles.step()
    assert profiles.counted == []
    assert [line for line in profiles.lines if line.level == "error"] == []
