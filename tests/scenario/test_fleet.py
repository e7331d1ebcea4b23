"""A month of a fleet with weekly windows, on the whole product in virtual time."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

from haulout.embedded import DEPLOYMENTS
from tests.build.fleet import MAINTENANCES, MONTH, START, Fleet, Watch, in_window

ROOT = Path(__file__).parents[2]


@cache
def month() -> tuple[Fleet, Watch]:
    """A month of 96 nodes in three zones, without pods."""
    fleet = Fleet(96)
    watch = Watch(fleet)
    return fleet.run(), watch


@cache
def drained_month() -> tuple[Fleet, Watch]:
    """A month of 12 nodes with pods. Pod budgets would allow more, but only two nodes may be out of service."""
    fleet = Fleet(12, pods=5, zones=2, most=3, limits={"two": {"maxUnavailable": 2}})
    watch = Watch(fleet)
    return fleet.run(), watch


def test_every_node_has_had_its_turn_once_after_a_month() -> None:
    fleet, watch = month()
    assert (fleet.done, len(watch.entered_at), watch.entered_twice) == (96, 96, [])


def test_nodes_are_let_in_within_the_weekly_windows_alone() -> None:
    _, watch = month()
    assert [name for name, at in watch.entered_at.items() if not in_window(at)] == []


def test_several_windows_are_needed_and_used() -> None:
    fleet, watch = month()
    nights = {(at - START).days for at in watch.entered_at.values()}
    assert fleet.most == 1
    assert len(nights) > 2


def test_at_no_change_are_there_more_of_a_zone_in_maintenance_than_allowed() -> None:
    fleet, watch = month()
    assert watch.most_inside == dict.fromkeys(("z0", "z1", "z2"), fleet.most)


def test_a_sleeping_node_is_asked_at_windows_and_changes_alone() -> None:
    fleet, _ = month()
    askings = fleet.kernel.loop.askings
    assert fleet.time.now() == START + MONTH
    fleet.driver.run(START + MONTH + MONTH)
    assert fleet.kernel.loop.askings == askings


def test_drained_nodes_are_back_with_all_their_pods_after_a_month() -> None:
    fleet, watch = drained_month()
    assert (fleet.done, len(watch.entered_at)) == (12, 12)
    assert fleet.world.list(MAINTENANCES) == []
    workloads = fleet.world.list(DEPLOYMENTS)
    assert [each["status"].get("readyReplicas") for each in workloads] == [5] * 12


def test_what_the_world_of_a_plan_leaves_out_changes_nothing_that_is_decided() -> None:
    fleet, watch = drained_month()
    brief = Fleet(12, pods=5, zones=2, most=3, limits={"two": {"maxUnavailable": 2}}, brief=True)
    seen = Watch(brief)
    brief.run()
    assert seen.entered_at == watch.entered_at
    assert brief.world.storage.revision < fleet.world.storage.revision


def test_a_node_maintenance_is_not_asked_more_often_where_there_are_more_pods() -> None:
    few, many = (asked_for_maintenances(pods) for pods in (3, 12))
    # Once more for every pod would be 108 times.
    assert many < few + 12


def asked_for_maintenances(pods: int) -> int:
    """Return how often NodeMaintenances are asked while 12 nodes are drained, each pod of a node under its own budget."""
    fleet = Fleet(12, pods=pods, most=1)
    due: list[str] = []
    fleet.kernel.loop.on_due = lambda subject: due.append(subject.decider)
    fleet.run(days=7)
    return due.count("nodemaintenance")


def test_a_node_budget_holds_over_all_zones_at_every_change() -> None:
    fleet, watch = drained_month()
    assert max(watch.most_inside.values()) == fleet.most
    assert watch.most_cordoned == 2


def test_the_same_seed_gives_the_same_bytes_whatever_the_hash_seed() -> None:
    (output,) = {printed(hash_seed) for hash_seed in ("1", "4242")}
    assert output.count(b"\n") > 500


def printed(hash_seed: str) -> bytes:
    path = os.pathsep.join((str(ROOT), *sys.path))
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": path}
    command = [sys.executable, "-m", "tests.build.fleet"]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, check=True, timeout=120)
    assert not done.stderr
    return done.stdout
