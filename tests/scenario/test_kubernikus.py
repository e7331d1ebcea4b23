"""Kubernikus on the embedded cluster, in virtual time: the version label, and a node on its way out."""

from __future__ import annotations

import textwrap
from datetime import datetime, timedelta

import msgspec
import pytest

from haulout.cluster.key import Key, node_key
from haulout.cluster.rows import Value
from haulout.cluster.view import CONFIG, FactDemand
from haulout.core.action import Say, Send
from haulout.core.arbiter import Rules, arbiter
from haulout.core.decision import Decider, Decision
from haulout.core.drain.deciders import DRAIN_DECIDERS
from haulout.core.holds import Claim, Want
from haulout.embedded import NODES, Json
from haulout.kernel.kernel import Kernel
from haulout.kernel.requests import Answer, Refused, Request, Telling
from haulout.plugins.config import ConfigProblem
from haulout.surfaces.kubernikus.options import Options, load
from haulout.surfaces.kubernikus.surface import DECIDERS, KUBERNIKUS
from haulout.surfaces.kubernikus.wire import DELETE_LABEL, NAME, UPDATE_LABEL, VERSION_PROBE, ServerDeletion
from tests.build.desk import Script
from tests.build.drains import QUICK
from tests.build.kills import MortalDriver, every_kill, outlive
from tests.build.workloads import World, budget, daemon_set, deployment, node, pod

PACE = timedelta(seconds=30)
FILE = """
intervals:
  requeue: 30s
  podDeletion: {period: 1s, timeout: 30s}
  podEviction: {period: 1s, timeout: 30s, force: true}
cloudProviderSecret: {name: s, namespace: ns}
"""


class Outside(Kernel):
    """A channel that remembers messages, and lets deletions fail while the test wants it."""

    refuses = ""

    def take_requests(self) -> list[Request]:
        out = super().take_requests()
        self.sends = [*getattr(self, "sends", []), *(each for each in out if isinstance(each.body, Send))]
        return out

    def on_answer(self, request: int, answer: Answer, now: datetime) -> None:
        is_send = any(each.id == request for each in self.sends)
        super().on_answer(request, Refused(0, self.refuses) if is_send and self.refuses else answer, now)


class Fleet:
    def __init__(self, *others: Decider, api_server: str = "v1.36.3", **options: object) -> None:
        self.world = World(QUICK, nodes=3)
        self.told: list[tuple[str, str]] = []
        self.said: list[str] = []
        self.failed: list[str] = []
        self._others, self._api_server = others, api_server
        self._given = msgspec.structs.replace(Options(PACE), **options)
        self.restart()

    def restart(self) -> Fleet:
        """Start another process, which knows only what is stored in the cluster."""
        rules = Rules((NAME, *(each.name for each in self._others)))
        self.kernel = Outside(
            (*DECIDERS, *self._others, *DRAIN_DECIDERS, arbiter(rules)), keeps_ledger=not self._given.alone
        )
        self.kernel.store.write(Value(key=Key("", CONFIG, "", NAME), value=self._given))
        self.answer(self._api_server)
        self.driver = MortalDriver(self.kernel, self.world.objects, self.world.time, self._stated)
        for source in sorted(KUBERNIKUS.sources(None), key=repr):
            self.driver.watch(source.kind, source.keep)
        return self

    def answer(self, version: str) -> None:
        key = FactDemand(VERSION_PROBE, "", PACE).key
        self.kernel.store.write(Value(key=key, value=version, state="fresh"))

    def _stated(self, statement: object) -> None:
        if isinstance(statement, Telling):
            self.told.append((statement.tell.reason, statement.tell.reporter))
        if isinstance(statement, Say):
            self.said.append(dict(statement.fields)["error"])
            self.failed.append(dict(statement.fields)["node"])

    def label(self, value: str | None) -> Fleet:
        self.world.change(NODES, "n0", {"metadata": {"labels": {DELETE_LABEL: value}}})
        return self

    def run(self, seconds: float) -> Fleet:
        self.driver.run(self.world.time.now() + timedelta(seconds=seconds))
        return self

    def node(self, name: str = "n0") -> Json:
        return self.world.get(NODES, name)

    def kubelet(self, name: str, version: str) -> None:
        info = {"status": {"nodeInfo": {"kubeletVersion": version}}}
        self.world.objects.patch(NODES, "", name, info, subresource="status")

    def needs_update(self, name: str) -> str | None:
        found: str | None = self.node(name)["metadata"]["labels"].get(UPDATE_LABEL)
        return found

    @property
    def cordoned(self) -> bool:
        return bool(self.node()["spec"].get("unschedulable"))

    @property
    def asked_for(self) -> list[object]:
        return [each.body.payload for each in self.kernel.sends if isinstance(each.body, Send)]

    def pods(self) -> list[str]:
        found = [each["metadata"]["name"] for each in self.world.pods() if each["spec"].get("nodeName") == "n0"]
        return [name.split("-")[0] for name in found]


@pytest.mark.parametrize(
    ("kubelet", "label"),
    [
        pytest.param("v1.36.3", "false", id="the same"),
        pytest.param("v1.36.3+vendor.1", "false", id="the same, built elsewhere"),
        pytest.param("v1.36.2", "true", id="older"),
        pytest.param("v1.37.0", "true", id="newer"),
        pytest.param("v1.36.3-rc.0", "true", id="not yet it"),
        pytest.param("", None, id="g16 none"),
        pytest.param("v1.36", None, id="half of one"),
    ],
)
def test_the_version_label(kubelet: str, label: str | None) -> None:
    fleet = Fleet()
    unmanaged = node("own")
    unmanaged["metadata"]["annotations"] = {"simulate.haulout.dev/unmanaged": "true"}
    unmanaged["status"] = {"nodeInfo": {"kubeletVersion": kubelet}}
    fleet.world.make(unmanaged)
    fleet.kubelet("own", kubelet)
    fleet.run(60)
    assert fleet.needs_update("own") == label
    assert ("own" in fleet.failed) == (label is None)


def test_the_label_follows_the_api_server_and_is_written_only_then() -> None:
    fleet = Fleet()
    fleet.kubelet("n0", "v1.36.3")
    fleet.run(10)
    version = fleet.node()["metadata"]["resourceVersion"]
    fleet.run(300)
    assert fleet.node()["metadata"]["resourceVersion"] == version
    fleet.answer("v1.37.0")
    fleet.run(1)
    assert fleet.needs_update("n0") == "true"


def ready(fleet: Fleet) -> Fleet:
    for name in ("n0", "n1", "n2"):
        fleet.kubelet(name, "v1.36.3")
    return fleet


@pytest.mark.parametrize("alone", [True, False])
def test_a_node_is_cordoned_emptied_and_its_server_deleted(alone: bool) -> None:
    fleet = ready(Fleet(alone=alone, secret=("ns", "s")))
    fleet.world.make(deployment("web", replicas=3), daemon_set("agent"), pod("bare", nodeName="n0"))
    fleet.run(30).label("true").run(1)
    assert fleet.cordoned
    assert not fleet.asked_for
    fleet.run(10)
    assert fleet.pods() == ["agent"]
    assert fleet.asked_for == [ServerDeletion("n0", ("ns", "s"))]
    assert set(fleet.told) == {("Evicting", "kubernikus-maintenance")}
    fleet.run(65)
    assert len(fleet.asked_for) == 3
    assert fleet.cordoned


@pytest.mark.parametrize("value", ["yes", "True", "", None])
def test_only_true_is_true(value: str | None) -> None:
    fleet = ready(Fleet()).run(5).label(value).run(60)
    assert not fleet.cordoned
    assert not fleet.asked_for


def test_a_budget_is_waited_for() -> None:
    fleet = ready(Fleet())
    fleet.world.make(deployment("web", replicas=3), budget("web", minAvailable=3))
    fleet.run(30).label("true").run(600)
    assert fleet.pods() == ["web"]
    assert not fleet.asked_for


def test_a_deletion_that_fails_is_said_and_tried_again_at_its_pace() -> None:
    fleet = ready(Fleet())
    fleet.kernel.refuses = "CloudError: no"
    fleet.run(5).label("true").run(61)
    assert len(fleet.asked_for) == 3
    assert fleet.said == ["the server cannot be deleted: CloudError: no"] * 3
    fleet.kernel.refuses = ""
    fleet.run(30)
    assert len(fleet.said) == 3


@pytest.mark.parametrize("alone", [True, False])
def test_who_changes_their_mind_gets_the_node_back(alone: bool) -> None:
    """The original never uncordons."""
    fleet = ready(Fleet(alone=alone))
    fleet.world.make(deployment("web", replicas=3), budget("web", minAvailable=3))
    fleet.run(30).label("true").run(30).label(None).run(30)
    assert fleet.cordoned is alone
    assert "haulout.dev/cordon" not in fleet.node()["metadata"].get("annotations", {})


@pytest.mark.parametrize("alone", [True, False])
def test_restarts_in_between_change_nothing(alone: bool) -> None:
    fleet = ready(Fleet(alone=alone))
    fleet.world.make(deployment("web", replicas=3))
    fleet.run(30).label("true")
    for _ in range(8):
        fleet.run(1).restart()
    assert (fleet.pods(), fleet.cordoned) == ([], True)
    assert fleet.run(1).asked_for == [ServerDeletion("n0", ("", ""))]
    fleet.restart().label(None).run(1)
    assert fleet.cordoned is alone


@pytest.mark.parametrize("alone", [True, False])
def test_killed_at_every_write_a_node_is_emptied_and_its_server_deleted(alone: bool) -> None:
    def life(number: int, is_after: bool) -> tuple[bool, int]:
        """Return whether the operator was killed at this write, and how many writes it made."""
        fleet = ready(Fleet(alone=alone))
        fleet.world.make(deployment("web", replicas=3))
        fleet.run(30)
        first = fleet.driver
        first.dies_at = (first.writes + number, is_after) if number else (0, False)
        begun = first.writes
        fleet.label("true")
        killed = outlive(lambda: fleet.run(20), fleet.restart)
        assert (fleet.pods(), fleet.cordoned) == ([], True)
        assert set(fleet.asked_for) == {ServerDeletion("n0", ("", ""))}
        return killed, first.writes - begun

    _, writes = life(0, False)
    assert writes >= 2
    assert all(life(*kill)[0] for kill in every_kill(writes))


def test_somebody_elses_turn_is_waited_for() -> None:
    other = Script("other")
    key = node_key("n0")
    fleet = ready(Fleet(other.decider, alone=False))
    worker = Claim(key, key, frozenset({Want.EXCLUSIVE}), begun=True)
    other.wishes[key] = Decision(claims=(worker,))
    fleet.run(5).label("true").run(60)
    assert not fleet.cordoned
    del other.wishes[key]
    fleet.kernel.store.write(Value(key=Key("", CONFIG, "", "other"), value=1))
    fleet.run(5)
    assert fleet.cordoned


# The file


def test_the_file() -> None:
    made = load(FILE, source="config/kubernikus.yaml", environment={})
    assert made == Options(PACE, force=True, secret=("ns", "s"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("", "missing required field accessing 'requeue'", id="empty"),
        pytest.param(
            "intervals: {requeue: 30s}",
            "missing required field accessing 'intervals.period'",
            id="drains",
        ),
        pytest.param(
            textwrap.dedent(FILE).replace("30s}", "half}"),
            'time: invalid duration "half" accessing ',
            id="no duration",
        ),
    ],
)
def test_a_bad_file(text: str, words: str) -> None:
    with pytest.raises(ConfigProblem) as caught:
        load(text, source="config/kubernikus.yaml", environment={})
    assert caught.value.text.startswith(words)
