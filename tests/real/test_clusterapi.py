"""The clusterapi surface, between Machines and Nodes: what passes from one cluster to the other, with hosts and without."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.rig.api import Json
from tests.rig.clusterapi import (
    CAPI,
    CHART_RULES,
    CLEANUP,
    CLUSTER_DEFINITION,
    CLUSTERS,
    DELETED,
    ENABLED,
    HOOK,
    HOST_DEFINITION,
    HOSTS,
    MACHINE_DEFINITION,
    MACHINES,
    MAINTENANCE,
    MAY_DELETE,
    MAY_MEND,
    OLD_MACHINES,
    ORIGINAL,
    PAUSED,
    REBOOT,
    REQUEST,
    REQUESTED_BY,
    STATE,
    WISHED,
    ClusterApiOperator,
    Fleet,
    Machine,
    cluster_api,
    define,
    define_all,
    definition,
    kubeconfig,
    node_object,
    undefine,
)
from tests.rig.fleet import pod_object
from tests.rig.operator import HAULOUT, MaintenanceController, Platform
from tests.rig.plane import ControlPlane
from tests.rig.wait import eventually

pytestmark = pytest.mark.tools("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")

METAL3 = "--enable-metal3-maintenance"
PROFILE = "cloud.sap/maintenance-profile"

# The controller of the workload cluster: one node at a time is emptied and given away, or mended and taken back.
WORKLOAD = f"""
intervals: {{requeue: 60s}}
instances:
  check:
  - {{type: hasLabel, name: deleted, config: {{key: {DELETED}, value: "true"}}}}
  - {{type: hasLabel, name: hw_requested, config: {{key: {MAINTENANCE}, value: "true"}}}}
  - {{type: maxMaintenance, name: one_by_one, config: {{max: 1}}}}
  trigger:
  - {{type: eviction, name: cordon, config: {{action: cordon}}}}
  - {{type: eviction, name: drain, config: {{action: drain, deletionTimeout: 10m, evictionTimeout: 10m}}}}
  - {{type: eviction, name: uncordon, config: {{action: uncordon}}}}
  - {{type: alterLabel, name: ok_delete, config: {{key: {MAY_DELETE}, value: "true"}}}}
  - {{type: alterLabel, name: ok_hw, config: {{key: {MAY_MEND}, value: "true"}}}}
  - {{type: alterLabel, name: revoke_hw, config: {{key: {MAY_MEND}, remove: true}}}}
profiles:
- name: decommission
  operational: {{transitions: [{{check: deleted, next: maintenance-required}}]}}
  maintenance-required: {{transitions: [{{check: one_by_one, trigger: cordon && drain && ok_delete, next: in-maintenance}}]}}
- name: hardware
  operational: {{transitions: [{{check: hw_requested, next: maintenance-required}}]}}
  maintenance-required: {{transitions: [{{check: one_by_one, trigger: cordon && drain && ok_hw, next: in-maintenance}}]}}
  in-maintenance: {{transitions: [{{check: "!hw_requested", trigger: revoke_hw && uncordon, next: operational}}]}}
"""


@pytest.fixture
def fleet(plane: ControlPlane, managed_plane: ControlPlane, prefix: str) -> Iterator[Fleet]:
    """A fleet in a namespace of the management cluster. Its workload cluster `alpha` is another API server."""
    define_all(plane.api())
    plane.api().create("namespaces", {"metadata": {"name": prefix}})
    made = Fleet(plane, prefix)
    made.cluster("alpha", kubeconfig(managed_plane))
    yield made
    plane.wipe(prefix)
    managed_plane.wipe(prefix)


def test_a_machine_is_mended_and_another_deleted(
    fleet: Fleet, plane: ControlPlane, managed_plane: ControlPlane, prefix: str, tmp_path: Path
) -> None:
    """Two programs, one in each cluster, that know nothing of each other but labels."""
    profiles = {PROFILE: "decommission--hardware"}
    managed_plane.api().create("namespaces", {"metadata": {"name": prefix}})
    names = [f"{prefix}-mended", f"{prefix}-deleted"]
    for name in names:
        fleet.host(name, consumerRef={"name": name, "namespace": prefix})
    mended, deleted = (
        fleet.machine(
            name, managed_plane, state=None, node_labels=profiles, provider=f"metal3://{prefix}/{name}/{name}"
        )
        for name in names
    )
    managed_plane.load(pod_object(name, prefix, name, grace=0) for name in names)
    since = {made: made.audit.mark() for made in (plane, managed_plane)}
    with (
        ClusterApiOperator(plane, tmp_path / "operator", METAL3) as operator,
        MaintenanceController(managed_plane, tmp_path / "profiles", WORKLOAD, name="profiles"),
        cluster_api(fleet, managed_plane.api()) as ended,
    ):
        # Nothing is announced before a controller of the workload cluster looks after the nodes.
        for machine in (mended, deleted):
            machine.await_hook()
            assert machine.told() == set()
        mended.label(**{REQUEST: "requested"})
        mended.await_request("approved")
        fleet.await_host(mended.name, off=True)
        assert mended.node()[STATE] == "in-maintenance"
        # One at a time: the other waits for its turn, and its deletion with it.
        deleted.delete()
        deleted.await_told(DELETED)
        eventually(lambda: deleted.node()[STATE] == "maintenance-required", "it waits for its turn")
        assert deleted.hooked
        assert not ended
        mended.label(**{REQUEST: None})
        eventually(lambda: ended == {deleted.name}, "the other is deleted")
        fleet.await_host(mended.name, off=False)
        mended.await_told()
        eventually(lambda: MAY_MEND not in mended.node(), "the approval is taken back")
        eventually(lambda: mended.node()[STATE] == "operational", "it is back")
        assert mended.notes() == {HOOK: "runtime-extension-maintenance-controller"}
        eventually(
            lambda: (
                mended.events()
                >= {
                    *("PreDrainHookAdded", "MaintenanceAnnounced", "MaintenanceApproved", "MaintenanceWithdrawn"),
                    *("HostPowerOffRequested", "HostReleased"),
                }
            ),
            "it is told",
        )
        for reason in ("PreDrainHookAdded", "DeletionAnnounced", "PreDrainHookRemoved"):
            deleted.await_event(reason)
        series = "maintenance_capi_approval_seconds_count"
        assert [operator.metric(f'{series}{{flow="{flow}"}}') for flow in ("deletion", "maintenance")] == [1, 1]
        assert managed_plane.api().items("pods", prefix) == []
        assert operator.ready()
        assert operator.connected(prefix, "alpha")
        states = f'maintenance_capi_machines{{cluster="alpha",namespace="{prefix}",state='
        assert operator.metric(f'{states}"hooked"}}') == 1
        assert operator.metric('controller_runtime_reconcile_total{controller="machine",result="success"}') > 0
        assert operator.metric('controller_runtime_reconcile_errors_total{controller="machine"}') == 0
    # Hook and approval of the one, hook and its end of the other; the host off and on; three labels of Nodes.
    home = plane.audit.counts(since=since[plane], user="operator")
    away = managed_plane.audit.counts(since=since[managed_plane], user="operator-b")
    assert (home["patch machines"], home["patch baremetalhosts"], home["get baremetalhosts"]) == (4, 2, 0)
    assert away["patch nodes"] == 3
    assert {act for act in home if act.startswith(("update ", "delete "))} == set()


def test_both_sides_in_one_process(fleet: Fleet, plane: ControlPlane, prefix: str, tmp_path: Path) -> None:
    """Where one API server is both clusters; and a request that is taken back just as it is approved never returns."""
    fleet.cluster("beta", kubeconfig(plane))
    surfaces = "{profiles: {config: config/maintenance.yaml, metricsTimeout: 0s}, clusterapi: {workloadRequests: true}}"
    both = {PROFILE: "decommission--hardware"}
    names = [f"{prefix}-{name}" for name in ("deleted", "wished")]
    deleted, wished = fleet.machines(names, plane, cluster="beta", state=None, node_labels=both)
    hasty = fleet.machines([f"{prefix}-hasty-{number}" for number in range(20)], plane, cluster="beta")
    with (
        Platform(plane, tmp_path, WORKLOAD, "leader: {elect: false}", surfaces=surfaces),
        cluster_api(fleet, plane.api()) as ended,
    ):
        deleted.await_hook()
        deleted.delete()
        eventually(lambda: ended == {deleted.name}, "it is deleted")
        wished.tell_node({WISHED: "true"})
        wished.await_request("approved")
        for machine in hasty:
            machine.await_hook()
            machine.label(**{REQUEST: "requested"})
        for machine in hasty:
            machine.await_told(MAINTENANCE)
            machine.tell_node({MAY_MEND: "true"})
            machine.label(**{REQUEST: None})
        for machine in hasty:
            machine.await_told()
            assert machine.request is None
        wished.tell_node({WISHED: None})
        wished.label(**{REQUEST: None})
        eventually(lambda: MAY_MEND not in wished.node(), "it is back")
        assert wished.request is None


def test_what_the_original_left_is_taken_over_without_a_write(
    fleet: Fleet, plane: ControlPlane, managed_plane: ControlPlane, prefix: str, tmp_path: Path
) -> None:
    """Twice, for what we leave ourselves is taken over as well."""
    held = {HOOK: ORIGINAL}
    off = {"labels": {REQUEST: "approved"}, "provider": f"metal3://{prefix}/h/m"}
    fleet.host("h", annotations={REBOOT: ""})
    left: dict[str, Json] = {
        "at-rest": {"annotations": held},
        "waits": {"annotations": held, "node_labels": {MAINTENANCE: "true"}, "labels": {REQUEST: "requested"}},
        "mended": {"annotations": held, "node_labels": {MAINTENANCE: "true", MAY_MEND: "true"}, **off},
        "let-go": {"node_labels": {MAY_DELETE: "true"}},
        "unknown": {"annotations": held, "labels": {REQUEST: "in-progress"}},
        "unmanaged": {"state": None},
        "disabled": {"enabled": False},
    }
    for name, how in left.items():
        fleet.machine(f"{prefix}-{name}", managed_plane, **how)
    deleting = fleet.machine(f"{prefix}-deleting", managed_plane, annotations=held, node_labels={DELETED: "true"})
    deleting.delete()
    since = {made: made.audit.mark() for made in (plane, managed_plane)}
    for number in range(2):
        with ClusterApiOperator(plane, tmp_path, METAL3):
            # A Machine that comes now is served after all others have been looked at.
            beacon = fleet.machine(f"{prefix}-beacon-{number}", managed_plane)
            beacon.await_hook()
            beacon.await_event("PreDrainHookAdded")
    home = [entry for entry in plane.audit.entries(since=since[plane], user="operator") if entry.writes]
    away = [
        entry for entry in managed_plane.audit.entries(since=since[managed_plane], user="operator-b") if entry.writes
    ]
    patched = [f"{entry.act} {entry.name}" for entry in (*home, *away) if entry.resource != "events"]
    assert patched == [f"patch machines {prefix}-beacon-0", f"patch machines {prefix}-beacon-1"]
    assert {entry.resource for entry in home} == {"machines", "events"}


def test_hosts_are_switched_off_by_whom_they_belong_to(
    fleet: Fleet, plane: ControlPlane, prefix: str, tmp_path: Path
) -> None:
    """With the rights of the original's chart, so without a word on Clusters."""
    approved: dict[str, Any] = {"labels": {REQUEST: "approved"}, "enabled": False}

    def owner(name: str, host: str = "", **more: Any) -> Machine:
        return fleet.machine(f"{prefix}-{name}", plane, provider=f"metal3://{prefix}/{host or name}/m3-{name}", **more)

    # A Machine was deleted while the operator was down, and its host stayed off.
    fleet.host("left", annotations={REBOOT: "", "reboot.metal3.io/other": ""})
    fleet.host("rightful", consumerRef={"name": "m3-rightful", "namespace": prefix})
    fleet.host("foreign", consumerRef={"name": "m3-else", "namespace": prefix})
    fleet.host("elsewhere", consumerRef={"name": "m3-elsewhere", "namespace": "else"})
    fleet.host("stays-on", disablePowerOff=True)
    rightful, foreign, elsewhere, stays = (
        owner(name, **approved) for name in ("rightful", "foreign", "elsewhere", "stays-on")
    )
    late, second = owner("late", **approved), owner("second", "rightful")
    since = plane.audit.mark()
    user = plane.limited_user(CHART_RULES)
    with ClusterApiOperator(plane, tmp_path, METAL3, user=user) as operator:
        fleet.await_host("rightful", off=True)
        foreign.await_event("HostOwnershipMismatch")
        elsewhere.await_event("HostOwnershipMismatch")
        stays.await_event("HostPowerOffDisabled")
        assert not any(fleet.is_off(name) for name in ("foreign", "elsewhere", "stays-on"))
        fleet.host("late")
        fleet.await_host("late", off=True)
        plane.api().patch(HOSTS, "late", {"metadata": {"annotations": {REBOOT: None}}}, prefix)
        fleet.await_host("late", off=True)
        # One that is being deleted keeps its host off for as long as it is there.
        late.delete()
        rightful.label(**{REQUEST: None})
        fleet.await_host("rightful", off=False)
        assert fleet.is_off("late")
        late.purge()
        # Of two on one host, one is enough.
        second.label(**{REQUEST: "approved"})
        second.await_event("HostOwnershipMismatch")
        plane.api().patch(HOSTS, "rightful", {"spec": {"consumerRef": None}}, prefix)
        fleet.await_host("rightful", off=True)
        second.label(**{REQUEST: None})
        fleet.await_host("rightful", off=False)
        eventually(lambda: "HostReleased" in second.events(), "it is told")
        # For a moment the Machine of a host might still have come.
        fleet.await_host("left", off=False)
        fleet.await_host("late", off=False)
        assert "reboot.metal3.io/other" in plane.api().get(HOSTS, "left", prefix)["metadata"]["annotations"]
        asked = plane.audit.entries(since=since, user=user, what="clusters")
        assert {entry.code for entry in asked} == {403}
        assert len(asked) <= 2
        assert operator.ready()


def test_a_host_of_another_namespace_is_left_alone_beside_other_surfaces(
    fleet: Fleet, plane: ControlPlane, prefix: str, tmp_path: Path
) -> None:
    """A tenant who may write Machines in one namespace names a host of another; `explain` gives the operator's reason."""
    theirs = Fleet(plane, f"{prefix}-b")
    plane.api().create("namespaces", {"metadata": {"name": theirs.ns}})
    theirs.host("h", consumerRef={"name": "m3", "namespace": prefix})
    fleet.host("own", consumerRef={"name": "m3", "namespace": prefix})
    approved: dict[str, Any] = {"labels": {REQUEST: "approved"}, "enabled": False}
    stranger = fleet.machine(f"{prefix}-stranger", plane, provider=f"metal3://{theirs.ns}/h/m3", **approved)
    since = plane.audit.mark()
    metal3 = "{clusterapi: {enableMetal3Maintenance: true}}"
    with Platform(plane, tmp_path, "", f"namespace: {prefix}", surfaces=metal3):
        stranger.await_event("HostOwnershipMismatch")
        # A Machine that comes now is served after the stranger was refused.
        fleet.machine(f"{prefix}-rightful", plane, provider=f"metal3://{prefix}/own/m3", **approved)
        fleet.await_host("own", off=True)
        words = ["explain", "machine", stranger.name, "-n", prefix, "--kubeconfig", str(plane.kubeconfig("operator"))]
        said = subprocess.run([HAULOUT, *words], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert (
        f"BareMetalHost {theirs.ns}/h is not switched off: it is in another namespace than the Machine" in said.stdout
    )
    written = plane.audit.entries(since=since, user="operator", what="baremetalhosts")
    assert {entry.name for entry in written if entry.writes} == {"own"}
    assert not theirs.is_off("h")


def test_what_is_paused_is_left_alone(fleet: Fleet, plane: ControlPlane, prefix: str, tmp_path: Path) -> None:
    fleet.cluster("beta", kubeconfig(plane))
    api = plane.api()
    api.create(CLUSTERS, {"apiVersion": f"{CAPI}/v1beta2", "kind": "Cluster", "metadata": {"name": "beta"}, "spec": {"paused": True}}, prefix)  # fmt: skip
    fleet.host("h")
    off: dict[str, Any] = {"labels": {REQUEST: "approved"}, "provider": f"metal3://{prefix}/h/m"}
    by_cluster = fleet.machine(f"{prefix}-by-cluster", plane, cluster="beta", **off)
    with ClusterApiOperator(plane, tmp_path, METAL3):
        by_machine = fleet.machine(f"{prefix}-by-machine", plane, cluster="gamma", annotations={PAUSED: ""})
        fleet.cluster("gamma", kubeconfig(plane))
        disabled = fleet.machine(
            f"{prefix}-disabled", plane, cluster="gamma", enabled=False, annotations={PAUSED: "x", HOOK: ORIGINAL}
        )
        beacon = fleet.machine(f"{prefix}-beacon", plane, cluster="gamma")
        beacon.await_hook()
        for machine in (by_cluster, by_machine):
            machine.label(again="true")
        beacon.label(**{REQUEST: "requested"})
        beacon.await_told(MAINTENANCE)
        assert [machine.hooked for machine in (by_cluster, by_machine, disabled)] == [False, False, True]
        assert (by_cluster.told(), fleet.is_off("h")) == (set(), False)
        api.patch(CLUSTERS, "beta", {"spec": {"paused": False}}, prefix)
        by_cluster.await_hook()
        by_cluster.await_told(MAINTENANCE)
        fleet.await_host("h", off=True)
        for machine in (by_machine, disabled):
            machine.patch({"annotations": {PAUSED: None}})
        by_machine.await_hook()
        disabled.await_hook(there=False)


def test_versions_and_definitions_come_and_go(
    fleet: Fleet, plane: ControlPlane, managed_plane: ControlPlane, prefix: str, tmp_path: Path
) -> None:
    """Machines of an old version, then of both, then of one alone, then of the old one again; hosts that are unknown at first."""
    api = plane.api()
    undefine(api, HOST_DEFINITION)
    undefine(api, CLUSTER_DEFINITION)
    define(api, definition(CAPI, "Machine", "v1beta1", stored="v1beta2"))
    named = f"metal3://{prefix}/h/m"
    machine = fleet.machine(f"{prefix}-m", managed_plane, version="v1beta1", provider=named)
    with ClusterApiOperator(plane, tmp_path, METAL3) as operator:
        machine.await_hook()
        machine.label(**{REQUEST: "requested"})
        machine.await_told(MAINTENANCE)
        define(api, MACHINE_DEFINITION, HOST_DEFINITION)
        fleet.host("h")
        machine.tell_node({MAY_MEND: "true"})
        machine.await_request("approved")
        define(api, definition(CAPI, "Machine", "v1beta2"))
        machine.machines = MACHINES
        machine.delete()
        machine.await_told(DELETED, MAINTENANCE)
        define(api, definition(CAPI, "Machine", "v1beta1", stored="v1beta2"))
        machine.machines = OLD_MACHINES
        machine.tell_node({MAY_DELETE: "true"})
        machine.await_hook(there=False)
        fleet.await_host("h", off=True)
        # Nothing that was not there for a moment was taken for gone.
        assert "HostReleased" not in machine.events()
        assert machine.told() == {DELETED, MAINTENANCE}
        assert not [line for line in operator.logged("write failed") if "Node" in line["object"]]


def test_what_can_be_asked_for_besides(fleet: Fleet, plane: ControlPlane, prefix: str, tmp_path: Path) -> None:
    """Approvals that are not believed too early and do not outlive what they were for; wishes; a deletion that is overdue."""
    fleet.cluster("beta", kubeconfig(plane))
    names = [f"{prefix}-{name}" for name in ("early", "wished", "overdue")]
    early, wished, overdue = fleet.machines(names, plane, cluster="beta")
    early.tell_node({MAY_DELETE: "true", MAY_MEND: "true"})
    flags = ("--approval-hygiene", "--workload-requests", "--deletion-approval-timeout=4s")
    with ClusterApiOperator(plane, tmp_path, *flags):
        overdue.await_hook()
        since = plane.audit.mark()
        overdue.delete()
        overdue.await_told(DELETED)
        early.await_hook()
        wished.tell_node({WISHED: "true"})
        wished.await_request("requested")
        assert wished.notes()[REQUESTED_BY] == "workload"
        wished.tell_node({WISHED: None})
        wished.await_request(None)
        assert REQUESTED_BY not in wished.notes()
        # A request of another client is not withdrawn, and an approved one stays.
        early.label(**{REQUEST: "requested"})
        early.await_request("approved")
        early.label(**{REQUEST: None})
        early.await_told()
        assert MAY_MEND not in early.node()
        early.delete()
        early.await_hook(there=False)
        overdue.await_hook(there=False)
        overdue.await_event("DeletionApprovalTimeout")
        of_it = [each for each in plane.audit.entries(since=since, what="machines") if each.name == overdue.name]
        asked_at, let_go_at = (
            next(each.received_at for each in of_it if each.verb == verb) for verb in ("delete", "patch")
        )
        # The server counts the seconds of a deletion in whole ones.
        assert let_go_at - asked_at > timedelta(seconds=3)
        overdue.label(again="true")
        wished.tell_node({WISHED: "true"})
        wished.await_request("requested")
        assert not overdue.hooked
    with ClusterApiOperator(plane, tmp_path):
        # Seen and written by this one.
        wished.label(**{REQUEST: None})
        wished.await_told()
        assert not overdue.hooked, "it was let go, whatever the time-out is now"


def test_what_is_left_behind_is_cleared_away(
    fleet: Fleet, plane: ControlPlane, managed_plane: ControlPlane, prefix: str, tmp_path: Path
) -> None:
    """Nodes that are gone, and Machines that were disabled while the operator was down."""
    named = [f"{prefix}-{name}" for name in ("node-gone", "kept", "let-go", "marked")]
    gone, kept, let_go, marked = fleet.machines(named, managed_plane, annotations={HOOK: ORIGINAL})
    for machine in (let_go, marked):
        machine.tell_node({MAINTENANCE: "true"})
        machine.label(**{ENABLED: None})
    marked.patch({"annotations": {HOOK: None, CLEANUP: f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"}})
    for machine in (gone, kept):
        managed_plane.api().delete("nodes", machine.name)
    gone.delete()
    with ClusterApiOperator(plane, tmp_path) as operator:
        gone.await_hook(there=False)
        gone.await_event("NodeNotFound")
        for machine in (let_go, marked):
            machine.await_told()
            eventually(lambda machine=machine: not machine.notes().keys() & {HOOK, CLEANUP}, "it is forgotten")  # type: ignore[misc]
        # Whose Machine is not being deleted may come back.
        assert kept.hooked
        managed_plane.load([node_object(kept.name, labels={MAY_DELETE: "true"})])
        kept.await_hook(there=False)
        assert operator.metric('controller_runtime_reconcile_errors_total{controller="machine"}') == 0
