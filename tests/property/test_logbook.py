"""K23: each claim that begins on a node leaves exactly one record, whatever is killed, deleted or refused in between."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from haulout.core.action import Create
from haulout.core.logbook.notes import REFUSED_RECORDS, RefusedNote
from haulout.core.logbook.wire import OPEN_LABEL, MaintenanceRecord, Outcome, read_record
from haulout.embedded import NODES, Resource
from haulout.kernel.requests import Answer, Body, Refused
from haulout.surfaces.kubernikus.wire import DELETE_LABEL
from tests.build.all_surfaces import AllSurfaces
from tests.build.every_owner import EveryOwner
from tests.build.examples import examples
from tests.build.maintenances import DEFINITIONS, MAINTENANCES
from tests.build.notices import HOME, NOTICES
from tests.build.walk import Tape

RECORDS = Resource("haulout.dev", "v1alpha1", "maintenancerecords")


def records(ops: AllSurfaces) -> list[MaintenanceRecord]:
    found = [read_record(each) for each in ops.world.objects.list(RECORDS)]
    return [each for each in found if each is not None]


def of_claims(ops: AllSurfaces) -> Counter[tuple[str, str, str]]:
    """Return how many records there are by surface, node and owner."""
    return Counter((each.spec.surface, each.spec.node.name, each.spec.owner.name) for each in records(ops))


def wish_for_everything(ops: AllSurfaces) -> set[tuple[str, str, str]]:
    """Let each of the four surfaces want every node. Return the claims that follow."""
    ops.roll()
    for name in ops.names:
        ops.maintain(name)
        ops.want_profile(name)
        ops.notice(name)
    owners = {"nodemaintenance": "", "profiles": "", "notify": "", "packages": "demo"}
    return {(surface, name, owner or name) for surface, owner in owners.items() for name in ops.names}


def wish_of_every_owner(ops: EveryOwner) -> Counter[tuple[str, str, str]]:
    """Let all owners want their nodes. Return the claims that follow, except for those of the Skyhook on other nodes."""
    wanted = wish_for_everything(ops)
    ops.stop_guest()
    ops.delete_server()
    ops.roll_set()
    others = {("esx", ops.guest), ("kubernikus", ops.server), ("nodemaintenance", ops.rolled)}
    return Counter({*wanted, *((surface, name, name) for surface, name in others)})


def without_server(counts: Counter[tuple[str, str, str]], ops: EveryOwner) -> Counter[tuple[str, str, str]]:
    """Return the counts without those of the Skyhook on the nodes of the other owners, where it may come first or never."""
    others = {("packages", name, "demo") for name in (ops.guest, ops.server, ops.rolled)}
    return Counter({each: count for each, count in counts.items() if each not in others})


def test_every_owner_leaves_one_closed_record() -> None:
    ops = EveryOwner(records=True)
    wanted = wish_of_every_owner(ops)
    ops.run(1500)
    assert (ops.faults, ops.failures, ops.cordoned()) == ([], [], [])
    assert not any(ops.unfinished().values()), ops.unfinished()
    assert without_server(of_claims(ops), ops) == wanted
    assert max(of_claims(ops).values()) == 1
    assert not [each for each in records(ops) if OPEN_LABEL in each.metadata.labels]
    ends = {
        each.spec.surface: each.status.outcome for each in records(ops) if each.spec.surface in ("esx", "kubernikus")
    }
    assert ends == {"esx": "Completed", "kubernikus": "NodeGone"}


@settings(max_examples=examples(4), deadline=None)
@given(st.binary(min_size=40, max_size=120))
def test_every_owner_leaves_one_record_through_crashes_and_refusals(tape: bytes) -> None:
    ops, choices = EveryOwner(2, records=True), Tape(tape)
    wanted = wish_of_every_owner(ops)
    for _ in range(12):
        ops.crash_at(choices.pick(range(1, 25)), after=choices.pick((False, True)))
        if choices.pick((False, False, True)):
            ops.refusals = [Refused(choices.pick((409, 500, 429, 403)), "not now")]
        ops.run(choices.pick((1.0, 5.0, 40.0)))
    ops.crash_at(0, after=False)
    ops.run(1500)
    assert (ops.faults, ops.failures, ops.cordoned()) == ([], [], [])
    assert not any(ops.unfinished().values()), ops.unfinished()
    assert without_server(of_claims(ops), ops) == wanted
    assert max(of_claims(ops).values()) == 1
    assert not [each for each in records(ops) if OPEN_LABEL in each.metadata.labels]


def test_a_deletion_that_is_asked_for_again_has_a_record_of_its_own() -> None:
    ops = EveryOwner(1, records=True)
    for _ in range(2):
        # The server stays, because the deletion is withdrawn before the node is empty.
        ops.delete_server()
        ops.run(0.5)
        ops.change(ops.server, {DELETE_LABEL: None})
        ops.run(60)
    found = [each for each in records(ops) if each.spec.surface == "kubernikus"]
    assert [each.status.outcome for each in found] == ["Cancelled"] * 2


def test_every_maintenance_of_every_surface_has_one_closed_record() -> None:
    ops = AllSurfaces(3, records=True)
    wanted = wish_for_everything(ops)
    ops.run(900)
    assert (ops.faults, ops.failures, ops.cordoned()) == ([], [], [])
    assert of_claims(ops) == Counter(wanted)
    assert {each.status.outcome for each in records(ops)} == {"Completed"}
    assert not [each for each in records(ops) if OPEN_LABEL in each.metadata.labels]


@settings(max_examples=examples(6), deadline=None)
@given(st.binary(min_size=40, max_size=120))
def test_every_maintenance_has_one_record_through_crashes_and_refusals(tape: bytes) -> None:
    ops, choices = AllSurfaces(2, records=True), Tape(tape)
    wanted = wish_for_everything(ops)
    for _ in range(12):
        ops.crash_at(choices.pick(range(1, 25)), after=choices.pick((False, True)))
        if choices.pick((False, False, True)):
            ops.refusals = [Refused(choices.pick((409, 500, 429, 403)), "not now")]
        ops.run(choices.pick((1.0, 5.0, 40.0)))
    ops.crash_at(0, after=False)
    ops.run(900)
    assert (ops.faults, ops.failures, ops.cordoned()) == ([], [], [])
    assert of_claims(ops) == Counter(wanted)
    assert not [each for each in records(ops) if OPEN_LABEL in each.metadata.labels]


class Disturbance:
    """What happens to the objects while maintenances go on: they are deleted, in order or by force, and so are nodes."""

    def __init__(self, ops: AllSurfaces, choices: Tape) -> None:
        self.ops, self.choices = ops, choices
        self.objects = ops.world.objects

    def happen(self) -> None:
        name = self.choices.pick(self.ops.names)
        match self.choices.pick(range(6)):
            case 0:
                self.ops.crash_at(self.choices.pick(range(1, 25)), after=self.choices.pick((False, True)))
            case 1:
                self._delete(MAINTENANCES, "", name)
            case 2:
                self._delete(NOTICES, HOME, name, by_force=True)
            case 3:
                self._delete(MAINTENANCES, "", name, by_force=True)
            case 4:
                self._delete(NODES, "", name)
            case 5:
                # No operator runs for a while.
                self.ops.world.run(self.choices.pick((1, 30)))
                self.ops.begin()

    def _delete(self, resource: Resource, namespace: str, name: str, *, by_force: bool = False) -> None:
        if self.objects.get(resource, namespace, name) is None:
            return
        if by_force:
            self.objects.patch(resource, namespace, name, {"metadata": {"finalizers": None}})
        if self.objects.get(resource, namespace, name) is not None:
            self.objects.delete(resource, namespace, name)


@settings(max_examples=examples(3), deadline=None)
@given(st.binary(min_size=40, max_size=120))
def test_no_maintenance_has_two_records_whatever_is_deleted(tape: bytes) -> None:
    ops, choices = AllSurfaces(2, records=True), Tape(tape)
    wish_for_everything(ops)
    disturbance = Disturbance(ops, choices)
    for _ in range(5):
        disturbance.happen()
        ops.run(choices.pick((1.0, 5.0, 40.0)))
    ops.crash_at(0, after=False)
    ops.run(900)
    uids = Counter(
        (each.spec.surface, each.spec.node.uid, each.spec.owner.uid, each.spec.reason) for each in records(ops)
    )
    assert [claim for claim, count in uids.items() if count > 1] == []
    there = {each["metadata"]["uid"] for each in ops.world.objects.list(NODES)}
    left_open = [each for each in records(ops) if each.is_open]
    assert [each for each in left_open if each.spec.node.uid not in there] == []
    assert {each.status.outcome for each in records(ops) if each.spec.node.uid not in there} <= {*Outcome}


def test_maintenances_go_on_where_records_cannot_be_written() -> None:
    ops = AllSurfaces(2, records=True)
    ops.world.objects.delete(DEFINITIONS, "", "maintenancerecords.haulout.dev")
    ops.begin()
    wish_for_everything(ops)
    ops.run(900)
    assert (ops.faults, ops.failures, ops.cordoned()) == ([], [], [])
    assert not any(ops.unfinished().values()), ops.unfinished()


def test_refused_records_are_noted_until_they_are_written() -> None:
    ops = EveryOwner(1, records=True)
    refuse = [True]
    carried_out = ops.driver._carried_out

    def answered(body: Body) -> Answer:
        is_record = isinstance(body, Create) and body.target.kind == "MaintenanceRecord"
        return Refused(403, "no records here") if refuse[0] and is_record else carried_out(body)

    ops.driver._carried_out = answered  # type: ignore[method-assign]
    # The maintenance is not ended by people.
    ops._people = lambda: None  # type: ignore[method-assign]
    ops.maintain("n0")
    ops.run(3)
    assert records(ops) == []
    assert [each.why for each in refusals(ops)] == ["no records here"]
    refuse[0] = False
    ops.run(700)
    assert [each.spec.surface for each in records(ops)] == ["nodemaintenance"]
    assert refusals(ops) == []


def refusals(ops: AllSurfaces) -> list[RefusedNote]:
    found = ops.kernel.store.bucket(REFUSED_RECORDS, "", True)
    return [each for each in found if isinstance(each, RefusedNote)]
