"""The bridge between Machines and Nodes: what passes from one cluster to the other, with hosts and without."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rig.clusterapi import (
    DELETED,
    HOOK,
    MAINTENANCE,
    MAY_MEND,
    REQUEST,
    STATE,
    Bridge,
    Fleet,
    cluster_api,
    define_all,
    kubeconfig,
)
from tests.rig.fleet import pod_object
from tests.rig.operator import MaintenanceController
from tests.rig.plane import ControlPlane
from tests.rig.wait import eventually

pytestmark = pytest.mark.tools("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")

METAL3 = "--enable-metal3-maintenance"
PROFILE = "cloud.sap/maintenance-profile"

# Whoever looks after the workload cluster: one node at a time is emptied and given away, or mended and taken back.
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
  - {{type: alterLabel, name: ok_delete, config: {{key: {DELETED.replace("machine-deleted", "approve-deletion")}, value: "true"}}}}
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
    """In a namespace of the management cluster; the workload cluster `alpha` is another API server."""
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
        Bridge(plane, tmp_path / "bridge", METAL3) as bridge,
        MaintenanceController(managed_plane, tmp_path / "profiles", WORKLOAD, name="profiles"),
        cluster_api(fleet, managed_plane.api()) as ended,
    ):
        # Not before somebody looks after the nodes.
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
        assert deleted.events() >= {"PreDrainHookAdded", "DeletionAnnounced", "PreDrainHookRemoved"}
        series = "maintenance_capi_approval_seconds_count"
        assert [bridge.metric(f'{series}{{flow="{flow}"}}') for flow in ("deletion", "maintenance")] == [1, 1]
        assert managed_plane.api().items("pods", prefix) == []
    # Hook and approval of the one, hook and its end of the other; the host off and on; three labels of Nodes.
    home = plane.audit.counts(since=since[plane], user="operator")
    away = managed_plane.audit.counts(since=since[managed_plane], user="operator-b")
    assert (home["patch machines"], home["patch baremetalhosts"], home["get baremetalhosts"]) == (4, 2, 0)
    assert away["patch nodes"] == 3
    assert {act for act in home if act.startswith(("update ", "delete "))} == set()
