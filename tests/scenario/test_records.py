"""Records of maintenances: one for each, whichever write the operator dies at, with the person who asked for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from haulout.cluster.key import Key
from haulout.cluster.rows import Value
from haulout.cluster.view import CONFIG
from haulout.core.logbook.options import KEY_NAME
from haulout.core.logbook.requester import note_of
from haulout.core.logbook.wire import How, MaintenanceRecord, Outcome, read_record
from haulout.core.pause import ANNOTATION
from haulout.core.pause import CODE as PAUSED
from haulout.embedded import NODES, Resource
from haulout.kernel.requests import Answer, Lost, Refused
from haulout.surfaces.nodemaintenance.sets.wire import API_VERSION, KIND
from haulout.surfaces.notify.wire import CLIENT
from tests.build.all_surfaces import NODE_BUDGETS
from tests.build.every_owner import EveryOwner
from tests.build.examples import rotating
from tests.build.maintenance_sets import SETS
from tests.build.maintenances import MAINTENANCES
from tests.build.notices import HOME, NOTICES

RECORDS = Resource("haulout.dev", "v1alpha1", "maintenancerecords")
SECRET = b"k" * 32
# So many disturbances of each life are tried in a run, others on the next day.
MOST = 12


def records(ops: EveryOwner) -> list[MaintenanceRecord]:
    found = [read_record(each) for each in ops.world.objects.list(RECORDS)]
    return [each for each in found if each is not None]


LIVES: dict[str, Callable[[EveryOwner], None]] = {
    "nodemaintenance": lambda ops: ops.maintain("n0"),
    "profiles": lambda ops: ops.want_profile("n0"),
    "notify": lambda ops: ops.notice("n0"),
    "packages": lambda ops: ops.roll(),
    "esx": lambda ops: ops.stop_guest(),
    "kubernikus": lambda ops: ops.delete_server(),
    "set": lambda ops: ops.roll_set(),
}


# The answers to a write, and whether it was carried out. None: the operator is killed.
FAULTS: dict[str, tuple[Answer | None, bool]] = {
    "killed before": (None, False),
    "killed after": (None, True),
    "time-out, not carried out": (Lost("timed out"), False),
    "time-out, carried out": (Lost("timed out"), True),
    "409": (Refused(409, "the object has been modified"), False),
    "429": (Refused(429, "too many requests", 3.0), False),
    "500": (Refused(500, "not now"), False),
    "403": (Refused(403, "forbidden"), False),
}


def life(surface: str, number: int = 0, fault: str = "killed before") -> tuple[list[tuple[str, str, str, str]], int]:
    """Return the records of a life that is disturbed at this write, and how many writes there were."""
    ops = EveryOwner(1, records=True)
    writes = 0

    def count(body: Any) -> None:
        nonlocal writes
        writes += 1

    ops.on_write = count
    answer, is_after = FAULTS[fault]
    if answer is None:
        ops.crash_at(number, after=is_after)
    else:
        ops.fail_at(number, answer, after=is_after)
    LIVES[surface](ops)
    # A write that was forbidden is tried again after ten minutes.
    ops.run(700 if fault == "403" else 120)
    assert number == 0 or ops.writes_left <= 0, "it was not disturbed"
    assert (ops.faults, ops.failures) == ([], [])
    assert not [each.spec for each in records(ops) if each.is_open]
    found = [
        (each.spec.surface, each.spec.node.name, each.spec.owner.name, str(each.status.outcome))
        for each in records(ops)
    ]
    return sorted(found), writes


@pytest.mark.parametrize("fault", ["500", "403", "time-out, not carried out", "time-out, carried out"])
def test_a_maintenance_that_ends_before_its_record_is_made_is_recorded(fault: str) -> None:
    undisturbed, writes = life("kubernikus")
    ends = {number: life("kubernikus", number, fault)[0] for number in range(1, writes + 1)}
    assert ends == dict.fromkeys(ends, undisturbed)


# A long run tries all disturbances.
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("surface", LIVES)
def test_disturbed_at_any_write_a_maintenance_has_one_record(surface: str) -> None:
    undisturbed, writes = life(surface)
    assert len(undisturbed) == len(set(undisturbed)) >= 1
    every = [(number, fault) for number in range(1, writes + 1) for fault in FAULTS]
    # An odd share has no factor in common with the number of faults.
    tried = rotating(every, len(every) // MOST | 1)
    ends = {each: life(surface, *each)[0] for each in tried}
    assert {each: end for each, end in ends.items() if end != undisturbed} == {}


def rolled(ops: EveryOwner, **metadata: Any) -> None:
    spec = {"nodes": [ops.rolled], "maxConcurrent": 1, "reason": "firmware"}
    ops.world.objects.create(
        SETS, {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "set", **metadata}, "spec": spec}
    )


def test_who_made_a_set_has_asked_for_its_maintenances() -> None:
    ops = EveryOwner(1, records=True)
    ops.kernel.store.write(Value(key=Key("", CONFIG, "", KEY_NAME), value=SECRET))
    rolled(ops, annotations=note_of(SECRET, (KIND, "", "set"), "", "alice", ops.world.time.now()))
    ops.run(2)
    (record,) = records(ops)
    assert (record.spec.owner.kind, record.spec.reason) == ("NodeMaintenance", "firmware")
    assert (record.spec.requested_by.name, record.spec.requested_by.how) == ("alice", How.ADMISSION)


@pytest.mark.parametrize("node", ["n0", "rolled"])
def test_an_invented_owner_asks_for_nothing(node: str) -> None:
    """A set asks for no node that it does not name, and for none that is done."""
    ops = EveryOwner(1, records=True)
    ops.kernel.store.write(Value(key=Key("", CONFIG, "", KEY_NAME), value=SECRET))
    rolled(ops, annotations=note_of(SECRET, (KIND, "", "set"), "", "alice", ops.world.time.now()))
    ops.run(60)
    uid = ops.world.objects.get(SETS, "", "set")["metadata"]["uid"]  # type: ignore[index]
    owner = {"apiVersion": API_VERSION, "kind": KIND, "name": "set", "uid": uid}
    spec = {"nodeName": ops.rolled if node == "rolled" else node, "reason": "mine"}
    ops._create(MAINTENANCES, "NodeMaintenance", {"name": "forged", "ownerReferences": [owner]}, spec)
    ops.run(20)
    (record,) = [each for each in records(ops) if each.spec.owner.name == "forged"]
    assert (record.spec.requested_by.name, record.spec.reason) != ("alice", "firmware")
    assert record.spec.requested_by.how != How.ADMISSION


def test_the_record_of_a_failed_maintenance_says_why() -> None:
    ops = EveryOwner(1, records=True)
    # The runner of a site reports that its work has failed.
    ops._people = lambda: None  # type: ignore[method-assign]
    ops.notice("n0")
    ops.run(30)
    ops.world.objects.patch(NOTICES, HOME, "n0", {"metadata": {"annotations": {CLIENT: "incomplete"}}})
    ops.run(5)
    failed = {
        "type": "maintenanceRun",
        "status": "incomplete",
        "reason": "Flash",
        "message": "no power\n  to the board",
    }
    known = ops.world.objects.get(NOTICES, HOME, "n0")["status"]["conditions"]  # type: ignore[index]
    kept = [each for each in known if each["type"] != "maintenanceRun"]
    ops.world.objects.patch(NOTICES, HOME, "n0", {"status": {"conditions": [*kept, failed]}}, subresource="status")
    ops.run(5)
    ops.world.objects.delete(NOTICES, HOME, "n0")
    ops.run(5)
    ops.cordon("n0", cordoned=False)
    ops.run(60)
    (record,) = records(ops)
    assert (record.status.outcome, record.status.error) == (Outcome.FAILED, "Flash: no power to the board")


def test_a_record_names_the_object_whose_pause_it_waited_for() -> None:
    ops = EveryOwner(1, records=True)
    pause = {"spec": {"paused": {"reason": "storm", "by": "ada", "at": "2026-01-01T00:00:00Z"}}}
    ops.world.objects.patch(NODE_BUDGETS, "", "two", pause)
    ops.run(1)
    ops.maintain("n0")
    ops.run(20)
    ops.world.objects.patch(NODE_BUDGETS, "", "two", {"spec": {"paused": None}})
    ops.run(60)
    (record,) = records(ops)
    waits = {(each.code, each.subject): each.seconds for each in record.status.waited_for}
    assert waits[PAUSED, "NodeDisruptionBudget/two"] >= 15
    assert {subject for code, subject in waits if code == PAUSED} == {"NodeDisruptionBudget/two"}


def test_a_pause_during_a_maintenance_counts_as_a_wait_for_its_object() -> None:
    ops = EveryOwner(1, records=True)
    ops._people = lambda: None  # type: ignore[method-assign]
    ops.maintain("n0")
    ops.run(3)
    ops.world.change(NODES, "n0", {"metadata": {"annotations": {ANNOTATION: "storm"}}})
    ops.run(20)
    ops.world.change(NODES, "n0", {"metadata": {"annotations": {ANNOTATION: None}}})
    ops.run(10)
    ops.world.objects.delete(MAINTENANCES, "", "n0")
    ops.run(60)
    (record,) = records(ops)
    assert [(each.code, each.subject) for each in record.status.waited_for] == [(PAUSED, "Node/n0")]
