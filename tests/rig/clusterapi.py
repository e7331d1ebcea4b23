"""A stand-in for Cluster API and Metal3: their definitions, their objects, and the few things that they do."""

from __future__ import annotations

import base64
import json
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.rig.api import CRDS, Api, ApiError, Json
from tests.rig.fleet import now
from tests.rig.operator import HAULOUT, JSON_LOG, Operator, environment
from tests.rig.plane import Cluster, ControlPlane
from tests.rig.process import Process
from tests.rig.wait import PATIENCE, eventually

ORIGINAL = "runtime-extension-maintenance-controller"
OWN = f"{ORIGINAL}.cloud.sap/"
ENABLED, REQUEST, REQUESTED_BY = f"{OWN}enabled", f"{OWN}maintenance", f"{OWN}requested-by"
DELETED, MAINTENANCE = f"{OWN}machine-deleted", f"{OWN}machine-maintenance"
MAY_DELETE, MAY_MEND, WISHED = f"{OWN}approve-deletion", f"{OWN}approve-maintenance", f"{OWN}request-maintenance"
STATE = "cloud.sap/maintenance-state"
CAPI = "cluster.x-k8s.io"
PAUSED = f"{CAPI}/paused"
PRE_DRAIN = f"pre-drain.delete.hook.machine.{CAPI}"
HOOK = f"{PRE_DRAIN}/maintenance-controller"
FINALIZER = f"machine.{CAPI}"
REBOOT = f"reboot.metal3.io/{ORIGINAL}"
CLEANUP = "haulout.dev/node-cleanup"

MACHINES, OLD_MACHINES = f"{CAPI}/v1beta2/machines", f"{CAPI}/v1beta1/machines"
CLUSTERS = f"{CAPI}/v1beta2/clusters"
HOSTS = "metal3.io/v1alpha1/baremetalhosts"

# The rights that the original's chart gives, with Metal3. There is nothing about Clusters.
CHART_RULES: list[Json] = [
    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": [CAPI], "resources": ["machines"], "verbs": ["get", "list", "patch", "update", "watch"]},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch", "update"]},
    {
        "apiGroups": ["metal3.io"],
        "resources": ["baremetalhosts"],
        "verbs": ["get", "list", "patch", "update", "watch"],
    },
]


# Definitions


def free(**properties: Json) -> Json:
    """Return a schema that knows only these fields and keeps all others."""
    return {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": properties}


TEXT: Json = {"type": "string", "minLength": 1}
SCHEMAS: dict[str, Json] = {
    "Machine": {
        "spec": {
            **free(clusterName=TEXT, providerID=TEXT, bootstrap=free(), infrastructureRef=free()),
            "required": ["clusterName", "bootstrap", "infrastructureRef"],
        },
        "status": {**free(nodeRef={**free(name=TEXT), "required": ["name"]}), "minProperties": 1},
    },
    "Cluster": {"spec": free(paused={"type": "boolean"}), "status": free()},
    "BareMetalHost": {"spec": {**free(online={"type": "boolean"}), "required": ["online"]}, "status": free()},
}


def definition(group: str, kind: str, *versions: str, stored: str = "") -> Json:
    """Return a definition. The last of its versions is stored unless another is named."""
    plural = f"{kind.lower()}s"
    schema = {"openAPIV3Schema": {"type": "object", "properties": SCHEMAS[kind]}}
    each = [
        {
            "name": version,
            "served": version in versions,
            "storage": version == (stored or versions[-1]),
            "subresources": {"status": {}},
            "schema": schema,
        }
        for version in dict.fromkeys((*versions, *([stored] if stored else [])))
    ]
    names = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
    return {
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": each},
    }


MACHINE_DEFINITION = definition(CAPI, "Machine", "v1beta1", "v1beta2")
CLUSTER_DEFINITION = definition(CAPI, "Cluster", "v1beta2")
HOST_DEFINITION = definition("metal3.io", "BareMetalHost", "v1alpha1")


def define(api: Api, *definitions: Json) -> None:
    """Create the definitions, and wait until every version of them is served."""
    for crd in definitions:
        name = crd["metadata"]["name"]
        if api.find(CRDS, name) is None:
            api.create(CRDS, crd)
        else:
            api.patch(CRDS, name, {"spec": crd["spec"]})
    for crd in definitions:
        spec = crd["spec"]
        for version in spec["versions"]:
            path = f"{spec['group']}/{version['name']}/{spec['names']['plural']}"
            await_served(api, path, bool(version["served"]))


def await_served(api: Api, resource: str, served: bool) -> None:
    """Wait until a resource is served. Its storage is not ready at once."""
    eventually(lambda: is_served(api, resource) is served, f"{resource}: {served}", refused=(ApiError,))


def is_served(api: Api, resource: str) -> bool:
    try:
        api.items(resource)
    except ApiError as error:
        if error.code == 404:
            return False
        raise
    return True


def undefine(api: Api, crd: Json) -> None:
    name = crd["metadata"]["name"]
    api.delete(CRDS, name)
    eventually(lambda: api.find(CRDS, name) is None, f"{name} is gone")


def define_all(api: Api) -> None:
    define(api, MACHINE_DEFINITION, CLUSTER_DEFINITION, HOST_DEFINITION)


# Objects, complete enough to be put straight into the storage


def meta(name: str, ns: str = "", **more: Any) -> Json:
    own = {"name": name, "uid": str(uuid.uuid4()), "creationTimestamp": now()}
    return {**own, **({"namespace": ns} if ns else {}), **{key: value for key, value in more.items() if value}}


def machine_object(
    name: str,
    ns: str,
    *,
    cluster: str = "alpha",
    node: str = "",
    provider: str = "",
    enabled: bool = True,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    version: str = "v1beta2",
) -> Json:
    own = {f"{CAPI}/cluster-name": cluster, **({ENABLED: "true"} if enabled else {}), **(labels or {})}
    reference = {"apiGroup": f"infrastructure.{CAPI}", "kind": "Metal3Machine", "name": name}
    spec = {"clusterName": cluster, "bootstrap": {"dataSecretName": "none"}, "infrastructureRef": reference}
    return {
        "apiVersion": f"{CAPI}/{version}",
        "kind": "Machine",
        "metadata": meta(name, ns, labels=own, annotations=dict(annotations or {}), finalizers=[FINALIZER]),
        "spec": {**spec, **({"providerID": provider} if provider else {})},
        **({"status": {"nodeRef": {"name": node}}} if node else {}),
    }


def node_object(
    name: str, *, state: str | None = "operational", labels: Mapping[str, str] | None = None, of: str = ""
) -> Json:
    """Return a small Node. `of`: the `namespace/cluster` that Cluster API would have noted on it."""
    own = {**({} if state is None else {STATE: state}), **(labels or {})}
    ns, _, cluster = of.partition("/")
    notes = {f"{CAPI}/cluster-namespace": ns, f"{CAPI}/cluster-name": cluster, f"{CAPI}/machine": name} if of else {}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta(name, labels=own, annotations=notes)}


def host_object(name: str, ns: str, *, annotations: Mapping[str, str] | None = None, **spec: Any) -> Json:
    return {
        "apiVersion": "metal3.io/v1alpha1",
        "kind": "BareMetalHost",
        "metadata": meta(name, ns, annotations=dict(annotations or {})),
        "spec": {"online": True, **spec},
    }


def kubeconfig(plane: ControlPlane, *, server: str = "", token: str = "", user: Json | None = None) -> str:
    """Return a kubeconfig for a Secret, which names no file of this machine."""
    authority = base64.b64encode(plane.ca.read_bytes()).decode()
    body = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "it",
        "clusters": [
            {"name": "it", "cluster": {"server": server or plane.server, "certificate-authority-data": authority}}
        ],
        "users": [{"name": "it", "user": user or {"token": token or plane.token("operator-b")}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
    }
    return json.dumps(body)


def secret_object(cluster: str, ns: str, text: str, *, key: str = "value") -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": meta(f"{cluster}-kubeconfig", ns),
        "type": f"{CAPI}/secret",
        "data": {key: base64.b64encode(text.encode()).decode()},
    }


# The operator


class ClusterApiOperator(Operator):
    """`haulout as runtime-extension-maintenance-controller`, without a lease."""

    def __init__(
        self,
        plane: Cluster,
        directory: Path,
        *flags: str,
        server: str | None = None,
        user: str = "operator",
        name: str = "clusterapi",
    ) -> None:
        super().__init__(directory, "")
        ports = (
            f"--metrics-bind-address=127.0.0.1:{self.port}",
            f"--health-probe-bind-address=127.0.0.1:{self.health_port}",
        )
        argv: list[str | Path] = [HAULOUT, "as", ORIGINAL, "--leader-elect=false", *ports, *JSON_LOG, *flags]
        env = environment(KUBECONFIG=str(plane.kubeconfig(user, server=server)))
        self.process = Process(name, argv, directory, env=env, cwd=directory)

    def connected(self, ns: str, cluster: str) -> bool:
        return self.metric(f'maintenance_capi_cluster_connected{{cluster="{cluster}",namespace="{ns}"}}') == 1

    def reconnects(self, ns: str, cluster: str, reason: str) -> float:
        labels = f'cluster="{cluster}",namespace="{ns}",reason="{reason}"'
        return self.metric(f"maintenance_capi_reconnects_total{{{labels}}}")

    def ready(self) -> bool:
        return self._get(self.health_port, "/readyz")[0] == 200

    def handles(self) -> int:
        """Return the number of open files of the process, connections among them."""
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))


# Objects as tests see them


class Machine:
    """A Machine and its Node, wherever each of them is."""

    def __init__(self, name: str, ns: str, home: Api, away: Api, *, machines: str = MACHINES) -> None:
        self.name = name
        self.ns = ns
        self.home = home
        self.away = away
        self.machines = machines

    def label(self, **labels: str | None) -> None:
        self.patch({"labels": labels})

    def patch(self, metadata: Json) -> None:
        self.home.patch(self.machines, self.name, {"metadata": metadata}, self.ns)

    def tell_node(self, labels: Mapping[str, str | None]) -> None:
        self.away.patch("nodes", self.name, {"metadata": {"labels": dict(labels)}})

    def delete(self) -> None:
        """Delete the Machine. Its finalizer keeps it."""
        self.home.delete(self.machines, self.name, self.ns)

    def purge(self) -> None:
        """Remove the Machine, as Cluster API does in the end."""
        self.patch({"finalizers": None})
        self.delete()

    def read(self) -> Json:
        return self.home.get(self.machines, self.name, self.ns)

    @property
    def hooked(self) -> bool:
        return self.notes().get(HOOK) == ORIGINAL

    @property
    def request(self) -> str | None:
        return self.labels().get(REQUEST)

    def labels(self) -> dict[str, str]:
        found: dict[str, str] = self.read()["metadata"].get("labels", {})
        return found

    def notes(self) -> dict[str, str]:
        found: dict[str, str] = self.read()["metadata"].get("annotations", {})
        return found

    def node(self) -> dict[str, str]:
        found: dict[str, str] = self.away.get("nodes", self.name)["metadata"].get("labels", {})
        return found

    def told(self) -> set[str]:
        """Return the labels that the operator has put on the Node."""
        return {DELETED, MAINTENANCE} & self.node().keys()

    def events(self) -> set[str]:
        found = self.home.items("events", self.ns, fieldSelector=f"involvedObject.name={self.name}")
        return {event["reason"] for event in found}

    def await_hook(self, *, there: bool = True, within: float = PATIENCE) -> None:
        eventually(lambda: self.hooked is there, f"{self.name}: hook {there}", within)

    def await_told(self, *names: str, within: float = PATIENCE) -> None:
        eventually(lambda: self.told() == set(names), f"Node {self.name} says {names}", within)

    def await_request(self, value: str | None, within: float = PATIENCE) -> None:
        eventually(lambda: self.request == value, f"{self.name} is {value}", within)

    def await_event(self, reason: str, within: float = PATIENCE) -> None:
        eventually(lambda: reason in self.events(), f"{self.name}: {reason}", within)


class Fleet:
    """The Machines of one namespace. Their Nodes have their names, in whatever cluster they are."""

    def __init__(self, plane: ControlPlane, ns: str) -> None:
        self.plane = plane
        self.api = plane.api()
        self.ns = ns

    def cluster(self, name: str, text: str) -> None:
        """Write the kubeconfig of a cluster, or overwrite it."""
        body = secret_object(name, self.ns, text)
        if self.api.find("secrets", f"{name}-kubeconfig", self.ns) is None:
            self.api.create("secrets", body, self.ns)
        else:
            self.api.patch("secrets", f"{name}-kubeconfig", {"data": body["data"]}, self.ns)

    def machine(
        self,
        name: str,
        workload: ControlPlane,
        *,
        cluster: str = "alpha",
        state: str | None = "operational",
        node_labels: Mapping[str, str] | None = None,
        **more: Any,
    ) -> Machine:
        """Create a Machine and its Node."""
        (made,) = self.machines([name], workload, cluster=cluster, state=state, node_labels=node_labels, **more)
        return made

    def machines(
        self,
        names: Sequence[str],
        workload: ControlPlane,
        *,
        cluster: str = "alpha",
        state: str | None = "operational",
        node_labels: Mapping[str, str] | None = None,
        version: str = "v1beta2",
        **more: Any,
    ) -> list[Machine]:
        of = f"{self.ns}/{cluster}"
        workload.load(node_object(name, state=state, labels=node_labels, of=of) for name in names)
        self.plane.load(
            machine_object(name, self.ns, cluster=cluster, node=name, version=version, **more) for name in names
        )
        resource = f"{CAPI}/{version}/machines"
        return [Machine(name, self.ns, self.api, workload.api(), machines=resource) for name in names]

    def host(self, name: str, *, annotations: Mapping[str, str] | None = None, **spec: Any) -> None:
        self.plane.load([host_object(name, self.ns, annotations=annotations, **spec)])

    def is_off(self, name: str) -> bool:
        return REBOOT in self.api.get(HOSTS, name, self.ns)["metadata"].get("annotations", {})

    def await_host(self, name: str, *, off: bool, within: float = PATIENCE) -> None:
        eventually(lambda: self.is_off(name) is off, f"host {name} off: {off}", within)


# What others do


@contextmanager
def cluster_api(fleet: Fleet, workload: Api) -> Iterator[set[str]]:
    """End Machines that are being deleted once they have no hook, their Nodes first.

    Yield the names of the ended ones.
    """
    ended: set[str] = set()

    def look() -> None:
        for found in fleet.api.items(MACHINES, fleet.ns):
            about = found["metadata"]
            if "deletionTimestamp" in about and not any(
                key.startswith(PRE_DRAIN) for key in about.get("annotations", {})
            ):
                workload.delete("nodes", found["status"]["nodeRef"]["name"])
                fleet.api.patch(MACHINES, about["name"], {"metadata": {"finalizers": None}}, fleet.ns)
                ended.add(about["name"])

    with repeatedly(look):
        yield ended


@contextmanager
def repeatedly(act: Callable[[], None], every: float = 0.05) -> Iterator[None]:
    """Run an act again and again, as a controller does. A refused request is repeated."""
    over = threading.Event()

    def run() -> None:
        while not over.wait(every):
            try:
                act()
            except ApiError as error:
                if error.code not in (404, 409, 429) and error.code < 500:
                    raise

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(30)
