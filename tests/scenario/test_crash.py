"""The lives of a NodeMaintenance, of a profile and of a Machine, killed before and after each of their writes: the end is the same.

Other surfaces have such tests of their own. On a real server a sample of the kills is tried (`tests.rig.crash`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable

import pytest

from haulout.core.action import Create, Delete, Evict
from haulout.kernel.requests import Change
from haulout.surfaces.clusterapi.wire import DELETED, HOOK
from tests.build.all_surfaces import AllSurfaces
from tests.build.kills import every_kill
from tests.build.mortal_machine import MACHINE, NODE, MortalWorld

WISHES: dict[str, Callable[[AllSurfaces], None]] = {
    "nodemaintenance": lambda all_: all_.maintain("n0"),
    "profiles": lambda all_: all_.want_profile("n0"),
}


def life(surface: str, number: int = 0, *, is_after: bool = False, cordoned: tuple[str, ...] = ()) -> tuple[str, int]:
    """Return the node at the end of a life that is killed at this write, and how many writes there were.

    `cordoned`: the nodes that a person has cordoned before.
    """
    all_ = AllSurfaces(count=2)
    all_.run(5)
    for name in cordoned:
        all_.cordon(name)
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
    assert (all_.faults, all_.failures, all_.cordoned(), all_.marks()) == ([], [], list(cordoned), {})
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


@pytest.mark.parametrize("surface", WISHES)
def test_killed_at_every_write_it_leaves_the_cordon_of_a_person(surface: str) -> None:
    undisturbed, writes = life(surface, cordoned=("n0",))
    assert writes >= 4
    ends = {kill: life(surface, kill[0], is_after=kill[1], cordoned=("n0",))[0] for kill in every_kill(writes)}
    assert {kill: end for kill, end in ends.items() if end != undisturbed} == {}


def test_killed_at_every_write_a_machine_is_maintained_and_let_go() -> None:
    plain = MortalWorld().live()
    assert HOOK not in plain.world.objects[MACHINE].annotations
    assert DELETED in plain.world.objects[NODE].labels
    assert plain.writes >= 7
    for number, is_after in every_kill(plain.writes):
        killed = MortalWorld(number, is_after=is_after).live()
        assert killed.dies_at == (0, False), "it was not killed"
        assert (killed.end(), killed.early) == (plain.end(), False), (number, is_after)
