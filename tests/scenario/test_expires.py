"""Maintenances with the annotation `haulout.dev/expires`: they end as if a person had cancelled them."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from haulout.core.expiry import EXPIRES, expires_at
from haulout.embedded import NODES
from haulout.model.meta import wire_time
from haulout.surfaces.clusterapi.options import Options as MachineOptions
from haulout.surfaces.clusterapi.surface import DECIDERS
from haulout.surfaces.kubernikus.wire import DELETE_LABEL
from haulout.surfaces.nodemaintenance.options import Options
from haulout.surfaces.profiles.wire import PROFILE_LABEL
from tests.build.all_surfaces import DEMO, AllSurfaces
from tests.build.every_owner import EveryOwner
from tests.build.machines import ask, edits, linked, machine, node
from tests.build.maintenance_sets import SETS, MaintenanceSets
from tests.build.maintenances import MAINTENANCES, Maintenances
from tests.build.notices import Notices
from tests.build.notices import options as notice_options
from tests.build.rows import START
from tests.build.skyhooks import SKYHOOKS

RUN = Options(alone=False)


def annotate(ops: Maintenances, name: str, value: str) -> None:
    ops.world.objects.patch(MAINTENANCES, "", name, {"metadata": {"annotations": {EXPIRES: value}}})


def test_a_maintenance_ends_when_it_expires() -> None:
    ops = Maintenances(options=RUN).make("a", "n0").run(10)
    annotate(ops, "a", wire_time(ops.now + timedelta(minutes=10)))
    ops.run(590)
    assert (ops.phase("a"), ops.marks("n0")[0]) == ("Succeeded", True)
    ops.run(60)
    assert (ops.found("a"), ops.marks("n0")[0]) == (None, False)
    assert ("Expired", "a") in ops.told


def test_a_maintenance_that_has_expired_takes_its_node_out_of_service_never() -> None:
    ops = Maintenances(options=RUN)
    body = {"name": "a", "annotations": {EXPIRES: wire_time(ops.now - timedelta(days=30))}}
    ops.world.objects.create(
        MAINTENANCES,
        {
            "apiVersion": "nodemaintenance.medik8s.io/v1beta1",
            "kind": "NodeMaintenance",
            "metadata": body,
            "spec": {"nodeName": "n0"},
        },
    )
    ops.run(60)
    assert (ops.found("a"), ops.marks("n0")[0]) == (None, False)


@pytest.mark.parametrize(
    "value", ["", "soon", "2026-01-01", "2026-01-01T00:00:00", "9" * 5000, "\ud800", "-1", "2026-13-01T00:00:00Z"]
)
def test_a_value_that_cannot_be_read_ends_nothing(value: str) -> None:
    assert expires_at(value) is None
    ops = Maintenances(options=RUN).make("a", "n0")
    annotate(ops, "a", "soon")
    ops.run(60)
    assert ops.phase("a") == "Succeeded"


def test_the_drop_in_does_not_know_the_annotation() -> None:
    ops = Maintenances(options=Options()).make("a", "n0").run(10)
    annotate(ops, "a", wire_time(ops.now))
    ops.run(60)
    assert ops.phase("a") == "Succeeded"


def test_a_set_ends_with_its_maintenances() -> None:
    ops = MaintenanceSets().roll("r", "n0", "n1", "n2", most=2).run(10)
    notes = {EXPIRES: wire_time(ops.now + timedelta(minutes=1))}
    ops.world.objects.patch(SETS, "", "r", {"metadata": {"annotations": notes}})
    ops.run(120)
    assert (ops.set("r"), ops.at_work()) == (None, [])


def test_a_notice_ends_when_it_expires() -> None:
    ops = Notices(notice_options(alone=False)).make("a", "n0").run(10)
    ops.patch("a", {"metadata": {"annotations": {EXPIRES: wire_time(ops.now + timedelta(minutes=1))}}})
    ops.run(30)
    assert ops.found("a") is not None
    ops.run(90)
    assert ops.found("a") is None


@pytest.mark.parametrize("request_", ["requested", "approved"])
def test_the_request_of_a_machine_is_withdrawn(request_: str) -> None:
    row = machine(request=request_, notes={EXPIRES: wire_time(START)})
    options = MachineOptions(owned_hosts_only=True)
    store = linked(row, node(), options=options)
    assert edits(ask(DECIDERS[0], store)) == ["m: -maintenance"]
    early = ask(DECIDERS[0], store, START - timedelta(minutes=1))
    assert "m: -maintenance" not in edits(early)


def test_a_machine_of_the_drop_in_stays_requested() -> None:
    row = machine(request="requested", notes={EXPIRES: wire_time(START)})
    assert "m: -maintenance" not in edits(ask(DECIDERS[0], linked(row, node())))


def test_an_instant_with_a_time_zone_is_read() -> None:
    assert expires_at(" 2026-11-18T22:00:00+02:00 ") == datetime.fromisoformat("2026-11-18T20:00:00+00:00")


def expire(ops: AllSurfaces, node: str, seconds: float) -> None:
    at = wire_time(ops.world.time.now() + timedelta(seconds=seconds))
    ops.world.change(NODES, node, {"metadata": {"annotations": {EXPIRES: at}}})


def labels_of(ops: AllSurfaces, node: str) -> set[str]:
    return {PROFILE_LABEL, DELETE_LABEL} & set(ops.node(node)["metadata"]["labels"])


def test_the_profiles_of_a_node_are_detached_and_the_node_is_given_back() -> None:
    ops = EveryOwner(1, records=True)
    ops.want_profile("n0")
    ops.run(1)
    assert ops.cordoned() == ["n0"]
    expire(ops, "n0", 1)
    ops.run(5)
    assert (ops.cordoned(), ops.marks(), labels_of(ops, "n0")) == ([], {}, set())
    assert EXPIRES not in ops.node("n0")["metadata"].get("annotations", {})
    assert ops.failures == []
    # The next request of the node is not ended by it.
    ops.want_profile("n0")
    ops.run(60)
    assert not ops.unfinished()["profiles"]


def test_a_profile_that_has_not_begun_never_begins() -> None:
    ops = EveryOwner(1)
    expire(ops, "n0", -60)
    ops.want_profile("n0")
    ops.run(60)
    assert (ops.cordoned(), labels_of(ops, "n0")) == ([], set())


def test_the_deletion_of_a_server_is_withdrawn_with_the_profiles_of_its_node() -> None:
    ops = EveryOwner(1)
    ops.world.change(NODES, ops.server, {"metadata": {"labels": {PROFILE_LABEL: "p"}}})
    ops.delete_server()
    expire(ops, ops.server, 0.5)
    ops.run(60)
    assert labels_of(ops, ops.server) == set()
    assert not ops.node(ops.server)["spec"].get("unschedulable")
    assert not [name for name in ops.node(ops.server)["metadata"].get("annotations", {}) if "haulout" in name]


def test_a_skyhook_ends_in_the_middle_and_its_node_is_given_back() -> None:
    ops = EveryOwner(1, records=True)
    ops.roll()
    ops.run(1)
    assert ops.cordoned() == ["n0"]
    at = wire_time(ops.world.time.now() + timedelta(seconds=1))
    ops.world.objects.patch(SKYHOOKS, "", DEMO, {"metadata": {"annotations": {EXPIRES: at}}})
    ops.run(60)
    assert ops.world.objects.get(SKYHOOKS, "", DEMO) is None
    assert (ops.cordoned(), ops.marks(), ops.failures) == ([], {}, [])
    assert ops.package_pods == {}
