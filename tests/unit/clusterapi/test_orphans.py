"""Nodes with labels for which there is no Machine any more."""

from __future__ import annotations

from datetime import datetime

import pytest

from haulout.cluster.key import Key
from haulout.cluster.rows import Connection, Row
from haulout.cluster.store import Store
from haulout.cluster.view import MARK
from haulout.core.decision import Decision, Source
from haulout.surfaces.clusterapi.link import node_keep
from haulout.surfaces.clusterapi.options import Options
from haulout.surfaces.clusterapi.orphaned_nodes import LOOKED_AT_ONCE
from haulout.surfaces.clusterapi.wire import CLEANUP, MACHINE, ORIGINAL, PAUSED, MachineRow, Workload
from tests.build.machines import (
    ACCESS,
    ALPHA,
    FAR,
    ORPHANS,
    cluster,
    connection,
    edits,
    linked,
    machine,
    node,
    picture,
    secret,
)
from tests.build.machines import ask as asked
from tests.build.rows import START, at

HERE = Key(FAR, Connection.KIND, "", "")
OTHER = machine("other", node="o")


def ask(store: Store, now: datetime = START) -> Decision:
    """Ask the decider as the loop does: marks that are not made again are removed."""
    decision = asked(ORPHANS, store, now, HERE)
    made = {mark.key for mark in decision.marks}
    for key in [key for key in store.table(FAR, MARK).rows if key not in made]:
        store.erase(key)
    return decision


def test_labels_that_no_machine_stands_behind_go_after_a_while() -> None:
    store = linked(OTHER, node(deleted="true", maintenance="foreign", claims=ALPHA))
    first = ask(store, at(0))
    assert (first.actions, first.until) == ((), at(20))
    assert not ask(store, at(19.999)).actions
    assert edits(ask(store, at(20))) == ["n: -machine-deleted", "n: -machine-maintenance"]


def test_with_hygiene_an_approval_goes_with_the_announcement() -> None:
    options = Options(approval_hygiene=True)
    about = node(maintenance="true", approve_maintenance="true")
    decision = ask(linked(machine(enabled=None), OTHER, about, options=options))
    assert edits(decision) == ["n: -machine-maintenance", "n: -approve-maintenance"]
    assert not ask(linked(machine(enabled=None), OTHER, node(approve_maintenance="true"), options=options)).actions


def test_one_whose_machine_comes_back_in_time_is_left_alone() -> None:
    store = linked(OTHER, node(deleted="true", claims=ALPHA))
    ask(store, at(0))
    store.put(machine())
    assert (ask(store, at(19)).actions, ask(store, at(60)).actions) == ((), ())
    store.remove(machine().key, 9)
    assert ask(store, at(61)).until == at(81), "its time begins anew"


def test_one_whose_machine_does_not_know_its_node_yet_is_left_alone() -> None:
    """A Machine that was moved has no status at first."""
    store = linked(OTHER, machine(node="", request="approved"), node(maintenance="true", claims=ALPHA, owner="m"))
    for seconds in (0, 21, 900):
        assert (ask(store, at(seconds)).actions, ask(store, at(seconds)).until) == ((), None)
    store.put(machine(node="o", version=2))
    assert ask(store, at(901)).until == at(921), "it is another's"


@pytest.mark.parametrize(
    "named",
    [machine(node="", enabled=None), machine(node="", cluster="beta"), machine("x", node="")],
    ids=["not enabled", "of another cluster", "of another name"],
)
def test_others_that_know_no_node_keep_nothing(named: MachineRow) -> None:
    store = linked(OTHER, named, node(maintenance="true", claims=ALPHA, owner="m"))
    ask(store, at(0))
    assert edits(ask(store, at(20))) == ["n: -machine-maintenance"]


@pytest.mark.parametrize(
    "claims", [None, Workload("other", "alpha"), Workload("fleet", "beta")], ids=["nobody", "namespace", "cluster"]
)
def test_a_node_that_does_not_name_this_very_cluster_is_not_ours_to_clean(claims: Workload | None) -> None:
    decision = ask(linked(OTHER, node(deleted="true", claims=claims)), at(9000))
    assert (decision.actions, decision.until, decision.sources) == ((), None, ())


def test_in_a_paused_cluster_nothing_is_cleaned() -> None:
    store = linked(OTHER, node(deleted="true", claims=ALPHA), cluster(paused=True))
    for seconds in (0, 21, 90):
        assert not ask(store, at(seconds)).actions


def test_a_node_without_our_labels_is_of_no_interest() -> None:
    decision = ask(linked(OTHER, node(approve_deletion="true", claims=ALPHA)), at(9000))
    assert (decision.actions, decision.until, decision.sources) == ((), None, ())


@pytest.mark.parametrize("place", [("", MACHINE), (FAR, "Node")])
def test_what_is_not_known_is_not_gone(place: tuple[str, str]) -> None:
    store = picture(secret(), connection(), node(deleted="true", claims=ALPHA), waiting=[place])
    for seconds in (0, 30):
        decision = ask(store, at(seconds))
        assert (decision.actions, decision.sources) == ((), ())


# Machines that are there, and not enabled


def test_a_label_on_the_node_of_a_machine_that_is_not_enabled_goes_at_once() -> None:
    store = linked(OTHER, machine(enabled=None), node(maintenance="true"))
    assert edits(ask(store)) == ["n: -machine-maintenance"]


@pytest.mark.parametrize(
    "rows",
    [
        (machine(),),
        (machine(enabled=None, hook=ORIGINAL),),
        (machine(enabled=None, notes={CLEANUP: "2026-03-01T10:00:00Z"}),),
        (machine(enabled=None, notes={PAUSED: ""}),),
        (machine(enabled=None), machine("twin")),
    ],
    ids=["enabled", "cleans up itself", "is marked", "paused", "another is enabled"],
)
def test_it_stays_while_a_machine_sees_to_it(rows: tuple[Row, ...]) -> None:
    assert not ask(linked(OTHER, *rows, node(maintenance="true"))).actions


# How long a connection is kept for it


def test_while_somebody_is_enabled_there_is_no_end() -> None:
    store = linked(OTHER, node(deleted="true", claims=ALPHA))
    ask(store, at(0))
    decision = ask(store, at(20))
    assert decision.until is None
    assert decision.sources == (Source(FAR, "Node", node_keep(Options()), ACCESS),)


def test_the_last_machines_orphans_keep_the_connection_for_less_than_a_minute() -> None:
    store = linked(node(deleted="true", claims=ALPHA))
    kept = Source(FAR, "Node", node_keep(Options()), ACCESS)
    assert ask(store, at(0)).sources == (kept,)
    decision = ask(store, at(20))
    assert (edits(decision), decision.sources, decision.until) == (["n: -machine-deleted"], (kept,), at(45))
    assert ask(store, at(44.9)).sources == (kept,)
    decision = ask(store, at(45))
    assert (decision.actions, decision.sources, decision.marks) == ((), (), ())


def test_once_they_are_clean_nobody_keeps_it() -> None:
    store = linked(node(deleted="true", claims=ALPHA))
    ask(store, at(0))
    store.put(node(claims=ALPHA, version=2))
    assert not ask(store, at(20)).sources


def test_nobody_asks_about_our_own_cluster() -> None:
    home = Key("", Connection.KIND, "", "")
    store = linked(Connection(key=home, state=Connection.FINE))
    assert asked(ORPHANS, store, key=home) == Decision()


def test_a_connection_that_is_closed_wants_nothing() -> None:
    assert asked(ORPHANS, picture(node(deleted="true", claims=ALPHA)), key=HERE) == Decision()


def test_of_many_labelled_nodes_some_are_cleared_at_a_time() -> None:
    nodes = [node(f"n{number:04}", deleted="true", claims=ALPHA) for number in range(LOOKED_AT_ONCE + 50)]
    store = linked(OTHER, *nodes)
    ask(store, at(0))
    assert len(edits(ask(store, at(20)))) == LOOKED_AT_ONCE
