"""KWOK: thousands of simulated kubelets, with stages of our own for their nodes and pods."""

from __future__ import annotations

import http.client
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Self

import yaml

from tests.rig.api import Json
from tests.rig.fleet import KWOK_NODE, Owner, node_object, pod_object
from tests.rig.plane import ControlPlane, tool
from tests.rig.process import Process, free_port
from tests.rig.wait import eventually

# Annotation of a pod: how long it takes to stop, as a Go duration, if that is not its whole grace period.
STOPS_AFTER = "haulout.test/stops-after"
# Annotation of a pod: how long it takes to become ready, if it is not ready at once.
STARTS_AFTER = "haulout.test/starts-after"
# Annotations of a pod that ends by itself: how long it runs, and whether it fails ("Failed").
ENDS_AFTER, ENDS_AS = "haulout.test/ends-after", "haulout.test/ends-as"

INITIAL_CONDITIONS = """
conditions:
{{ $now := Now }}
{{ range NodeConditions }}
- type: {{ .type | Quote }}
  status: {{ .status | Quote }}
  reason: {{ .reason | Quote }}
  message: {{ .message | Quote }}
  lastHeartbeatTime: {{ $now | Quote }}
  lastTransitionTime: {{ $now | Quote }}
{{ end }}
{{ if not .status.allocatable }}
allocatable: {cpu: "64", memory: 256Gi, pods: "500"}
capacity: {cpu: "64", memory: 256Gi, pods: "500"}
{{ end }}
"""

# Conditions are merged by type, so a heartbeat keeps conditions that a test has written.
HEARTBEAT = """
conditions:
{{ $now := Now }}
{{ range .status.conditions }}
- type: {{ .type | Quote }}
  lastHeartbeatTime: {{ $now | Quote }}
{{ end }}
"""

# Admission taints every new node. The node lifecycle controller, which would remove the taint, seldom runs here.
LIFTED_TAINT = """
taints:
{{ range .spec.taints }}
{{ if ne .key "node.kubernetes.io/not-ready" }}
- key: {{ .key | Quote }}
  effect: {{ .effect | Quote }}
  value: {{ or .value "" | Quote }}
{{ end }}
{{ end }}
"""

RUNNING = """
{{ $now := Now }}
phase: Running
startTime: {{ $now | Quote }}
conditions:
{{ range $type := list "PodReadyToStartContainers" "Initialized" "Ready" "ContainersReady" }}
- type: {{ $type }}
  status: "True"
  lastTransitionTime: {{ $now | Quote }}
{{ end }}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  ready: true
  started: true
  restartCount: 0
  state:
    running:
      startedAt: {{ $now | Quote }}
{{ end }}
"""

OVER = f"""
{{{{ $now := Now }}}}
{{{{ $phase := or (index .metadata.annotations "{ENDS_AS}") "Succeeded" }}}}
phase: {{{{ $phase }}}}
containerStatuses:
{{{{ range .spec.containers }}}}
- name: {{{{ .name | Quote }}}}
  image: {{{{ .image | Quote }}}}
  ready: false
  started: false
  restartCount: 0
  state:
    terminated:
      exitCode: {{{{ if eq $phase "Failed" }}}}1{{{{ else }}}}0{{{{ end }}}}
      startedAt: {{{{ $now | Quote }}}}
      finishedAt: {{{{ $now | Quote }}}}
{{{{ end }}}}
"""

# The exit codes of package pods' init containers. The pause container after them does not matter.
ENDED = """
{{{{ $now := Now }}}}
phase: Pending
initContainerStatuses:
{{{{ range .spec.initContainers }}}}
- name: {{{{ .name | Quote }}}}
  image: {{{{ .image | Quote }}}}
  imageID: ""
  ready: {ready}
  restartCount: {restarts}
  state:
    terminated:
      exitCode: {code}
      startedAt: {{{{ $now | Quote }}}}
      finishedAt: {{{{ $now | Quote }}}}
{{{{ end }}}}
"""
# How long a package pod runs, in seconds, unless a test or a measurement says otherwise.
PACKAGE_TAKES = 0.3
PACKAGE = '.metadata.labels["skyhook.nvidia.com/name"]'
JOB = '.metadata.labels["batch.kubernetes.io/job-name"]'
DELETED = ".metadata.deletionTimestamp"
# The last digit of the node decides: of the pods on 3 every second one seems to hang, on 5 every second one vanishes,
# and on 7 each one fails once. Half of all UIDs begin with 0 to 7.
FATE = (
    '(.spec.nodeName + "/" + .metadata.uid) | '
    'if test("3/[0-7]") then "hangs" elif test("5/[0-7]") then "vanishes" elif test("7/") then "fails" else "works" end'
)


def package_stages(takes: float) -> Iterator[Json]:
    """Yield the KWOK stages of pods that an operator of packages makes. `takes`: the seconds that one of them runs."""
    alive: list[Json] = [{"key": PACKAGE, "operator": "Exists"}, {"key": DELETED, "operator": "DoesNotExist"}]
    fresh: list[Json] = [*alive, {"key": ".status.initContainerStatuses.[].name", "operator": "DoesNotExist"}]
    code = ".status.initContainerStatuses.[0].state.terminated.exitCode | tostring"

    def fate(word: str) -> list[Json]:
        return [*fresh, {"key": FATE, "operator": "In", "values": [word]}]

    works, fails = ENDED.format(ready="true", restarts=0, code=0), ENDED.format(ready="false", restarts=1, code=1)
    recovers = ENDED.format(ready="true", restarts=1, code=0)
    milliseconds = int(takes * 1000)
    yield stage("package-works", "Pod", fate("works"), _status(works), {"durationMilliseconds": milliseconds})
    yield stage("package-fails", "Pod", fate("fails"), _status(fails), {"durationMilliseconds": milliseconds})
    yield stage("package-hangs", "Pod", fate("hangs"), _status(works), {"durationMilliseconds": 1500})
    failed: list[Json] = [*alive, {"key": code, "operator": "In", "values": ["1"]}]
    yield stage("package-recovers", "Pod", failed, _status(recovers), {"durationMilliseconds": 500})
    yield stage("package-vanishes", "Pod", fate("vanishes"), {"delete": True}, {"durationMilliseconds": 300})
    # The main container of a Job's pod ends, too.
    ended: list[Json] = [*alive, {"key": JOB, "operator": "Exists"}, {"key": code, "operator": "In", "values": ["0"]}]
    pending = {"key": ".status.phase", "operator": "In", "values": ["Pending"]}
    yield stage("package-job-ends", "Pod", [*ended, pending], _status("phase: Succeeded"))
    gone: list[Json] = [{"key": PACKAGE, "operator": "Exists"}, {"key": DELETED, "operator": "Exists"}]
    yield stage("package-delete", "Pod", gone, {"delete": True})


def _status(template: str) -> Json:
    return {"patch": {"subresource": "status", "root": "status", "type": "merge", "template": template}}


def stage(name: str, kind: str, when: list[Json], step: Json, delay: Json | None = None) -> Json:
    spec: Json = {
        "resourceRef": {"apiGroup": "v1", "kind": kind},
        "selector": {"matchExpressions": when},
        "steps": [step],
    }
    if delay is not None:
        spec["delay"] = delay
    return {"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "Stage", "metadata": {"name": name}, "spec": spec}


def configuration(heartbeat: float, package_takes: float) -> Iterator[Json]:
    jobs = ("nodeLease", "nodePlayStage", "podPlayStage", "podsOnNodeSync")
    options = {f"{job}Parallelism": 16 for job in jobs}
    yield {"apiVersion": "config.kwok.x-k8s.io/v1alpha1", "kind": "KwokConfiguration", "options": options}
    ready = '.status.conditions.[] | select(.type == "Ready") | .status'
    milliseconds = int(heartbeat * 1000)
    yield stage(
        "node-initialize",
        "Node",
        [{"key": ready, "operator": "DoesNotExist"}],
        {"patch": {"subresource": "status", "root": "status", "type": "strategic", "template": INITIAL_CONDITIONS}},
    )
    yield stage(
        "node-untaint",
        "Node",
        [
            {"key": ready, "operator": "In", "values": ["True"]},
            {"key": ".spec.taints.[].key", "operator": "In", "values": ["node.kubernetes.io/not-ready"]},
        ],
        {"patch": {"root": "spec", "type": "merge", "template": LIFTED_TAINT}},
    )
    yield stage(
        "node-heartbeat",
        "Node",
        [
            {"key": ready, "operator": "Exists"},
            {"key": ".spec.taints.[].key", "operator": "NotIn", "values": ["node.kubernetes.io/not-ready"]},
        ],
        {"patch": {"subresource": "status", "root": "status", "type": "strategic", "template": HEARTBEAT}},
        {"durationMilliseconds": milliseconds * 4 // 5, "jitterDurationMilliseconds": milliseconds * 6 // 5},
    )
    yield stage(
        "pod-ready",
        "Pod",
        [
            {"key": DELETED, "operator": "DoesNotExist"},
            {"key": PACKAGE, "operator": "DoesNotExist"},
            {"key": ".status.phase", "operator": "In", "values": ["Pending"]},
        ],
        {"patch": {"subresource": "status", "root": "status", "type": "strategic", "template": RUNNING}},
        {
            "durationMilliseconds": 0,
            "durationFrom": {"expressionFrom": f'.metadata.annotations["{STARTS_AFTER}"]'},
        },
    )
    yield stage(
        "pod-ends",
        "Pod",
        [
            {"key": DELETED, "operator": "DoesNotExist"},
            {"key": f'.metadata.annotations["{ENDS_AFTER}"]', "operator": "Exists"},
            {"key": ".status.phase", "operator": "In", "values": ["Running"]},
        ],
        {"patch": {"subresource": "status", "root": "status", "type": "merge", "template": OVER}},
        {"durationMilliseconds": 0, "durationFrom": {"expressionFrom": f'.metadata.annotations["{ENDS_AFTER}"]'}},
    )
    stops = f'.metadata.annotations["{STOPS_AFTER}"] // .metadata.deletionTimestamp'
    yield stage(
        "pod-delete",
        "Pod",
        [{"key": DELETED, "operator": "Exists"}, {"key": PACKAGE, "operator": "DoesNotExist"}],
        {"delete": True},
        {"durationMilliseconds": 0, "durationFrom": {"expressionFrom": stops}},
    )
    yield from package_stages(package_takes)


class Kwok:
    """KWOK as a process: keeps nodes with the mark `KWOK_NODE` alive, runs the pods bound to them, and stops them with grace."""

    def __init__(
        self, plane: ControlPlane, *, heartbeat: float = 300, leases: int = 0, package_takes: float = PACKAGE_TAKES
    ) -> None:
        # Times have seconds. A heartbeat that changes nothing is not written, and KWOK would wait for its echo without
        # end.
        assert heartbeat >= 2
        self.plane = plane
        config = plane.directory / "kwok.yaml"
        config.write_text(yaml.safe_dump_all(configuration(heartbeat, package_takes)))
        self.port = free_port()
        (mark,) = (f"{key}={value}" for key, value in KWOK_NODE.items())
        self.process = Process(
            "kwok",
            [
                tool("kwok"),
                f"--config={config}",
                f"--kubeconfig={plane.kubeconfig('kwok')}",
                f"--manage-nodes-with-annotation-selector={mark}",
                f"--node-lease-duration-seconds={leases}",
                f"--server-address=127.0.0.1:{self.port}",
            ],
            plane.directory,
        )

    def start(self) -> Self:
        self.process.start()
        eventually(self._healthy, "kwok healthy", refused=(OSError, http.client.HTTPException))
        return self

    def stop(self) -> None:
        self.process.stop()

    def nodes(self, prefix: str, count: int, *, labels: Mapping[str, str] | None = None, suffix: str = "") -> list[str]:
        """Put ready nodes `<prefix>-0<suffix>` and so on into the storage. Return their names.

        The last letter decides the fate of package pods.
        """
        names = [f"{prefix}-{i}{suffix}" for i in range(count)]
        self.plane.load(node_object(name, labels=labels) for name in names)
        return names

    def pods(
        self,
        ns: str,
        nodes: Iterable[str],
        each: int,
        *,
        owner: Owner | None = None,
        labels: Mapping[str, str] | None = None,
        grace: int = 30,
        stops_after: str | None = None,
    ) -> list[str]:
        """Put `each` pods for every node into the storage as Pending, and wait until all are Running."""
        notes = {} if stops_after is None else {STOPS_AFTER: stops_after}
        made = [
            pod_object(
                *(f"{node}-pod-{i}", ns, node),
                owner=owner,
                labels=labels,
                annotations=notes,
                grace=grace,
                running=False,
            )
            for node in nodes
            for i in range(each)
        ]
        self.plane.load(made)
        self.wait_running(ns)
        return [body["metadata"]["name"] for body in made]

    def wait_running(self, ns: str) -> None:
        pending = {"fieldSelector": "status.phase=Pending", "limit": "1"}
        eventually(lambda: not self.plane.api().items("pods", ns, **pending), f"no pod is Pending in {ns}")

    def _healthy(self) -> bool:
        self.process.check()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("GET", "/healthz")
            return connection.getresponse().status == 200
        finally:
            connection.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()
