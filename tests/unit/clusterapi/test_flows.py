"""Whole flows on the kernel: what goes over the wire, under which precondition, and after which failures."""

from __future__ import annotations

from datetime import timedelta

import pytest

from haulout.cluster.rows import ObjectRow
from haulout.kernel.requests import Change, Lost, Refused
from haulout.model.meta import wire_time
from haulout.surfaces.clusterapi.options import Options
from haulout.surfaces.clusterapi.wire import (
    CLEANUP,
    DELETED,
    DELETION_APPROVED,
    ENABLED,
    HOOK,
    LET_GO,
    MAINTENANCE,
    MAINTENANCE_APPROVED,
    ORIGINAL,
    PAUSED,
    REQUEST,
)
from tests.build.clusterapi import ClusterApiWorld
from tests.build.machines import ALPHA, FAR, M, N, cluster, hooked, host, machine, node, secret
from tests.build.rows import at
from tests.build.world import copy

ON = "metal3://fleet/h/m3"


def labels(**values: str | None) -> dict[str, object]:
    names = {"deleted": DELETED, "maintenance": MAINTENANCE, "request": REQUEST}
    return {"metadata": {"labels": {names[name]: value for name, value in values.items()}}}


def hook(value: str | None) -> dict[str, object]:
    return {"metadata": {"annotations": {HOOK: value}}}


def clusterapi(*rows: ObjectRow, options: Options | None = None) -> ClusterApiWorld:
    made = ClusterApiWorld(secret(), *rows, options=options)
    made.wait(1)
    return made


def test_a_deletion_costs_one_patch_a_side() -> None:
    made = clusterapi(machine(), node())
    assert made.written() == [("m", hook(ORIGINAL))]
    made.world.put(machine(deleting=1, hook=ORIGINAL))
    made.wait(1)
    assert made.written() == [("n", labels(deleted="true"))]
    made.change(N, labels={DELETION_APPROVED: "true"})
    made.wait(1)
    assert made.written() == [("m", hook(None))]
    assert made.told == [
        "Normal PreDrainHookAdded on m",
        "Normal DeletionAnnounced on m",
        "Normal PreDrainHookRemoved on m",
    ]


def test_a_maintenance_costs_two_patches_of_the_node_and_one_of_the_machine() -> None:
    made = clusterapi(hooked(provider=ON), node(), host(), options=Options(enable_metal3_maintenance=True))
    made.change(M, labels={REQUEST: "requested"})
    made.wait(1)
    made.change(N, labels={MAINTENANCE_APPROVED: "true"})
    made.wait(1)
    made.change(M, labels={REQUEST: None})
    made.wait(1)
    reboot = "reboot.metal3.io/runtime-extension-maintenance-controller"
    assert made.written() == [
        ("n", labels(maintenance="true")),
        ("m", labels(request="approved")),
        ("h", {"metadata": {"annotations": {reboot: ""}}}),
        ("n", labels(maintenance=None)),
        ("h", {"metadata": {"annotations": {reboot: None}}}),
    ]
    assert [told.split()[1] for told in made.told] == [
        "MaintenanceAnnounced",
        "MaintenanceApproved",
        "HostPowerOffRequested",
        "MaintenanceWithdrawn",
        "HostReleased",
    ]


def test_every_write_names_the_version_that_it_was_decided_on() -> None:
    made = ClusterApiWorld(secret(), machine(request="requested"), node(approve_maintenance="true"))
    made.watch()
    (to_node,) = made.flying
    made.answer(to_node)
    (to_machine,) = made.flying
    bodies = [request.body for request in (to_node, to_machine)]
    versions = [body.version for body in bodies if isinstance(body, Change)]
    assert versions == [3, 2]


def test_a_request_that_is_cancelled_meanwhile_never_comes_back() -> None:
    """The write of the approval meets a conflict, and what is decided then is decided upon what stands there."""
    made = clusterapi(hooked(request="requested"), node(maintenance="true"))
    made.change(N, labels={MAINTENANCE_APPROVED: "true"})
    made.watch()
    (approval,) = made.flying
    made.change(M, labels={REQUEST: None})
    made.answer(approval)
    made.wait(60)
    assert made.written() == [("n", labels(maintenance=None))]
    assert REQUEST not in made.world.objects[M].labels
    assert "Normal MaintenanceApproved on m" not in made.told


def test_keys_that_others_add_meanwhile_survive() -> None:
    made = clusterapi(hooked(), node(approve_deletion="true"))
    assert made.written() == [("m", hook(None))]
    made.change(M, notes={"other": "1"})
    made.change(N, labels={DELETION_APPROVED: None, "mine": "1"})
    made.wait(1)
    assert made.world.objects[M].annotations == {"other": "1", HOOK: ORIGINAL}


def test_a_node_that_cannot_be_written_withholds_the_machine() -> None:
    made = ClusterApiWorld(secret(), machine(deleting=0), node())
    made.watch()
    (request,) = made.flying
    made.answer(request, Refused(500, "no"))
    assert not made.flying
    made.wait(60)
    assert made.written() == [("n", labels(deleted="true")), ("m", hook(ORIGINAL))]


def test_the_log_says_what_was_written_and_nothing_else() -> None:
    made = ClusterApiWorld(secret(), machine(deleting=0), node())
    made.watch()
    made.answer(made.flying[0], Refused(500, "no"))
    assert not made.said
    made.wait(60)
    made.change(N, labels={DELETION_APPROVED: "true"})
    made.wait(60)
    assert made.said == [
        f"label set fleet/alpha:Node/n {DELETED} true",
        f"annotation set Machine/fleet/m {HOOK} {ORIGINAL}",
        f"annotation removed Machine/fleet/m {HOOK}",
    ]


@pytest.mark.parametrize("answer", [Refused(403, "no"), Refused(500, "no"), Lost("no answer"), Refused(0, "refused")])
def test_a_pass_that_failed_is_tried_again_without_any_change(answer: Refused | Lost) -> None:
    made = ClusterApiWorld(secret(), hooked(deleting=0), node())
    made.watch()
    made.answer(made.flying[0], answer)
    made.wait(20)
    assert made.written() == [("n", labels(deleted="true"))]


REFUSED = "Warning NodeUpdateRefused on m"


@pytest.mark.parametrize(
    "answer, told", [(Refused(403, "no"), 1), (Refused(422, "no"), 1), (Refused(409, "no"), 0), (Refused(0, "no"), 0)]
)
def test_that_a_node_may_not_be_told_is_told(answer: Refused, told: int) -> None:
    made = ClusterApiWorld(secret(), hooked(deleting=0), node())
    made.watch()
    made.answer(made.flying[0], answer)
    assert made.told.count(REFUSED) == told


def test_it_is_told_once_for_as_long_as_it_lasts() -> None:
    made = ClusterApiWorld(secret(), hooked(deleting=0), node())
    made.denying.add(FAR)
    made.wait(600)
    assert made.told.count(REFUSED) == 1
    made.denying.clear()
    made.wait(600)
    assert made.written() == [("n", labels(deleted="true"))]
    made.denying.add(FAR)
    made.change(M, labels={REQUEST: "requested"})
    made.wait(600)
    assert made.told.count(REFUSED) == 2


def test_a_pass_that_keeps_failing_is_slowed_down() -> None:
    made = clusterapi(hooked(), node())
    made.leave(FAR)
    made.change(M, labels={REQUEST: "requested"})
    made.wait(600)
    assert 5 < made.refusals < 20


def test_what_was_put_off_while_a_cluster_was_away_is_done_at_once_when_it_is_back() -> None:
    made = clusterapi(hooked(), node())
    made.leave(FAR)
    made.change(M, labels={REQUEST: "requested"})
    made.wait(600)
    assert not made.written()
    assert "Warning WorkloadClusterUnreachable on m" in made.told
    made.come_back(FAR)
    before = made.now
    made.wait(0)
    assert made.written() == [("n", labels(maintenance="true"))]
    assert made.now == before


def test_a_problem_is_told_once_for_as_long_as_it_lasts() -> None:
    made = ClusterApiWorld(machine(), node())
    made.wait(600)
    assert made.told == ["Warning KubeconfigUnavailable on m"]
    made.world.put(secret())
    made.wait(5)
    assert made.told[1:] == ["Normal PreDrainHookAdded on m"]
    made.world.delete(secret().key)
    made.wait(600)
    assert made.told[2:] == ["Warning KubeconfigUnavailable on m"]
    assert made.connected == {FAR}


def test_a_deletion_that_times_out_says_so() -> None:
    options = Options(deletion_approval_timeout=timedelta(minutes=5))
    made = clusterapi(hooked(deleting=0), node(deleted="true"), options=options)
    made.wait(301)
    assert made.written() == [("m", {"metadata": {"annotations": {HOOK: None, LET_GO: wire_time(at(0))}}})]
    assert made.told == ["Warning DeletionApprovalTimeout on m", "Normal PreDrainHookRemoved on m"]
    made.wait(9000)
    assert not made.written()


# Disabling, and the end of connections


def test_the_last_machine_is_cleaned_up_after_before_the_connection_is_closed() -> None:
    made = clusterapi(hooked(deleting=0), node(deleted="true"))
    assert made.connected == {FAR}
    made.change(M, labels={ENABLED: None})
    made.wait(1)
    assert made.written() == [("n", labels(deleted=None)), ("m", hook(None))]
    assert not made.connected


def test_a_machine_that_was_disabled_while_nobody_looked_is_cleaned_up_after() -> None:
    made = clusterapi(machine(enabled=None, hook=ORIGINAL), node(maintenance="true"))
    assert made.written() == [("n", labels(maintenance=None)), ("m", hook(None))]
    assert not made.connected


def test_a_cluster_that_is_away_does_not_keep_the_hook() -> None:
    made = clusterapi(hooked(request="requested"), node(maintenance="true"))
    made.leave(FAR)
    made.change(M, labels={ENABLED: "false"})
    made.wait(4.9)
    assert HOOK in made.world.objects[M].annotations
    made.wait(0.2)
    assert HOOK not in made.world.objects[M].annotations
    assert CLEANUP in made.world.objects[M].annotations
    assert made.connected == {FAR}
    made.restart()
    made.wait(60)
    assert made.connected == {FAR}, "the mark outlives a restart"
    made.come_back(FAR)
    made.wait(60)
    assert MAINTENANCE not in made.world.objects[N].labels
    assert CLEANUP not in made.world.objects[M].annotations
    assert not made.connected


def test_a_cluster_that_stays_away_is_given_up_after_ten_minutes() -> None:
    made = clusterapi(hooked(request="requested"), node(maintenance="true"))
    made.leave(FAR)
    made.change(M, labels={ENABLED: None})
    made.wait(600)
    assert made.connected == {FAR}
    made.wait(10)
    assert CLEANUP not in made.world.objects[M].annotations
    assert not made.connected


def test_a_cluster_that_refuses_writes_for_minutes_is_asked_once_more_before_it_is_given_up() -> None:
    """By then what is tried again is tried every five minutes only."""
    made = clusterapi(hooked(request="requested"), node(maintenance="true"))
    made.denying.add(FAR)
    made.change(M, labels={ENABLED: None})
    made.wait(360)
    made.denying.clear()
    made.wait(250)
    assert MAINTENANCE not in made.world.objects[N].labels
    assert CLEANUP not in made.world.objects[M].annotations
    assert not made.connected


def test_a_cluster_that_refuses_writes_for_good_is_left() -> None:
    made = clusterapi(hooked(request="requested"), node(maintenance="true"))
    made.denying.add(FAR)
    made.change(M, labels={ENABLED: None})
    made.wait(606)
    assert CLEANUP not in made.world.objects[M].annotations
    made.wait(60)
    assert not made.connected


def test_a_machine_that_is_gone_closes_the_connection() -> None:
    made = clusterapi(hooked(), node())
    made.world.delete(M)
    made.wait(1)
    assert not made.connected


def test_the_node_of_a_machine_that_is_gone_is_cleaned_before_the_connection_is_closed() -> None:
    made = clusterapi(hooked(deleting=0), node(deleted="true", claims=ALPHA))
    made.world.delete(M)
    made.wait(1)
    assert made.connected == {FAR}
    made.wait(59)
    assert made.written() == [("n", labels(deleted=None))]
    assert not made.connected


def test_a_node_that_cannot_be_cleaned_does_not_keep_the_connection() -> None:
    made = clusterapi(hooked(deleting=0), node(deleted="true", claims=ALPHA))
    made.world.delete(M)
    made.watch()
    made.leave(FAR)
    made.wait(60)
    assert not made.connected


def test_another_enabled_machine_keeps_it() -> None:
    made = clusterapi(hooked(), machine("other", node="o", hook=ORIGINAL), node(), node("o"))
    made.change(M, labels={ENABLED: None})
    made.wait(60)
    assert made.connected == {FAR}


def test_a_cluster_that_nobody_names_is_never_opened() -> None:
    assert not clusterapi(machine(enabled=None), machine("other", enabled="True"), node()).connected


# Nothing to do


SETTLED = {
    "idle": (hooked(), node()),
    "deleting": (hooked(deleting=0), node(deleted="true")),
    "deletion approved": (machine(deleting=0), node(deleted="true", approve_deletion="true")),
    "requested": (hooked(request="requested"), node(maintenance="true")),
    "approved": (hooked(request="approved"), node(maintenance="true", approve_maintenance="true")),
    "both": (hooked(request="approved", deleting=0), node(maintenance="true", deleted="true")),
    "not looked after": (machine(request="requested"), node(state=None)),
    "not enabled": (machine(enabled=None), node()),
    "no node": (machine(node=""), node()),
    "off": (machine(enabled=None, request="approved", provider=ON), host(reboot="")),
    "paused": (machine(request="requested", notes={PAUSED: ""}, provider=ON), node(), host(reboot="")),
    "paused cluster": (hooked(enabled=None), node(deleted="true"), cluster(paused=True)),
}


@pytest.mark.parametrize("rows", SETTLED.values(), ids=SETTLED.keys())
def test_what_the_original_left_in_order_is_not_touched(rows: tuple[ObjectRow, ...]) -> None:
    made = clusterapi(*rows, options=Options(enable_metal3_maintenance=True))
    made.wait(600)
    assert made.written() == []


def test_a_heartbeat_asks_nobody() -> None:
    made = clusterapi(hooked(), node())
    before = made.kernel.loop.askings
    made.world.put(copy(made.world.objects[N]))
    made.wait(1)
    assert made.kernel.loop.askings == before


def test_everything_is_forgotten_of_machines_that_are_gone() -> None:
    made = clusterapi(hooked(deleting=0), node(deleted="true", claims=ALPHA), cluster())
    made.world.delete(M)
    made.settle()
    empty = ClusterApiWorld(secret(), cluster(), node())
    assert made.kernel.size() == empty.kernel.size()
    assert made.now > at(45)
