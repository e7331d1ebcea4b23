"""The eviction trigger of profiles on the embedded cluster, in virtual time."""

from __future__ import annotations

import json
import textwrap
from datetime import timedelta

import pytest

from haulout.cluster.key import node_key
from haulout.cluster.view import View
from haulout.core.action import Say
from haulout.core.declaration import Enabled
from haulout.core.drain.options import PodRules
from haulout.embedded import DISRUPTION_BUDGETS, NODES, Json
from haulout.kernel.assemble import assemble
from haulout.kernel.requests import Telling
from haulout.plan.virtual import VirtualDriver
from haulout.surfaces.profiles.info import node_info
from haulout.surfaces.profiles.load import known_plugins, load
from haulout.surfaces.profiles.options import Options
from haulout.surfaces.profiles.passes.result import Mode
from haulout.surfaces.profiles.surface import PROFILES, sources
from haulout.surfaces.profiles.wire import PROFILE_LABEL, STATE_LABEL
from tests.build.drains import QUICK
from tests.build.workloads import World, budget, daemon_set, deployment, pod

CONFIG_TEXT = """
intervals: {requeue: 30s}
instances:
  check:
  - {type: hasLabel, name: go, config: {key: go}}
  - {type: hasLabel, name: back, config: {key: back}}
  trigger:
  - {type: eviction, name: cordon, config: {action: cordon}}
  - {type: eviction, name: uncordon, config: {action: uncordon}}
  - {type: eviction, name: drain, config: {action: drain, EVICTION}}
profiles:
- name: p
  operational: {transitions: [{check: go, next: in-maintenance, trigger: cordon}]}
  in-maintenance: {enter: drain, transitions: [{check: back, next: operational, trigger: uncordon}]}
"""


# Empty before it counts as in maintenance.
DRAINED_FIRST = """
intervals: {requeue: 30s}
instances:
  check:
  - {type: hasLabel, name: go, config: {key: go}}
  - {type: maxMaintenance, name: one, config: {max: 1}}
  trigger:
  - {type: eviction, name: drain, config: {action: drain}}
profiles:
- name: p
  operational: {transitions: [{check: go && one, next: in-maintenance, trigger: drain}]}
"""
STAGGERED = "{type: stagger, name: one, config: {duration: 1h, leaseName: turn, leaseNamespace: default}}"


class Fleet:
    def __init__(
        self, eviction: str = "forceEviction: false", mode: Mode | None = None, text: str = CONFIG_TEXT
    ) -> None:
        self.world = World(QUICK, nodes=3)
        self._config = load(
            textwrap.dedent(text).replace("EVICTION", eviction),
            known_plugins(),
            source="maintenance.yaml",
            environment={},
        )
        self._mode = mode or Mode()
        self.told: list[tuple[str, str]] = []
        self.said: list[tuple[str, dict[str, str]]] = []
        self.start()

    def start(self) -> Fleet:
        """Start the operator again, with nothing in memory."""
        enabled = Enabled(PROFILES, Options(self._config, self._mode))
        assembly = assemble([enabled], together=False, keeps_ledger=not self._mode.alone)
        self.kernel = assembly.kernel
        self.driver = VirtualDriver(self.kernel, self.world.objects, self.world.time, self._stated)
        for source in sorted(sources(self._config), key=repr):
            self.driver.watch(source.kind, source.keep)
        return self

    def _stated(self, statement: object) -> None:
        if isinstance(statement, Telling):
            self.told.append((statement.tell.reason, statement.tell.regarding.name))
        if isinstance(statement, Say):
            self.said.append((statement.message, dict(statement.fields)))

    def label(self, **labels: str | None) -> Fleet:
        self.world.change(NODES, "n0", {"metadata": {"labels": labels}})
        return self

    def go(self) -> Fleet:
        self.world.change(NODES, "n0", {"metadata": {"labels": {PROFILE_LABEL: "p", "go": "1"}}})
        return self

    def run(self, seconds: float) -> Fleet:
        self.driver.run(self.world.time.now() + timedelta(seconds=seconds))
        return self

    @property
    def node(self) -> Json:
        return self.world.get(NODES, "n0")

    @property
    def state(self) -> str:
        return str(self.node["metadata"]["labels"].get(STATE_LABEL))

    @property
    def annotations(self) -> dict[str, str]:
        found: dict[str, str] = self.node["metadata"].get("annotations", {})
        return found

    def is_draining(self) -> bool:
        entry = json.loads(self.annotations["cloud.sap/maintenance-data"])["Profiles"]["p"]
        return bool(entry["Previous"] != entry["Current"])

    def error(self) -> str:
        """Return the error that people see."""
        info = node_info(node_key("n0"), View(self.kernel.store, explaining=True), self.world.time.now())
        assert info is not None
        return str(info["profiles"][0]["applied"]["error"])

    def cordoned(self) -> list[str]:
        nodes = [self.world.get(NODES, name) for name in ("n0", "n1", "n2")]
        return [each["metadata"]["name"] for each in nodes if each["spec"].get("unschedulable")]

    def pods(self) -> list[str]:
        return [each["metadata"]["name"] for each in self.world.pods() if each["spec"].get("nodeName") == "n0"]


def reasons(fleet: Fleet) -> list[str]:
    return [reason for reason, _ in fleet.told]


def test_cordoned_drained_and_put_back() -> None:
    fleet = Fleet()
    fleet.world.make(deployment("web", replicas=3), daemon_set("agent"), pod("bare", nodeName="n0"))
    fleet.run(30).go().run(1)
    assert fleet.state == "in-maintenance"
    assert fleet.node["spec"]["unschedulable"] is True
    assert fleet.is_draining()
    fleet.run(10)
    assert [name.split("-")[0] for name in fleet.pods()] == ["agent"]
    assert not fleet.is_draining()
    assert "haulout.dev/drain-started-at" not in fleet.annotations
    assert reasons(fleet).count("Evicting") == 2
    fleet.label(back="1", go=None).run(1)
    assert fleet.state == "operational"
    assert "unschedulable" not in fleet.node["spec"]


def test_the_log_follows_a_drain() -> None:
    fleet = Fleet()
    fleet.world.make(*(pod(f"bare-{number}", nodeName="n0") for number in range(3)))
    fleet.run(30).go().run(60).label(back="1", go=None).run(1)
    assert [(message, fields.get("instance") or fields.get("count")) for message, fields in fleet.said] == [
        ("Executed trigger instance", "cordon"),
        ("Moved node to next state", None),
        ("Going to evict pods from node.", "3"),
        ("Drain still in progress; will continue in next reconcile", None),
        ("Waiting for pods to terminate after eviction.", "3"),
        ("Executed trigger instance", "drain"),
        ("Executed trigger instance", "uncordon"),
        ("Moved node to next state", None),
    ]
    assert {fields["node"] for _, fields in fleet.said} == {"n0"}


@pytest.mark.parametrize(
    ("annotations", "stays"),
    [({"cluster.x-k8s.io/machine": "worker-0"}, True), ({}, False)],
    ids=["of-cluster-api", "of-nobody"],
)
def test_the_label_of_cluster_api_keeps_pods_on_its_nodes(annotations: dict[str, str], stays: bool) -> None:
    fleet = Fleet(mode=Mode(alone=True, rules=PodRules(cluster_api_label=True)))
    fleet.world.change(NODES, "n0", {"metadata": {"annotations": annotations}})
    kept = pod("kept", nodeName="n0")
    kept["metadata"]["labels"] = {"cluster.x-k8s.io/drain": "Skip"}
    fleet.world.make(kept, pod("bare", nodeName="n0"))
    fleet.run(30).go().run(20)
    assert not fleet.is_draining()
    assert fleet.pods() == (["kept"] if stays else [])


def test_a_budget_is_waited_for_and_the_stall_is_told_once() -> None:
    fleet = Fleet("evictionTimeout: 1m, deletionTimeout: 1m")
    fleet.world.make(deployment("web", replicas=3), budget("web", minAvailable=3))
    fleet.run(30).go().run(600)
    (name,) = fleet.pods()
    why = "PodDisruptionBudget default/web allows no disruption now"
    assert fleet.error() == (
        f"Trigger instance drain failed: failed to delete/evict at least one pod: failed to evict pod {name}: {why}"
    )
    assert reasons(fleet).count("DrainStalled") == 1
    assert reasons(fleet).count("Evicting") == 1
    fleet.world.change(DISRUPTION_BUDGETS, "web", {"spec": {"minAvailable": 1}})
    fleet.run(10)
    assert fleet.pods() == []
    assert not fleet.is_draining()


def test_g12_with_force_what_is_left_after_the_timeout_is_deleted() -> None:
    fleet = Fleet("evictionTimeout: 20s, forceEviction: true")
    fleet.world.make(deployment("web", replicas=3), budget("web", minAvailable=3))
    fleet.run(30).go().run(15)
    assert len(fleet.pods()) == 1
    fleet.run(15)
    assert fleet.pods() == []


@pytest.mark.parametrize("restarted", [False, True])
def test_a_drain_on_the_way_into_maintenance_keeps_its_place(restarted: bool) -> None:
    fleet = Fleet(text=DRAINED_FIRST)
    fleet.world.make(deployment("web", replicas=3), budget("web", minAvailable=3))
    fleet.run(30)
    for name in ("n0", "n1", "n2"):
        fleet.world.change(NODES, name, {"metadata": {"labels": {PROFILE_LABEL: "p", "go": "1"}}})
    fleet.run(5)
    for _ in range(restarted):
        fleet.start().run(5)
    assert fleet.cordoned() == ["n0"]
    fleet.world.change(DISRUPTION_BUDGETS, "web", {"spec": {"minAvailable": 1}})
    fleet.run(60)
    assert fleet.cordoned() == ["n0"]
    assert fleet.state == "in-maintenance"


@pytest.mark.parametrize("alone", [True, False])
def test_an_empty_node_is_drained_on_its_way_without_a_failure(alone: bool) -> None:
    fleet = Fleet(text=DRAINED_FIRST, mode=Mode(alone=alone)).run(1).go().run(1)
    assert (fleet.state, fleet.cordoned()) == ("in-maintenance", ["n0"])
    assert reasons(fleet) == ["ChangedMaintenanceState"]
    assert "haulout.dev/drain-started-at" not in fleet.annotations


def test_a_drain_on_the_way_that_takes_time_counts_as_a_failure() -> None:
    fleet = Fleet(text=DRAINED_FIRST)
    fleet.world.make(pod("bare", nodeName="n0"))
    fleet.run(30).go().run(60)
    assert reasons(fleet) == ["ChangeMaintenanceStateFailed", "Evicting", "ChangedMaintenanceState"]


def test_a_turn_lasts_until_an_empty_node_is_cordoned() -> None:
    text = DRAINED_FIRST.replace("{type: maxMaintenance, name: one, config: {max: 1}}", STAGGERED)
    fleet = Fleet(text=text).run(1).go().run(10)
    assert fleet.state == "in-maintenance"


@pytest.mark.parametrize("alone", [True, False])
def test_a_node_that_a_person_had_cordoned(alone: bool) -> None:
    fleet = Fleet(mode=Mode(alone=alone))
    fleet.world.change(NODES, "n0", {"spec": {"unschedulable": True}})
    fleet.run(1).go().run(5).label(back="1", go=None).run(5)
    assert fleet.state == "operational"
    assert fleet.node["spec"].get("unschedulable", False) is not alone
    assert "haulout.dev/cordon" not in fleet.annotations


def test_a_profile_that_goes_takes_its_drain_along() -> None:
    fleet = Fleet()
    fleet.world.make(deployment("web", replicas=3), budget("web", minAvailable=3))
    fleet.run(30).go().run(5)
    fleet.label(**{PROFILE_LABEL: None}).run(1)
    assert "haulout.dev/drain-started-at" not in fleet.annotations
    fleet.world.change(DISRUPTION_BUDGETS, "web", {"spec": {"minAvailable": 1}})
    fleet.run(60)
    assert len(fleet.pods()) == 1


def test_a_person_who_uncordons_in_the_middle_is_told_of_and_obeyed() -> None:
    fleet = Fleet(mode=Mode(alone=False))
    fleet.run(1).go().run(5)
    fleet.world.change(NODES, "n0", {"spec": {"unschedulable": None}})
    fleet.run(60)
    assert "unschedulable" not in fleet.node["spec"]
    assert reasons(fleet).count("UncordonedInMaintenance") == 1
    fleet.label(back="1", go=None).run(5)
    assert fleet.state == "operational"
    assert "haulout.dev/cordon" not in fleet.annotations


def test_a_cordon_that_a_profile_has_left_behind_ends_by_hand() -> None:
    """Nothing else shows it: who cordons the node next must not take it for a claim."""
    fleet = Fleet(mode=Mode(alone=False), text=CONFIG_TEXT.replace(", trigger: uncordon", ""))
    fleet.run(1).go().run(5).label(back="1", go=None).run(5)
    assert fleet.state == "operational"
    assert json.loads(fleet.annotations["haulout.dev/cordon"])["by"] == ["profiles"]
    fleet.world.change(NODES, "n0", {"spec": {"unschedulable": None}})
    fleet.run(5)
    assert "haulout.dev/cordon" not in fleet.annotations
    assert "UncordonedInMaintenance" not in reasons(fleet)
