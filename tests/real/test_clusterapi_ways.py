"""Connections to workload clusters: many, with equal names, other credentials, and servers that hang or are gone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.rig.api import Api, ApiError
from tests.rig.clusterapi import (
    CLEANUP,
    DELETED,
    ENABLED,
    HOOK,
    MACHINES,
    MAINTENANCE,
    MAY_DELETE,
    MAY_MEND,
    REQUEST,
    ClusterApiOperator,
    Fleet,
    Machine,
    define_all,
    kubeconfig,
    machine_object,
    node_object,
    secret_object,
)
from tests.rig.forwarder import Forwarder
from tests.rig.plane import ControlPlane
from tests.rig.process import free_port
from tests.rig.wait import eventually

pytestmark = pytest.mark.tools("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")

READ = ("get", "list", "watch")


@pytest.fixture
def fleet(plane: ControlPlane, managed_plane: ControlPlane, prefix: str) -> Iterator[Fleet]:
    define_all(plane.api())
    plane.api().create("namespaces", {"metadata": {"name": prefix}})
    yield Fleet(plane, prefix)
    plane.wipe(prefix)
    managed_plane.wipe(prefix)


class Account:
    """Credentials that can be revoked: the token of a service account with rights on nodes alone."""

    def __init__(self, plane: ControlPlane, ns: str, name: str, *verbs: str) -> None:
        self.plane = plane
        self.place = (name, ns)
        api, role = plane.api(), "rbac.authorization.k8s.io/v1/clusterrole"
        if api.find("namespaces", ns) is None:
            api.create("namespaces", {"metadata": {"name": ns}})
        api.create("serviceaccounts", {"metadata": {"name": name}}, ns)
        full = f"{ns}-{name}"
        api.create(
            f"{role}s",
            {"metadata": {"name": full}, "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": verbs}]},
        )
        binding = {
            "metadata": {"name": full},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": full},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": ns}],
        }
        api.create(f"{role}bindings", binding)
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        path = f"/api/v1/namespaces/{ns}/serviceaccounts/{name}/token"
        self.token: str = api.request("POST", path, request)["status"]["token"]

    def revoke(self) -> None:
        """Revoke the token, and wait until the server refuses it, which caches tokens for some seconds."""
        self.plane.api().delete("serviceaccounts", *self.place)
        bearer = Api(self.plane.server, self.token, ca=self.plane.ca)
        eventually(lambda: self._is_refused(bearer), "the token is refused")
        bearer.close()

    @staticmethod
    def _is_refused(bearer: Api) -> bool:
        try:
            bearer.items("nodes")
        except ApiError as error:
            return error.code == 401
        return False


def test_credentials_change_under_way(
    fleet: Fleet, plane: ControlPlane, managed_plane: ControlPlane, prefix: str, tmp_path: Path
) -> None:
    account, api, secret = Account(managed_plane, prefix, "first", *READ, "patch"), plane.api(), "alpha-kubeconfig"
    good = kubeconfig(managed_plane, token=account.token)
    fleet.cluster("alpha", good)
    one, two, three = fleet.machines([f"{prefix}-{number}" for number in range(3)], managed_plane)
    with ClusterApiOperator(plane, tmp_path) as operator, Forwarder(managed_plane.server) as way:
        for machine in (one, two, three):
            machine.await_hook()
        # Others that cannot be used hurt nothing that works: what is said meanwhile is heard.
        fleet.cluster("alpha", "no kubeconfig")
        one.await_event("KubeconfigUnavailable")
        one.label(**{REQUEST: "requested"})
        one.await_told(MAINTENANCE)
        fleet.cluster("alpha", kubeconfig(managed_plane, user={"exec": {"command": "/bin/true", "apiVersion": "v1"}}))
        one.await_event("KubeconfigRejected")
        fleet.cluster("alpha", kubeconfig(managed_plane, server=f"https://127.0.0.1:{free_port()}"))
        one.await_event("WorkloadClusterUnreachable")
        fleet.cluster("alpha", kubeconfig(managed_plane, token=managed_plane.token("limited-63")))
        nowhere = operator.logged
        eventually(
            lambda: any(line["code"] == "unreadable" for line in nowhere("the new access does not work yet")), "403"
        )
        one.label(**{REQUEST: "no-more"})
        one.await_told()
        assert operator.connected(prefix, "alpha")
        # What was there before comes back: it was never left.
        fleet.cluster("alpha", good)
        api.patch("secrets", secret, {"data": {"value": None, "other": "eA=="}}, prefix)
        two.delete()
        two.await_told(DELETED)
        api.delete("secrets", secret, prefix)
        two.tell_node({MAY_DELETE: "true"})
        two.await_hook(there=False)
        assert operator.connected(prefix, "alpha")
        assert operator.reconnects(prefix, "alpha", "rotated") == 0
        # Another way with other credentials is taken as soon as it is written.
        fleet.cluster("alpha", kubeconfig(managed_plane, server=way.url, token=account.token))
        eventually(lambda: operator.reconnects(prefix, "alpha", "rotated") == 1, "the new way is taken")
        assert way.connections > 0
        # Refused in the middle: the watch goes on, a write finds out, and the next Secret mends it.
        account.revoke()
        three.delete()
        eventually(lambda: operator.logged("write failed"), "the write is refused")
        assert (three.told(), three.hooked) == (set(), True)
        fleet.cluster("alpha", kubeconfig(managed_plane))
        three.await_told(DELETED)
        eventually(lambda: way.connections == 0, "the old way is left")
        eventually(lambda: operator.connected(prefix, "alpha"), "it is connected")
        # An operator that may read but not write reports it in an event.
        reader = Account(managed_plane, prefix, "reader", *READ)
        fleet.cluster("alpha", kubeconfig(managed_plane, token=reader.token))
        eventually(lambda: operator.reconnects(prefix, "alpha", "rotated") == 3, "the reader's way is taken")
        one.label(**{REQUEST: "requested"})
        one.await_event("NodeUpdateRefused")
        assert one.told() == set()


def test_equal_names_in_two_namespaces(
    fleet: Fleet, plane: ControlPlane, managed_plane: ControlPlane, prefix: str, tmp_path: Path
) -> None:
    """A Node also claims to belong to the other cluster, which is ignored."""
    plane.api().create("namespaces", {"metadata": {"name": f"{prefix}-b"}})
    other = Fleet(plane, f"{prefix}-b")
    for each, workload in ((fleet, managed_plane), (other, plane)):
        each.cluster("alpha", kubeconfig(workload))
    near = fleet.machine(f"{prefix}-same", managed_plane)
    far = other.machine(f"{prefix}-same", plane)
    with ClusterApiOperator(plane, tmp_path) as operator:
        for machine in (near, far):
            machine.await_hook()
        near.delete()
        near.await_told(DELETED)
        far.tell_node({MAY_DELETE: "true"})
        far.await_hook(there=False)
        assert (near.hooked, far.told()) == (True, set())
        near.tell_node({MAY_DELETE: "true"})
        near.await_hook(there=False)
        assert operator.connected(prefix, "alpha")
        assert operator.connected(f"{prefix}-b", "alpha")


def test_clusters_come_and_go_without_a_trace(
    fleet: Fleet, plane: ControlPlane, managed_plane: ControlPlane, prefix: str, tmp_path: Path
) -> None:
    names = [f"{prefix}-{number}" for number in range(5)]
    with (
        Forwarder(managed_plane.server) as one,
        Forwarder(managed_plane.server) as other,
        ClusterApiOperator(plane, tmp_path) as operator,
    ):
        for name in names:
            fleet.cluster(name, kubeconfig(managed_plane, server=one.url))
        machines = [fleet.machine(name, managed_plane, cluster=name) for name in names]
        for machine in machines:
            machine.await_hook()
        before = operator.handles()
        for enabled in [None, "true"] * 3:
            for machine in machines:
                machine.label(**{ENABLED: enabled})
            for machine in machines:
                machine.await_hook(there=enabled is not None)
        for new, old in [(other, one), (one, other)] * 2:
            for name in names:
                fleet.cluster(name, kubeconfig(managed_plane, server=new.url))
            eventually(lambda old=old: old.connections == 0, "the old ways are left")  # type: ignore[misc]
        # Beside a few that are kept for what is written next.
        assert operator.handles() <= before + 10
        for machine in machines:
            machine.purge()
        eventually(lambda: one.connections == other.connections == 0, "nothing is left")
        assert operator.handles() < before


CLUSTERS, DEAD = 200, 20


def test_two_hundred_clusters_some_of_them_dead(
    fleet: Fleet, plane: ControlPlane, managed_plane: ControlPlane, prefix: str, tmp_path: Path
) -> None:
    """Live clusters are served as if there were no dead ones.

    When no Machine names a dead one any more, nothing of it is left.
    """
    planes = (plane, managed_plane)
    names = [f"{prefix}-{number:03}" for number in range(CLUSTERS)]
    dead, living = names[:DEAD], names[DEAD:]
    homes = {name: planes[number % 2] for number, name in enumerate(names)}
    with ExitStack() as stack:
        hole, *doors = (stack.enter_context(Forwarder(made.server)) for made in (plane, *planes))
        hole.freeze()
        ways = {made: door.url for made, door in zip(planes, doors, strict=True)}
        # Half of the dead refuse, half take connections and say nothing.
        silent, absent = hole.url, f"https://127.0.0.1:{free_port()}"
        servers = {name: ways[homes[name]] for name in living}
        servers |= {name: (silent, absent)[number % 2] for number, name in enumerate(dead)}
        for made in planes:
            made.load(node_object(name, of=f"{prefix}/{name}") for name in names if homes[name] is made)
        plane.load(secret_object(name, prefix, kubeconfig(homes[name], server=servers[name])) for name in names)
        plane.load(machine_object(name, prefix, cluster=name, node=name) for name in names)
        machines = {name: Machine(name, prefix, plane.api(), homes[name].api()) for name in names}
        operator = stack.enter_context(ClusterApiOperator(plane, tmp_path))
        eventually(lambda: hooked(fleet) == set(living), "the living have their hooks")
        last = machines[living[-1]]
        last.delete()
        last.await_told(DELETED)
        last.tell_node({MAY_DELETE: "true"})
        last.await_hook(there=False)
        assert operator.ready()
        gauges = [line for line in operator.get("/metrics")[1].splitlines() if "cluster_connected{" in line]
        assert sum(float(line.rsplit(" ", 1)[1]) for line in gauges) == len(living)
        machines[dead[0]].await_event("WorkloadClusterUnreachable")
        # One of the dead has come to life elsewhere.
        fleet.cluster(dead[0], kubeconfig(homes[dead[0]], server=ways[homes[dead[0]]]))
        machines[dead[0]].await_hook()
        for name in (dead[0], *living):
            machines[name].label(**{ENABLED: None})
        eventually(lambda: hooked(fleet) == set(), "the hooks are gone")
        for name in dead[1:]:
            machines[name].purge()
        hole.thaw()
        for door in (hole, *doors):
            eventually(lambda door=door: door.connections == 0, "nothing is left")  # type: ignore[misc]


def hooked(fleet: Fleet) -> set[str]:
    found = [each["metadata"] for each in fleet.api.items(MACHINES, fleet.ns)]
    return {about["name"] for about in found if HOOK in about.get("annotations", {})}


class Cut:
    """A workload cluster behind a connection that fails, and three Machines in it."""

    def __init__(self, fleet: Fleet, workload: ControlPlane, way: Forwarder, fate: str) -> None:
        self.fate = fate
        self.way = way
        fleet.cluster(fate, kubeconfig(workload, server=way.url))
        names = [f"{fleet.ns}-{fate}-{number}" for number in range(3)]
        self.mended, self.deleted, self.disabled = fleet.machines(names, workload, cluster=fate)

    def begin(self) -> None:
        for machine in (self.mended, self.deleted, self.disabled):
            machine.await_hook()
        for machine in (self.mended, self.disabled):
            machine.label(**{REQUEST: "requested"})
            machine.await_told(MAINTENANCE)

    def speak(self) -> None:
        """Approve a maintenance in the workload cluster while the operator cannot reach it."""
        self.mended.tell_node({MAY_MEND: "true"})

    def disable(self) -> None:
        """Disable a Machine. It does not wait for a Node that cannot be written, which is remembered."""
        self.disabled.label(**{ENABLED: None})
        eventually(lambda: CLEANUP in self.disabled.notes(), "it is remembered")
        assert not self.disabled.hooked
        assert self.disabled.told() == {MAINTENANCE}

    def await_heard(self) -> None:
        self.mended.await_request("approved")
        self.deleted.await_told(DELETED)

    def await_clean(self) -> None:
        self.disabled.await_told()
        eventually(lambda: CLEANUP not in self.disabled.notes(), "the mark is gone")


def test_servers_that_are_gone_hang_or_forget(
    fleet: Fleet, plane: ControlPlane, managed_plane: ControlPlane, prefix: str, tmp_path: Path
) -> None:
    """Ways fail at once, each in its own manner, while signals are given; afterwards all have arrived."""
    with ExitStack() as stack:
        gone, moved, hangs, forgets, left = every = [
            Cut(fleet, managed_plane, stack.enter_context(Forwarder(managed_plane.server)), fate)
            for fate in ("gone", "moved", "hangs", "forgets", "left")
        ]
        fleet.cluster("fine", kubeconfig(managed_plane))
        operator = stack.enter_context(ClusterApiOperator(plane, tmp_path))
        for each in every:
            each.begin()
        gone.way.refuse()
        moved.way.refuse()
        hangs.way.freeze()
        forgets.way.forget()
        for each in (gone, moved, hangs, forgets):
            each.speak()
        for each in (gone, moved, hangs):
            each.deleted.delete()
        # All Machines of a cluster are gone, and its Nodes stay, among them one that belongs to another cluster.
        foreign = f"{prefix}-foreign"
        managed_plane.load([node_object(foreign, labels={DELETED: "true"}, of="else/left")])
        for machine in (left.mended, left.deleted, left.disabled):
            machine.purge()
        # No other cluster is affected, and the one that is gone is reported.
        fine = fleet.machine(f"{prefix}-fine", managed_plane, cluster="fine")
        fine.await_hook()
        for each in (gone, moved, hangs):
            each.disable()
        gone.mended.await_event("WorkloadClusterUnreachable")
        for each in (gone, moved, hangs):
            assert (each.deleted.hooked, each.mended.request) == (True, "requested")
        assert (operator.connected(prefix, "gone"), operator.ready()) == (False, True)
        # It is found where another kubeconfig says that it is, without waiting for anything.
        fleet.cluster("moved", kubeconfig(managed_plane))
        moved.await_heard()
        moved.await_clean()
        gone.way.accept()
        gone.await_heard()
        gone.await_clean()
        eventually(lambda: operator.connected(prefix, "gone"), "it is connected")
        assert operator.reconnects(prefix, "gone", "network") >= 1
        assert operator.reconnects(prefix, "moved", "rotated") == 1
        # The marks on Nodes without a Machine are removed, and then the connection is closed.
        left.mended.await_told()
        left.disabled.await_told()
        assert DELETED in managed_plane.api().get("nodes", foreign)["metadata"]["labels"]
        eventually(lambda: left.way.connections == 0, "the connection is closed")
        # A connection that has died silently is noticed, although no write uses it.
        forgets.mended.await_request("approved")
        forgets.deleted.delete()
        forgets.await_heard()
        hangs.way.thaw()
        hangs.await_heard()
        hangs.await_clean()
