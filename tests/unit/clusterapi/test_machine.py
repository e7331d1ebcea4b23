"""The decision about a Machine and its Node: order, events, edge cases, and what happens only on request."""

from __future__ import annotations

from datetime import timedelta

import pytest

from haulout.cluster.key import Key
from haulout.cluster.store import Store
from haulout.cluster.view import FACT, Record, View
from haulout.core.action import Tell
from haulout.model.meta import wire_time
from haulout.surfaces.clusterapi.decide import APPROVAL_SECONDS, PROBE_EVERY
from haulout.surfaces.clusterapi.options import Options
from haulout.surfaces.clusterapi.wire import (
    CLEANUP,
    CLUSTER,
    LET_GO,
    ORIGINAL,
    PAUSED,
    REQUESTED_BY,
    SKIP_OWNED,
    SKIP_REMEDIATION,
    MachineRow,
)
from tests.build.machines import (
    FAR,
    MACHINES,
    RELEASE,
    M,
    ask,
    cluster,
    connection,
    edits,
    hooked,
    linked,
    machine,
    node,
    picture,
    secret,
    seen_gone,
    steps,
    told,
)
from tests.build.rows import START, at

# What is told, and in which order


def test_a_deletion_is_announced_on_the_node_before_anything_is_written_on_the_machine() -> None:
    assert steps(ask(MACHINES, linked(machine(deleting=0), node()))) == [
        ["n: machine-deleted=true", "Normal DeletionAnnounced on m"],
        [f"m: hook={ORIGINAL}", "Normal PreDrainHookAdded on m"],
    ]


def test_a_request_is_announced() -> None:
    assert steps(ask(MACHINES, linked(hooked(request="requested"), node()))) == [
        ["n: machine-maintenance=true", "Normal MaintenanceAnnounced on m"]
    ]


def test_an_old_approval_is_taken_with_the_announcement() -> None:
    store = linked(hooked(request="requested"), node(approve_maintenance="true"))
    assert steps(ask(MACHINES, store)) == [
        ["n: machine-maintenance=true", "Normal MaintenanceAnnounced on m"],
        ["m: maintenance=approved", "Normal MaintenanceApproved on m", "maintenance took since 10:00:00"],
    ]


def test_how_long_an_approval_took_is_measured_from_when_the_request_was_first_seen() -> None:
    store = linked(hooked(request="requested"), node(maintenance="true"))
    ask(MACHINES, store, at(0))
    ask(MACHINES, store, at(60))
    store.put(node(maintenance="true", approve_maintenance="true", version=2))
    assert steps(ask(MACHINES, store, at(90))) == [
        ["m: maintenance=approved", "Normal MaintenanceApproved on m", "maintenance took since 10:00:00"]
    ]


def test_a_request_that_came_and_went_is_not_measured_from_its_first_time() -> None:
    store = linked(hooked(request="requested"), node(maintenance="true"))
    ask(MACHINES, store, at(0))
    store.put(hooked(version=2))
    ask(MACHINES, store, at(30))
    store.put(hooked(request="requested", version=3))
    store.put(node(maintenance="true", approve_maintenance="true", version=2))
    assert "maintenance took since 10:01:00" in steps(ask(MACHINES, store, at(60)))[0]


def test_a_withdrawn_request_is_told() -> None:
    assert steps(ask(MACHINES, linked(hooked(), node(maintenance="true")))) == [
        ["n: -machine-maintenance", "Normal MaintenanceWithdrawn on m"]
    ]


def test_an_approved_deletion_lets_go_and_is_measured() -> None:
    store = linked(hooked(deleting=-90), node(deleted="true", approve_deletion="true"))
    decision = ask(MACHINES, store)
    assert steps(decision) == [["m: -hook", "Normal PreDrainHookRemoved on m", "deletion took since 09:58:30"]]
    assert {action.counter for action in decision.actions[0] if hasattr(action, "counter")} == {APPROVAL_SECONDS}


def test_a_hook_that_goes_for_another_reason_measures_no_approval() -> None:
    store = linked(hooked(deleting=-90), node(state=None))
    assert steps(ask(MACHINES, store)) == [["m: -hook", "Normal PreDrainHookRemoved on m"]]


def test_events_stand_on_the_machine_and_in_the_core_api() -> None:
    decision = ask(MACHINES, linked(machine(deleting=0, request="requested"), node(approve_maintenance="true")))
    events = [action for step in decision.actions for action in step if isinstance(action, Tell)]
    assert len(events) == 4
    assert {(event.regarding, event.reporter, event.core) for event in events} == {(M, ORIGINAL, True)}


# Edge cases


@pytest.mark.parametrize("deleting", [None, 0.0])
@pytest.mark.parametrize("hook", [None, ORIGINAL, "foreign"])
def test_without_a_node_nothing_is_changed(deleting: float | None, hook: str | None) -> None:
    decision = ask(MACHINES, linked(machine(node="", deleting=deleting, request="requested", hook=hook), node()))
    assert not decision.actions
    assert {source.cluster for source in decision.sources} == {"", FAR}, "it is connected all the same"


def test_it_goes_on_when_the_node_is_named() -> None:
    store = linked(machine(node=""), node())
    ask(MACHINES, store)
    store.put(machine(version=2))
    assert edits(ask(MACHINES, store)) == [f"m: hook={ORIGINAL}"]


def test_an_approval_that_is_withdrawn_puts_the_hook_back() -> None:
    assert edits(ask(MACHINES, linked(machine(deleting=0), node(deleted="true")))) == [f"m: hook={ORIGINAL}"]


def test_removing_the_state_ends_everything_also_in_the_middle_of_a_deletion() -> None:
    store = linked(
        hooked(deleting=0, request="requested"),
        node(state=None, deleted="true", maintenance="true", approve_maintenance="true"),
    )
    assert edits(ask(MACHINES, store)) == ["n: -machine-deleted", "n: -machine-maintenance", "m: -hook"]


def test_a_request_stays_as_it_is_where_nobody_looks_after_the_node() -> None:
    assert not ask(MACHINES, linked(machine(request="requested"), node(state=None, approve_maintenance="true"))).actions


@pytest.mark.parametrize("approved", ["requested", "approved"])
def test_approved_is_never_taken_back(approved: str) -> None:
    store = linked(hooked(request="approved"), node(maintenance="true", approve_maintenance=None))
    assert not ask(MACHINES, store).actions


def test_a_machine_of_another_namespace_or_cluster_never_meets_the_node() -> None:
    """The Node is found by where the Machine is and what it names, never by what the Node says of itself."""
    foreign = machine("x", namespace="other", hook=ORIGINAL)
    assert not ask(MACHINES, linked(foreign, node(approve_deletion="true")), key=foreign.key).actions
    beta = machine("y", cluster="beta", hook=ORIGINAL)
    assert not ask(MACHINES, linked(beta, node(approve_deletion="true")), key=beta.key).actions


@pytest.mark.parametrize(
    "other, expected",
    [
        (machine("o", deleting=0), ["n: machine-deleted=true"]),
        (machine("o", request="requested"), []),
        (machine("o"), []),
        (machine("o", deleting=0, enabled=None), []),
        (machine("o", deleting=0, cluster="beta"), []),
    ],
    ids=["deleting", "requested", "at rest", "not enabled", "of another cluster"],
)
def test_machines_of_one_node_do_not_quarrel(other: MachineRow, expected: list[str]) -> None:
    """Each says its own, also in its events, and leaves alone what the other says."""

    def on_node(key: Key) -> list[str]:
        return [edit for edit in edits(ask(MACHINES, store, key=key)) if edit.startswith("n:")]

    store = linked(hooked(request="requested"), other, node())
    assert on_node(M) == ["n: machine-maintenance=true"]
    store.put(node(maintenance="true", version=2))
    assert on_node(other.key) == expected
    store.put(node(maintenance="true", deleted="true" if expected else None, version=3))
    assert not on_node(M)
    assert not on_node(other.key)


def test_equal_names_in_two_namespaces_are_two_clusters() -> None:
    from haulout.surfaces.clusterapi.wire import Workload

    other = Workload("other", "alpha")
    second = machine(namespace="other")
    store = picture(
        *(secret(), connection(), machine(), node()),
        *(
            secret(workload=other),
            connection(workload=other),
            second,
            node(cluster=other.cluster, approve_deletion="true"),
        ),
    )
    assert edits(ask(MACHINES, store)) == [f"m: hook={ORIGINAL}"]
    decision = ask(MACHINES, store, key=second.key)
    assert not edits(decision)
    assert {source.cluster for source in decision.sources} == {"", "other/alpha"}


def test_a_machine_that_is_gone_wants_nothing() -> None:
    decision = ask(MACHINES, linked(node()))
    assert (decision.actions, decision.sources, decision.marks) == ((), (), ())


def test_a_machine_that_never_was_enabled_is_left_alone_and_connects_nobody() -> None:
    store = linked(machine(enabled=None, request="requested", deleting=0), node(maintenance="true"))
    for decider in (MACHINES, RELEASE):
        decision = ask(decider, store)
        assert (decision.actions, decision.sources, decision.marks, decision.until) == ((), (), (), None)


# A Node that is not there


def facts(store: Store) -> list[timedelta]:
    record = Record()
    MACHINES.decide(M, View(store, record), START)
    return [demand.pace_for for demand in record.facts.values()]


def test_a_node_that_the_server_says_is_gone_lets_a_deletion_go_on() -> None:
    store = linked(hooked(deleting=0), seen_gone())
    assert facts(store) == [PROBE_EVERY]
    assert steps(ask(MACHINES, store)) == [
        ["m: -hook", "Warning NodeNotFound on m", "Normal PreDrainHookRemoved on m"],
    ]


@pytest.mark.parametrize("state, value", [("unknown", None), ("stale", "gone"), ("fresh", "there"), ("stale", "there")])
def test_a_node_that_is_only_not_seen_is_not_gone(state: str, value: str) -> None:
    assert not ask(MACHINES, linked(hooked(deleting=0), seen_gone(state=state, value=value))).actions


@pytest.mark.parametrize(
    "asked", [hooked(), machine(deleting=0), machine()], ids=["not deleting", "no hook", "neither"]
)
def test_where_nothing_hangs_on_it_nobody_looks_for_a_missing_node(asked: MachineRow) -> None:
    store = linked(asked, seen_gone())
    assert not ask(MACHINES, store).actions
    assert not facts(store)


@pytest.mark.parametrize("where", ["waiting", "unreadable"])
def test_while_the_nodes_are_not_known_none_is_gone(where: str) -> None:
    places = {where: [(FAR, "Node")]}
    store = picture(secret(), connection(), hooked(deleting=0), node(), seen_gone(), **places)  # type: ignore[arg-type]
    assert not ask(MACHINES, store).actions
    assert not facts(store)


# Pause

PAUSES = {
    "machine": (machine(deleting=0, request="requested", notes={PAUSED: ""}), cluster()),
    "machine, any value": (machine(deleting=0, request="requested", notes={PAUSED: "false"}), cluster()),
    "cluster": (machine(deleting=0, request="requested"), cluster(paused=True)),
}


@pytest.mark.parametrize("rows", PAUSES.values(), ids=PAUSES.keys())
@pytest.mark.parametrize("about", [node(approve_maintenance="true"), node(state=None, deleted="true")])
def test_what_is_paused_is_not_written(rows: tuple[MachineRow, object], about: object) -> None:
    decision = ask(MACHINES, linked(*rows, about))  # type: ignore[arg-type]
    assert not decision.actions
    assert {source.cluster for source in decision.sources} == {"", FAR}, "it goes on at once when that ends"


def test_until_it_is_known_whether_clusters_pause_nothing_is_written() -> None:
    assert not ask(MACHINES, picture(secret(), connection(), machine(), node(), waiting=[("", CLUSTER)])).actions


def test_clusters_that_may_not_be_read_pause_nothing() -> None:
    store = picture(secret(), connection(), machine(), cluster(paused=True), node(), unreadable=[("", CLUSTER)])
    assert edits(ask(MACHINES, store)) == [f"m: hook={ORIGINAL}"]


def test_the_annotation_of_a_cluster_pauses_no_machine() -> None:
    """Cluster API goes on with its Machines then, and a deletion would wait for a hook that no controller removes."""
    store = linked(hooked(deleting=0), cluster(notes={PAUSED: ""}), node(deleted="true", approve_deletion="true"))
    assert edits(ask(MACHINES, store)) == ["m: -hook"]


@pytest.mark.parametrize("another", [cluster(), cluster("beta", paused=True)])
def test_work_resumes_when_the_pause_ends(another: object) -> None:
    assert edits(ask(MACHINES, linked(machine(), another, node()))) == [f"m: hook={ORIGINAL}"]  # type: ignore[arg-type]


# A deletion without approval


def test_a_deletion_that_waits_for_an_hour_is_told_of_once() -> None:
    store = linked(hooked(deleting=0), node(deleted="true"))
    first = ask(MACHINES, store, at(3599))
    assert (first.actions, first.until) == ((), at(3600))
    late = ask(MACHINES, store, at(3600))
    assert (told(late), late.until) == (["Warning DeletionApprovalPending on m"], None)
    assert late.actions == ask(MACHINES, store, at(9000)).actions, "the same words, so that it is told once"


@pytest.mark.parametrize(
    "asked, about",
    [
        (hooked(), node()),
        (machine(deleting=0), node(deleted="true", approve_deletion="true")),
        (machine(deleting=0), node(state=None)),
    ],
    ids=["not deleting", "approved", "nobody looks after it"],
)
def test_where_nothing_is_awaited_nothing_is_told(asked: MachineRow, about: object) -> None:
    decision = ask(MACHINES, linked(asked, about), at(9000))  # type: ignore[arg-type]
    assert (decision.actions, decision.until) == ((), None)


TIMEOUT = Options(deletion_approval_timeout=timedelta(minutes=90))


def test_a_deletion_time_out_lets_go_of_the_hook_and_says_so() -> None:
    store = linked(hooked(deleting=0), node(deleted="true"), options=TIMEOUT)
    assert ask(MACHINES, store, at(0)).until == at(3600)
    assert ask(MACHINES, store, at(3600)).until == at(5400)
    assert ask(RELEASE, store, at(5399)).until == at(5400)
    assert not ask(RELEASE, store, at(5399)).actions
    decision = ask(RELEASE, store, at(5400))
    expected = [
        f"m: deletion-timeout={wire_time(at(0))}",
        "Warning DeletionApprovalTimeout on m",
        "m: -hook",
        "Normal PreDrainHookRemoved on m",
    ]
    assert steps(decision) == [expected]
    notes = [said.note for said in decision.actions[0] if isinstance(said, Tell)]
    assert all("the deletion was not approved within 1h30m0s" in note for note in notes)
    assert not ask(MACHINES, store, at(5400)).actions, "or the event of the other would never be told"


def test_the_hook_does_not_come_back_for_the_same_deletion() -> None:
    store = linked(machine(deleting=0), node(deleted="true"), options=TIMEOUT)
    for decider in (MACHINES, RELEASE):
        decision = ask(decider, store, at(5401))
        assert (decision.actions, decision.until) == ((), None)


LONGER = Options(deletion_approval_timeout=timedelta(days=9))


@pytest.mark.parametrize("options", [Options(), LONGER], ids=["switched off", "lengthened"])
def test_a_deletion_that_was_let_go_stays_so_when_the_time_out_changes(options: Options) -> None:
    let_go = {LET_GO: wire_time(at(0))}
    store = linked(machine(deleting=0, notes=let_go), node(deleted="true"), options=options)
    for decider in (MACHINES, RELEASE):
        decision = ask(decider, store, at(5401))
        assert (decision.actions, decision.until) == ((), None)
    put_back = linked(hooked(deleting=0, notes=let_go), node(deleted="true"), options=options)
    assert steps(ask(RELEASE, put_back, at(5401))) == [["m: -hook", "Normal PreDrainHookRemoved on m"]]
    assert not ask(MACHINES, put_back, at(5401)).actions


def test_a_mark_of_another_deletion_lets_nothing_go() -> None:
    notes = {LET_GO: wire_time(at(0))}
    moved = linked(machine(deleting=60, notes=notes), node(deleted="true"))
    assert edits(ask(MACHINES, moved, at(61))) == [f"m: hook={ORIGINAL}"]
    assert edits(ask(MACHINES, linked(machine(notes=notes), node()))) == [f"m: hook={ORIGINAL}"]


def test_a_time_out_shorter_than_the_first_hour_is_not_slept_through() -> None:
    store = linked(
        hooked(deleting=0), node(deleted="true"), options=Options(deletion_approval_timeout=timedelta(minutes=5))
    )
    assert ask(MACHINES, store).until == at(300)


@pytest.mark.parametrize("options", [Options(), TIMEOUT])
@pytest.mark.parametrize("asked", [hooked(), machine(deleting=0)])
def test_without_a_time_out_or_a_deletion_the_hook_stays(options: Options, asked: MachineRow) -> None:
    assert not ask(RELEASE, linked(asked, node(), options=options), at(90_000)).actions


def test_without_the_option_a_deletion_waits_for_ever() -> None:
    decision = ask(RELEASE, linked(hooked(deleting=0), node()), at(9_000_000))
    assert (decision.actions, decision.until) == ((), None)


def test_a_paused_machine_keeps_its_hook_beyond_the_time_out() -> None:
    store = linked(hooked(deleting=0, notes={PAUSED: ""}), node(deleted="true"), options=TIMEOUT)
    assert not ask(RELEASE, store, at(9000)).actions


# Approval hygiene

HYGIENE = Options(approval_hygiene=True)


def test_with_hygiene_a_withdrawn_request_takes_its_approval_along() -> None:
    store = linked(hooked(), node(maintenance="true", approve_maintenance="true"), options=HYGIENE)
    assert edits(ask(MACHINES, store)) == ["n: -machine-maintenance", "n: -approve-maintenance"]


def test_without_hygiene_the_approvals_are_never_written() -> None:
    store = linked(hooked(), node(maintenance="true", approve_maintenance="true"))
    assert edits(ask(MACHINES, store)) == ["n: -machine-maintenance"]


def test_with_hygiene_a_stale_approval_of_deletion_does_not_unprotect() -> None:
    store = linked(machine(), node(approve_deletion="true"), options=HYGIENE)
    assert edits(ask(MACHINES, store)) == [f"m: hook={ORIGINAL}"]


def test_with_hygiene_an_approval_after_the_announcement_lets_go() -> None:
    store = linked(hooked(deleting=0), node(deleted="true", approve_deletion="true"), options=HYGIENE)
    assert edits(ask(MACHINES, store)) == ["m: -hook"]


# Remediation guard

GUARD = Options(guard_remediation=True)
OWNED = {SKIP_REMEDIATION: "", SKIP_OWNED: "true"}


@pytest.mark.parametrize(
    "asked, about, expected",
    [
        (
            hooked(request="approved"),
            node(maintenance="true"),
            ["m: skip-remediation=", "m: skip-remediation-owned=true"],
        ),
        (
            hooked(request="requested"),
            node(maintenance="true", approve_maintenance="true"),
            ["m: maintenance=approved", "m: skip-remediation=", "m: skip-remediation-owned=true"],
        ),
        (hooked(request="requested"), node(maintenance="true"), []),
        (hooked(request="approved", notes={SKIP_REMEDIATION: "mine"}), node(maintenance="true"), []),
        (hooked(request="approved", notes=OWNED), node(maintenance="true"), []),
        (hooked(notes=OWNED), node(), ["m: -skip-remediation", "m: -skip-remediation-owned"]),
        (hooked(notes={SKIP_REMEDIATION: ""}), node(), []),
        (hooked(notes={**OWNED, SKIP_REMEDIATION: "mine"}), node(), ["m: -skip-remediation-owned"]),
    ],
    ids=[
        "approved",
        "being approved",
        "requested",
        "a person's",
        "ours already",
        "over",
        "over, a person's",
        "over, a person's by now",
    ],
)
def test_health_checks_are_kept_off_while_approved(asked: MachineRow, about: object, expected: list[str]) -> None:
    assert edits(ask(MACHINES, linked(asked, about, options=GUARD))) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "asked",
    [
        machine(notes=OWNED, enabled=None),
        machine(notes=OWNED, node=""),
        machine(notes=OWNED, node="missing"),
        machine(notes=OWNED, cluster="beta"),
        machine(notes=OWNED, node="missing", deleting=0),
    ],
    ids=["not enabled", "no node named", "no node there", "not connected", "no node there, deleting"],
)
def test_the_guard_goes_with_the_approval_whatever_becomes_of_the_node(asked: MachineRow) -> None:
    assert edits(ask(MACHINES, linked(asked, options=GUARD))) == ["m: -skip-remediation", "m: -skip-remediation-owned"]


def test_a_paused_machine_keeps_its_guard() -> None:
    for enabled in (None, "true"):
        store = linked(machine(enabled=enabled, notes={**OWNED, PAUSED: ""}), node(), options=GUARD)
        assert not ask(MACHINES, store).actions


def test_without_the_option_nobody_guards() -> None:
    for notes in ({}, OWNED):
        assert not ask(MACHINES, linked(hooked(request="approved", notes=notes), node(maintenance="true"))).actions


def test_what_guards_goes_with_the_approval_also_where_nobody_guards_any_more() -> None:
    """Or the Machine would never be remediated again."""
    expected = ["m: -skip-remediation", "m: -skip-remediation-owned"]
    for asked in (hooked(notes=OWNED), machine(notes=OWNED, enabled=None)):
        assert edits(ask(MACHINES, linked(asked, node()))) == expected


# Requests from the workload's side

WISHES = Options(workload_requests=True)
BY = {REQUESTED_BY: "workload"}


@pytest.mark.parametrize(
    "asked, about, expected",
    [
        (hooked(), node(wish="true"), ["m: maintenance=requested", "m: requested-by=workload"]),
        (hooked(), node(wish="yes"), []),
        (machine(), node(wish="true", state=None), []),
        (hooked(request="requested"), node(wish="true", maintenance="true"), []),
        (hooked(request="other"), node(wish="true"), []),
        (hooked(request="requested", notes=BY), node(wish="true", maintenance="true"), []),
        (
            hooked(request="requested", notes=BY),
            node(maintenance="true"),
            ["n: -machine-maintenance", "m: -maintenance", "m: -requested-by"],
        ),
        (hooked(request="requested"), node(maintenance="true"), []),
        (hooked(request="requested", notes={REQUESTED_BY: "me"}), node(maintenance="true"), []),
        (hooked(request="approved", notes=BY), node(maintenance="true"), []),
        (hooked(notes=BY), node(), ["m: -requested-by"]),
        (
            hooked(request="requested", notes=BY),
            node(maintenance="true", approve_maintenance="true"),
            ["n: -machine-maintenance", "m: -maintenance", "m: -requested-by"],
        ),
        (
            hooked(request="requested", notes=BY),
            node(maintenance="true", approve_maintenance="true", wish="true"),
            ["m: maintenance=approved"],
        ),
    ],
    ids=[
        "wished",
        "another word",
        "nobody looks after it",
        "a person's request",
        "a word of others",
        "standing",
        "withdrawn",
        "a person's stays",
        "another's stays",
        "approved stays",
        "over",
        "withdrawn as it is approved",
        "approved",
    ],
)
def test_a_wish_becomes_a_request_and_never_more(asked: MachineRow, about: object, expected: list[str]) -> None:
    assert edits(ask(MACHINES, linked(asked, about, options=WISHES))) == expected  # type: ignore[arg-type]


def test_without_the_option_wishes_are_not_heard() -> None:
    assert not ask(MACHINES, linked(hooked(), node(wish="true"))).actions
    assert not ask(MACHINES, linked(hooked(request="requested", notes=BY), node(maintenance="true"))).actions


def test_the_mark_of_a_wish_goes_with_the_request_also_where_wishes_are_not_heard_any_more() -> None:
    """Or a person's next request would be taken back as the workload's, once they are heard again."""
    assert edits(ask(MACHINES, linked(hooked(notes=BY), node(wish="true")))) == ["m: -requested-by"]


# Leftovers


def test_a_machine_that_is_enabled_again_loses_the_mark_of_its_clean_up() -> None:
    """Or the next clean-up would count its ten minutes from then."""
    store = linked(hooked(notes={CLEANUP: "2026-03-01T09:00:00Z"}), node())
    assert edits(ask(MACHINES, store)) == ["m: -node-cleanup"]


def test_a_machine_that_another_switched_off_and_on_is_hooked_anew() -> None:
    store = linked(machine(enabled="no", hook=ORIGINAL), node())
    assert edits(ask(MACHINES, store)) == ["m: -hook"]
    store.put(machine(version=2))
    assert edits(ask(MACHINES, store)) == [f"m: hook={ORIGINAL}"]


def test_a_sleeping_decision_says_when_it_has_to_be_asked_again() -> None:
    assert ask(MACHINES, linked(hooked(), node())).until is None
    assert FACT not in {mark.key.kind for mark in ask(MACHINES, linked(hooked(), node())).marks}
