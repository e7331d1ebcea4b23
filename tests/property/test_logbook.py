"""K23: each claim that begins on a node leaves exactly one record, whatever is killed, deleted or refused in between."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from haulout.core.logbook.wire import OPEN_LABEL, MaintenanceRecord, read_record
from haulout.embedded import Resource
from haulout.kernel.requests import Refused
from tests.build.all_surfaces import AllSurfaces
from tests.build.examples import examples
from tests.build.walk import Tape

RECORDS = Resource("haulout.dev", "v1alpha1", "maintenancerecords")


def records(ops: AllSurfaces) -> list[MaintenanceRecord]:
    found = [read_record(each) for each in ops.world.objects.list(RECORDS)]
    return [each for each in found if each is not None]


def of_claims(ops: AllSurfaces) -> Counter[tuple[str, str, str]]:
    """Return how many records there are by surface, node and owner."""
    return Counter((each.spec.surface, each.spec.node.name, each.spec.owner.name) for each in records(ops))


def wish_for_everything(ops: AllSurfaces) -> set[tuple[str, str, str]]:
    """Let every surface want every node. Return the claims that follow."""
    ops.roll()
    for name in ops.names:
        ops.maintain(name)
        ops.want_profile(name)
        ops.notice(name)
    owners = {"nodemaintenance": "", "profiles": "", "notify": "", "packages": "demo"}
    return {(surface, name, owner or name) for surface, owner in owners.items() for name in ops.names}


def test_every_maintenance_of_every_surface_has_one_closed_record() -> None:
    ops = AllSurfaces(3, records=True)
    wanted = wish_for_everything(ops)
    ops.run(900)
    assert (ops.faults, ops.failures, ops.cordoned()) == ([], [], [])
    assert of_claims(ops) == Counter(wanted)
    assert {each.status.outcome for each in records(ops)} == {"Completed"}
    assert not [each for each in records(ops) if OPEN_LABEL in each.metadata.labels]


@settings(max_examples=examples(12), deadline=None)
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
