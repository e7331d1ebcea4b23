"""A Machine that is not enabled any more: its Node is cleaned first, then the hook is removed, without long waits."""

from __future__ import annotations

import pytest

from haulout.cluster.key import Key
from haulout.core.decision import Decision
from haulout.surfaces.clusterapi.options import Options
from haulout.surfaces.clusterapi.wire import CLEANUP, ORIGINAL, PAUSED, MachineRow
from tests.build.machines import (
    FAR,
    KUBECONFIG,
    MACHINES,
    RELEASE,
    ask,
    cluster,
    connection,
    edits,
    linked,
    machine,
    node,
    picture,
    secret,
    steps,
)
from tests.build.rows import at


def disabled(**more: object) -> MachineRow:
    return machine(enabled=None, version=2, **more)  # type: ignore[arg-type]


def marked(seconds: float, **more: object) -> MachineRow:
    return disabled(notes={CLEANUP: f"{at(seconds):%Y-%m-%dT%H:%M:%SZ}"}, **more)


@pytest.mark.parametrize("enabled", [None, "True", ""])
@pytest.mark.parametrize("deleting", [None, 0.0])
def test_node_first_then_the_hook_in_one_pass(enabled: str | None, deleting: float | None) -> None:
    asked = machine(enabled=enabled, hook=ORIGINAL, deleting=deleting, request="requested")
    store = linked(asked, node(deleted="true", maintenance="foreign", approve_maintenance="true"))
    assert steps(ask(MACHINES, store)) == [
        ["n: -machine-deleted", "n: -machine-maintenance", "Normal MaintenanceWithdrawn on m"],
        ["m: -hook", "Normal PreDrainHookRemoved on m"],
    ]


@pytest.mark.parametrize(
    "other, expected",
    [
        (machine("o", deleting=0, request="requested"), ["m: -hook"]),
        (machine("o", deleting=0), ["n: -machine-maintenance", "n: -approve-maintenance", "m: -hook"]),
        (machine("o", request="approved"), ["n: -machine-deleted", "m: -hook"]),
    ],
    ids=["both", "deleting", "approved"],
)
def test_what_another_machine_tells_the_same_node_stays(other: MachineRow, expected: list[str]) -> None:
    told = node(deleted="true", maintenance="true", approve_maintenance="true")
    store = linked(disabled(hook=ORIGINAL), other, told, options=Options(approval_hygiene=True))
    assert edits(ask(MACHINES, store)) == expected


@pytest.mark.parametrize("hook", [ORIGINAL, "foreign", ""])
def test_a_hook_set_by_hand_goes(hook: str) -> None:
    assert edits(ask(MACHINES, linked(disabled(hook=hook), node()))) == ["m: -hook"]


def test_the_last_machine_keeps_the_connection_until_its_node_is_clean() -> None:
    store = linked(disabled(hook=ORIGINAL), node(deleted="true"))
    decision = ask(MACHINES, store)
    assert {source.cluster for source in decision.sources} == {"", FAR}
    store.put(disabled())
    store.put(node(version=2))
    decision = ask(MACHINES, store)
    assert (decision.actions, decision.sources, decision.marks) == ((), (), ())


def test_one_that_was_seen_enabled_is_cleaned_also_without_a_hook() -> None:
    """An approved one carries none."""
    store = linked(machine(deleting=0), node(deleted="true", approve_deletion="true"))
    assert not ask(MACHINES, store).actions
    store.put(disabled(deleting=0))
    assert edits(ask(MACHINES, store)) == ["n: -machine-deleted"]


def test_without_a_node_reference_the_hook_goes_at_once() -> None:
    decision = ask(MACHINES, picture(disabled(hook=ORIGINAL, node="")))
    assert steps(decision) == [["m: -hook", "Normal PreDrainHookRemoved on m"]]
    assert not decision.sources


def test_a_node_that_is_not_there_says_nothing() -> None:
    assert edits(ask(MACHINES, linked(disabled(hook=ORIGINAL)))) == ["m: -hook"]


def test_while_the_nodes_are_not_known_it_waits() -> None:
    store = picture(secret(), disabled(hook=ORIGINAL), waiting=[(FAR, "Node")])
    decision = ask(MACHINES, store, at(0))
    assert (decision.actions, decision.until) == ((), at(600))
    assert {source.cluster for source in decision.sources} == {"", FAR}
    assert ask(MACHINES, store, at(60)).until == at(600), "counted from when it was first seen"


def test_after_ten_minutes_in_vain_it_ends() -> None:
    store = picture(secret(), disabled(hook=ORIGINAL), waiting=[(FAR, "Node")])
    ask(MACHINES, store, at(0))
    assert not ask(MACHINES, store, at(599.9)).actions
    decision = ask(MACHINES, store, at(600))
    assert (edits(decision), decision.sources, decision.marks) == (["m: -hook"], (), ())


# What does not wait for the Node


def test_the_hook_waits_for_the_node_for_five_seconds_and_leaves_a_mark() -> None:
    store = picture(secret(), disabled(hook=ORIGINAL), node(deleted="true"), waiting=[(FAR, "Node")])
    first = ask(RELEASE, store, at(0))
    assert (first.actions, first.until) == ((), at(5))
    assert not ask(RELEASE, store, at(4.999)).actions
    assert steps(ask(RELEASE, store, at(5))) == [
        ["m: -hook", "Normal PreDrainHookRemoved on m", "m: node-cleanup=2026-03-01T10:00:05Z"]
    ]
    assert ask(RELEASE, store, at(5)).actions == ask(RELEASE, store, at(9)).actions, "however often it is tried"


def test_a_mark_keeps_the_connection_wanted_also_after_a_restart() -> None:
    store = picture(secret(), marked(5), waiting=[(FAR, "Node")])
    decision = ask(MACHINES, store, at(300))
    assert {source.cluster for source in decision.sources} == {"", FAR}
    assert (decision.actions, decision.until) == ((), at(605))


def test_a_mark_goes_with_the_labels() -> None:
    store = linked(marked(5), node(deleted="true", maintenance="true"))
    assert edits(ask(MACHINES, store, at(300))) == [
        "n: -machine-deleted",
        "n: -machine-maintenance",
        "m: -node-cleanup",
    ]
    assert edits(ask(MACHINES, linked(marked(5), node()), at(300))) == ["m: -node-cleanup"]


def test_a_mark_goes_after_ten_minutes() -> None:
    store = linked(marked(5), node(deleted="true"))
    decision = ask(MACHINES, store, at(605))
    assert edits(decision) == ["m: -node-cleanup"]
    store.put(disabled())
    assert ask(MACHINES, store, at(605)) == Decision(), "nobody keeps the connection any more"


@pytest.mark.parametrize("text", ["yesterday", "", "10:00"])
def test_a_mark_that_nobody_can_read_is_over(text: str) -> None:
    assert edits(ask(MACHINES, linked(disabled(notes={CLEANUP: text}), node(deleted="true")))) == ["m: -node-cleanup"]


def test_a_mark_without_a_zone_is_utc() -> None:
    store = linked(disabled(notes={CLEANUP: "2026-03-01T09:55:00"}), node(deleted="true"))
    assert edits(ask(MACHINES, store)) == ["n: -machine-deleted", "m: -node-cleanup"]


@pytest.mark.parametrize(
    "asked",
    [disabled(), machine(hook=ORIGINAL), disabled(hook=ORIGINAL, node=""), marked(0)],
    ids=["no hook", "enabled", "no node", "let go already"],
)
def test_others_are_not_let_go(asked: MachineRow) -> None:
    decision = ask(RELEASE, linked(asked, node()), at(9000))
    assert (decision.actions, decision.until, decision.marks) == ((), None, ())


def test_one_that_is_enabled_again_is_let_go_of_anew_later() -> None:
    store = linked(disabled(hook=ORIGINAL), node())
    ask(RELEASE, store, at(0))
    store.put(machine(hook=ORIGINAL, version=3))
    forgets = ask(RELEASE, store, at(2))
    assert not forgets.marks
    store.erase(Key("", "Mark", "machine-release", "fleet/m"))
    store.put(machine(enabled=None, hook=ORIGINAL, version=4))
    assert ask(RELEASE, store, at(100)).until == at(105)


# Pause


@pytest.mark.parametrize(
    "rows",
    [
        (disabled(hook=ORIGINAL, notes={PAUSED: ""}), cluster()),
        (disabled(hook=ORIGINAL), cluster(paused=True)),
    ],
    ids=["machine", "cluster"],
)
def test_what_is_paused_is_not_cleaned(rows: tuple[MachineRow, object]) -> None:
    store = linked(*rows, node(deleted="true"))  # type: ignore[arg-type]
    for decider in (MACHINES, RELEASE):
        for seconds in (0, 6, 700):
            decision = ask(decider, store, at(seconds))
            assert (decision.actions, decision.until) == ((), None)


def test_the_ten_minutes_do_not_run_while_paused() -> None:
    store = linked(disabled(hook=ORIGINAL, notes={PAUSED: ""}), node(deleted="true"))
    ask(MACHINES, store, at(0))
    store.put(machine(enabled=None, hook=ORIGINAL, version=3))
    assert edits(ask(MACHINES, store, at(900))) == ["n: -machine-deleted", "m: -hook"]


def test_with_hygiene_an_approval_goes_with_the_announcement() -> None:
    store = linked(
        disabled(hook=ORIGINAL),
        node(maintenance="true", approve_maintenance="true"),
        options=Options(approval_hygiene=True),
    )
    assert edits(ask(MACHINES, store)) == ["n: -machine-maintenance", "n: -approve-maintenance", "m: -hook"]


def test_a_missing_kubeconfig_does_not_end_the_waiting() -> None:
    decision = ask(MACHINES, picture(disabled(hook=ORIGINAL), waiting=[(FAR, "Node")]))
    assert [source.kind for source in decision.sources] == [KUBECONFIG]
    assert (decision.actions, decision.until) == ((), at(600))


def test_a_connection_that_is_away_does_not_end_it_either() -> None:
    store = picture(secret(), connection("unreachable"), disabled(hook=ORIGINAL), node(deleted="true"))
    assert edits(ask(MACHINES, store)) == ["n: -machine-deleted", "m: -hook"]


def test_a_node_that_was_clean_when_it_was_last_seen_may_not_be_any_more() -> None:
    store = picture(secret(), connection("unreachable"), disabled(hook=ORIGINAL), node())
    decision = ask(MACHINES, store)
    assert (decision.actions, decision.until) == ((), at(600))
    store.put(connection())
    assert edits(ask(MACHINES, store)) == ["m: -hook"]


def test_a_cluster_of_which_nothing_is_known_is_not_waited_for_for_long() -> None:
    """Seen enabled, but never hooked: its Nodes have never been seen."""
    store = picture(secret(), machine(), waiting=[(FAR, "Node")])
    ask(MACHINES, store, at(0))
    store.put(disabled())
    assert ask(MACHINES, store, at(0)).until == at(45)
    decision = ask(MACHINES, store, at(45))
    assert (decision.actions, decision.sources, decision.marks) == ((), (), ())
