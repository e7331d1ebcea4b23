"""Random changes to NotifyMaintenances by people and operators: their paths are legal, no message is lost, and all of them end."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial
from typing import Any

from hypothesis import given, settings

from haulout.core.action import Create, Delete, Evict
from haulout.embedded import NODES, Json
from haulout.kernel.requests import Change, Refused
from haulout.surfaces.notify.options import Options
from tests.build.examples import examples
from tests.build.notices import HOME, NOTICES, Notices, options
from tests.build.walk import Move, Walk, tapes
from tests.build.workloads import node, pod

NAMES, NODE_NAMES = ("a", "b", "c"), ("n0", "n1")
ALL = "Scheduled, SLAStarted, SLAExpired, ObjectsDrained, Validating, MaintenanceIncomplete, MaintenanceCancelled"
HOOK = f"webhook: {{url: 'https://x', events: [{ALL}, MaintenanceEnded, MaintenanceComplete]}}"
BLOCK = f"slaPeriod: 1m\nnotifications: {{{HOOK}}}\n"
CONTINUE = f"slaPeriod: 1m\nnotifications: {{failurePolicy: Continue, {HOOK}}}\n"
RETRY = f"{BLOCK}core: {{allowRetry: true}}\n"
SMOKE = "{enabled: true, default: smoke, recipes: [{name: smoke, type: builtin}]}"
TEMPLATE = "{spec: {template: {spec: {containers: [{name: c, image: x}]}}}}"
RECIPE = f"{{name: rec, type: job, timeout: 5m, retries: 1, retryBackoff: 5s, template: {TEMPLATE}}}"
RUN = f"runner: {{enabled: true, defaultClient: rec, recipes: [{RECIPE}]}}"
REST = "drainer: {enabled: true, unmanagedPods: Evict}, returner: {enabled: true, uncordon: Always}"
OPERATORS = f"{BLOCK}operators: {{{RUN}, validator: {SMOKE}, {REST}}}\n"
EDGES = {
    "": {"MaintenanceScheduled"},
    "MaintenanceScheduled": {"MaintenanceStarted"},
    "MaintenanceStarted": {"SLAExpired", "ObjectsDrained"},
    "SLAExpired": {"ObjectsDrained"},
    "ObjectsDrained": {"Validating", "MaintenanceIncomplete"},
    "Validating": {"MaintenanceIncomplete"},
    "MaintenanceIncomplete": {"ObjectsDrained"},
}
SENT_BEFORE = {
    "MaintenanceStarted": "SLAStarted",
    "SLAExpired": "SLAExpired",
    "ObjectsDrained": "ObjectsDrained",
}
WRITES: tuple[tuple[type, str], ...] = (
    (Change, "Node"),
    (Change, "NotifyMaintenance"),
    (Change, "NotifyMaintenance/status"),
    (Create, "MaintenanceJob"),
    (Delete, "MaintenanceJob"),
    (Delete, "NotifyMaintenance"),
    (Evict, "Pod"),
)
ANNOTATIONS = (
    *(("ready", value) for value in ("true", "false", None)),
    *(("client", value) for value in ("inprogress", "complete", "incomplete", None)),
    *(("validation", value) for value in ("inprogress", "validated", "failed", None)),
)


class Turmoil(Walk):
    """A walk with the moves of all clients, and with messages that must all arrive."""

    modes: tuple[Options, ...] = (options(BLOCK), options(RETRY), options(OPERATORS))

    def __init__(self, tape: bytes) -> None:
        super().__init__(tape)
        self.ops = Notices(self.tape.pick(self.modes), nodes=2)
        self.pods = 0

    def moves(self) -> Sequence[Move]:
        ops, name, where = self.ops, self.tape.pick(NAMES), self.tape.pick(NODE_NAMES)
        moves: list[Any] = [self.time_passes, self.time_passes, self.heal, self.refuse, self.restart, self.die]
        if ops.world.objects.get(NODES, "", where) is not None:
            moves += [partial(ops.claim, where, f"id-{name}"), partial(ops.cordon, where), partial(ops.uncordon, where)]
            moves += [partial(ops.world.objects.delete, NODES, "", where), self.pod_comes]
        else:
            moves += [partial(ops.world.make, node(where))] * 3
        if ops.found(name) is None:
            moves += [partial(ops.make, name, where, f"id-{name}")] * 4
        else:
            key, value = self.tape.pick(ANNOTATIONS)
            moves += [partial(ops.annotate, name, **{key: value})] * 3
            moves += [partial(ops.world.objects.delete, NOTICES, HOME, name)]
            retry: Json = {"metadata": {"annotations": {"haulout.dev/retry": str(ops.now)}}}
            moves += [partial(ops.patch, name, retry)]
        return moves

    def restart(self) -> None:
        self.ops.begin()

    def die(self) -> None:
        self.ops.dead = {"webhook"}

    def heal(self) -> None:
        self.ops.dead = set()
        self.ops.refuses.clear()

    def refuse(self) -> None:
        self.ops.refuses[self.tape.pick(WRITES)] = Refused(self.tape.pick((403, 409, 500)), "not now")

    def pod_comes(self) -> None:
        self.pods += 1
        self.ops.world.make(pod(f"p{self.pods}", nodeName=self.tape.pick(NODE_NAMES)))

    def time_passes(self) -> None:
        self.ops.run(self.tape.pick((0.05, 0.5, 2.0, 7.0, 40.0, 400.0)))

    def check(self) -> None:
        for name in NAMES:
            if (found := self.ops.found(name)) is None:
                continue
            path = ["", *self.ops.path(name)]
            assert all(after in EDGES[before] for before, after in itertools.pairwise(path)), path
            assert path[-1] == self.ops.status(name)
            uid = found["metadata"]["uid"]
            told = {each.event for each in self.ops.sent if each.key.startswith(uid)}
            assert {SENT_BEFORE[state] for state in path if state in SENT_BEFORE} <= told, "a message was passed over"

    def finish(self) -> None:
        ops = self.ops
        self.heal()
        for name in NODE_NAMES:
            if ops.world.objects.get(NODES, "", name) is None:
                ops.world.make(node(name))
        ops.run(700)
        for name in NAMES:
            if ops.found(name) is not None:
                ops.delete(name)
        ops.run(30)
        for name in NODE_NAMES:
            ops.uncordon(name)
        ops.run(1000)
        assert [name for name in NAMES if ops.found(name)] == []
        writes = len(ops.writes)
        ops.run(4000)
        assert len(ops.writes) == writes, "at rest, and still it writes"


class Unbothered(Turmoil):
    """A walk in which a dead transport never blocks a maintenance. Messages that could not be delivered stay owed."""

    modes = (options(CONTINUE),)

    def check(self) -> None:
        for name in NAMES:
            if self.ops.found(name) is not None:
                path = ["", *self.ops.path(name)]
                assert all(after in EDGES[before] for before, after in itertools.pairwise(path)), path


@settings(max_examples=examples(150))
@given(tapes())
def test_every_walk_ends_well(tape: bytes) -> None:
    Turmoil(tape).go()


@settings(max_examples=examples(80))
@given(tapes())
def test_a_dead_transport_blocks_nobody_who_goes_on(tape: bytes) -> None:
    Unbothered(tape).go()
