"""NodeMaintenances, a profile, a Skyhook and NotifyMaintenances on the same nodes of the embedded cluster, in virtual time."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

from haulout.acts import let_go
from haulout.acts.declared import claimants
from haulout.base import yaml
from haulout.cluster.key import Key, node_key
from haulout.cluster.kinds import Kinds
from haulout.cluster.rows import Value
from haulout.cluster.view import CONFIG
from haulout.core.act import ActInput, ActPlan, NotPossible, Objects
from haulout.core.action import Create, Delete, Evict, Send
from haulout.core.declaration import Enabled
from haulout.core.holds import Want
from haulout.core.logbook.options import NAME as LOGBOOK
from haulout.core.logbook.options import LogbookOptions
from haulout.core.reason import roots
from haulout.embedded import NODES, PODS, Json, Resource
from haulout.embedded import Change as WorldChange
from haulout.explain.node import explain
from haulout.kernel.assemble import assemble
from haulout.kernel.requests import Answer, Body, Change, ListPods, Look, Refused
from haulout.plan.virtual import Statement, VirtualDriver
from haulout.surfaces.nodemaintenance.options import Options as MaintenanceOptions
from haulout.surfaces.nodemaintenance.surface import NODEMAINTENANCE
from haulout.surfaces.notify.surface import NOTIFY
from haulout.surfaces.notify.wire import CLIENT, TERMINATED
from haulout.surfaces.packages.options import Options as PackageOptions
from haulout.surfaces.packages.surface import PACKAGES
from haulout.surfaces.profiles.load import known_plugins, load
from haulout.surfaces.profiles.options import Options as ProfileOptions
from haulout.surfaces.profiles.passes.result import Mode
from haulout.surfaces.profiles.surface import PROFILES
from haulout.surfaces.profiles.wire import PROFILE_LABEL, STATE_LABEL
from haulout.surfaces.registry import definition
from tests.build.budgets import Opinion
from tests.build.drains import QUICK
from tests.build.maintenances import DEFINITIONS, MAINTENANCES, NAMESPACES
from tests.build.notices import HOME, NOTICES, OWN, options
from tests.build.skyhooks import SKYHOOKS, P, is_at_work, pkg
from tests.build.workloads import World, budget, deployment

NODE_BUDGETS = Resource("haulout.dev", "v1alpha1", "nodedisruptionbudgets")
CRDS = (
    *("nodedisruptionbudgets", "maintenancerecords", "nodemaintenancesets", "nodemaintenances", "notifymaintenances"),
    *("skyhooks", "deploymentpolicies", "nodewrights", "nodewright-deploymentpolicies"),
)
GO, DEMO, MOST = "go", "demo", 2
# A node that wants maintenance is cordoned and drained, is in maintenance for five seconds, and is given back.
PROFILE = f"""
intervals: {{requeue: 30s}}
instances:
  check:
  - {{type: hasLabel, name: go, config: {{key: {GO}}}}}
  - {{type: wait, name: done, config: {{duration: 5s}}}}
  trigger:
  - {{type: eviction, name: out, config: {{action: cordon}}}}
  - {{type: eviction, name: empty, config: {{action: drain}}}}
  - {{type: eviction, name: back, config: {{action: uncordon}}}}
  - {{type: alterLabel, name: clear, config: {{key: {GO}, remove: true}}}}
profiles:
- name: p
  operational: {{transitions: [{{check: go, next: maintenance-required}}]}}
  maintenance-required: {{transitions: [{{check: go, trigger: out, next: in-maintenance}}]}}
  in-maintenance: {{enter: empty, transitions: [{{check: done, trigger: clear && back, next: operational}}]}}
"""
SMOKE = {"enabled": True, "default": "smoke", "recipes": [{"name": "smoke", "type": "builtin"}]}
OPERATORS: dict[str, Json] = {
    "scheduler": {"enabled": True, "budgets": [{"name": "own", "maxUnavailable": "100%"}]},
    "drainer": {"enabled": True, "settle": "1s"},
    "validator": SMOKE,
    "returner": {"enabled": True},
}
NOTICE_TEXT = json.dumps({"slaPeriod": "1h", "operators": OPERATORS})


class Crash(Exception):
    """The operator was killed at a write."""


class Driver(VirtualDriver):
    """A driver that checks the world before each write, and dies just before or after the write that the test has chosen."""

    world: AllSurfaces

    def _carried_out(self, body: Body) -> Answer:
        assert isinstance(body, Change | Create | Evict | Delete | Look | ListPods)
        self.world.look()
        if isinstance(body, Look | ListPods):
            return super()._carried_out(body)
        self.world.writes_left -= 1
        if self.world.writes_left == 0 and not self.world.dies_after:
            return self.world.disturbed()
        if self.world.refusals:
            return self.world.refusals.pop()
        self.world.on_write(body)
        answer = super()._carried_out(body)
        return self.world.disturbed() if self.world.writes_left == 0 else answer

    def _sent(self, send: Send) -> Answer:
        self.world.on_send(send)
        return super()._sent(send)


class AllSurfaces:
    """Ten nodes that four surfaces want, under one budget of two. `records`: their maintenances are recorded.

    `faults`: forbidden states that were seen. `failures`: decisions that raised. `most`: the most nodes that were out
    of service at once.
    """

    def __init__(self, count: int = 10, *, records: bool = False) -> None:
        self.records = records
        self.world = World(QUICK, nodes=count)
        self.names = [f"n{number}" for number in range(count)]
        self.writes_left, self.dies_after = 0, False
        self.fault: Answer | None = None
        # Called with each write that the API server is about to carry out.
        self.on_write: Callable[[Change | Create | Evict | Delete], None] = lambda body: None
        # Called with each message to the outside world.
        self.on_send: Callable[[Send], None] = lambda send: None
        # Called with each event, count and log line.
        self.on_statement: Callable[[Statement], None] = lambda statement: None
        self.refusals: list[Refused] = []
        self.faults: list[str] = []
        self.failures: list[str] = []
        self.most = 0
        objects = self.world.objects
        for crd in CRDS:
            objects.create(DEFINITIONS, yaml.load(definition(crd)))
        for name in (HOME, OWN, "skyhook", "medik8s-leases"):
            objects.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        spec = {"selector": {}, "maxUnavailable": MOST}
        self._create(NODE_BUDGETS, "NodeDisruptionBudget", {"name": "two"}, spec)
        self.world.make(deployment("web", replicas=count), budget("web", maxUnavailable=3))
        objects.subscribe(PODS, self._pod_changed)
        self.package_pods: dict[str, Json] = {}
        self.nodes, self.maintenances = self._follow(NODES), self._follow(MAINTENANCES)
        self.notices = self._follow(NOTICES)
        config = load(PROFILE, known_plugins(), source="maintenance.yaml", environment={})
        self.enabled: tuple[Enabled, ...] = (
            Enabled(NODEMAINTENANCE, MaintenanceOptions(alone=False, restore_node_state=True)),
            Enabled(PROFILES, ProfileOptions(config, Mode(alone=False))),
            Enabled(PACKAGES, PackageOptions(alone=False)),
            Enabled(NOTIFY, options(NOTICE_TEXT, alone=False)),
        )
        self.world.run(30)
        self.begin()

    def begin(self, late: str = "") -> None:
        """Start the operator, or another one after it that knows only what is stored. `late`: a kind that is not listed yet."""
        assembly = assemble(
            self.enabled,
            together=True,
            records=self.records,
            on_failure=lambda subject, error: self.failures.append(f"{subject}: {error!r}"),
        )
        self.kernel = assembly.kernel
        self.driver = Driver(
            self.kernel,
            self.world.objects,
            self.world.time,
            self._state,
            Kinds(assembly.kinds),
        )
        self.driver.world = self
        if self.records:
            self.kernel.store.write(Value(key=Key("", CONFIG, "", LOGBOOK), value=LogbookOptions()))
        for source in sorted(assembly.sources(), key=repr):
            if source.kind != late:
                self.driver.watch(source.kind, source.keep)

    def _state(self, statement: Statement) -> None:
        self.on_statement(statement)

    def crash_at(self, writes: int, *, after: bool) -> None:
        """Let the operator die just before or after a write from now on."""
        self.writes_left, self.dies_after, self.fault = writes, after, None

    def fail_at(self, writes: int, fault: Answer, *, after: bool) -> None:
        """Let the operator get this answer to a write from now on, which was carried out or not."""
        self.writes_left, self.dies_after, self.fault = writes, after, fault

    def disturbed(self) -> Answer:
        if self.fault is None:
            raise Crash
        return self.fault

    # What people want

    def maintain(self, node: str) -> None:
        self._create(MAINTENANCES, "NodeMaintenance", {"name": node}, {"nodeName": node})

    def notice(self, node: str) -> None:
        spec = {"nodeObject": node, "maintenanceID": f"id-{node}", "maintenanceType": "planned"}
        self._create(NOTICES, "NotifyMaintenance", {"name": node, "namespace": HOME}, spec)

    def want_profile(self, node: str) -> None:
        self.world.change(NODES, node, {"metadata": {"labels": {PROFILE_LABEL: "p", GO: "yes"}}})

    def roll(self) -> None:
        packages = {"base": pkg(interrupt={"type": "noop"}), "top": pkg()}
        spec = {"packages": packages, "interruptionBudget": {"percent": 100}}
        self._create(SKYHOOKS, "Skyhook", {"name": DEMO}, spec)

    def cordon(self, node: str, cordoned: bool = True) -> None:
        self.world.change(NODES, node, {"spec": {"unschedulable": cordoned or None}})

    def _create(self, resource: Resource, kind: str, metadata: Json, spec: Json) -> None:
        body = {"apiVersion": f"{resource.group}/{resource.version}", "kind": kind, "metadata": metadata, "spec": spec}
        self.world.objects.create(resource, body)

    # What happens

    def run(self, seconds: float) -> None:
        """Let virtual time pass. People act on what is ready, and another operator starts when one dies."""
        end = self.world.time.now() + timedelta(seconds=seconds)
        while self.world.time.now() < end:
            with contextlib.suppress(Crash):
                self.driver.run(min(end, self.world.time.now() + timedelta(seconds=5)))
                self._people()
                continue
            self.begin()
        self.look()

    def _people(self) -> None:
        """Act as people do: end a maintenance soon after it may begin, and do what a notice asks of them at once."""
        for each in self.world.objects.list(MAINTENANCES, ""):
            if _is_done(each):
                self.world.objects.delete(MAINTENANCES, "", each["metadata"]["name"])
        for each in self.world.objects.list(NOTICES, HOME):
            if each.get("status", {}).get("maintenanceStatus") == "ObjectsDrained":
                body = {"metadata": {"annotations": {CLIENT: "complete"}}}
                self.world.objects.patch(NOTICES, HOME, each["metadata"]["name"], body)

    def _pod_changed(self, change: WorldChange) -> None:
        pod = change.object
        if f"{P}name" not in (pod["metadata"].get("labels") or {}):
            return
        if change.type == "DELETED":
            self.package_pods.pop(pod["metadata"]["name"], None)
            return
        self.package_pods[pod["metadata"]["name"]] = pod
        if change.type == "ADDED":
            self.world.time.at(self.world.time.now() + timedelta(seconds=1), lambda: self._end(pod))

    def _end(self, pod: Json) -> None:
        meta = pod["metadata"]
        found = self.world.objects.get(PODS, meta["namespace"], meta["name"])
        if found is None or found["metadata"]["uid"] != meta["uid"]:
            return
        ended = {"image": "", "imageID": "", "ready": True, "restartCount": 0, "state": {"terminated": {"exitCode": 0}}}
        statuses = [{"name": each["name"], **ended} for each in pod["spec"]["initContainers"]]
        body = {"status": {"initContainerStatuses": statuses}}
        self.world.objects.patch(PODS, meta["namespace"], meta["name"], body, subresource="status")

    # What is seen

    def look(self) -> None:
        """Look for forbidden states: too many nodes out of service, or two surfaces that work on one node."""
        opinion = Opinion(self.kernel.store, set())
        out = {key.name for key in opinion.out} | {name for name, node in self.nodes.items() if _is_cordoned(node)}
        self.most = max(self.most, len(out))
        if len(out) > MOST:
            self.faults.append(f"{self.world.time.now()}: out of service: {sorted(out)}")
        turns: dict[str, set[str]] = {}
        for hold in opinion.holds:
            if Want.EXCLUSIVE in hold.claim.wants and opinion.granted(hold):
                turns.setdefault(hold.claim.node.name, set()).add(hold.surface)
        for name in (each for each in self.names if each in self.nodes):
            seen, granted = self.working(name), turns.get(name, set())
            if len(seen) > 1 or len(granted) > 1:
                self.faults.append(f"{self.world.time.now()}: {name}: {seen} work, {sorted(granted)} have the turn")

    def working(self, node: str) -> list[str]:
        """Return the surfaces that work on a node, as the objects show it."""
        seen, maintenance, notice = self.nodes[node], self.maintenances.get(node), self.notices.get(node)
        labels = seen["metadata"].get("labels", {})
        is_claimed = f"maintenance/id-{node}" in labels and _is_cordoned(seen)
        works = {
            "profiles": labels.get(STATE_LABEL) == "in-maintenance",
            "packages": any(
                each["spec"]["nodeName"] == node and is_at_work(each, seen) for each in self.package_pods.values()
            ),
            "nodemaintenance": maintenance is not None and _is_done(maintenance),
            # A maintenance that has ended stays until the node is uncordoned.
            "notify": is_claimed and notice is not None and TERMINATED not in notice["metadata"].get("annotations", {}),
        }
        return [surface for surface, is_working in works.items() if is_working]

    def _follow(self, resource: Resource) -> dict[str, Json]:
        """Return the objects of a kind by name, kept current."""
        found: dict[str, Json] = {each["metadata"]["name"]: each for each in self.world.objects.list(resource)}

        def changed(change: WorldChange) -> None:
            name = change.object["metadata"]["name"]
            if change.type == "DELETED":
                found.pop(name, None)
            else:
                found[name] = change.object

        self.world.objects.subscribe(resource, changed)
        return found

    def node(self, name: str) -> Json:
        return self.world.get(NODES, name)

    def advice(self, name: str) -> list[str]:
        """Return what `explain` asks people to do about the node."""
        found = explain(self.kernel, self.enabled, node_key(name), self.world.time.now())
        assert found is not None
        return [root.act for reason in found.reasons for root in roots(reason) if root.act]

    def let_go(self, name: str) -> ActPlan | NotPossible:
        """Give the node back as `haulout let-go` does, if that is possible."""
        related: dict[str, Objects] = {
            each.kind: tuple(self.world.objects.list(Resource(each.group, each.versions[0], each.plural)))
            for each in claimants()
            if each.plural in CRDS
        }
        plan = let_go.plan(ActInput(self.node(name), {}, "", "jane", self.world.time.now(), related))
        for write in plan.writes if isinstance(plan, ActPlan) else ():
            self.world.change(NODES, name, write.body)
        return plan

    def cordoned(self) -> list[str]:
        return [name for name in self.names if _is_cordoned(self.node(name))]

    def unfinished(self, *, without: Iterable[str] = ()) -> dict[str, Any]:
        """Return what is not done yet, by surface. `without`: nodes whose notices do not count."""
        skyhook = self.world.objects.get(SKYHOOKS, "", DEMO) or {}
        notices = [each["metadata"]["name"] for each in self.world.objects.list(NOTICES, HOME)]
        return {
            "nodemaintenance": [each["metadata"]["name"] for each in self.world.objects.list(MAINTENANCES, "")],
            "profiles": [name for name in self.names if GO in self.node(name)["metadata"]["labels"]],
            "packages": [] if skyhook.get("status", {}).get("status") == "complete" else skyhook.get("status", DEMO),
            "notify": [name for name in notices if name not in without],
        }

    def marks(self) -> dict[str, list[str]]:
        """Return the annotations, taints and labels of claims that nodes still carry."""
        found: dict[str, list[str]] = {}
        for name in self.names:
            node = self.node(name)
            meta = node["metadata"]
            ours = [key for key in meta.get("annotations", {}) if "cordon" in key]
            ours += [key for key in meta.get("labels", {}) if key.startswith("maintenance/")]
            ours += [taint["key"] for taint in node["spec"].get("taints") or [] if taint["key"] == "medik8s.io/drain"]
            found |= {name: ours} if ours else {}
        return found


def _is_cordoned(node: Json) -> bool:
    return bool(node["spec"].get("unschedulable"))


def _is_done(maintenance: Json) -> bool:
    """Whether people may work on the node of a NodeMaintenance. Once they have deleted it, they may not."""
    is_there = "deletionTimestamp" not in maintenance["metadata"]
    return is_there and maintenance.get("status", {}).get("phase") == "Succeeded"
