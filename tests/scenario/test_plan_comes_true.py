"""The operator does to a cluster what `haulout plan` has forecast, in that order."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from haulout.embedded import NODES, Change, Json, World
from haulout.model.meta import wire_time
from tests.build.served import PATIENCE, Served
from tests.build.workloads import node

PROFILE, STATE, DATA = (f"cloud.sap/maintenance-{word}" for word in ("profile", "state", "data"))
INSIDE = "in-maintenance"
BOOTS_AFTER = 0.3
CONFIG = """
intervals: {requeue: 30s}
instances:
  check:
  - {type: hasLabel, name: wanted, config: {key: wanted}}
  - {type: hasLabel, name: booted, config: {key: booted}}
  - {type: maxMaintenance, name: few, config: {max: 1, groupBy: [topology.kubernetes.io/zone]}}
  - {type: wait, name: cool, config: {duration: 1s}}
  trigger:
  - {type: alterLabel, name: done, config: {key: wanted, remove: true}}
  - {type: eviction, name: cordon, config: {action: cordon}}
  - {type: eviction, name: uncordon, config: {action: uncordon}}
profiles:
- name: image
  operational: {transitions: [{check: wanted, next: maintenance-required}]}
  maintenance-required: {transitions: [{check: few && cool, next: in-maintenance, trigger: cordon}]}
  in-maintenance: {transitions: [{check: booted, trigger: done && uncordon, next: operational}]}
"""
ZONES = {"a1": "a", "a2": "a", "a3": "a", "a4": "a", "b1": "b", "b2": "b", "b3": "b"}
# Found on the way: the last of one zone is in maintenance already, and one of the other has waited longest.
FOUND = {"a4": (INSIDE, timedelta(hours=1)), "b3": ("maintenance-required", timedelta(hours=2))}

Move = tuple[str, str]


def worker(name: str) -> Json:
    made = node(name, zone=ZONES[name], wanted="v2")
    made["metadata"]["labels"][PROFILE] = "image"
    if name in FOUND:
        state, ago = FOUND[name]
        entry = {"Transition": wire_time(datetime.now(UTC) - ago), "Current": state, "Previous": state}
        made["metadata"]["labels"][STATE] = state
        made["metadata"]["annotations"] = {DATA: json.dumps({"Profiles": {"image": entry}, "Notifications": {}})}
    return made


class Course:
    """Follows the nodes, and simulates their machines: each boots some time after it has entered maintenance."""

    def __init__(self) -> None:
        self.moves: list[Move] = []

    def follow(self, world: World) -> None:
        for found in world.server.list(NODES):
            self._see(world, found)
        world.server.subscribe(NODES, lambda change: self._changed(world, change))

    def _changed(self, world: World, change: Change) -> None:
        if state_of(change.object) != state_of(change.old or {}):
            self._see(world, change.object)

    def _see(self, world: World, seen: Json) -> None:
        name, state = seen["metadata"]["name"], state_of(seen)
        self.moves.append((name, state))
        if state == INSIDE:
            booted = {"metadata": {"labels": {"booted": "v2"}}}
            asyncio.get_running_loop().call_later(BOOTS_AFTER, world.server.patch, NODES, "", name, booted)

    @property
    def back(self) -> list[str]:
        return [name for name, state in self.moves if state == "operational"]


def state_of(seen: Json) -> str:
    return str(seen.get("metadata", {}).get("labels", {}).get(STATE, ""))


def foretold(plan: Json) -> list[Move]:
    """Return the moves of a plan in the order of time.

    A node that leaves and its successor move at the same instant.
    """
    spans = [
        (span["from"], span["state"] == INSIDE, each["name"], span["state"])
        for each in plan["nodes"]
        for span in each["states"]
    ]
    return [(name, state) for _, _, name, state in sorted(spans)]


def by_zone(moves: Iterable[Move]) -> dict[str, list[Move]]:
    """Return the moves into maintenance and back by zone, because zones do not wait for each other.

    Nodes begin to wait together, so these moves are left out.
    """
    kept = [move for move in moves if move[1] in (INSIDE, "operational")]
    return {zone: [move for move in kept if ZONES[move[0]] == zone] for zone in sorted({*ZONES.values()})}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with Served(tmp_path) as made:
        (tmp_path / "config").mkdir()
        (tmp_path / "config" / "maintenance.yaml").write_text(CONFIG)
        made.make(*(worker(name) for name in ZONES))
        yield made


def test_a_run_goes_in_the_order_of_its_plan(served: Served) -> None:
    done = served.run("plan", "--after", f"{INSIDE}={BOOTS_AFTER}s:booted=v2", "--days", "0.1", "-o", "json")
    assert (done.returncode, done.stderr) == (0, "")
    plan = json.loads(done.stdout)
    assert plan["finishedAt"] is not None

    course = Course()
    served.call(course.follow)
    words = ("--metrics-addr=0", "--health-addr=0", "--metrics-timeout=0s")
    operator = served.start("as", "maintenance-controller", *words)
    try:
        served.until(lambda: sorted(course.back) == sorted(ZONES))
    finally:
        operator.send_signal(signal.SIGTERM)
        operator.communicate(timeout=PATIENCE)
    assert by_zone(course.moves) == by_zone(foretold(plan))
    order = {zone: [name for name, state in moves if state == INSIDE] for zone, moves in by_zone(course.moves).items()}
    assert order == {"a": ["a4", "a1", "a2", "a3"], "b": ["b3", "b1", "b2"]}
