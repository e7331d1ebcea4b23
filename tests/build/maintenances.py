"""The nodemaintenance surface on the embedded cluster, in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import msgspec

from haulout.base import yaml
from haulout.cluster.key import Key
from haulout.cluster.kinds import Kinds
from haulout.core.action import Create, Delete, Evict, Measure, Say
from haulout.core.budgets.declare import SURFACE as SHARED
from haulout.core.decision import Decider
from haulout.core.declaration import Enabled
from haulout.embedded import NODES, Json, Resource
from haulout.kernel.assemble import assemble
from haulout.kernel.requests import Answer, Body, Change, ListPods, Look, Refused, Telling
from haulout.kernel.rooms import Subject
from haulout.kernel.wakes import Reports
from haulout.model.meta import wire_micro_time
from haulout.plan.virtual import VirtualDriver
from haulout.surfaces.nodemaintenance.options import Options
from haulout.surfaces.nodemaintenance.surface import NODEMAINTENANCE
from haulout.surfaces.nodemaintenance.wire import API_VERSION, GROUP, KIND, PLURAL, SEEN_ANNOTATION, VERSION, lease_name
from tests.build.drains import QUICK, declared
from tests.build.workloads import World

MAINTENANCES = Resource(GROUP, VERSION, PLURAL)
LEASES = Resource("coordination.k8s.io", "v1", "leases")
NAMESPACES = Resource("", "v1", "namespaces")
DEFINITIONS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions")
DRAIN = {"key": "medik8s.io/drain", "effect": "NoSchedule"}
CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def maintenance_key(name: str) -> Key:
    return Key("", KIND, "", name)


def definition(kind: str = KIND, group: str = GROUP, version: str = VERSION, *, namespaced: bool = False) -> Json:
    plural = f"{kind.lower()}s"
    names = {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"}
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {"name": version, "served": True, "storage": True, "subresources": {"status": {}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
        },
        "spec": {
            "group": group,
            "names": names,
            "scope": "Namespaced" if namespaced else "Cluster",
            "versions": [{**served, "schema": {"openAPIV3Schema": schema}}],
        },
    }


class Killed(Exception):
    """The operator was killed at a write."""


class Driver(VirtualDriver):
    """A driver that refuses some writes in the server's place, or dies at one.

    `refuses`: the refusal by class and kind. `tried`: all requests, answered or refused.
    """

    refuses: dict[tuple[type, str], Refused]
    tried: list[tuple[type, str]]
    dies: Callable[[Body, bool], None]

    def _carried_out(self, body: Body) -> Answer:
        assert isinstance(body, Change | Create | Evict | Delete | Look | ListPods)
        what = type(body), body.target.kind.partition("/")[0]
        if isinstance(body, Change) and body.subresource:
            what = Change, f"{what[1]}/{body.subresource}"
        self.tried.append(what)
        self.dies(body, False)
        answer = self.refuses[what] if what in self.refuses else super()._carried_out(body)
        self.dies(body, True)
        return answer


class Maintenances(Reports):
    """A world with the nodemaintenance surface. `told`: the reasons of events, with the names of their objects."""

    def __init__(
        self,
        world: World | None = None,
        options: Options | None = None,
        *more: Decider,
        turns: bool = False,
        together: bool = False,
    ) -> None:
        self.world = world or World(QUICK, nodes=3)
        self.options = options or Options()
        self.told: list[tuple[str, str]] = []
        self.said: list[str] = []
        self.measured: list[Measure] = []
        self.refusals: list[int] = []
        self.refuses: dict[tuple[type, str], Refused] = {}
        self.tried: list[tuple[type, str]] = []
        # The number of the write at which the operator is killed, before (False) or after it (True).
        self.dies_at_write = (0, False)
        self.writes = 0
        objects = self.world.objects
        if objects.get(DEFINITIONS, "", f"{PLURAL}.{GROUP}") is None:
            objects.create(DEFINITIONS, definition())
            objects.create(DEFINITIONS, yaml.load(SHARED.definition("nodedisruptionbudgets")))
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.options.lease_namespace}}
            objects.create(NAMESPACES, namespace)
        self.begin(*more, turns=turns, together=together)

    def begin(self, *more: Decider, turns: bool = False, together: bool = False) -> Maintenances:
        """Start the operator, or after it another one that knows only what is stored."""
        surfaces = (Enabled(NODEMAINTENANCE, self.options), *(Enabled(declared(decider)) for decider in more))
        quorum = self.options.quorum_on_kubernetes
        assembly = assemble(
            surfaces,
            together=together,
            quorum=quorum,
            turns=turns or together,
            keeps_ledger=not self.options.alone,
            reports=self,
        )
        self.kernel = assembly.kernel
        self.driver = Driver(self.kernel, self.world.objects, self.world.time, self._stated, Kinds(assembly.kinds))
        self.driver.refuses, self.driver.tried = self.refuses, self.tried
        self.driver.dies = self._dies
        for source in sorted(assembly.sources(), key=repr):
            self.driver.watch(source.kind, source.keep)
        return self

    def on_refusal(self, subject: Subject, body: Body, answer: Refused) -> None:
        self.refusals.append(answer.code)

    def _dies(self, body: Body, is_after: bool) -> None:
        if isinstance(body, Look | ListPods):
            return
        self.writes += not is_after
        if (self.writes, is_after) == self.dies_at_write:
            raise Killed

    def _stated(self, statement: object) -> None:
        if isinstance(statement, Telling):
            self.told.append((statement.tell.reason, statement.tell.regarding.name))
        elif isinstance(statement, Say):
            self.said.append(statement.message)
        elif isinstance(statement, Measure):
            self.measured.append(statement)

    def make(self, name: str, node: str, **drain: Any) -> Maintenances:
        spec: Json = {"nodeName": node, **({"drain": drain} if drain else {})}
        body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": spec}
        self.world.objects.create(MAINTENANCES, body)
        return self

    def delete(self, name: str) -> Maintenances:
        self.world.objects.delete(MAINTENANCES, "", name)
        return self

    def kick(self, name: str, note: str) -> Maintenances:
        self.world.objects.patch(MAINTENANCES, "", name, {"metadata": {"annotations": {"note": note}}})
        return self

    def run(self, seconds: float) -> Maintenances:
        self.driver.run(self.world.time.now() + timedelta(seconds=seconds))
        return self

    @property
    def now(self) -> datetime:
        return self.world.time.now()

    def found(self, name: str) -> Json | None:
        return self.world.objects.get(MAINTENANCES, "", name)

    def status(self, name: str) -> Json:
        found = self.found(name)
        assert found is not None
        status: Json = found.get("status", {})
        return status

    def phase(self, name: str) -> str:
        return str(self.status(name).get("phase", ""))

    def conditions(self, name: str) -> dict[str, str]:
        return {each["type"]: each["status"] for each in self.status(name).get("conditions", [])}

    def node(self, name: str) -> Json:
        return self.world.get(NODES, name)

    def marks(self, name: str) -> tuple[bool, list[str], str | None]:
        """Return whether a node is cordoned, the keys of its taints, and its label that prevents remediation."""
        node = self.node(name)
        taints = [taint["key"] for taint in node["spec"].get("taints") or []]
        label = node["metadata"].get("labels", {}).get("remediation.medik8s.io/exclude-from-remediation")
        return bool(node["spec"].get("unschedulable")), taints, label

    def lease(self, node: str) -> Json | None:
        return self.world.objects.get(LEASES, self.options.lease_namespace, lease_name(node))

    def put_lease(
        self, node: str, holder: str | None, *, renewed_ago: float = 0, seconds: int = 3600, seen: str = ""
    ) -> None:
        stamp = wire_micro_time(self.now - timedelta(seconds=renewed_ago))
        spec = {"holderIdentity": holder, "leaseDurationSeconds": seconds, "renewTime": stamp, "acquireTime": stamp}
        metadata: Json = {"name": lease_name(node), "namespace": self.options.lease_namespace}
        if seen:
            metadata["annotations"] = {SEEN_ANNOTATION: seen}
        if self.lease(node) is None:
            body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
            self.world.objects.create(LEASES, body)
        else:
            self.world.objects.patch(LEASES, self.options.lease_namespace, lease_name(node), {"spec": spec})

    def pods(self, node: str) -> list[str]:
        return [pod["metadata"]["name"] for pod in self.world.pods() if pod["spec"].get("nodeName") == node]


def options(**fields: Any) -> Options:
    return msgspec.structs.replace(Options(), **fields)
