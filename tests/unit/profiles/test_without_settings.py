"""Decisions about virtual machines and servers while their files are invalid: they do nothing, and keep their turn."""

from __future__ import annotations

from datetime import datetime

import pytest

from haulout.cluster.key import Key, node_key
from haulout.cluster.rows import NodeRow
from haulout.cluster.view import View
from haulout.core.action import Label
from haulout.core.arbiter import Rules, arbiter
from haulout.core.decision import Decider, Decision
from haulout.core.holds import Claim, Want, is_granted
from haulout.surfaces.esx.surface import DECIDER as ESX_DECIDER
from haulout.surfaces.esx.wire import INITIATED_ANNOTATION
from haulout.surfaces.kubernikus.surface import DECIDER as KUBERNIKUS_DECIDER
from haulout.surfaces.kubernikus.wire import DELETE_LABEL
from haulout.surfaces.profiles.wire import HOST_LABEL, ZONE_LABEL
from tests.build.desk import Cluster, Desk
from tests.build.rows import node

PLACE = {HOST_LABEL: "host", ZONE_LABEL: "zone-a"}
TO_GO = {DELETE_LABEL: "true"}


def _also_works(key: Key, view: View, now: datetime) -> Decision:
    """Return another surface, which has something to do on every node."""
    claim = Claim(key, key, frozenset({Want.EXCLUSIVE}))
    goes = is_granted(view, "other", claim)
    return Decision(((Label(key, "worked-on", "yes"),),) if goes else (), claims=(claim,))


@pytest.mark.parametrize(
    ("decider", "row", "worked_on"),
    [
        pytest.param(KUBERNIKUS_DECIDER, node("n", labels=TO_GO, cordoned=True), False, id="a server that goes"),
        pytest.param(KUBERNIKUS_DECIDER, node("n", labels=TO_GO), True, id="a server that is to go"),
        pytest.param(KUBERNIKUS_DECIDER, node("n", cordoned=True), True, id="a server that stays"),
        pytest.param(
            ESX_DECIDER,
            node("n", labels=PLACE, annotations={INITIATED_ANNOTATION: "true"}),
            False,
            id="a virtual machine that is down",
        ),
        pytest.param(ESX_DECIDER, node("n", labels=PLACE), True, id="a virtual machine that is up"),
    ],
)
def test_what_has_been_begun_is_nobody_elses(decider: Decider, row: NodeRow, worked_on: bool) -> None:
    rules = arbiter(Rules((decider.name, "other"), turns=True))
    desk = Desk(decider, Decider("other", "Node", _also_works), rules, world=Cluster(row))
    desk.feed.list()
    desk.settle()
    found = desk.world.objects[node_key("n")]
    assert isinstance(found, NodeRow)
    assert ("worked-on" in found.labels) is worked_on
