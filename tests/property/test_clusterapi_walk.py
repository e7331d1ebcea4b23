"""The clusterapi surface in a world that changes under its hands: in the end hook and labels are as the tables say."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import partial

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from haulout.cluster.key import Key, node_key
from haulout.cluster.rows import NodeRow, ObjectRow
from haulout.kernel.requests import Answer, Change, Lost, Refused, Withdrawn
from haulout.surfaces.clusterapi.options import Options
from haulout.surfaces.clusterapi.wire import (
    CLEANUP,
    DELETED,
    DELETION_APPROVED,
    ENABLED,
    HOOK,
    HOST,
    MAINTENANCE,
    MAINTENANCE_APPROVED,
    MAINTENANCE_WISHED,
    ORIGINAL,
    PAUSED,
    REBOOT,
    REQUEST,
    STATE,
    MachineRow,
    Workload,
    machine_key,
)
from tests.build.clusterapi import ClusterApiWorld
from tests.build.examples import examples
from tests.build.machines import ALPHA, cluster, host, machine, node, secret
from tests.build.walk import Move, Walk, tapes

BETA = Workload("fleet", "beta")
# Each Machine has a Node of its own name there, and a host.
PLACES = {"a": ALPHA, "b": ALPHA, "c": BETA}
CLUSTERS = {workload.name: workload for workload in PLACES.values()}
ANSWERS: dict[str, Answer | None] = {
    "fine": None,
    "conflict": Refused(409, "conflict"),
    "failing": Refused(500, "failing"),
    "forbidden": Refused(403, "forbidden"),
    "lost": Lost("no answer"),
    "withdrawn": Withdrawn(),
}


def made_machine(name: str) -> MachineRow:
    return machine(name, node=name, cluster=PLACES[name].name, provider=f"metal3://fleet/{name}/m3")


def made_node(name: str) -> NodeRow:
    return node(name, cluster=PLACES[name].cluster, claims=PLACES[name])


class Turmoil(Walk):
    """A walk with the moves of all clients. `options`: what the surface does only on request."""

    def __init__(self, tape: bytes, options: Options) -> None:
        super().__init__(tape)
        rows: list[ObjectRow] = [secret(workload=workload) for workload in CLUSTERS.values()]
        for name in PLACES:
            rows += [made_machine(name), made_node(name), host(name)]
        self.world = ClusterApiWorld(*rows, *map(cluster, CLUSTERS), options=options)
        self.objects = self.world.world.objects

    def moves(self) -> Sequence[Move]:
        world, name = self.world, self.tape.pick(tuple(PLACES))
        about, far = machine_key("fleet", name), node_key(name, PLACES[name].cluster)
        moves: list[Move] = [world.watch, partial(world.wait, 0.5), self.time_passes, self.server_answers]
        if about in self.objects:
            moves += [
                partial(self.label, about, ENABLED, ("true", None, "no")),
                partial(self.label, about, REQUEST, ("requested", None, "approved", "other")),
                partial(self.label, about, REQUEST, ("requested", None)),
                partial(self.note, about, HOOK, (None, "foreign", ORIGINAL)),
                partial(self.note, about, PAUSED, (None, None, "")),
                partial(self.machine_changes, about),
                partial(world.world.delete, about),
            ]
        else:
            moves.append(partial(self.comes, made_machine(name)))
        if far in self.objects:
            moves += [
                partial(self.label, far, STATE, ("operational", None, "")),
                partial(self.label, far, DELETION_APPROVED, ("true", None, "no")),
                partial(self.label, far, MAINTENANCE_APPROVED, ("true", None)),
                partial(self.label, far, MAINTENANCE_WISHED, ("true", None)),
                partial(self.label, far, DELETED, (None, "foreign", "true")),
                partial(self.label, far, MAINTENANCE, (None, "foreign", "true")),
                partial(world.world.delete, far),
            ]
        else:
            moves.append(partial(self.comes, made_node(name)))
        workload = PLACES[name]
        away = workload.cluster in world.away
        moves.append(partial(world.come_back if away else world.leave, workload.cluster))
        moves += [partial(self.kubeconfig, workload), partial(self.pause, workload), world.restart]
        return moves

    def comes(self, row: ObjectRow) -> None:
        self.world.world.put(row)

    def label(self, key: Key, name: str, values: Sequence[str | None]) -> None:
        self.world.change(key, labels={name: self.tape.pick(values)})

    def note(self, key: Key, name: str, values: Sequence[str | None]) -> None:
        self.world.change(key, notes={name: self.tape.pick(values)})

    def machine_changes(self, key: Key) -> None:
        row = self.objects[key]
        deleting, reference = self.tape.pick(((True, key.name), (False, ""), (False, key.name)))
        at = row.deleting_at or (self.world.now if deleting else None)
        self.world.world.put(msgspec.structs.replace(row, deleting_at=at, node=reference))

    def kubeconfig(self, workload: Workload) -> None:
        row = secret(self.tape.pick((b"kubeconfig", b"kubeconfig", None)), workload)
        self.world.world.put(row)

    def pause(self, workload: Workload) -> None:
        self.world.world.put(cluster(workload.name, paused=self.tape.pick((False, False, True))))

    def time_passes(self) -> None:
        """Let time pass without answers."""
        self.world.now += timedelta(seconds=self.tape.pick((0.1, 2.0, 6.0, 30.0, 700.0)))
        self.world.run()

    def server_answers(self) -> None:
        if self.world.flying:
            request = self.tape.pick(self.world.flying)
            answer = self.tape.pick(tuple(ANSWERS.values()))
            if isinstance(answer, Lost) and self.tape.pick((True, False)):
                self.world.carry_out(request.body)
            self.world.answer(request, answer)

    def check(self) -> None:
        for change in self.world.changes:
            assert_owned(change)
        for request in self.world.flying:
            if isinstance(request.body, Change):
                assert_owned(request.body)

    def finish(self) -> None:
        world = self.world
        for workload in CLUSTERS.values():
            world.come_back(workload.cluster)
            world.world.put(secret(workload=workload))
            world.world.put(cluster(workload.name))
        for key in [key for key, row in self.objects.items() if isinstance(row, MachineRow)]:
            world.change(key, notes={PAUSED: None})
        world.settle()
        for name in PLACES:
            self.judge(name)
        wanted = {row.workload.cluster for row in self.objects.values() if isinstance(row, MachineRow) and is_on(row)}
        assert world.connected == wanted
        world.written()
        world.settle()
        assert world.written() == [], "at rest, and still it writes"
        world.restart()
        world.settle()
        assert world.written() == [], "another process finds something to do where there is nothing"

    def judge(self, name: str) -> None:
        """Assert that the objects agree with the tables of the contract."""
        about = self.objects.get(machine_key("fleet", name))
        far = self.objects.get(node_key(name, PLACES[name].cluster))
        assert about is None or isinstance(about, MachineRow)
        reboot = self.objects[Key("", HOST, "fleet", name)].annotations.get(REBOOT)
        assert reboot == ("" if about is not None and about.labels.get(REQUEST) == "approved" else None)
        if about is not None and CLEANUP in about.annotations:
            assert is_on(about), "the mark of a clean-up is left"
            assert not about.node or far is None
        if about is not None and not is_on(about):
            assert HOOK not in about.annotations
        if about is not None and is_on(about) and about.node and far is not None:
            self.judge_pair(about, far)
        elif far is not None and PLACES[name].cluster in self.world.connected and not (about and is_on(about)):
            assert DELETED not in far.labels
            assert MAINTENANCE not in far.labels
        if about is not None and about.deleting_at and about.node and far is None:
            assert HOOK not in about.annotations, "it waits for a Node that is gone"

    def judge_pair(self, about: MachineRow, far: ObjectRow) -> None:
        managed, request = STATE in far.labels, about.labels.get(REQUEST)
        approved = far.labels.get(DELETION_APPROVED) == "true"
        if self.world.options.approval_hygiene:
            approved = approved and DELETED in far.labels
        hook = ORIGINAL if managed and not approved else None
        deleted = "true" if managed and about.deleting_at else None
        maintenance = "true" if managed and request in ("requested", "approved") else None
        found = about.annotations.get(HOOK), far.labels.get(DELETED), far.labels.get(MAINTENANCE)
        assert found == (hook, deleted, maintenance)
        consent = far.labels.get(MAINTENANCE_APPROVED) == "true"
        assert not (managed and request == "requested" and consent), "the approval is not passed on"


def is_on(row: MachineRow) -> bool:
    return row.labels.get(ENABLED) == "true"


OURS = {HOOK, DELETED, MAINTENANCE, REQUEST, CLEANUP, REBOOT}
BY_OPTION = {"approve-maintenance", "skip-remediation", "skip-remediation-owned", "requested-by"}


def assert_owned(change: Change) -> None:
    """Assert that a patch sets single keys of ours, never a whole map."""
    assert set(change.body) == {"metadata"}
    assert change.version is not None
    for part, keys in change.body["metadata"].items():
        assert part in ("labels", "annotations")
        assert keys
        assert all(name in OURS or name.rsplit("/", 1)[-1] in BY_OPTION for name in keys)


EVERYTHING = Options(
    enable_metal3_maintenance=True, guard_remediation=True, approval_hygiene=True, workload_requests=True
)


@settings(max_examples=examples(300), deadline=None)
@given(tape=tapes(), options=st.sampled_from((Options(enable_metal3_maintenance=True), EVERYTHING)))
def test_in_the_end_everything_is_as_the_tables_say(tape: bytes, options: Options) -> None:
    Turmoil(tape, options).go()
