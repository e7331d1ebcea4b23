"""The operators of notify are killed before and after every write of a whole cycle, in virtual time."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable
from datetime import timedelta

import pytest

from haulout.core.action import Create, Evict
from haulout.embedded import JOBS, NODES, Change, Json
from haulout.kernel.requests import Done
from tests.build.examples import rotating
from tests.build.notices import Killed, Notices, options
from tests.build.workloads import deployment, pod

ALL = (
    *("Scheduled", "SLAStarted", "ObjectsDrained", "Validating", "MaintenanceEnded", "MaintenanceComplete"),
    *("MaintenanceIncomplete", "SLAExpired", "MaintenanceCancelled"),
)
LIFE = ["Scheduled", "SLAStarted", "ObjectsDrained", "Validating", "MaintenanceEnded", "MaintenanceComplete"]
TEMPLATE = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "x"}]}}}}
WORK = {"name": "rec", "type": "job", "template": TEMPLATE}
CHECKED = {**WORK, "checks": {"readyFor": "1s"}}
CONFIG = {
    "slaPeriod": "1h",
    "notifications": {"webhook": {"url": "https://x", "events": list(ALL)}},
    "operators": {
        "scheduler": {"enabled": True, "budgets": [{"name": "all", "maxUnavailable": 1}]},
        "drainer": {"enabled": True, "settle": "1s", "unmanagedPods": "Evict"},
        "runner": {"enabled": True, "defaultClient": "rec", "recipes": [WORK]},
        "validator": {"enabled": True, "default": "rec", "recipes": [CHECKED]},
        "returner": {"enabled": True},
    },
}
NAMES = ("n0", "n1")
WRITES = 67
# The operator is killed at one write in so many in a life; as many lives kill it at each write.
STRIDE = 8
# One lone kill in so many is tried in a run, others on the next day: all of them take two minutes.
SHARE = 17


class Cycle:
    """Two maintenances of two nodes under a budget of one. Jobs end two seconds after they were created."""

    def __init__(self) -> None:
        self.ops = Notices(options(json.dumps(CONFIG)), nodes=2)
        self.most_out = 0
        self.kills = 0
        self.ops.world.objects.subscribe(NODES, self._node_changed)
        self.ops.world.objects.subscribe(JOBS, self._job_changed)
        self.ops.world.make(deployment("web", replicas=2), pod("bare", nodeName="n0"))
        self.ops.run(20)
        for name in NAMES:
            self.ops.make(name, name)

    def _node_changed(self, change: Change) -> None:
        nodes = self.ops.world.objects.list(NODES)
        self.most_out = max(self.most_out, sum(bool(each["spec"].get("unschedulable")) for each in nodes))

    def _job_changed(self, change: Change) -> None:
        if change.type == "ADDED":
            meta = change.object["metadata"]
            self.ops.world.time.at(self.ops.now + timedelta(seconds=2), lambda: self._end(meta))

    def _end(self, meta: Json) -> None:
        condition = {"type": "Complete", "status": "True", "lastTransitionTime": meta["creationTimestamp"]}
        body = {"status": {"conditions": [condition]}}
        self.ops.world.objects.patch(JOBS, meta["namespace"], meta["name"], body, subresource="status")

    def go(self) -> Cycle:
        """Run to the end, with another process after a kill."""
        return self.go_on(lambda: None)

    def go_on(self, after_kill: Callable[[], None]) -> Cycle:
        """Run to the end. After a kill, start another process and call the function."""
        end = self.ops.now + timedelta(seconds=330)
        while self.ops.now < end:
            try:
                self.ops.run((end - self.ops.now).total_seconds())
            except Killed:
                self.kills += 1
                self.ops.begin()
                after_kill()
        return self

    def go_with_kills(self, first: int, is_after: bool) -> Cycle:
        """Run to the end, killed at this write and each `STRIDE`th after it."""
        numbers = itertools.count(first, STRIDE)

        def next_kill() -> None:
            self.ops.dies_at_write = (next(numbers), is_after)

        next_kill()
        return self.go_on(next_kill)

    def is_right(self) -> None:
        ops = self.ops
        assert [ops.found(name) for name in NAMES] == [None, None]
        assert [(ops.cordoned(name), ops.claims(name)) for name in NAMES] == [(False, []), (False, [])]
        assert not [
            key for name in NAMES for key in ops.node(name)["metadata"].get("annotations", {}) if "haulout" in key
        ]
        assert (self.most_out, ops.world.objects.list(JOBS)) == (1, [])
        done = [body for body, answer in ops.answered if isinstance(answer, Done)]
        evictions = Counter(body.uid for body in done if isinstance(body, Evict))
        created = Counter(body.target.name for body in done if isinstance(body, Create))
        assert (max(evictions.values()), max(created.values()), len(created)) == (1, 1, 4)
        for name in NAMES:
            # A message may come twice, under one key; none is missing, and none comes before its time.
            keys = dict.fromkeys((each.key, each.event) for each in ops.sent if each.place.endswith(f"/{name}"))
            assert [event for _, event in keys] == LIFE


def test_the_cycle_without_a_crash_is_right() -> None:
    cycle = Cycle().go()
    cycle.is_right()
    assert len(cycle.ops.writes) == WRITES


@pytest.mark.parametrize("is_after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("first", range(1, STRIDE + 1))
def test_killed_at_every_write_the_cycle_is_right(first: int, is_after: bool) -> None:
    cycle = Cycle().go_with_kills(first, is_after)
    cycle.is_right()
    assert cycle.kills >= WRITES // STRIDE


@pytest.mark.parametrize("is_after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("number", rotating(range(1, WRITES + 1), SHARE))
def test_a_lone_kill_changes_nothing(number: int, is_after: bool) -> None:
    cycle = Cycle()
    cycle.ops.dies_at_write = (number, is_after)
    cycle.go().is_right()


@pytest.mark.parametrize("every", [1.5, 2.5, 4, 7, 11])
def test_restarts_at_any_instant_change_nothing(every: float) -> None:
    """Each new process knows only what is stored, and has some of a second to some seconds for what it does."""
    cycle = Cycle()
    for _ in range(int(100 / every)):
        cycle.ops.run(every).begin()
    cycle.ops.run(150)
    cycle.is_right()


@pytest.mark.parametrize(
    "late", ["Node", "NotifyMaintenance", "Pod", "PodDisruptionBudget", "DaemonSet", "MaintenanceJob"]
)
def test_a_kind_that_is_listed_late_after_a_restart_changes_nothing(late: str) -> None:
    """What is missing in a table that is not listed is not taken for absent, wherever in the cycle the restart falls."""
    cycle = Cycle()
    for _ in range(40):
        cycle.ops.run(2.5).begin(late).run(2).list_late(late)
    cycle.ops.run(150)
    cycle.is_right()
