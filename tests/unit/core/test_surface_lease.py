"""A surface that waits for the Lease of its original."""

from __future__ import annotations

from datetime import datetime

from haulout.cluster.key import Key, node_key
from haulout.cluster.rows import Value
from haulout.cluster.store import Store
from haulout.cluster.view import MARK, View
from haulout.core.action import Label
from haulout.core.decision import Decider, Decision
from haulout.core.holds import Claim, Want
from haulout.core.surface_lease import lease_row, under_lease
from tests.build.rows import at

NODE = node_key("a")
BEGUN = Claim(NODE, NODE, frozenset({Want.CORDON}), begun=True)
WISHED = Claim(NODE, NODE, frozenset({Want.DRAIN}), slot="more")
WHOLE = Decision(
    actions=((Label(NODE, "x", "1"),),),
    claims=(BEGUN, WISHED),
    until=at(60),
    marks=(Value(key=Key("", MARK, "drains", "a")),),
)


def decided(store: Store) -> Decision:
    decider = under_lease(Decider("profiles", "Node", _always), "profiles", "lease")
    return decider.decide(NODE, View(store), at(0))


def _always(key: Key, view: View, now: datetime) -> Decision:
    return WHOLE


def test_nothing_is_done_or_wished_for_until_it_is_held() -> None:
    found = decided(Store())
    assert (found.actions, found.marks, found.claims, found.until) == ((), (), (BEGUN,), at(60))
    (reason,) = found.reasons
    assert reason.text == "the Lease lease of its original is not held"


def test_held_it_decides_as_ever_and_lost_no_more() -> None:
    store = Store()
    store.write(lease_row("profiles", held=True))
    assert decided(store) == WHOLE
    store.write(lease_row("profiles", held=False))
    assert decided(store).actions == ()


def test_that_of_another_surface_does_not_count() -> None:
    store = Store()
    store.write(lease_row("nodemaintenance", held=True))
    assert decided(store).actions == ()
