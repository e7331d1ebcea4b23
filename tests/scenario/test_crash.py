"""The lives of a NodeMaintenance, of a profile and of a Machine, killed before and after each of their writes: the end is the same.

Other surfaces have such tests of their own. On a real server a sample of the kills is tried (`tests.rig.crash`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from haulout.cluster.key import Key, node_key
from haulout.core.action import Create, Delete, Evict
from haulout.kernel.requests import Answer, Body, Change
from haulout.surfaces.clusterapi.options import Options
from haulout.surfaces.clusterapi.wire import (
    DELETED,
    DELETION_APPROVED,
    HOOK,
    HOST,
    MAINTENANCE,
    MAINTENANCE_APPROVED,
    REBOOT,
    REQUEST,
    MachineRow,
    machine_key,
)
from tests.build.all_surfaces import AllSurfaces
from tests.build.clusterapi import ClusterApiWorld
from tests.build.kills import KilledAtWrite, every_kill
from tests.build.machines import ALPHA, cluster, host, machine, node, secret

WISHES: dict[str, Callable[[AllSurfaces], None]] = {
    "nodemaintenance": lambda all_: all_.maintain("n0"),
    "profiles": lambda all_: all_.want_profile("n0"),
}


def life(surface: str, number: int = 0, *, is_after: bool = False) -> tuple[str, int]:
    """Return the node at the end of a life that is killed at this write, and how many writes there were."""
    all_ = AllSurfaces(count=2)
    all_.run(5)
    writes, evicted = 0, Counter[str]()

    def count(body: Change | Create | Evict | Delete) -> None:
        nonlocal writes
        writes += 1
        evicted.update([body.uid] if isinstance(body, Evict) else [])

    all_.on_write = count
    all_.crash_at(number, after=is_after)
    WISHES[surface](all_)
    all_.run(90)
    assert number == 0 or all_.writes_left <= 0, "it was not killed"
    assert (all_.faults, all_.failures, all_.cordoned(), all_.marks()) == ([], [], [], {})
    assert max(evicted.values(), default=0) <= 1
    assert all_.unfinished()[surface] == []
    found = all_.node("n0")
    meta = found["metadata"]
    picture = [meta["labels"], sorted(meta.get("annotations", {})), found["spec"].get("taints", [])]
    return json.dumps(picture, sort_keys=True), writes


@pytest.mark.parametrize("surface", WISHES)
def test_killed_at_every_write_it_ends_the_same(surface: str) -> None:
    undisturbed, writes = life(surface)
    assert writes >= 5
    ends = {kill: life(surface, kill[0], is_after=kill[1])[0] for kill in every_kill(writes)}
    assert {kill: end for kill, end in ends.items() if end != undisturbed} == {}


MACHINE, NODE, PLACE = machine_key("fleet", "m"), node_key("m", ALPHA.cluster), Key("", HOST, "fleet", "m")


class MortalWorld(ClusterApiWorld):
    """One Machine that is first maintained and then deleted. The other controllers do their part once they are asked.

    `dies_at`: the write at which the operator dies, before (False) or after it (True). `early`: whether the Machine was
    let go before that was approved.
    """

    def __init__(self, number: int = 0, *, is_after: bool = False) -> None:
        self.writes, self.dies_at, self.early = 0, (number, is_after), False
        about = machine("m", node="m", cluster="alpha", provider="metal3://fleet/m/m3", request="requested")
        far = node("m", cluster=ALPHA.cluster, claims=ALPHA)
        rows = [secret(workload=ALPHA), about, far, host("m"), cluster("alpha")]
        super().__init__(*rows, options=Options(enable_metal3_maintenance=True))

    def carry_out(self, body: Body) -> Answer:
        self.writes += isinstance(body, Change)
        number, is_after = self.dies_at
        if isinstance(body, Change) and self.writes == number and not is_after:
            self.dies_at = (0, False)
            raise KilledAtWrite
        answer = super().carry_out(body)
        if isinstance(body, Change) and self.writes == number and is_after:
            self.dies_at = (0, False)
            raise KilledAtWrite
        return answer

    def live(self) -> MortalWorld:
        for _ in range(40):
            try:
                self.wait(30)
            except KilledAtWrite:
                self.restart()
            self._others_act()
        return self

    def _others_act(self) -> None:
        about, far = self.world.objects[MACHINE], self.world.objects[NODE]
        assert isinstance(about, MachineRow)
        is_hooked, is_off = HOOK in about.annotations, REBOOT in self.world.objects[PLACE].annotations
        match about.labels.get(REQUEST), about.deleting_at is not None:
            case "requested", _ if MAINTENANCE in far.labels and is_hooked:
                self.change(NODE, labels={MAINTENANCE_APPROVED: "true"})
            case "approved", _ if is_off:
                self.change(MACHINE, labels={REQUEST: None})
            case None, False if MAINTENANCE not in far.labels and not is_off:
                self.change(NODE, labels={MAINTENANCE_APPROVED: None})
                self.world.put(msgspec.structs.replace(about, deleting_at=self.now))
            case None, True if DELETED in far.labels and is_hooked:
                self.change(NODE, labels={DELETION_APPROVED: "true"})
            case None, True if not is_hooked:
                self.early = self.early or far.labels.get(DELETION_APPROVED) != "true"

    def end(self) -> Any:
        rows = [self.world.objects[key] for key in (MACHINE, NODE, PLACE)]
        return [(row.labels, sorted(row.annotations)) for row in rows]


def test_killed_at_every_write_a_machine_is_maintained_and_let_go() -> None:
    plain = MortalWorld().live()
    assert HOOK not in plain.world.objects[MACHINE].annotations
    assert DELETED in plain.world.objects[NODE].labels
    assert plain.writes >= 7
    for number, is_after in every_kill(plain.writes):
        killed = MortalWorld(number, is_after=is_after).live()
        assert killed.dies_at == (0, False), "it was not killed"
        assert (killed.end(), killed.early) == (plain.end(), False), (number, is_after)
