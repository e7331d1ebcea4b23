"""Pauses (K22) of works that the other test of K22 has none of: stages in Jobs, runner's Jobs, and approvals of Machines.

Each is paused after one of its writes, in each of the ways that people have. Nothing that disrupts is sent meanwhile, and
the end is that of a life without a pause.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from functools import cache
from typing import Any

import msgspec
import pytest

from haulout.cluster.key import Key
from haulout.core.action import Create, Evict
from haulout.core.budgets.wire import NodeBudgetRow
from haulout.core.pause import ANNOTATION, BUDGET
from haulout.embedded import JOBS, NODES, Json
from haulout.kernel.requests import Answer, Body, Change
from haulout.surfaces.clusterapi.wire import APPROVED, HOOK, REBOOT, REQUEST, MachineRow
from haulout.surfaces.packages.options import Options
from tests.build.all_surfaces import NODE_BUDGETS
from tests.build.mortal_machine import MACHINE, NODE, PLACE, MortalWorld
from tests.build.notices import HOME, NOTICES, Notices, options
from tests.build.package_life import NAME, Life
from tests.build.skyhooks import SKYHOOKS

PAUSED_FOR, ANSWERS_AFTER = timedelta(seconds=40), timedelta(milliseconds=10)
# One write in so many is followed by a pause.
STRIDE = 23


class PausedLife(Life):
    """The life of a package that is paused after one of its writes, for some time.

    `broken`: the writes that broke the pause.
    """

    options, together = Options(alone=False), True

    def __init__(self, way: str = "node", number: int = 0) -> None:
        super().__init__()
        self.way, self.number = way, number
        self.is_paused, self.broken = False, list[str]()
        self.disturb = self._judged
        self.ops.latency = lambda body: ANSWERS_AFTER

    def _judged(self, number: int, body: Body, carry_out: Callable[[], Answer]) -> Answer:
        if self.is_paused and _disrupts(body):
            self.broken.append(f"{number}: {body}")
        if number == self.number:
            # What was sent with this write is not taken back, and its answer comes during the pause.
            at = self.ops.world.time.now() + ANSWERS_AFTER / 2
            self.ops.world.time.at(at, lambda: self._pause("audit"))
            self.ops.world.time.at(at + PAUSED_FOR, lambda: self._pause(None))
        return carry_out()

    def _pause(self, reason: str | None) -> None:
        self.is_paused = reason is not None
        objects, notes = self.ops.world.objects, {"metadata": {"annotations": {ANNOTATION: reason}}}
        match self.way:
            case "node":
                objects.patch(NODES, "", "n0", notes)
            case "skyhook" if objects.get(SKYHOOKS, "", NAME) is not None:
                objects.patch(SKYHOOKS, "", NAME, notes)
            case "budget" if reason is not None:
                spec = {"paused": {"reason": reason}}
                api = "haulout.dev/v1alpha1"
                body = {"apiVersion": api, "kind": BUDGET, "metadata": {"name": "all"}, "spec": spec}
                objects.create(NODE_BUDGETS, body)
            case "budget":
                objects.delete(NODE_BUDGETS, "", "all")


class PausedJobLife(PausedLife):
    """The same, with the stages in Jobs."""

    options = Options(alone=False, executor="jobs")


def _disrupts(body: Body) -> bool:
    """Whether a write starts a stage, drains the node, or takes it out of service."""
    match body:
        case Create():
            return body.body["kind"] in ("Pod", "Job")
        case Evict():
            return True
        case Change() if body.target.kind == "Node":
            return bool((body.body.get("spec") or {}).get("unschedulable"))
        case Change():
            return (body.body.get("spec") or {}).get("suspend") is False
    return False


KINDS: dict[str, type[PausedLife]] = {"pods": PausedLife, "jobs": PausedJobLife}


@cache
def unpaused(kind: str) -> Life:
    return KINDS[kind]().live()


@pytest.mark.parametrize("way", ["node", "skyhook", "budget"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_package_that_is_paused_after_any_write_ends_as_without(kind: str, way: str) -> None:
    plain = unpaused(kind)
    first = ["node", "skyhook", "budget"].index(way) * 2 + 1
    for number in range(first, len(plain.writes), STRIDE):
        life = KINDS[kind](way, number)
        life.live()
        assert (number, life.broken, life.ops.failures) == (number, [], [])
        assert (number, life.pictures) == (number, plain.pictures)
        assert (number, life.stages) == (number, plain.stages)


TEMPLATE: Json = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "x"}]}}}}
RUNNER = {
    "enabled": True,
    "defaultClient": "rec",
    "recipes": [{"name": "rec", "type": "job", "retries": 1, "retryBackoff": "10s", "template": TEMPLATE}],
}


def pause_node(ops: Notices, reason: str | None) -> None:
    ops.world.change(NODES, "n0", {"metadata": {"annotations": {ANNOTATION: reason}}})


def pause_notice(ops: Notices, reason: str | None) -> None:
    ops.patch("a", {"metadata": {"annotations": {ANNOTATION: reason}}})


def pause_all(ops: Notices, reason: str | None) -> None:
    if reason is None:
        ops.world.objects.delete(NODE_BUDGETS, "", "all")
        return
    meta, spec = {"name": "all"}, {"paused": {"reason": reason}}
    body = {"apiVersion": "haulout.dev/v1alpha1", "kind": BUDGET, "metadata": meta, "spec": spec}
    ops.world.objects.create(NODE_BUDGETS, body)


def finish(ops: Notices, kind: str) -> None:
    job = ops.world.objects.list(JOBS)[-1]["metadata"]
    condition = {"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    status = {"startTime": "2026-01-01T00:00:00Z", "conditions": [condition]}
    ops.world.objects.patch(JOBS, job["namespace"], job["name"], {"status": status}, subresource="status")


@pytest.mark.parametrize("pause", [pause_node, pause_notice, pause_all])
def test_no_job_of_the_runner_is_started_while_paused(pause: Callable[[Notices, str | None], None]) -> None:
    text = json.dumps({"slaPeriod": "5h", "operators": {"runner": RUNNER}})
    ops = Notices(options(text, alone=False)).started("a")
    pause(ops, "audit")
    ops.annotate("a", ready="true").run(120)
    assert ops.world.objects.list(JOBS) == []
    pause(ops, None)
    ops.run(5)
    assert len(ops.world.objects.list(JOBS)) == 1
    # The Job that runs ends; the next attempt waits.
    pause(ops, "audit")
    finish(ops, "Failed")
    ops.run(120)
    assert len(ops.world.objects.list(JOBS)) == 1
    pause(ops, None)
    ops.run(30)
    assert len(ops.world.objects.list(JOBS)) == 2
    finish(ops, "Complete")
    ops.run(5)
    assert ops.world.objects.get(NOTICES, HOME, "a")["status"]["maintenanceStatus"] == "Validating"  # type: ignore[index]


ALL = Key("", BUDGET, "", "all")


class PausedMachine(MortalWorld):
    """A Machine whose maintenance and deletion are paused after one of the operator's writes, for some rounds.

    `broken`: the writes that broke the pause.
    """

    def __init__(self, way: str = "", number: int = 0) -> None:
        self.way, self.number, self.left, self.broken = way, number, 0, list[str]()
        self.sent: list[Body] = []
        super().__init__(together=True)

    def carry_out(self, body: Body) -> Answer:
        if self.left and body not in self.sent and isinstance(body, Change) and self._lets_go_on(body):
            self.broken.append(str(body))
        before = self.writes
        answer = super().carry_out(body)
        if before < self.number <= self.writes:
            # What was sent with this write is not taken back.
            self.left, self.sent = 6, [request.body for request in self.flying]
            self._pause("audit")
        return answer

    def _lets_go_on(self, body: Change) -> bool:
        """Whether a write approves a maintenance, switches a host off, or lets a deletion go on."""
        meta: Any = body.body.get("metadata") or {}
        labels, notes = meta.get("labels") or {}, meta.get("annotations") or {}
        about = self.world.objects[MACHINE]
        assert isinstance(about, MachineRow)
        is_released = HOOK in notes and notes[HOOK] is None and about.deleting_at is not None
        return labels.get(REQUEST) == APPROVED or bool(notes.get(REBOOT)) or is_released

    def _pause(self, reason: str | None) -> None:
        match self.way:
            case "machine":
                self.change(MACHINE, notes={ANNOTATION: reason})
            case "node":
                self.change(NODE, notes={ANNOTATION: reason})
            case "budget" if reason is not None:
                self.world.put(NodeBudgetRow(key=ALL, spec={"paused": {"reason": reason}}))
            case "budget":
                self.world.delete(ALL)

    def _others_act(self) -> None:
        super()._others_act()
        if self.left:
            self.left -= 1
            if not self.left:
                self._pause(None)


@pytest.mark.parametrize("way", ["machine", "node", "budget"])
def test_a_machine_that_is_paused_after_any_write_ends_as_without(way: str) -> None:
    plain = PausedMachine().live()
    for number in range(1, plain.writes + 1):
        paused = PausedMachine(way, number)
        paused.live()
        assert (number, paused.broken, paused.early) == (number, [], False)
        assert (number, paused.end()) == (number, plain.end())
    assert plain.writes >= 7
    assert PLACE in plain.world.objects
    assert msgspec.structs.asdict(plain.options)["enable_metal3_maintenance"]
