"""Every surface under exactly the roles that are printed: nothing is refused, and no right is unused."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from haulout.base.clock import SystemClock
from haulout.clients.slack import Threads
from haulout.kube.config import load as load_endpoint
from haulout.kube.http import HttpTransport
from haulout.kube.writer import Writer
from haulout.plugins.messages import Thread
from tests.build.clock import ManualClock
from tests.real.profiles import GO, PROFILE, STATE, entries_of, label_of
from tests.rig import clusterapi
from tests.rig.api import CRDS, Api, ApiError, Json
from tests.rig.clusterapi import MAY_DELETE, MAY_MEND, REQUEST, Fleet, await_served, kubeconfig, undefine
from tests.rig.faults import Answer, FaultProxy
from tests.rig.fleet import node_object, pod_object
from tests.rig.kwok import Kwok
from tests.rig.loops import abort_connections
from tests.rig.maintenances import BUDGETS, NMS, budget, maintenance, phase
from tests.rig.operator import Operator, Platform
from tests.rig.plane import ControlPlane
from tests.rig.process import free_port
from tests.rig.receiver import Receiver
from tests.rig.rights import Granted, Right, grant, printed
from tests.rig.wait import eventually

pytestmark = pytest.mark.tools("etcd", "kube-apiserver", "kubectl", "kwok")

NDBS = "haulout.dev/v1alpha1/nodedisruptionbudgets"
REGISTRATIONS = "admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
HYPERVISORS = "kvm.cloud.sap/v1/hypervisors"
EVICTION_REQUESTS = "lifecycle.k8s.io/v1alpha1/evictionrequests"
OPENSHIFT = "config.openshift.io/v1/clusterversions"
GUARD = "openshift-etcd"
DRAIN = "haulout.dev/drain"
BROKEN = "no: such: setting"
BUDGET_SPECS: dict[str, Json] = {
    "good": {"maxUnavailable": 100},
    # Of no node: while a budget is invalid, nothing begins on those that it selects.
    "bad": {"maxUnavailable": 100, "selector": {"matchLabels": {"none": ""}}, "windows": [{"cron": "x"}]},
}


def definition(path: str, kind: str, scope: str) -> Json:
    """Return a definition of a foreign kind, without a schema."""
    group, version, plural = path.split("/")
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": free}}
    return {
        "metadata": {
            "name": f"{plural}.{group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
        },
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
            "versions": [served],
        },
    }


OTHERS = (
    definition(HYPERVISORS, "Hypervisor", "Cluster"),
    definition(EVICTION_REQUESTS, "EvictionRequest", "Namespaced"),
    definition(OPENSHIFT, "ClusterVersion", "Cluster"),
)


@pytest.fixture
def definitions(plane: ControlPlane) -> Iterator[None]:
    """The definitions. Our own stay for other tests; those that change what the cluster looks like are removed."""
    api = plane.api()
    clusterapi.define_all(api)
    made = [*printed("crds", "kernel", "nodemaintenance"), *OTHERS]
    for crd in made:
        if api.find(CRDS, crd["metadata"]["name"]) is None:
            api.create(CRDS, crd)
    for path in (NDBS, NMS, HYPERVISORS, EVICTION_REQUESTS, OPENSHIFT):
        await_served(api, path, served=True)
    api.create("namespaces", {"metadata": {"name": GUARD}})
    yield
    for crd in OTHERS:
        undefine(api, crd)
    plane.wipe(GUARD)


class Scene:
    """One operator with the roles of its surface, in a namespace of its own, behind a proxy that refuses some requests."""

    def __init__(self, plane: ControlPlane, proxy: FaultProxy, folder: Path, prefix: str, *words: str) -> None:
        self.plane, self.proxy, self.api = plane, proxy, plane.api()
        self.ns, self.folder = f"{prefix}-{folder.name}", folder
        self.namespace(self.ns)
        self.granted = grant(plane, self.ns, "kernel", *(word.format(ns=self.ns) for word in words), "-n", self.ns)
        self.operator: Platform

    def namespace(self, name: str) -> None:
        if self.api.find("namespaces", name) is None:
            self.api.create("namespaces", {"metadata": {"name": name}})

    def start(self, surfaces: str, config: str = "", settings: str = "") -> None:
        user, server = self.granted.user, self.proxy.url
        words = f"namespace: {self.ns}\n{settings}"
        self.operator = Platform(self.plane, self.folder, config, words, surfaces=surfaces, user=user, server=server)
        self.operator.start()

    def refuse_once(self, method: str, path: str) -> None:
        """Refuse one request with a conflict that no watch explains, so that the operator has to look at the object."""
        self.proxy.rule(Answer(409), method=method, path=path, times=1)

    def node(self, name: str, **labels: str) -> str:
        name = f"{self.ns}-{name}"
        self.plane.load([node_object(name, labels=labels)])
        return name

    def pod(self, node: str, *, stays: bool = False, **notes: str) -> str:
        """Create a pod on the node. One that has to stay is kept by a closed disruption budget."""
        name = f"{node}-pod"
        if stays:
            self.api.create(BUDGETS, budget(name, name, minAvailable=1), self.ns)
        labels = {"app": name}
        self.plane.load([pod_object(name, self.ns, node, labels=labels, annotations=notes, grace=1)])
        return name

    def is_gone(self, pod: str) -> bool:
        return self.api.find("pods", pod, self.ns) is None

    def events(self, name: str, ns: str, reason: str) -> list[Json]:
        found = self.api.items("events", ns, fieldSelector=f"involvedObject.name={name}")
        return [event for event in found if event["reason"] == reason]

    def break_settings_twice(self) -> None:
        """Break the settings twice, for events about the operator itself, of which the second is a repetition."""
        good = (self.folder / "haulout.yaml").read_text()
        for number in (1, 2):
            self.operator.write(BROKEN, "haulout.yaml")
            eventually(lambda n=number: self.told("ConfigurationInvalid") == n, "broken settings are told")  # type: ignore[misc]
            self.operator.write(good, "haulout.yaml")
            eventually(lambda n=number: self.told("ConfigurationRestored") == n, "good ones, too")  # type: ignore[misc]

    def told(self, reason: str) -> int:
        return self.told_about("haulout", reason, self.ns)

    def told_about(self, name: str, reason: str, ns: str = "default") -> int:
        """Return how often an event was reported. A series counts from two."""
        events = self.events(name, ns, reason)
        return sum(max(event.get("count") or 1, (event.get("series") or {}).get("count", 1)) for event in events)


# Profiles: transitions, events, a drain by eviction and by deletion, stagger leases, Hypervisors, credentials of a cloud


def profiles_config(scene: Scene) -> str:
    place = f"cloudProviderSecret: {{name: cloud, namespace: {scene.ns}}}"
    return f"""
intervals: {{requeue: 1s}}
instances:
  check:
  - {{type: hasLabel, name: go, config: {{key: {GO}}}}}
  - {{type: maxMaintenance, name: few, config: {{max: 9}}}}
  - {{type: stagger, name: apart, config: {{duration: 1s, leaseName: turn, leaseNamespace: {scene.ns}}}}}
  - {{type: kubernikusCount, name: full, config: {{cluster: c, {place}}}}}
  trigger:
  - {{type: alterHypervisor, name: tell, config: {{maintenance: auto}}}}
  - {{type: eviction, name: drain, config: {{action: drain}}}}
  - {{type: eviction, name: force, config: {{action: drain, forceEviction: true, evictionTimeout: 1s, deletionTimeout: 1s}}}}
profiles:
- name: drains
  operational: {{transitions: [{{check: go && apart, next: maintenance-required}}]}}
  maintenance-required: {{transitions: [{{check: go && few, trigger: tell && drain, next: in-maintenance}}]}}
- name: waits
  operational: {{transitions: [{{check: go, trigger: drain, next: in-maintenance}}]}}
- name: forces
  operational: {{transitions: [{{check: go, trigger: force, next: in-maintenance}}]}}
- name: counts
  operational: {{transitions: [{{check: full, next: maintenance-required}}]}}
"""


def profiles(scene: Scene) -> Iterator[Operator]:
    api = scene.api
    words = base64.b64encode(b"[Global]\nauth-url = http://127.0.0.1:9/\n").decode()
    api.create("secrets", {"metadata": {"name": "cloud"}, "data": {"cloudprovider.conf": words}}, scene.ns)
    names = ("drains", "waits", "forces", "counts")
    drained, waiting, forced, _ = (scene.node(name, **{PROFILE: name, GO: "true"}) for name in names)
    kind = {"apiVersion": "kvm.cloud.sap/v1", "kind": "Hypervisor"}
    api.create(HYPERVISORS, {**kind, "metadata": {"name": drained}, "spec": {}})
    pods = [scene.pod(drained), scene.pod(waiting, stays=True), scene.pod(forced, stays=True)]
    scene.refuse_once("PATCH", f"/nodes/{drained}$")
    scene.refuse_once("PATCH", f"/hypervisors/{drained}$")
    scene.refuse_once("PATCH", f"/namespaces/{scene.ns}/leases/turn-0$")
    scene.refuse_once("POST", f"/pods/{pods[0]}/eviction$")
    settings = (
        f"{{profiles: {{config: config/maintenance.yaml, metricsTimeout: 0s, lease: {{namespace: {scene.ns}}}}}}}"
    )
    scene.start(settings, profiles_config(scene))
    yield scene.operator
    eventually(lambda: label_of(api.get("nodes", drained), STATE) == "in-maintenance", "a drain by evictions")
    eventually(lambda: scene.is_gone(pods[2]), "a drain by deletion")
    assert api.get(HYPERVISORS, drained)["spec"]["maintenance"] == "auto"
    # A drain that begins anew tells of the same pod again.
    eventually(lambda: scene.events(pods[1], scene.ns, "Evicting"), "it is told that a pod is to go")
    api.patch("nodes", waiting, {"metadata": {"labels": {PROFILE: "counts"}}})
    eventually(lambda: "counts" in entries_of(api.get("nodes", waiting)), "it has another profile")
    api.patch("nodes", waiting, {"metadata": {"labels": {PROFILE: "waits"}}})
    eventually(lambda: _repeated(scene.events(pods[1], scene.ns, "Evicting")), "it is told again")
    scene.break_settings_twice()
    asyncio.run(_thread(scene))


def _repeated(events: list[Json]) -> bool:
    return any((event.get("series") or {}).get("count", 0) > 1 for event in events)


async def _thread(scene: Scene) -> None:
    """Open a thread in Slack, and another one when that has expired."""
    hook, clock = Receiver(), ManualClock(SystemClock().now())
    endpoint = load_endpoint(path=str(scene.plane.kubeconfig(scene.granted.user)))
    transport = HttpTransport(endpoint, SystemClock())
    try:
        with hook.open() as url:
            threads = Threads(Writer(transport), clock, f"{url}/api/")
            for _ in range(2):
                await threads.reply(Thread("t", "c", "title", "text", "slack", scene.ns, timedelta(minutes=1)))
                clock.move_to(clock.now() + timedelta(minutes=2))
    finally:
        await transport.close()
        await abort_connections()


# NodeMaintenances: whole lives, leases, the webhook with a certificate of our own, budgets


def nodemaintenance(scene: Scene) -> Iterator[Operator]:
    api, port = scene.api, free_port()
    evicted, waiting, deleted = (scene.node(name) for name in ("evicts", "waits", "deletes"))
    member = scene.node("member", **{"node-role.kubernetes.io/control-plane": ""})
    pods = [scene.pod(evicted), scene.pod(waiting, stays=True, **{DRAIN: "sometimes"}), scene.pod(deleted, stays=True)]
    guard = f"{member}-guard"
    api.create(BUDGETS, budget(guard, guard, minAvailable=1), GUARD)
    scene.plane.load([pod_object(guard, GUARD, member, labels={"app": guard})])
    for name, spec in BUDGET_SPECS.items():
        kind = {"apiVersion": "haulout.dev/v1alpha1", "kind": "NodeDisruptionBudget"}
        api.create(NDBS, {**kind, "metadata": {"name": f"{scene.ns}-{name}"}, "spec": spec})
    scene.refuse_once("PATCH", f"/nodes/{evicted}$")
    scene.refuse_once("PATCH", f"/nodemaintenances/{evicted}$")
    scene.refuse_once("PATCH", f"/nodedisruptionbudgets/{scene.ns}-good/status$")
    scene.refuse_once("PATCH", f"/namespaces/{scene.ns}-leases/leases/node-{evicted}$")
    scene.refuse_once("POST", f"/pods/{pods[0]}/eviction$")
    scene.refuse_once("PATCH", f"/namespaces/{scene.ns}/evictionrequests/")
    block = f"leaseNamespace: {scene.ns}-leases, leaseDuration: 3s, nodeConditions: true"
    surfaces = f"{{nodemaintenance: {{{block}, lease: {{namespace: {scene.ns}}}}}}}"
    scene.operator = Platform(
        *(scene.plane, scene.folder, "", f"namespace: {scene.ns}"),
        surfaces=surfaces,
        user=scene.granted.user,
        server=scene.proxy.url,
    )
    scene.operator.basic = scene.operator.basic.replace('webhooks: "0"', f'webhooks: "127.0.0.1:{port}"')
    scene.operator.settle(f"namespace: {scene.ns}")
    scene.operator.start()
    [registration] = printed("webhooks", "nodemaintenance", "--url", f"https://127.0.0.1:{port}")
    eventually(lambda: api.get("secrets", "haulout-webhook-cert", scene.ns).get("data"), "a certificate is made")
    api.create(REGISTRATIONS, registration)
    eventually(lambda: "quorum" in _refusal(api, member), "the webhook refuses")
    api.create(NMS, maintenance(evicted, evicted))
    api.create(NMS, maintenance(deleted, deleted, disableEviction=True))
    api.create(NMS, maintenance(waiting, waiting))
    yield scene.operator
    for name in (evicted, deleted):
        eventually(lambda name=name: phase(api, name) == "Succeeded", f"{name} succeeds")  # type: ignore[misc]
    eventually(lambda: api.get(NDBS, f"{scene.ns}-good").get("status"), "a budget says how full it is")
    eventually(lambda: scene.events(f"{scene.ns}-bad", "default", "BudgetInvalid"), "an invalid one is told of")
    eventually(lambda: scene.events(pods[1], scene.ns, "AnnotationInvalid"), "an annotation is told of")
    # The same node again: its events are repetitions.
    _end(api, waiting)
    api.create(NMS, maintenance(waiting, waiting))
    eventually(lambda: _repeated(scene.events(pods[1], scene.ns, "AnnotationInvalid")), "it is told again")
    eventually(lambda: api.get("nodes", waiting)["spec"].get("unschedulable"), "the node is cordoned again")
    _end(api, waiting)
    eventually(lambda: scene.told_about(waiting, "UncordonNode") == 2, "and so is the end of the maintenance")
    by_request = surfaces.replace("nodeConditions", "evictionBackend: evictionrequest, nodeConditions")
    scene.operator.basic = scene.operator.basic.replace(surfaces, by_request)
    scene.operator.settle(f"namespace: {scene.ns}")
    # Kept by its budget until the new settings count, whenever that is.
    asked = scene.node("asks")
    scene.pod(asked, stays=True)
    eventually(lambda: _created(api, maintenance(asked, asked)), "one more", refused=(ApiError,))
    eventually(lambda: api.items(EVICTION_REQUESTS, scene.ns), "a pod is asked to go")
    _end(api, asked)
    eventually(lambda: _intents(api, scene.ns) == {"Withdrawn"}, "and asked no more")
    _end(api, evicted)
    _end(api, deleted)
    for name in BUDGET_SPECS:
        api.delete(NDBS, f"{scene.ns}-{name}")
    scene.break_settings_twice()
    api.delete(REGISTRATIONS, registration["metadata"]["name"])


def _refusal(api: Api, node: str) -> str:
    try:
        api.request("POST", f"/apis/{NMS}", maintenance(node, node), query={"dryRun": "All"})
    except ApiError as error:
        return str(error)
    return ""


def _created(api: Api, body: Json) -> bool:
    api.create(NMS, body)
    return True


def _end(api: Api, name: str) -> None:
    api.delete(NMS, name)
    eventually(lambda: api.find(NMS, name) is None, f"{name} ends")


def _intents(api: Api, ns: str) -> set[str]:
    return {each["spec"]["intent"] for each in api.items(EVICTION_REQUESTS, ns)}


# Cluster API: hooks and approvals of Machines, kubeconfigs, Metal3 hosts, the nodes of a workload cluster


def cluster_api(scene: Scene, workload: Granted) -> Iterator[Operator]:
    fleet = Fleet(scene.plane, scene.ns)
    text = kubeconfig(scene.plane, server=scene.proxy.url, token=scene.plane.token(workload.user))
    fleet.cluster("alpha", text)
    name = f"{scene.ns}-m"
    machine = fleet.machine(name, scene.plane, provider=f"metal3://{scene.ns}/h/m")
    fleet.host("h", consumerRef={"kind": "Metal3Machine", "name": "m", "namespace": scene.ns})
    scene.refuse_once("PATCH", f"/machines/{name}$")
    scene.refuse_once("PATCH", "/baremetalhosts/h$")
    scene.refuse_once("PATCH", f"/nodes/{name}$")
    scene.start(f"{{clusterapi: {{enableMetal3Maintenance: true, lease: {{namespace: {scene.ns}}}}}}}")
    yield scene.operator
    machine.await_hook()
    for _ in range(2):
        machine.label(**{REQUEST: "requested"})
        eventually(machine.told, "the node is told")
        machine.tell_node({MAY_MEND: "true"})
        machine.await_request("approved")
        fleet.await_host("h", off=True)
        machine.label(**{REQUEST: None})
        fleet.await_host("h", off=False)
        machine.tell_node({MAY_MEND: None})
    machine.delete()
    machine.await_told(clusterapi.DELETED)
    machine.tell_node({MAY_DELETE: "true"})
    machine.await_hook(there=False)
    scene.break_settings_twice()


def limited_kubeconfigs(scene: Scene, workload: Granted) -> Iterator[Operator]:
    """Run clusterapi with the right to read kubeconfigs in one namespace alone."""
    fleet = Fleet(scene.plane, scene.ns)
    fleet.cluster("alpha", kubeconfig(scene.plane, token=scene.plane.token(workload.user)))
    machine = fleet.machine(f"{scene.ns}-m", scene.plane)
    scene.start("{clusterapi: {}}")
    yield scene.operator
    machine.await_hook()
    machine.label(**{REQUEST: "requested"})
    eventually(machine.told, "the node is told")


LEASES = ("--original-lease={ns}",)
WORDS = {
    "profiles": (
        *("profiles", "--delete-pods", "--hypervisors", *LEASES),
        *("--stagger={ns}/turn-0", "--slack-thread={ns}/slack", "--cloud-secret={ns}/cloud"),
    ),
    "nodemaintenance": (
        *("nodemaintenance", "--delete-pods", "--node-conditions", "--eviction-requests", *LEASES),
        "--lease-namespace={ns}-leases",
    ),
    "clusterapi": ("clusterapi", "--metal3", *LEASES),
    "limited": ("clusterapi", "--kubeconfigs={ns}"),
}
# Scenarios that show a part of a surface again need not use all of its rights once more.
PARTS = {"limited": "kubeconfigs"}


def run(scenario: Iterator[Operator]) -> None:
    """Run a scenario to its end, and stop its operator, which the scenario yields first."""
    operator = next(scenario)
    try:
        next(scenario, None)
    finally:
        operator.process.stop()


def test_the_printed_rights_are_enough_and_each_of_them_is_used(
    plane: ControlPlane, kwok: Kwok, proxy: FaultProxy, definitions: None, prefix: str, tmp_path: Path
) -> None:
    since = plane.audit.mark()
    scenes = {name: Scene(plane, proxy, tmp_path / name, prefix, *words) for name, words in WORDS.items()}
    workload = grant(plane, prefix, "--workload")
    # Not every server knows streaming lists.
    proxy.rule(Answer(422), watch=True, query="sendInitialEvents")
    run(nodemaintenance(scenes["nodemaintenance"]))
    run(profiles(scenes["profiles"]))
    run(cluster_api(scenes["clusterapi"], workload))
    plane.wipe(scenes["clusterapi"].ns)
    run(limited_kubeconfigs(scenes["limited"], workload))
    entries = plane.audit.entries(since=since)
    # Nodes that stay would be looked after by the operators of later tests.
    plane.wipe(prefix)
    users = {scene.granted.user: name for name, scene in scenes.items()} | {workload.user: "workload"}
    refused = {
        f"{users[entry.user]}: {entry.act} {entry.of}" for entry in entries if entry.user in users and entry.code == 403
    }
    assert refused == set()
    left_over = {
        name: {str(right) for right in scene.granted.unused(entries) if _is_shown(name, right)}
        for name, scene in scenes.items()
    }
    kernel = [{_plain(right) for right in scene.granted.unused(entries)} for scene in scenes.values()]
    # What guards overrides is used in test_overrides.py, sets in test_acts.py, records in tests of the logbook.
    elsewhere = (
        "haulout-kernel-overrides",
        "maintenancerecords",
        "nodemaintenancesets",
        "mutatingwebhookconfigurations",
    )
    unused = {text for text in set.intersection(*kernel) if "haulout-kernel" in text}
    left_over["kernel"] = {text for text in unused if not any(word in text for word in elsewhere)}
    left_over["workload"] = set(map(str, workload.unused(entries)))
    assert {name: rights for name, rights in left_over.items() if rights} == {}


def _is_shown(scenario: str, right: Right) -> bool:
    """Whether a scenario has to use a right. Each of the kernel's rights is used by one of the surfaces."""
    is_for_sets = right.resource == "nodemaintenances" and right.verb in ("create", "delete")
    return "kernel" not in right.role and PARTS.get(scenario, "") in right.role and not is_for_sets


def _plain(right: Right) -> str:
    return f"{right.role}: {right.verb} {right.resource}.{right.group}, {'one' if right.names else 'all'}"
