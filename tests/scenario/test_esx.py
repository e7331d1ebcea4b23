"""ESX on the embedded cluster, in virtual time: labels, and virtual machines that go down and up again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec
import pytest

from haulout.cluster.key import Key
from haulout.cluster.rows import Value
from haulout.cluster.view import CONFIG, FACT
from haulout.core.action import Evict, Say, Send
from haulout.core.arbiter import Rules, arbiter
from haulout.core.budgets.rule import RULER
from haulout.core.budgets.wire import KIND as BUDGET
from haulout.core.decision import Decider
from haulout.core.drain.deciders import DRAIN_DECIDERS
from haulout.core.pause import ANNOTATION as PAUSED
from haulout.embedded import NODES, Json
from haulout.kernel.kernel import Kernel
from haulout.kernel.pauses import Pauses
from haulout.kernel.requests import Answer, Refused, Request, Telling
from haulout.plugins.config import ConfigProblem
from haulout.surfaces.esx.options import Options, load
from haulout.surfaces.esx.surface import DECIDERS, ESX
from haulout.surfaces.esx.vcenter import HOST_PROBE, HostState, StartVirtualMachine, StopVirtualMachine
from haulout.surfaces.esx.wire import (
    HOST_LABEL,
    INITIATED_ANNOTATION,
    NAME,
    OK_LABEL,
    STATE_LABEL,
    VERSION_LABEL,
    ZONE_LABEL,
)
from tests.build.drains import QUICK
from tests.build.kills import MortalDriver, every_kill, outlive
from tests.build.workloads import World, budget, daemon_set, deployment, pod

PACE, POLL, GIVE_UP = timedelta(seconds=60), timedelta(seconds=2), timedelta(minutes=3)
OPTIONS = Options(PACE, 0.0, force=False, poll_for=POLL, give_up_for=GIVE_UP, alarms=frozenset({"Host memory"}))
STOP, START = StopVirtualMachine("n0", "a", POLL, GIVE_UP), StartVirtualMachine("n0", "a")
UP, DOWN = HostState("8.0.2"), HostState("8.0.2", in_maintenance=True)
PLACE = {HOST_LABEL: "esx-1", ZONE_LABEL: "eu-nl-2a"}


class Outside(Kernel):
    """A channel that remembers messages, and lets them fail while the test wants it."""

    refuses = ""

    def __init__(self, deciders: Sequence[Decider], *, keeps_ledger: bool) -> None:
        pauses = Pauses(deciders, ESX.records, is_obeyed=keeps_ledger)
        super().__init__(deciders, keeps_ledger=keeps_ledger, pauses=pauses)
        self.out: list[Request] = []

    def take_requests(self) -> list[Request]:
        out = super().take_requests()
        self.out += out
        return out

    def on_answer(self, request: int, answer: Answer, now: datetime) -> None:
        is_send = any(each.id == request and isinstance(each.body, Send) for each in self.out)
        super().on_answer(request, Refused(0, self.refuses) if is_send and self.refuses else answer, now)


class Fleet:
    """One node on a host of a simulated vCenter."""

    def __init__(self, **options: object) -> None:
        self.world = World(QUICK, nodes=3)
        self.told: list[tuple[str, str]] = []
        self.said: list[str] = []
        self._given = msgspec.structs.replace(OPTIONS, **options)
        self._host: tuple[HostState | None, str] = (None, "")
        self.restart()
        self.label(**PLACE)

    def restart(self) -> Fleet:
        """Start another process, which knows only what is stored in the cluster and what the vCenter says."""
        deciders = (*DECIDERS, RULER, *DRAIN_DECIDERS, arbiter(Rules((NAME,))))
        self.kernel = Outside(deciders, keeps_ledger=not self._given.alone)
        self.kernel.store.begin_list("", BUDGET)
        self.kernel.store.end_list("", BUDGET, 0)
        self.kernel.store.write(Value(key=Key("", CONFIG, "", NAME), value=self._given))
        self.driver = MortalDriver(self.kernel, self.world.objects, self.world.time, self._stated)
        for source in sorted(ESX.sources(None), key=repr):
            self.driver.watch(source.kind, source.keep)
        return self.host(*self._host)

    def _stated(self, statement: object) -> None:
        if isinstance(statement, Telling):
            self.told.append((statement.tell.reason, statement.tell.reporter))
        if isinstance(statement, Say):
            self.said.append(dict(statement.fields)["error"])

    def host(self, state: HostState | None, error: str = "") -> Fleet:
        self._host = (state, error)
        key = Key("", FACT, HOST_PROBE, repr(("esx-1", "a")))
        self.kernel.store.write(Value(key=key, value=state, state="fresh" if state else "unknown", error=error))
        return self

    def label(self, **labels: str | None) -> Fleet:
        self.world.change(NODES, "n0", {"metadata": {"labels": labels}})
        return self

    def pause(self, reason: str | None) -> Fleet:
        self.world.change(NODES, "n0", {"metadata": {"annotations": {PAUSED: reason}}})
        return self

    def allow(self) -> Fleet:
        return self.label(**{OK_LABEL: "true"})

    def run(self, seconds: float) -> Fleet:
        self.driver.run(self.world.time.now() + timedelta(seconds=seconds))
        return self

    @property
    def node(self) -> Json:
        return self.world.get(NODES, "n0")

    @property
    def labels(self) -> tuple[str | None, str | None]:
        labels = self.node["metadata"]["labels"]
        return labels.get(STATE_LABEL), labels.get(VERSION_LABEL)

    @property
    def marked(self) -> bool:
        return bool(self.node["metadata"].get("annotations", {}).get(INITIATED_ANNOTATION) == "true")

    @property
    def cordoned(self) -> bool:
        return bool(self.node["spec"].get("unschedulable"))

    @property
    def asked_for(self) -> list[object]:
        return [each.body.payload for each in self.kernel.out if isinstance(each.body, Send)]

    @property
    def graces(self) -> set[int | None]:
        return {each.body.grace_for for each in self.kernel.out if isinstance(each.body, Evict)}

    def pods(self) -> list[str]:
        found = [each["metadata"]["name"] for each in self.world.pods() if each["spec"].get("nodeName") == "n0"]
        return [name.split("-")[0] for name in found]


@pytest.mark.parametrize(
    ("host", "label"),
    [
        pytest.param(UP, "false", id="works"),
        pytest.param(DOWN, "true", id="in maintenance"),
        pytest.param(HostState("8.0.2", entering=True), "true", id="on its way there"),
        pytest.param(HostState("8.0.2", alarms=("Host memory", "x")), "alarm", id="an alarm"),
        pytest.param(HostState("8.0.2", alarms=("host memory",)), "false", id="another alarm"),
        pytest.param(HostState("8.0.2", in_maintenance=True, alarms=("Host memory",)), "alarm", id="both"),
    ],
)
def test_labels(host: HostState, label: str) -> None:
    assert Fleet().host(host).run(1).labels == (label, "8.0.2")


def test_labels_are_written_only_when_they_change() -> None:
    fleet = Fleet().host(UP).run(1)
    version = fleet.node["metadata"]["resourceVersion"]
    assert fleet.host(HostState()).run(300).labels == ("false", "8.0.2")
    assert fleet.node["metadata"]["resourceVersion"] == version


def test_what_is_not_known_changes_nothing_and_is_said() -> None:
    fleet = Fleet().host(DOWN).run(1).host(None, "vCenter is away").allow().run(60)
    assert fleet.labels == ("true", "8.0.2")
    assert not fleet.marked
    assert fleet.said == ["vCenter is away"]


@pytest.mark.parametrize("name", [HOST_LABEL, ZONE_LABEL])
def test_g16_a_node_with_an_empty_place_is_ignored_and_said(name: str) -> None:
    fleet = Fleet().label(**{name: ""}).host(DOWN).run(60)
    assert fleet.labels == (None, None)
    assert fleet.said == ["the label of its host or zone is empty; the node is ignored"]


def test_a_pause_stops_a_machine_from_going_down_and_not_from_coming_up() -> None:
    fleet = Fleet(alone=False).host(DOWN).pause("audit").allow().run(60)
    assert (fleet.cordoned, fleet.marked, fleet.asked_for) == (False, False, [])
    assert fleet.labels == ("true", "8.0.2")
    fleet.pause(None).run(70)
    assert fleet.asked_for == [STOP] * 2
    fleet.pause("audit").run(300)
    assert fleet.asked_for == [STOP] * 2
    fleet.host(UP).run(1)
    assert fleet.asked_for == [STOP, STOP, START]


@pytest.mark.parametrize("alone", [True, False])
def test_a_virtual_machine_goes_down_with_its_host_and_up_again(alone: bool) -> None:
    fleet = Fleet(alone=alone).host(DOWN)
    fleet.world.make(deployment("web", replicas=3), daemon_set("agent"), pod("bare", nodeName="n0"))
    fleet.run(30)
    assert not fleet.cordoned
    fleet.allow().run(1)
    assert (fleet.cordoned, fleet.marked, fleet.asked_for) == (True, True, [])
    fleet.run(10)
    assert fleet.pods() == ["agent"]
    assert fleet.asked_for == [STOP]
    assert set(fleet.told) == {("Evicting", "esx-maintenance")}
    assert fleet.graces == {None}
    fleet.run(125)
    assert fleet.asked_for == [STOP] * 3
    fleet.host(UP).run(1)
    assert fleet.asked_for[3:] == [START]
    assert (fleet.cordoned, fleet.marked) == (False, False)
    assert "haulout.dev/cordon" not in fleet.node["metadata"].get("annotations", {})
    assert fleet.node["metadata"]["labels"][OK_LABEL] == "true"
    assert fleet.run(300).asked_for[4:] == []


def test_g17_an_alarm_leaves_no_grace() -> None:
    fleet = Fleet()
    fleet.world.make(deployment("web", replicas=3))
    fleet.run(30).host(HostState(alarms=("Host memory",))).allow().run(10)
    assert fleet.graces == {0}
    assert fleet.asked_for == [STOP]


def test_a_virtual_machine_that_somebody_else_switched_off_stays_off() -> None:
    assert Fleet().host(UP).run(300).asked_for == []


def test_a_budget_is_waited_for() -> None:
    fleet = Fleet()
    fleet.world.make(deployment("web", replicas=3), budget("web", minAvailable=3))
    fleet.run(30).host(DOWN).allow().run(600)
    assert fleet.pods() == ["web"]
    assert fleet.asked_for == []


def test_what_fails_is_said_and_tried_again_at_its_pace() -> None:
    fleet = Fleet().host(DOWN).allow()
    fleet.kernel.refuses = "no"
    fleet.run(61)
    assert fleet.asked_for == [STOP, STOP]
    fleet.host(UP).run(125)
    assert fleet.asked_for[2:] == [START] * 3
    assert (fleet.cordoned, fleet.marked) == (True, True)
    fleet.kernel.refuses = ""
    fleet.run(61)
    assert (fleet.cordoned, fleet.marked) == (False, False)


def test_a_host_that_leaves_and_comes_back_is_started_each_time() -> None:
    fleet = Fleet().host(DOWN).allow()
    for _ in range(3):
        fleet.run(5).host(UP).run(5).host(DOWN)
    assert fleet.asked_for == [STOP, START] * 3


@pytest.mark.parametrize("alone", [True, False])
def test_restarts_in_between_change_nothing(alone: bool) -> None:
    fleet = Fleet(alone=alone)
    fleet.world.make(deployment("web", replicas=3))
    fleet.run(30).host(DOWN).allow()
    for _ in range(8):
        fleet.run(1).restart()
    assert (fleet.pods(), fleet.cordoned, fleet.marked) == ([], True, True)
    assert fleet.run(1).asked_for == [STOP]
    fleet.restart().host(UP)
    fleet.run(1)
    assert fleet.asked_for == [START]
    assert (fleet.cordoned, fleet.marked) == (False, False)


@pytest.mark.parametrize("alone", [True, False])
def test_killed_at_every_write_a_virtual_machine_goes_down_and_up(alone: bool) -> None:
    def life(number: int, is_after: bool) -> tuple[bool, int]:
        """Return whether the operator was killed at this write, and how many writes it made."""
        fleet = Fleet(alone=alone)
        fleet.world.make(deployment("web", replicas=3))
        fleet.run(30)
        first = fleet.driver
        first.dies_at = (first.writes + number, is_after) if number else (0, False)
        begun = first.writes
        fleet.host(DOWN).allow()
        killed = outlive(lambda: fleet.run(20), fleet.restart)
        assert (fleet.pods(), fleet.cordoned, fleet.marked) == ([], True, True)
        assert set(fleet.asked_for) == {STOP}
        fleet.host(UP)
        killed |= outlive(lambda: fleet.run(20), fleet.restart)
        assert (fleet.cordoned, fleet.marked, fleet.labels) == (False, False, ("false", "8.0.2"))
        assert "haulout.dev/cordon" not in fleet.node["metadata"].get("annotations", {})
        assert fleet.run(300).asked_for[-1:] in ([START], [])
        return killed, first.writes - begun

    _, writes = life(0, False)
    assert writes >= 5
    assert all(life(*kill)[0] for kill in every_kill(writes))


@pytest.mark.parametrize(("alone", "cordoned"), [(True, False), (False, True)])
def test_a_node_that_a_person_had_cordoned(alone: bool, cordoned: bool) -> None:
    """The original always uncordons."""
    fleet = Fleet(alone=alone)
    fleet.world.change(NODES, "n0", {"spec": {"unschedulable": True}})
    fleet.host(DOWN).allow().run(10).host(UP).run(10)
    assert fleet.cordoned is cordoned
    assert not fleet.marked


# The file


FILE = """
intervals:
  check: {period: 60s, jitter: 0.1}
  podEviction: {period: 5s, timeout: 5m, force: true}
  vmShutdown: {period: 2s, timeout: 3m}
alarms: [Host memory]
vCenters:
  templateUrl: https://vc-$AZ.example.com
  insecure: true
  credentials:
    a: {username: robot, password: "${PASSWORD}"}
    1: {username: other}
"""


def test_the_file() -> None:
    options, centers = load(FILE, source="config/esx.yaml", environment={"PASSWORD": "not for logs"})
    assert options == msgspec.structs.replace(OPTIONS, jitter=0.1, force=True)
    assert (centers.template_url, centers.insecure) == ("https://vc-$AZ.example.com", True)
    assert {zone: (login.username, login.password) for zone, login in centers.credentials.items()} == {
        "a": ("robot", "not for logs"),
        "1": ("other", ""),
    }
    assert "not for logs" not in repr(centers)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("jitter: 0.1", "", "requires value >= 0.001 accessing 'intervals.check.jitter'"),
        ("period: 60s, ", "", "missing required field accessing 'intervals.check.period'"),
        ("username: other", "password: x", "string value is not set accessing 'vCenters.credentials.1.username'"),
        ("templateUrl: https://vc-$AZ.example.com", "", "string value is not set accessing 'vCenters.templateUrl'"),
        (FILE[FILE.index("  credentials") :], "", "missing required field accessing 'vCenters.credentials'"),
    ],
)
def test_a_bad_file(old: str, new: str, words: str) -> None:
    with pytest.raises(ConfigProblem) as caught:
        load(FILE.replace(old, new), source="config/esx.yaml", environment={"PASSWORD": "p"})
    assert caught.value.text.startswith(words)
