"""Nodes with the taint of a maintenance whose object may be unknown: one turn a node, and K6, K8, K9."""

from __future__ import annotations

from datetime import datetime

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from haulout.cluster.key import Key, node_key
from haulout.cluster.rows import NodeRow, Taint
from haulout.cluster.store import Listing
from haulout.cluster.view import GRANT, View
from haulout.core.action import Label
from haulout.core.arbiter import Rules, arbiter
from haulout.core.decision import Decider, Decision
from haulout.core.holds import Claim, Grant, Want, is_granted
from haulout.surfaces.nodemaintenance.situation import SURFACE
from haulout.surfaces.nodemaintenance.surface import DECIDERS
from haulout.surfaces.nodemaintenance.wire import DRAIN_TAINT, KIND, MaintenanceRow
from tests.build.desk import Cluster, Desk
from tests.build.examples import examples
from tests.build.honesty import assert_claims_ignore_grants, assert_quiescent, assert_until_is_honest
from tests.build.maintenances import maintenance_key
from tests.build.rows import START, at, node

NAMES = ("a", "b", "c")
(TAINTED,) = (decider for decider in DECIDERS if decider.name == "nodemaintenance-tainted")
TAINTS = ((), (DRAIN_TAINT,), (Taint(DRAIN_TAINT.key, "NoExecute"),), (Taint("zone", "NoSchedule"), DRAIN_TAINT))
LISTINGS = (Listing.UNREADABLE, Listing.LISTED)


def _works(key: Key, view: View, now: datetime) -> Decision:
    row = view.get(key, NodeRow)
    assert row is not None
    claim = Claim(key, key, frozenset({Want.EXCLUSIVE}), begun="in" in row.labels)
    goes = not claim.begun and is_granted(view, "other", claim)
    return Decision(((Label(key, "in", "yes"),),) if goes else (), claims=(claim,))


def _desk(taints: dict[str, tuple[Taint, ...]], known: set[str], listing: Listing) -> Desk:
    """Return a desk on which maintenances of the `known` nodes have been read. An empty decision stands for theirs."""
    rows = (msgspec.structs.replace(node(name), taints=taints[name]) for name in NAMES)
    silent = Decider(SURFACE, KIND, lambda key, view, now: Decision())
    deciders = (silent, TAINTED, Decider("other", "Node", _works), arbiter(Rules((SURFACE, "other"))))
    desk = Desk(*deciders, world=Cluster(*rows))
    desk.store.begin_list("", KIND)
    for name in known:
        desk.store.put(MaintenanceRow(key=maintenance_key(name), uid=name, version=1, node=name))
    desk.store.end_list("", KIND, 1)
    desk.store.set_listing("", KIND, listing)
    desk.begin().settle()
    return desk


def _worked_on(desk: Desk) -> set[str]:
    return {row.key.name for row in desk.world.objects.values() if isinstance(row, NodeRow) and "in" in row.labels}


worlds = st.tuples(
    st.fixed_dictionaries(dict.fromkeys(NAMES, st.sampled_from(TAINTS))),
    st.sets(st.sampled_from(NAMES)),
    st.sampled_from(LISTINGS),
)


@settings(max_examples=examples(60), deadline=None, derandomize=True)
@given(worlds)
def test_the_mark_of_a_maintenance_that_is_not_to_be_had_takes_the_turn(
    world: tuple[dict[str, tuple[Taint, ...]], set[str], Listing],
) -> None:
    taints, known, listing = world
    tainted = {name for name in NAMES if DRAIN_TAINT in taints[name]}
    taken = tainted if listing is Listing.UNREADABLE else tainted - known
    assert _worked_on(_desk(*world)) == {*NAMES} - taken


@settings(max_examples=examples(60), deadline=None, derandomize=True)
@given(worlds)
def test_k6_k8_k9(world: tuple[dict[str, tuple[Taint, ...]], set[str], Listing]) -> None:
    store = _desk(*world).store
    for name in NAMES:
        assert_until_is_honest(TAINTED, store, node_key(name), START, [at(1), at(90_000)])
        assert_claims_ignore_grants(TAINTED, store, node_key(name), START)
        assert_quiescent(TAINTED, store, node_key(name), START)


def test_it_follows_what_can_be_read() -> None:
    desk = _desk(dict.fromkeys(NAMES, (DRAIN_TAINT,)), {"a"}, Listing.LISTED)
    assert _worked_on(desk) == {"a"}
    desk.store.set_listing("", KIND, Listing.UNREADABLE, "forbidden")
    desk.settle()
    assert _worked_on(desk) == {"a"}
    grants = [desk.store.row(key) for key in desk.store.keys("", GRANT)]
    said = {reason.text for grant in grants if isinstance(grant, Grant) for reason in grant.reasons}
    assert said == {"nodemaintenance is working on the node"}
    desk.world.put(node("b"))
    desk.settle()
    assert _worked_on(desk) == {"a", "b"}


def test_only_the_taint_wakes_it() -> None:
    desk = _desk(dict.fromkeys(NAMES, ()), set(), Listing.LISTED)
    due: list[str] = []
    desk.kernel.loop.on_due = lambda subject: due.append(subject.decider)
    desk.world.put(node("a", zone="z1"))
    desk.settle()
    assert "other" in due
    assert TAINTED.name not in due
    desk.world.put(msgspec.structs.replace(node("a"), taints=(DRAIN_TAINT,)))
    desk.settle()
    assert TAINTED.name in due
