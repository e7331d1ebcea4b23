"""Machines, their Nodes, hosts and kubeconfigs on the wire: names, objects and rows."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from haulout.base.bounds import LARGE
from haulout.base.yaml import FOREIGN
from haulout.cluster.key import Key
from haulout.cluster.limits import Count, Group, Membership
from haulout.cluster.project import Keep, Resource
from haulout.cluster.rows import NodeRow, ObjectRow, Row
from haulout.cluster.store import Index
from haulout.model.meta import ObjectMeta

SURFACE = "clusterapi"
ORIGINAL = "runtime-extension-maintenance-controller"
PREFIX = f"{ORIGINAL}.cloud.sap/"
GROUP = "cluster.x-k8s.io"

# Labels and annotations on Machines.
ENABLED = f"{PREFIX}enabled"
REQUEST = f"{PREFIX}maintenance"
REQUESTED, APPROVED = "requested", "approved"
HOOK = f"pre-drain.delete.hook.machine.{GROUP}/maintenance-controller"
PAUSED = f"{GROUP}/paused"
SKIP_REMEDIATION = f"{GROUP}/skip-remediation"
SKIP_OWNED = f"{PREFIX}skip-remediation-owned"
REQUESTED_BY = f"{PREFIX}requested-by"
BY_WORKLOAD = "workload"
REBOOT_MODE = f"{PREFIX}reboot-mode"
CLEANUP = "haulout.dev/node-cleanup"
# An annotation with the deletion time of a Machine whose deletion continues without approval.
LET_GO = "haulout.dev/deletion-timeout"
CLUSTER_LABEL = f"{GROUP}/cluster-name"

# Labels and annotations on Nodes.
STATE = "cloud.sap/maintenance-state"
DELETED = f"{PREFIX}machine-deleted"
MAINTENANCE = f"{PREFIX}machine-maintenance"
DELETION_APPROVED = f"{PREFIX}approve-deletion"
MAINTENANCE_APPROVED = f"{PREFIX}approve-maintenance"
MAINTENANCE_WISHED = f"{PREFIX}request-maintenance"
NODE_NAMESPACE, NODE_CLUSTER, NODE_MACHINE = f"{GROUP}/cluster-namespace", f"{GROUP}/cluster-name", f"{GROUP}/machine"

# Labels and annotations on hosts and Secrets.
REBOOT = f"reboot.metal3.io/{ORIGINAL}"
LIMITED = f"{PREFIX}kubeconfig"

MACHINE, CLUSTER, HOST, SECRET, LIMITED_SECRET = "Machine", "Cluster", "BareMetalHost", "Secret", "LimitedKubeconfig"


class Access(Struct, frozen=True):
    """The access to a workload cluster: a kubeconfig, and where it comes from.

    Its `repr` does not show the kubeconfig.
    """

    source: str
    kubeconfig: bytes
    allow_exec: bool = False
    server_ranges: tuple[str, ...] = ()
    allow_http: bool = False

    def __repr__(self) -> str:
        return f"Access({self.source!r})"


class Workload(NamedTuple):
    """A workload cluster. The same name in different namespaces means different clusters."""

    namespace: str
    name: str

    @property
    def cluster(self) -> str:
        """The name of the cluster in keys. It is unambiguous, because no name in Kubernetes contains a slash."""
        return f"{self.namespace}/{self.name}"


def workload_of(cluster: str) -> Workload:
    namespace, _, name = cluster.partition("/")
    return Workload(namespace, name)


class _NodeRef(Struct, frozen=True):
    name: str = ""


class _InfrastructureRef(Struct, frozen=True):
    name: str = ""


class _MachineSpec(Struct, frozen=True, rename="camel"):
    cluster_name: str = ""
    infrastructure_ref: _InfrastructureRef | None = None
    provider_id: str | None = msgspec.field(default=None, name="providerID")


class _MachineStatus(Struct, frozen=True, rename="camel"):
    node_ref: _NodeRef | None = None


class Machine(Struct, frozen=True):
    """A Machine (cluster.x-k8s.io), in part: which cluster, Node and infrastructure object it belongs to."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _MachineSpec = _MachineSpec()
    status: _MachineStatus = _MachineStatus()


class Host(NamedTuple):
    """The BareMetalHost that a Metal3 provider ID names. `consumer`: the Metal3Machine in the ID, if any."""

    namespace: str
    name: str
    consumer: str


class MachineRow(ObjectRow, frozen=True, kw_only=True):
    """The row of a Machine.

    `cluster_name`: its workload cluster, in the Machine's namespace.
    `node`: the name of its Node there; empty before the Node has joined.
    `infrastructure`: the name of its infrastructure object, such as a Metal3Machine.
    """

    cluster_name: str = ""
    node: str = ""
    provider_id: str = ""
    infrastructure: str = ""

    @property
    def workload(self) -> Workload:
        return Workload(self.key.namespace, self.cluster_name)

    @property
    def enabled(self) -> bool:
        return self.labels.get(ENABLED) == "true"

    @property
    def request(self) -> str | None:
        return self.labels.get(REQUEST)

    @property
    def hooked(self) -> bool:
        """Whether the Machine has the pre-drain hook, with any value: Cluster API only looks at the key."""
        return HOOK in self.annotations

    @property
    def host(self) -> Host | None:
        """The Metal3 host in the provider ID.

        It is None for other providers, and for the former form with a UID: only `metal3://namespace/host[/machine]`
        names a host.
        """
        scheme, _, rest = self.provider_id.partition("/")
        parts = rest.split("/")
        if scheme != "metal3:" or len(parts) < 3:
            return None
        return Host(parts[1], parts[2], parts[3] if len(parts) > 3 else "")


def _machine(obj: Machine, common: dict[str, Any]) -> MachineRow:
    node = obj.status.node_ref
    return MachineRow(
        **common,
        cluster_name=obj.spec.cluster_name,
        node=node.name if node else "",
        provider_id=obj.spec.provider_id or "",
        infrastructure=obj.spec.infrastructure_ref.name if obj.spec.infrastructure_ref else "",
    )


MACHINE_ANNOTATIONS = frozenset(
    {HOOK, PAUSED, SKIP_REMEDIATION, SKIP_OWNED, REQUESTED_BY, REBOOT_MODE, CLEANUP, LET_GO},
)
MACHINE_KEEP = Keep(MACHINE_ANNOTATIONS)
NODE_LABELS = frozenset({DELETED, MAINTENANCE, DELETION_APPROVED, MAINTENANCE_APPROVED, MAINTENANCE_WISHED, STATE})
NODE_KEEP = Keep(frozenset({NODE_NAMESPACE, NODE_CLUSTER, NODE_MACHINE}), only_labels=NODE_LABELS)
HOST_KEEP = Keep(frozenset({REBOOT}))


class _ClusterSpec(Struct, frozen=True):
    paused: bool | None = None


class Cluster(Struct, frozen=True):
    """A Cluster (cluster.x-k8s.io), in part: only whether it is paused."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _ClusterSpec = _ClusterSpec()


class ClusterRow(ObjectRow, frozen=True, kw_only=True):
    """The row of a Cluster: whether it is paused."""

    paused: bool = False


def _cluster(obj: Cluster, common: dict[str, Any]) -> ClusterRow:
    return ClusterRow(**common, paused=bool(obj.spec.paused))


class _Consumer(Struct, frozen=True):
    name: str = ""
    namespace: str = ""


class _HostSpec(Struct, frozen=True, rename="camel"):
    consumer_ref: _Consumer | None = None
    disable_power_off: bool | None = None


class BareMetalHost(Struct, frozen=True):
    """A BareMetalHost (metal3.io), in part: who uses it, and whether it may be powered off."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _HostSpec = _HostSpec()


class HostRow(ObjectRow, frozen=True, kw_only=True):
    """The row of a BareMetalHost.

    `consumer`, `consumer_namespace`: the object that uses the host, such as a Metal3Machine.
    `stays_on`: its spec forbids powering it off.
    """

    consumer: str = ""
    consumer_namespace: str = ""
    stays_on: bool = False


def _host(obj: BareMetalHost, common: dict[str, Any]) -> HostRow:
    consumer = obj.spec.consumer_ref or _Consumer()
    return HostRow(
        **common,
        consumer=consumer.name,
        consumer_namespace=consumer.namespace,
        stays_on=bool(obj.spec.disable_power_off),
    )


class _Data(Struct, frozen=True):
    value: str | None = None


class Secret(Struct, frozen=True):
    """A Secret (core v1), in part: only the key `value`, under which Cluster API stores a kubeconfig."""

    metadata: ObjectMeta = ObjectMeta()
    data: _Data | None = None


class SecretRow(ObjectRow, frozen=True, kw_only=True):
    """The row of a Secret with a kubeconfig.

    `value`: the data of the key `value`; None if there is no such key.
    """

    value: bytes | None = None

    def __repr__(self) -> str:
        return f"SecretRow({self.key})"


# The length of the base64 text of a kubeconfig that is slightly too long (see `haulout.base.yaml.FOREIGN`).
LONGEST_VALUE = 4 * (FOREIGN.size // 3 + 2)


def _secret(obj: Secret, common: dict[str, Any]) -> SecretRow:
    text = obj.data.value if obj.data else None
    if text is not None and len(text) > LONGEST_VALUE:
        # Enough is kept to detect that it is too long. To decode all of it at every change would take milliseconds.
        text = text[:LONGEST_VALUE]
    try:
        value = base64.b64decode(text, validate=True) if text is not None else None
    except (binascii.Error, ValueError):
        value = None
    return SecretRow(**common, value=value)


_CAPI = (f"/apis/{GROUP}/v1beta2", f"/apis/{GROUP}/v1beta1")
OWN_KINDS = (
    Resource(MACHINE, _CAPI[0], "machines", True, Machine, _machine, versions=_CAPI),
    Resource(CLUSTER, _CAPI[0], "clusters", True, Cluster, _cluster, versions=_CAPI, optional=True),
    Resource(
        HOST,
        "/apis/metal3.io/v1alpha1",
        "baremetalhosts",
        True,
        BareMetalHost,
        _host,
        versions=("/apis/metal3.io/v1alpha1",),
    ),
    Resource(SECRET, "/api/v1", "secrets", True, Secret, _secret, bounds=LARGE),
    Resource(LIMITED_SECRET, "/api/v1", "secrets", True, Secret, _secret, labels=f"{LIMITED}=true", bounds=LARGE),
)


def _of_node(row: Row) -> Iterable[Hashable]:
    known = isinstance(row, MachineRow) and row.node
    return ((row.workload, row.node),) if known and isinstance(row, MachineRow) else ()


def _of_host(row: Row) -> Iterable[Hashable]:
    host = row.host if isinstance(row, MachineRow) else None
    return ((host.namespace, host.name),) if host else ()


def _labelled(row: Row) -> Iterable[Hashable]:
    return (True,) if isinstance(row, NodeRow) and (DELETED in row.labels or MAINTENANCE in row.labels) else ()


def _limited(row: Row) -> Iterable[Hashable]:
    if isinstance(row, SecretRow) and (name := row.labels.get(CLUSTER_LABEL)):
        return (Workload(row.key.namespace, name),)
    return ()


MACHINES_OF_NODE = Index("machines-of-node", MACHINE, _of_node)
MACHINES_OF_HOST = Index("machines-of-host", MACHINE, _of_host)
LABELLED_NODES = Index("nodes-with-signals", "Node", _labelled)
LIMITED_KUBECONFIGS = Index("limited-kubeconfigs", LIMITED_SECRET, _limited)


class ConnectedMachines(Count, frozen=True):
    """The count of Machines that need the connection to a workload cluster, including those that still clean up."""

    @property
    def kind(self) -> str:
        return MACHINE

    def groups(self, row: Row) -> Iterable[Membership]:
        connected = isinstance(row, MachineRow) and (row.enabled or CLEANUP in row.annotations)
        return (Membership(row.workload),) if connected and isinstance(row, MachineRow) else ()

    def describe(self, group: Group) -> str:
        return "connected Machines"


CONNECTED_MACHINES = ConnectedMachines()


def machine_key(namespace: str, name: str) -> Key:
    return Key("", MACHINE, namespace, name)


def is_labelled_machine(machine: Mapping[str, Any]) -> bool:
    """Whether a Machine, as the API returns it, has a label of the original's prefix, whatever the label says.

    A Machine with `enabled: "True"` is not enabled. A support archive has it all the same, because it shows why.
    """
    return any(name.startswith(f"{ORIGINAL}.") for name in machine["metadata"].get("labels") or {})
