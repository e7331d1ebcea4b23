"""NodeMaintenances on a real control plane: drained, blocked, explained and ended; with kills and faults meanwhile."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.hooks import Hooks
from tests.real.profiles import GO, PROFILE, STATE, label_of
from tests.rig.api import Api, ApiError, Json
from tests.rig.audit import Entry
from tests.rig.crash import CrashTest, normalised
from tests.rig.faults import (
    Action,
    Answer,
    CutAfter,
    CutBefore,
    CutStream,
    Delay,
    DelayEvents,
    DropEvents,
    FaultProxy,
    InsertEvent,
    RepeatEvents,
    Stall,
    Write,
)
from tests.rig.fleet import node_object, pod_object
from tests.rig.kwok import Kwok
from tests.rig.maintenances import (
    BUDGETS,
    IN,
    LEASE_NAMESPACE,
    NMS,
    OUT,
    budget,
    define,
    ends,
    lease,
    maintenance,
    marks,
    phase,
    pods_on,
    status,
    succeeds,
)
from tests.rig.operator import DROP_IN, HAULOUT, NodeMaintenanceOperator, Platform, environment
from tests.rig.plane import ControlPlane
from tests.rig.wait import eventually

pytestmark = pytest.mark.tools("etcd", "kube-apiserver", "kubectl", "kube-controller-manager", "kwok")

WEB = {"app": "web"}
HOOKS = "admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
WATCHED = ("nodemaintenances", "nodes", "pods", "poddisruptionbudgets", "leases", "daemonsets")


@pytest.fixture(scope="module")
def managed(managed_plane: ControlPlane) -> ControlPlane:
    """The control plane with the controllers that compute the status of budgets."""
    define(managed_plane.api())
    return managed_plane


@pytest.fixture
def nodes(managed: ControlPlane, managed_kwok: Kwok, managed_namespace: str) -> list[str]:
    """Two nodes that exist before the operator starts.

    It would have to look for nodes that its watch brings too late.
    """
    return managed_kwok.nodes(managed_namespace, 2)


@pytest.fixture
def operator(managed: ControlPlane, nodes: list[str], tmp_path: Path) -> Iterator[NodeMaintenanceOperator]:
    """An operator that has finished the requests of its start."""
    since = managed.audit.mark()
    first = {"get namespaces", *(f"watch {kind}" for kind in WATCHED)}
    with NodeMaintenanceOperator(managed, tmp_path) as made:
        eventually(lambda: first <= set(managed.audit.counts(since=since, user="operator")), "it has begun")
        yield made


def explain(plane: ControlPlane, *words: str) -> str:
    env = environment(KUBECONFIG=str(plane.kubeconfig("test")))
    argv = [str(HAULOUT), "explain", *words]
    done = subprocess.run(argv, env=env, text=True, capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def counted(api: Api, name: str, ns: str, pods: int) -> bool:
    """Whether the controller has counted so many healthy pods under a budget."""
    return bool(api.get(BUDGETS, name, ns).get("status", {}).get("currentHealthy") == pods)


def acts(entries: list[Entry]) -> Counter[str]:
    return Counter(entry.act for entry in entries if entry.verb not in ("list", "watch"))


def test_blocked_explained_opened_and_brought_back(
    managed: ControlPlane,
    managed_kwok: Kwok,
    managed_namespace: str,
    nodes: list[str],
    operator: NodeMaintenanceOperator,
) -> None:
    api, ns = managed.api(), managed_namespace
    node, other = nodes
    kept = managed_kwok.pods(ns, [node], 2, labels=WEB, grace=1)
    managed_kwok.pods(ns, [other], 1, labels=WEB)
    managed.load(pod_object(f"{ns}-free-{number}", ns, node, grace=1) for number in range(3))
    api.create(BUDGETS, budget("web", "web", minAvailable=3), ns)
    eventually(lambda: counted(api, "web", ns, 3), "the budget is counted")
    since = managed.audit.mark()

    api.create(NMS, maintenance(ns, node))
    eventually(lambda: sorted(pods_on(api, node, ns)) == sorted(kept), "those without a budget are gone")
    eventually(lambda: len(status(api, ns).get("blockedPods", ())) == 2, "it says so")
    told = status(api, ns)
    assert {(each["name"], each["reason"]) for each in told["blockedPods"]} == {
        (name, "DisruptionBudget") for name in kept
    }
    assert told["blockedPods"][0]["message"] == f"PodDisruptionBudget {ns}/web allows no disruption now"
    assert (told["phase"], told["totalpods"], told["evictionPods"]) == ("Running", 5, 5)
    assert {each["type"]: each["status"] for each in told["conditions"]} == {
        "Cordoned": "True",
        "LeaseHeld": "True",
        "Drained": "False",
        "Blocked": "True",
    }
    assert marks(api, node) == OUT

    text = explain(managed, node)
    strict = f"PodDisruptionBudget {ns}/web: allows no evictions even with all 3 pods healthy (minAvailable: 3)"
    assert strict in text
    assert f"lower minAvailable of PodDisruptionBudget {ns}/web (now 3)" in text

    api.patch(BUDGETS, "web", {"spec": {"minAvailable": 1}}, ns)
    succeeds(api, ns)
    assert pods_on(api, node, ns) == []
    assert "blockedPods" not in status(api, ns)
    held = lease(api, node)
    assert held is not None
    assert held["spec"]["holderIdentity"] == "node-maintenance"
    ends(api, ns)
    assert (marks(api, node), lease(api, node)) == (IN, None)

    entries = managed.audit.entries(since=since, user="operator")
    evictions = [entry for entry in entries if entry.act == "create pods/eviction"]
    assert {entry.code for entry in evictions} == {201}
    assert len(evictions) == len({entry.of for entry in evictions}) == 5
    assert not [entry for entry in entries if entry.verb == "get"], "everything is known from watches"
    lists = [entry.uri for entry in entries if entry.act == "list pods"]
    assert lists == [f"/api/v1/pods?limit=500&fieldSelector=spec.nodeName%3D{node}"], "one, which proves the node empty"


def test_a_webhook_that_refuses_an_eviction_holds_up_that_pod_alone(
    managed: ControlPlane,
    managed_kwok: Kwok,
    managed_namespace: str,
    nodes: list[str],
    operator: NodeMaintenanceOperator,
) -> None:
    api, ns = managed.api(), managed_namespace
    node, other = nodes
    managed_kwok.pods(ns, [node, other], 2, grace=1)
    machine = pod_object(f"{ns}-machine", ns, node, grace=1)
    managed.load([machine])
    with Hooks() as hooks:
        api.create(HOOKS, eviction_webhook(ns, machine["metadata"]["name"], hooks.client("deny-moving", ns)))
        eventually(lambda: is_refused(api, machine["metadata"]["name"], ns), "the webhook is asked")
        for name, of in ((f"{ns}-a", node), (f"{ns}-b", other)):
            api.create(NMS, maintenance(name, of, retryIntervalSeconds=1))
        succeeds(api, f"{ns}-b")
        eventually(lambda: sorted(pods_on(api, node, ns)) == [f"{ns}-machine"], "the other pods are gone")
        refusal = f'admission webhook "{ns}.example.com" denied the request: it is being moved'
        eventually(lambda: refusal in str(status(api, f"{ns}-a").get("blockedPods")), "the status repeats the webhook")
        assert refusal in explain(managed, node)
        api.delete(HOOKS, ns)
        succeeds(api, f"{ns}-a")
    ends(api, f"{ns}-a", f"{ns}-b")


def eviction_webhook(name: str, pod: str, client: Json) -> Json:
    return {
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": f"{name}.example.com",
                "clientConfig": client,
                "rules": [
                    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/eviction"]}
                ],
                "matchConditions": [{"name": "one", "expression": f"request.name == '{pod}'"}],
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }
        ],
    }


def is_refused(api: Api, pod: str, ns: str) -> bool:
    """Whether a dry run of the eviction meets the webhook: it takes the API server a moment to know of one."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": ns}}
    try:
        api.request("POST", f"/api/v1/namespaces/{ns}/pods/{pod}/eviction?dryRun=All", body)
    except ApiError as error:
        return "being moved" in str(error)
    return False


def test_requests_of_an_empty_node(
    managed: ControlPlane, managed_namespace: str, nodes: list[str], operator: NodeMaintenanceOperator
) -> None:
    api, ns, node = managed.api(), managed_namespace, nodes[0]
    since = managed.audit.mark()
    api.create(NMS, maintenance(ns, node))
    succeeds(api, ns)
    eventually(lambda: "SucceedMaintenance" in events(api, ns), "told")
    assert acts(managed.audit.entries(since=since, user="operator")) == {
        "patch nodemaintenances": 2,
        "patch nodemaintenances/status": 2,
        "create leases": 1,
        "patch nodes": 1,
        "create events": 2,
    }
    since = managed.audit.mark()
    ends(api, ns)
    eventually(lambda: "RemovedMaintenance" in events(api, ns), "told")
    assert acts(managed.audit.entries(since=since, user="operator")) == {
        "patch nodes": 2,
        "delete leases": 1,
        "patch nodemaintenances": 1,
        "create events": 2,
    }
    assert events(api, ns) == ["BeginMaintenance", "RemovedMaintenance", "SucceedMaintenance"]


def events(api: Api, name: str) -> list[str]:
    found = api.items("events", fieldSelector=f"involvedObject.name={name}")
    return sorted(event["reason"] for event in found)


CORDONS = f"""
intervals: {{requeue: 30s}}
instances:
  check:
  - {{type: hasLabel, name: go, config: {{key: {GO}}}}}
  trigger:
  - {{type: eviction, name: cordon, config: {{action: cordon}}}}
  - {{type: eviction, name: uncordon, config: {{action: uncordon}}}}
profiles:
- name: cordons
  operational: {{transitions: [{{check: go, next: maintenance-required}}]}}
  maintenance-required: {{transitions: [{{check: go, trigger: cordon, next: in-maintenance}}]}}
  in-maintenance: {{transitions: [{{check: "!go", trigger: uncordon, next: operational}}]}}
"""
BOTH = "{profiles: {config: config/maintenance.yaml, metricsTimeout: 0s}, nodemaintenance: {}}"


class Shared:
    """One node that a profile has in maintenance, under `haulout run` with both surfaces."""

    def __init__(self, api: Api, node: str) -> None:
        self.api = api
        self.node = node

    def profile(self, *, wants: bool) -> None:
        self.api.patch("nodes", self.node, {"metadata": {"labels": {GO: "true" if wants else None}}})
        state = "in-maintenance" if wants else "operational"
        eventually(lambda: label_of(self.api.get("nodes", self.node), STATE) == state, f"it is {state}")

    @property
    def cordoned(self) -> bool:
        return marks(self.api, self.node)[0]

    @property
    def drained(self) -> bool:
        return "medik8s.io/drain" in marks(self.api, self.node)[1]


@pytest.fixture
def shared(managed: ControlPlane, managed_kwok: Kwok, managed_namespace: str, tmp_path: Path) -> Iterator[Shared]:
    ns = managed_namespace
    (node,) = managed_kwok.nodes(ns, 1, labels={PROFILE: "cordons"})
    managed_kwok.pods(ns, [node], 2, grace=1)
    with Platform(managed, tmp_path, CORDONS, "leader: {elect: false}", surfaces=BOTH):
        yield Shared(managed.api(), node)


def test_two_maintenances_and_a_profile_on_one_node(shared: Shared, managed_namespace: str) -> None:
    """It is drained at once, but succeeds only when it is its turn; the node comes back with the last who wants it."""
    api, ns = shared.api, managed_namespace
    first, second = f"{ns}-a", f"{ns}-b"
    shared.profile(wants=True)
    assert shared.cordoned
    api.create(NMS, maintenance(first, shared.node))
    eventually(lambda: pods_on(api, shared.node, ns) == [], "it is drained")
    eventually(lambda: "waiting for its turn" in status(api, first).get("lastError", ""), "it waits")
    assert phase(api, first) == "Running"
    api.create(NMS, maintenance(second, shared.node))
    eventually(lambda: phase(api, second) == "Failed", "a second one is refused")
    assert status(api, second)["lastError"].endswith(f"a NodeMaintenance for node {shared.node} already exists")

    shared.profile(wants=False)
    succeeds(api, first)
    assert (shared.cordoned, shared.drained) == (True, True)
    ends(api, second)
    assert (shared.cordoned, shared.drained) == (True, True)
    ends(api, first)
    assert marks(api, shared.node) == IN


def test_a_profile_keeps_the_node_when_its_maintenance_ends(shared: Shared, managed_namespace: str) -> None:
    api, ns = shared.api, managed_namespace
    shared.profile(wants=True)
    api.create(NMS, maintenance(ns, shared.node))
    eventually(lambda: shared.drained and pods_on(api, shared.node, ns) == [], "it is drained")
    ends(api, ns)
    assert (shared.cordoned, shared.drained, lease(api, shared.node)) == (True, False, None)
    shared.profile(wants=False)
    # The taint of the cordon, too, although the node lifecycle controller does not run here.
    eventually(lambda: marks(api, shared.node) == IN, "the node comes back")


# On the bare plane: nothing happens but what the test and the operator do, and pods without grace are gone at once.


class Scene:
    """A node with a free pod and one behind a budget whose status the test writes."""

    def __init__(self, plane: ControlPlane, prefix: str) -> None:
        self.plane = plane
        self.api = plane.api()
        self.prefix = prefix
        self.node = f"{prefix}-node"
        self.pods = [f"{prefix}-free", f"{prefix}-kept"]

    def make(self) -> None:
        self.plane.wipe(self.prefix)
        self.plane.wipe(f"node-{self.prefix}")
        self.api.create("namespaces", {"metadata": {"name": self.prefix}})
        free, kept = (
            pod_object(name, self.prefix, self.node, labels=labels, grace=0)
            for name, labels in zip(self.pods, ({}, WEB), strict=True)
        )
        # The admission of nodes would add a taint to one that is not made in the storage.
        self.plane.load([node_object(self.node), free, kept])
        self.api.create(BUDGETS, budget("web", "web", minAvailable=1), self.prefix)
        self.count(healthy=1, needed=1)

    def count(self, *, healthy: int, needed: int) -> None:
        """Write the status of the budget, as the controller would."""
        said = {
            "currentHealthy": healthy,
            "desiredHealthy": needed,
            "expectedPods": healthy,
            "disruptionsAllowed": healthy - needed,
            "observedGeneration": self.api.get(BUDGETS, "web", self.prefix)["metadata"]["generation"],
        }
        self.api.patch(BUDGETS, "web", {"status": said}, self.prefix, sub="status")

    def begin(self) -> None:
        self.api.create(NMS, maintenance(self.prefix, self.node))

    def blocked(self) -> bool:
        found = [each["name"] for each in status(self.api, self.prefix).get("blockedPods", ())]
        return found == self.pods[1:] and self.left()

    def left(self) -> bool:
        return pods_on(self.api, self.node, self.prefix) == self.pods[1:]

    def whole(self) -> None:
        """Run a whole maintenance: created, blocked, opened, and ended."""
        self.begin()
        eventually(self.left, "one is left")
        self.count(healthy=1, needed=0)
        succeeds(self.api, self.prefix)
        self.api.delete(NMS, self.prefix)

    def over(self) -> bool:
        return self.api.find(NMS, self.prefix) is None

    def end(self) -> Any:
        node = self.api.get("nodes", self.node)
        left = [node["metadata"]["labels"], node["metadata"]["annotations"], node["spec"]]
        return normalised([*left, pods_on(self.api, self.node, self.prefix), lease(self.api, self.node)])


@pytest.fixture
def scene(plane: ControlPlane, prefix: str) -> Iterator[Scene]:
    define(plane.api())
    if plane.api().find("namespaces", LEASE_NAMESPACE) is None:
        plane.api().create("namespaces", {"metadata": {"name": LEASE_NAMESPACE}})
    made = Scene(plane, prefix)
    yield made
    plane.wipe(prefix)
    plane.wipe(f"node-{prefix}")


def events_apart(write: Write) -> bool:
    return "/events" not in write.path


def test_killed_at_every_write_a_maintenance_ends_the_same(scene: Scene, tmp_path: Path) -> None:
    report = CrashTest(
        plane=scene.plane,
        logs=tmp_path,
        argv=[*DROP_IN, "--health-probe-bind-address=0"],
        make_world=scene.make,
        act=scene.whole,
        settled=scene.over,
        end_state=scene.end,
        counted=events_apart,
        quiet=0.3,
    ).verify()
    # Finalizer, first status, owner, lease, node, two evictions, last status; node, lease, label, finalizer.
    assert len(report.writes) == 12, report.writes


GONE: Json = {
    "type": "ERROR",
    "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version: 1 (2)"},
}
# A lease that is made is not named in the path: of those, each fault meets whichever comes.
WRITES = {
    "finalizer or owner": ("PATCH", "/nodemaintenances/{name}$"),
    "status": ("PATCH", "/nodemaintenances/{name}/status$"),
    "lease": ("POST", "/leases$"),
    "node": ("PATCH", "/nodes/{name}-node$"),
    "eviction": ("POST", "/pods/{name}-free/eviction$"),
    "end of the lease": ("DELETE", "/leases/node-{name}-node$"),
}
REFUSALS: dict[str, Action] = {
    "400": Answer(400),
    "401": Answer(401),
    "403": Answer(403),
    "404": Answer(404),
    "409": Answer(409),
    "410": Answer(410),
    "422": Answer(422),
    "429": Answer(429, retry_after=1),
    "500": Answer(500),
    "503": Answer(503),
    "504": Answer(504),
    "cut-before": CutBefore(),
    "cut-after": CutAfter(),
    "slow": Delay(0.2, 0.2),
}
# What became of these is looked at after 5 s, which would add up: their writes are shared out to two maintenances.
LOST = ("504", "cut-before", "cut-after")
PODS = "/api/v1/pods"
WATCHES = (r"/nodemaintenances$", r"/api/v1/nodes$", r"/api/v1/pods$", r"/poddisruptionbudgets$", r"/leases$")
STREAMS: dict[str, Action] = {
    "reset": CutStream(events=1, how="reset"),
    "close": CutStream(events=1, how="close"),
    "torn": CutStream(events=1, how="torn"),
    "end": CutStream(events=1, how="end"),
    "gone": InsertEvent(GONE, events=1),
    "delayed": DelayEvents(0.3),
    "repeated": RepeatEvents(),
}


@pytest.fixture
def faulty(scene: Scene, proxy: FaultProxy, tmp_path: Path) -> Iterator[NodeMaintenanceOperator]:
    scene.make()
    with NodeMaintenanceOperator(scene.plane, tmp_path, server=proxy.url) as made:
        eventually(lambda: proxy.watching >= len(WATCHES), "it watches")
        yield made


def acted_once(scene: Scene, since: int) -> None:
    """Assert that every pod was evicted once, and that the node is as it was before."""
    eventually(scene.over, "it is over")
    entries = scene.plane.audit.entries(since=since, user="operator")
    done = [entry for entry in entries if entry.act == "create pods/eviction" and entry.code == 201]
    assert sorted(entry.name for entry in done if entry.ns == scene.prefix) == sorted(scene.pods)
    assert marks(scene.api, scene.node) == IN
    # Where a Lease may not be deleted, it is emptied.
    held = lease(scene.api, scene.node)
    assert held is None or not held["spec"].get("holderIdentity")


def faults() -> Iterator[tuple[str, Action, list[tuple[str, str]]]]:
    """Return names of faults, each with its action and the writes of one maintenance that it hits."""
    writes = [*WRITES.values()]
    for fault, action in REFUSALS.items():
        shares = (writes[::2], writes[1::2]) if fault in LOST else (writes,)
        yield from ((f"{fault}-{number}", action, share) for number, share in enumerate(shares))


def test_each_write_meets_each_fault(scene: Scene, proxy: FaultProxy, tmp_path: Path) -> None:
    """One maintenance for each fault, all at once. A write that is tried again does not wait for other objects."""
    rules, scenes = [], []
    for name, action, writes in faults():
        each = Scene(scene.plane, f"{scene.prefix}-{name}")
        each.make()
        scenes.append(each)
        rules += [
            proxy.rule(action, method=method, path=path.format(name=each.prefix), times=1) for method, path in writes
        ]
    since = scene.plane.audit.mark()
    with NodeMaintenanceOperator(scene.plane, tmp_path, server=proxy.url, flags=["--retry-interval-seconds=1"]):
        for each in scenes:
            each.begin()
        for each in scenes:
            eventually(each.blocked, "one is left, and said to be")
            each.count(healthy=1, needed=0)
        succeeds(scene.api, *(each.prefix for each in scenes))
        for each in scenes:
            scene.api.delete(NMS, each.prefix)
        for each in scenes:
            acted_once(each, since)
    assert [rule.acted for rule in rules] == [1] * len(rules)


GIVEN_UP_AFTER = 0.5
# Before it is looked at what became of a write of which nothing was heard, and when it has been done again since.
SOON, AFTER_THE_LOOK = GIVEN_UP_AFTER + 0.3, GIVEN_UP_AFTER + 6.0


def test_each_write_arrives_when_it_has_been_given_up(scene: Scene, proxy: FaultProxy, tmp_path: Path) -> None:
    """Each in a maintenance of its own: what is done again must not be undone, nor done twice, by what comes late."""
    rules, scenes = [], []
    for number, (method, path) in enumerate(WRITES.values()):
        for late in (SOON, AFTER_THE_LOOK):
            each = Scene(scene.plane, f"{scene.prefix}-{number}-{late:.0f}")
            each.make()
            each.count(healthy=1, needed=0)
            scenes.append(each)
            action = Delay(before=late, late=True)
            rules.append(proxy.rule(action, method=method, path=path.format(name=each.prefix), times=1))
    since = scene.plane.audit.mark()
    settings = f"leader: {{elect: false}}\nrequestTimeout: {GIVEN_UP_AFTER}s"
    surfaces = "{nodemaintenance: {}}"
    with Platform(scene.plane, tmp_path, "", settings, server=proxy.url, surfaces=surfaces) as operator:
        for each in scenes:
            each.begin()
        # Those that are late at their end first: they wait while the others do.
        for each in reversed(scenes):
            succeeds(scene.api, each.prefix)
            scene.api.delete(NMS, each.prefix)
        for each in scenes:
            eventually(each.over, "it is over")
        proxy.wait_idle()
        eventually(lambda: not any(lease(scene.api, each.node) for each in scenes), "no lease comes back to stay")
        for each in scenes:
            acted_once(each, since)
        assert len(operator.logged("write failed")) >= len(rules)
    assert [rule.acted for rule in rules] == [1] * len(rules)
    assert [write for write in proxy.writes if scene.prefix in write.path and not is_conditional(write)] == []


def is_conditional(write: Write) -> bool:
    """Whether a request fails if its object was replaced or changed since the decision."""
    match write.method, write.body:
        case "PATCH", {"metadata": {"resourceVersion": str()}}:
            return True
        case "DELETE", {"preconditions": {"uid": str()}}:
            return True
        case "POST", {"deleteOptions": {"preconditions": {"uid": str()}}}:
            return True
    return False


@pytest.mark.parametrize("fault", STREAMS)
def test_each_watch_meets_a_fault(scene: Scene, proxy: FaultProxy, tmp_path: Path, fault: str) -> None:
    scene.make()
    rules = [proxy.rule(STREAMS[fault], path=path, times=2) for path in WATCHES]
    since = scene.plane.audit.mark()
    with NodeMaintenanceOperator(scene.plane, tmp_path, server=proxy.url):
        scene.whole()
        acted_once(scene, since)
    assert all(rule.acted for rule in rules)


def test_an_answer_that_does_not_come_holds_up_one_pod_alone(
    scene: Scene, proxy: FaultProxy, faulty: NodeMaintenanceOperator
) -> None:
    stalled = proxy.rule(Stall(), method="POST", path=r"-free/eviction$", times=1)
    since = scene.plane.audit.mark()
    scene.count(healthy=1, needed=0)
    scene.begin()
    succeeds(scene.api, scene.prefix)
    assert stalled.acted == 1, "the server has done it, and the watch has said so"
    proxy.release(stalled)
    scene.api.delete(NMS, scene.prefix)
    acted_once(scene, since)


def silence_pods(proxy: FaultProxy) -> None:
    """Let the Pod watch bring nothing any more, from a time when the operator has had its list.

    An operator that was cut off before it had read the list would ask for another one, which shows every pod.
    """
    silent = proxy.rule(DropEvents(), path=f"{PODS}$", watch=True, query="resourceVersion=")

    def goes_on_in_silence() -> bool:
        if not silent.acted and proxy.watched[PODS]:
            proxy.cut_all()
        return silent.acted > 0 and proxy.watching >= len(WATCHES)

    eventually(goes_on_in_silence, "it watches again")


def test_pods_of_which_nothing_is_heard_are_looked_at(
    scene: Scene, proxy: FaultProxy, faulty: NodeMaintenanceOperator
) -> None:
    """The watch is open and brings nothing. The operator, which does not see the effect of its writes, looks once."""
    silence_pods(proxy)
    since = scene.plane.audit.mark()
    scene.count(healthy=1, needed=0)
    scene.begin()
    succeeds(scene.api, scene.prefix)
    looked = scene.plane.audit.entries(since=since, user="operator", verb="get", what="pods")
    assert sorted(entry.name for entry in looked) == scene.pods
    assert len(lists_of(scene, since)) == 1
    scene.api.delete(NMS, scene.prefix)
    acted_once(scene, since)


def lists_of(scene: Scene, since: int) -> list[Entry]:
    """Return the lists of the pods of this node that no cache may answer."""
    found = scene.plane.audit.entries(since=since, user="operator", verb="list", what="pods")
    assert not [entry for entry in found if "resourceVersion" in entry.uri]
    return [entry for entry in found if f"spec.nodeName%3D{scene.node}" in entry.uri]


def test_a_pod_that_the_watch_does_not_show_is_gone_before_the_maintenance_succeeds(
    scene: Scene, proxy: FaultProxy, faulty: NodeMaintenanceOperator
) -> None:
    """The watch is up and brings nothing, and a pod is bound that no table has: a list after the cordon finds it."""
    silence_pods(proxy)
    scene.pods.append(f"{scene.prefix}-late")
    scene.plane.load([pod_object(scene.pods[-1], scene.prefix, scene.node, grace=0)])
    since = scene.plane.audit.mark()
    scene.count(healthy=1, needed=0)
    scene.begin()
    succeeds(scene.api, scene.prefix)
    assert pods_on(scene.api, scene.node, scene.prefix) == []
    assert len(lists_of(scene, since)) == 2, "one that found it, and one that proves the node empty"
    scene.api.delete(NMS, scene.prefix)
    acted_once(scene, since)


def test_the_server_is_gone_for_a_while(scene: Scene, proxy: FaultProxy, faulty: NodeMaintenanceOperator) -> None:
    since = scene.plane.audit.mark()
    scene.begin()
    eventually(scene.blocked, "one is left", refused=(ApiError,))
    proxy.refuse()
    scene.count(healthy=1, needed=0)
    proxy.accept()
    succeeds(scene.api, scene.prefix)
    scene.api.delete(NMS, scene.prefix)
    acted_once(scene, since)
