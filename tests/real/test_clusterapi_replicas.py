"""Two replicas of the operator and the original's Lease: one writes at a time, on either side."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.rig.api import LEASES
from tests.rig.clusterapi import (
    DELETED,
    MAINTENANCE,
    MAY_DELETE,
    MAY_MEND,
    ORIGINAL,
    REQUEST,
    ClusterApiOperator,
    Fleet,
    define_all,
    kubeconfig,
)
from tests.rig.operator import Platform
from tests.rig.plane import ControlPlane
from tests.rig.rights import grant
from tests.rig.wait import eventually

pytestmark = pytest.mark.tools("etcd", "kube-apiserver")


def leads(operator: ClusterApiOperator) -> bool:
    return operator.metric("haulout_leader") == 1


def holder_of(plane: ControlPlane, ns: str) -> str:
    lease = plane.api().find(LEASES, ORIGINAL, ns)
    return str(lease["spec"].get("holderIdentity", "")) if lease else ""


def writers(plane: ControlPlane, act: str, since: int) -> list[str]:
    """Return the users that wrote, one after another, except for the test."""
    return [entry.user for entry in plane.audit.entries(since=since) if entry.act == act and entry.user != "test"]


def test_one_acts_and_the_other_takes_over(
    plane: ControlPlane, managed_plane: ControlPlane, prefix: str, tmp_path: Path
) -> None:
    define_all(plane.api())
    plane.api().create("namespaces", {"metadata": {"name": prefix}})
    fleet = Fleet(plane, prefix)
    fleet.cluster("alpha", kubeconfig(managed_plane))
    one, two = fleet.machines([f"{prefix}-1", f"{prefix}-2"], managed_plane)
    elects = ("--leader-elect", f"--leader-election-namespace={prefix}")
    first, second = (
        ClusterApiOperator(plane, tmp_path / user, *elects, user=user, name=user) for user in ("operator", "operator-b")
    )
    home, away = plane.audit.mark(), managed_plane.audit.mark()
    with first:
        eventually(lambda: leads(first), "the first leads")
        for machine in (one, two):
            machine.await_hook()
        with second:
            eventually(second.ready, "the second stands by")
            first.process.freeze()
            eventually(lambda: leads(second), "the second leads")
            # Asked of the first alone, which does not know yet that it leads no more.
            second.process.freeze()
            one.label(**{REQUEST: "requested"})
            first.process.thaw()
            assert first.process.wait() == 1
            assert one.told() == set()
            second.process.thaw()
            one.await_told(MAINTENANCE)
            one.tell_node({MAY_MEND: "true"})
            one.await_request("approved")
            # Given back, the lease is taken at once.
            first.start()
            eventually(first.ready, "the first stands by")
            second_holder = holder_of(plane, prefix)
            two.delete()
            two.await_told(DELETED)
            second.process.send(signal.SIGTERM)
            assert second.process.wait() == 0
            assert holder_of(plane, prefix) != second_holder, "it is given back"
            eventually(lambda: leads(first), "the first leads again")
            two.tell_node({MAY_DELETE: "true"})
            two.await_hook(there=False)
    hooks, approval, release = ["operator", "operator"], ["operator-b"], ["operator"]
    assert writers(plane, "patch machines", home) == hooks + approval + release
    assert writers(managed_plane, "patch nodes", away) == ["operator-b"] * 2, "each node was told once"
    lease = plane.api().get(LEASES, ORIGINAL, prefix)["spec"]
    assert (lease.get("holderIdentity", ""), lease["leaseTransitions"]) == ("", 2)
    plane.wipe(prefix)
    managed_plane.wipe(prefix)


def test_the_printed_roles_let_it_hold_the_lease_of_its_original(
    plane: ControlPlane, prefix: str, tmp_path: Path
) -> None:
    define_all(plane.api())
    plane.api().create("namespaces", {"metadata": {"name": prefix}})
    user = grant(plane, prefix, "kernel", "clusterapi", "-n", prefix, "--original-lease", prefix).user
    surfaces = f"{{clusterapi: {{lease: {{namespace: {prefix}}}}}}}"

    with Platform(plane, tmp_path, "", "leader: {elect: false}", surfaces=surfaces, user=user):
        eventually(lambda: holder_of(plane, prefix), "it holds the Lease")
    assert holder_of(plane, prefix) == ""
