"""A whole maintenance by a profile, with notifications and a drain: killed before and after each write, and each write refused."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.real.profiles import DATA, GO, PROFILE, STATES, entries_of, label_of
from tests.rig.api import Json
from tests.rig.crash import CrashTest, normalised
from tests.rig.faults import Action, Answer, CutAfter, CutBefore, FaultProxy, Rule
from tests.rig.fleet import node_object, pod_object
from tests.rig.operator import HAULOUT, MaintenanceController
from tests.rig.plane import ControlPlane
from tests.rig.receiver import Receiver
from tests.rig.wait import eventually

pytestmark = pytest.mark.tools("etcd", "kube-apiserver")


def config(profile: str, url: str, *, most: int) -> str:
    """Return a configuration: notify, cordon, drain, notify, uncordon; at most so many nodes at a time."""
    return f"""
intervals: {{requeue: 1s}}
instances:
  check:
  - {{type: hasLabel, name: go, config: {{key: {GO}}}}}
  - {{type: maxMaintenance, name: few, config: {{max: {most}, profile: {profile}}}}}
  notify:
  - type: slack
    name: told
    config: {{hook: "{url}/told", channel: c, message: "{{{{ .Node.Name }}}} {{{{ .State }}}}"}}
    schedule: {{type: periodic, config: {{interval: 1h}}}}
  trigger:
  - {{type: alterLabel, name: done, config: {{key: {GO}, remove: true}}}}
  - {{type: eviction, name: cordon, config: {{action: cordon}}}}
  - {{type: eviction, name: drain, config: {{action: drain}}}}
  - {{type: eviction, name: uncordon, config: {{action: uncordon}}}}
profiles:
- name: {profile}
  operational: {{transitions: [{{check: go, next: maintenance-required}}]}}
  maintenance-required:
    notify: told
    transitions: [{{check: few, trigger: cordon, next: in-maintenance}}]
  in-maintenance:
    enter: drain
    notify: told
    transitions: [{{check: go, trigger: done && uncordon, next: operational}}]
"""


class Scene:
    """A node with a pod, and perhaps some without. The test does not look at where the pod goes."""

    def __init__(self, plane: ControlPlane, ns: str, name: str, *idle: str) -> None:
        self.plane = plane
        self.api = plane.api()
        self.ns = ns
        self.nodes = [name, *(f"{name}-{more}" for more in idle)]
        self.pod = f"{name}-pod"
        self.messages = {f"{name} {state}" for name in self.nodes for state in STATES[1:]}

    def objects(self) -> Iterator[Json]:
        yield from (node_object(name, labels={PROFILE: self.ns}) for name in self.nodes)
        yield pod_object(self.pod, self.ns, self.nodes[0], grace=0)

    def begin(self) -> None:
        for name in self.nodes:
            self.api.patch("nodes", name, {"metadata": {"labels": {GO: "true"}}})

    def over(self) -> bool:
        return all(self._is_back(self.api.get("nodes", name)) for name in self.nodes)

    def _is_back(self, node: Json) -> bool:
        entry = entries_of(node).get(self.ns, {}) if DATA in node["metadata"]["annotations"] else {}
        return label_of(node, GO) is None and entry.get("Current") == "operational"

    def end(self) -> Any:
        nodes = [self.api.get("nodes", name) for name in self.nodes]
        left = [[node["metadata"]["labels"], node["metadata"]["annotations"], node["spec"]] for node in nodes]
        return normalised([*left, self.api.find("pods", self.pod, self.ns)])


def test_killed_at_every_write_a_maintenance_ends_the_same(plane: ControlPlane, prefix: str, tmp_path: Path) -> None:
    """The pod is evicted once, and every message arrives; of each node one at most twice."""
    scene = Scene(plane, prefix, f"{prefix}-busy", "idle")
    receiver, told = Receiver(), list[Counter[str]]()

    def make() -> None:
        plane.wipe(prefix)
        receiver.got.clear()
        told.append(Counter())
        plane.api().create("namespaces", {"metadata": {"name": prefix}})
        plane.load(scene.objects())
        # Before the operator is there: two who write to a node at the same time would have a conflict.
        scene.begin()

    def end() -> Any:
        told[-1] = Counter(receiver.texts("/told"))
        return scene.end()

    (tmp_path / "haulout.yaml").write_text(
        f'listen: {{http: "0", health: "0"}}\nleader: {{elect: false}}\nlog: {{format: console}}\n'
        f"surfaces: {{profiles: {{config: {tmp_path}/maintenance.yaml}}}}\n"
    )
    with receiver.open() as url:
        (tmp_path / "maintenance.yaml").write_text(config(prefix, url, most=1))
        report = CrashTest(
            plane=plane,
            logs=tmp_path,
            argv=[HAULOUT, "run", "--config", tmp_path / "haulout.yaml"],
            make_world=make,
            act=lambda: None,
            settled=scene.over,
            end_state=end,
            quiet=0.3,
        ).verify()
    plane.wipe(prefix)
    # Required, told, let in and cordoned, draining, the eviction, drained and told and back; without a pod two less.
    # A message that takes its time is a write more.
    assert 10 <= len(report.writes) <= 12, report.writes
    assert all(set(each) == scene.messages for each in told), told
    assert all(repeated(each, name) <= 1 for each in told for name in scene.nodes), told


def repeated(told: Counter[str], node: str) -> int:
    return sum(count - 1 for text, count in told.items() if text.startswith(f"{node} "))


FAULTS: dict[str, Action] = {
    "403": Answer(403),
    "409": Answer(409),
    "422": Answer(422),
    "429": Answer(429, retry_after=1),
    "500": Answer(500),
    "504": Answer(504),
    "cut-before": CutBefore(),
    "cut-after": CutAfter(),
}
# Of a node one after another.
WRITES = {"eviction": ("POST", "/pods/{node}-pod/eviction$", 0)} | {
    what: ("PATCH", "/nodes/{node}$", number)
    for number, what in enumerate(("required", "told", "inside", "draining", "back"))
}


def test_each_write_meets_each_fault(plane: ControlPlane, proxy: FaultProxy, namespace: str, tmp_path: Path) -> None:
    """A node for each, all at once: it ends as if nothing had been, every pod evicted and every message sent once."""
    receiver, rules, scenes = Receiver(), dict[str, Rule](), dict[str, Scene]()
    for (fault, action), (what, (method, path, skip)) in itertools.product(FAULTS.items(), WRITES.items()):
        name = f"{namespace}-{what}-{fault}"
        scenes[name] = Scene(plane, namespace, name)
        rules[name] = proxy.rule(action, method=method, path=path.format(node=name), skip=skip, times=1)
    plane.load(each for scene in scenes.values() for each in scene.objects())
    since = plane.audit.mark()
    text = config(namespace, "{url}", most=len(scenes))
    with (
        receiver.open() as url,
        MaintenanceController(plane, tmp_path, text.replace("{url}", url), server=proxy.url),
    ):
        for scene in scenes.values():
            scene.begin()
        for name, scene in scenes.items():
            eventually(scene.over, f"{name} is back")
    entries = plane.audit.entries(since=since, user="operator", what="pods/eviction")
    evicted = Counter(entry.name for entry in entries if entry.code == 201)
    ends = {name: str(scene.end()).replace(name, "") for name, scene in scenes.items()}
    assert {name for name, rule in rules.items() if not rule.acted} == set()
    assert evicted == dict.fromkeys((scene.pod for scene in scenes.values()), 1)
    assert Counter(receiver.texts("/told")) == dict.fromkeys(
        (message for scene in scenes.values() for message in scene.messages), 1
    )
    (end,) = set(ends.values())
    assert "unschedulable" not in end
