"""An API server that is gone, fails, stalls, forgets or omits events: reported once and survived, and limits hold."""

from __future__ import annotations

import json
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest
import yaml

from tests.real.profiles import GO, PROFILE, STATE, entries_of, label_of, roll_config, sampled
from tests.rig.api import Api, Json
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
)
from tests.rig.fleet import node_object
from tests.rig.operator import HAULOUT, JSON_LOG, MaintenanceController, environment
from tests.rig.plane import ControlPlane
from tests.rig.wait import eventually

pytestmark = pytest.mark.tools("etcd", "kube-apiserver")

NODES = r"/api/v1/nodes$"
NODE = r"/api/v1/nodes/"
EVENTS = "events.k8s.io/v1/events"
REQUIRED = "maintenance-required"
EXPIRED: Json = {
    "type": "ERROR",
    "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version: 1 (2)"},
}


def once(profile: str) -> str:
    return f"""
intervals: {{requeue: 30s}}
instances: {{check: [{{type: hasLabel, name: go, config: {{key: {GO}}}}}]}}
profiles:
- name: {profile}
  operational: {{transitions: [{{check: go, next: {REQUIRED}}}]}}
"""


class Scene:
    """An operator behind the proxy, and a node of its profile that wants nothing yet."""

    def __init__(self, plane: ControlPlane, proxy: FaultProxy, operator: MaintenanceController, name: str) -> None:
        self.plane = plane
        self.proxy = proxy
        self.operator = operator
        self.api: Api = plane.api()
        self.node = name
        self._before = len(self._logged("watch interrupted"))
        self._restored = len(self._logged("watch restored"))

    def add(self, profile: str = "once") -> None:
        self.plane.load([node_object(self.node, labels={PROFILE: profile})])

    def state(self) -> str | None:
        self.operator.process.check()
        return label_of(self.api.get("nodes", self.node), STATE)

    def wish(self) -> None:
        self.label(**{GO: "true"})

    def label(self, **labels: str) -> None:
        self.api.patch("nodes", self.node, {"metadata": {"labels": labels}})

    def await_state(self, state: str = REQUIRED) -> None:
        eventually(lambda: self.state() == state, f"{self.node} is {state}")

    def _logged(self, message: str) -> list[Json]:
        """Return the log lines about the watch of nodes.

        The other watches meet the same faults, each at its own time.
        """
        return [line for line in self.operator.logged(message) if line["kind"] == "Node"]

    def failed_writes(self) -> list[str]:
        return [str(line["error"]) for line in self.operator.logged("write failed") if self.node in line["object"]]

    def interruptions(self) -> list[Json]:
        return self._logged("watch interrupted")[self._before :]

    def await_interruption(self, code: str) -> Json:
        def found() -> list[Json]:
            return [line for line in self.interruptions() if line["code"] == code]

        return eventually(found, f"watch interrupted: {code}")[0]

    def await_restored(self) -> None:
        eventually(lambda: len(self._logged("watch restored")) > self._restored, "watch restored")

    def troubles(self, code: str) -> float:
        return self.operator.metric(f'haulout_watch_troubles_total{{code="{code}",kind="Node"}}')

    def moves(self) -> list[Json]:
        found = self.api.items(EVENTS, "default", fieldSelector=f"regarding.name={self.node}")
        return [event for event in found if event["reason"] == "ChangedMaintenanceState"]

    def outages(self, reason: str) -> list[Json]:
        """Return the events of the operator about its connection to the server."""
        found = self.api.items(EVENTS, "default", fieldSelector=f"regarding.name=default,reason={reason}")
        return [event for event in found if self.proxy.url in event["note"]]

    def await_told_once(self) -> None:
        eventually(self.moves, f"the move of {self.node} is told")
        assert len(self.moves()) == 1


# Shared by the tests of a class and no longer: two operators with different profiles would undo each other's labels.
@pytest.fixture(scope="class")
def way(plane: ControlPlane) -> Iterator[FaultProxy]:
    """The proxy before the shared operator. Each test leaves it without rules."""
    with FaultProxy(plane) as made:
        yield made


@pytest.fixture(scope="class")
def operator(
    plane: ControlPlane, way: FaultProxy, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MaintenanceController]:
    folder = tmp_path_factory.mktemp("faults")
    with MaintenanceController(plane, folder, once("once"), server=way.url, flags=JSON_LOG) as made:
        yield made


@pytest.fixture
def scene(plane: ControlPlane, way: FaultProxy, operator: MaintenanceController, prefix: str) -> Iterator[Scene]:
    made = Scene(plane, way, operator, f"{prefix}-node")
    made.add()
    made.await_state("operational")
    eventually(lambda: way.watched["/api/v1/nodes"] == 1, "the nodes are watched")
    yield made
    way.clear()
    plane.wipe(prefix)
    assert operator.process.running


# What becomes of the first write to a node, each of its own, the error that is logged, and as what it is counted.
WRITES: dict[str, tuple[Action, str, str]] = {
    "failing": (Answer(500), "as the test wished", "500"),
    "unavailable": (Answer(503, retry_after=1), "as the test wished", "503"),
    "gateway-gave-up": (Answer(504), "as the test wished", "lost"),
    "conflict": (Answer(409), "as the test wished", "409"),
    "invalid": (Answer(422), "as the test wished", "422"),
    "unauthorized": (Answer(401), "does not accept the credentials of operator", "401"),
    "lost-before": (CutBefore(), "the connection broke", "lost"),
    "lost-after": (CutAfter(), "the connection broke", "lost"),
}


class TestWrites:
    def test_each_that_fails_is_said_and_made_up_for(self, scene: Scene) -> None:
        """All at once, so that none is in the way of another."""
        each = {name: Scene(scene.plane, scene.proxy, scene.operator, f"{scene.node}-{name}") for name in WRITES}
        for one in each.values():
            one.add()
        for one in each.values():
            one.await_state("operational")
        rules = {
            name: scene.proxy.rule(action, method="PATCH", path=f"/nodes/{each[name].node}$", times=1)
            for name, (action, _, _) in WRITES.items()
        }
        for one in each.values():
            one.wish()
        for name, (_, said, _) in WRITES.items():
            one = each[name]
            one.await_state()
            assert rules[name].acted == 1, name
            # Of a write that was carried out all the same, the operator may hear later than the test.
            errors = eventually(one.failed_writes, f"the failed write of {name} is logged")
            assert len(errors) == 1, name
            assert said in errors[0], name
            assert set(entries_of(one.api.get("nodes", one.node))) == {"once"}
            one.await_told_once()
        for outcome, count in Counter(outcome for _, _, outcome in WRITES.values()).items():
            series = f'haulout_requests_total{{kind="Node",outcome="{outcome}",verb="change"}}'
            assert scene.operator.metric(series) == count, outcome

    def test_a_server_that_asks_for_patience_gets_it(self, scene: Scene) -> None:
        rule = scene.proxy.rule(Answer(429, retry_after=2), method="PATCH", path=NODE, times=1)
        wished_at = time.monotonic()
        scene.wish()
        scene.await_state()
        assert rule.acted == 1
        assert time.monotonic() - wished_at >= 2
        scene.await_told_once()

    def test_an_event_that_cannot_be_written_holds_nothing_up(self, scene: Scene) -> None:
        rule = scene.proxy.rule(Answer(500), path="/events$", method="POST", times=2)
        scene.wish()
        scene.await_state()
        scene.await_told_once()
        assert rule.acted == 2


class TestWatches:
    def test_an_unreachable_server_is_said_once_and_taken_up_again(self, scene: Scene) -> None:
        before = scene.troubles("unreachable")
        scene.proxy.refuse()
        assert scene.await_interruption("unreachable")["kind"] == "Node"
        eventually(lambda: scene.troubles("unreachable") >= before + 3, "it is tried again")
        scene.wish()
        assert scene.operator.get("/metrics")[0] == 200
        scene.proxy.accept()
        scene.await_state()
        scene.await_restored()
        assert len(scene.interruptions()) == 1

    @pytest.mark.parametrize("how", ["reset", "close", "torn", "end"])
    def test_one_that_is_cut_off_is_taken_up_again(
        self, scene: Scene, how: Literal["reset", "close", "torn", "end"]
    ) -> None:
        """In the middle of an event, or as soon as it begins."""
        self.break_off(scene, CutStream(how=how))
        scene.await_interruption("unreachable")
        scene.await_restored()

    @pytest.mark.parametrize(
        ("action", "code", "said"),
        [
            pytest.param(InsertEvent(EXPIRED), "expired", "too old resource version: 1 (2)", id="expired"),
            pytest.param(Answer(410), "expired", "as the test wished", id="expired at once"),
            pytest.param(Answer(500), "failing", "as the test wished", id="failing"),
            pytest.param(Answer(429, retry_after=1), "throttled", "as the test wished", id="throttled"),
            pytest.param(Answer(401), "unauthorized", "(renew them if they have expired)", id="unauthorized"),
            pytest.param(Answer(403), "unreadable", "as the test wished", id="forbidden"),
        ],
    )
    def test_one_that_is_refused_says_why_and_is_taken_up_again(
        self, scene: Scene, action: Action, code: str, said: str
    ) -> None:
        before = scene.troubles(code)
        self.break_off(scene, action)
        assert said in scene.await_interruption(code)["error"]
        assert scene.troubles(code) == before + 1
        scene.await_restored()

    def test_one_that_comes_and_goes_is_told_of(self, scene: Scene) -> None:
        """The other tests have had it come and go for a while; alone, this one needs more than 10 s."""

        def come_and_go() -> list[Json]:
            again = Scene(scene.plane, scene.proxy, scene.operator, scene.node)
            scene.proxy.cut_all()
            again.await_restored()
            return scene.outages("ApiServerUnavailable")

        (event, *_) = eventually(come_and_go, "it is told")
        assert event["note"].startswith("no steady watch of ")

    def break_off(self, scene: Scene, action: Action) -> None:
        """Assert that a wish is carried out and reported once, although the connection breaks off."""
        rule = scene.proxy.rule(action, path=NODES, watch=True, times=1)
        scene.proxy.cut_all()
        scene.wish()
        scene.await_state()
        assert rule.acted == 1
        scene.await_told_once()

    def test_silence_is_only_late(self, scene: Scene) -> None:
        rule = scene.proxy.rule(Stall(), path=NODES, watch=True, times=1)
        scene.proxy.cut_all()
        eventually(lambda: rule.acted == 1, "the watch is silent")
        scene.wish()
        scene.label(unrelated="1")
        assert scene.state() == "operational"
        scene.proxy.release(rule)
        scene.await_state()

    @pytest.mark.parametrize(
        "action",
        [
            pytest.param(RepeatEvents(times=3), id="three times"),
            pytest.param(DelayEvents(1.0, lambda event: label_of(event["object"], "second") is None), id="late"),
            pytest.param(DropEvents(lambda event: label_of(event["object"], "second") is None), id="one is lost"),
        ],
    )
    def test_events_that_come_otherwise_than_sent(self, scene: Scene, action: Action) -> None:
        rule = scene.proxy.rule(action, path=NODES, watch=True, times=1)
        scene.proxy.cut_all()
        eventually(lambda: rule.acted == 1, "the watch is open")
        scene.wish()
        scene.label(second="1")
        scene.await_state()
        scene.await_told_once()
        assert rule.events > 0


@pytest.fixture
def profile(plane: ControlPlane, prefix: str) -> Iterator[str]:
    """A profile of this test, named like its nodes, which are removed afterwards."""
    yield prefix
    plane.wipe(prefix)


def test_a_whole_outage_at_the_start(plane: ControlPlane, proxy: FaultProxy, profile: str, tmp_path: Path) -> None:
    proxy.refuse()
    operator = MaintenanceController(plane, tmp_path, once(profile), server=proxy.url, flags=JSON_LOG)
    scene = Scene(plane, proxy, operator, f"{profile}-node")
    scene.add(profile)
    scene.wish()
    with operator:
        line = scene.await_interruption("unreachable")
        assert line["error"] == f"GET {proxy.url}/api/v1/nodes: no connection: Connection refused"
        proxy.accept()
        scene.await_state()


class Credentials:
    """A kubeconfig whose token stands in a file, read by the program itself or by a plugin."""

    def __init__(self, plane: ControlPlane, proxy: FaultProxy, folder: Path) -> None:
        self.token, self.plugin = folder / "token", folder / "plugin"
        self.good = plane.token("operator")
        self.path = folder / "kubeconfig"
        self._config = yaml.safe_load(plane.kubeconfig("operator", server=proxy.url).read_text())
        self.put(self.good)

    def put(self, token: str) -> None:
        fresh = self.token.with_suffix(".fresh")
        fresh.write_text(token)
        fresh.rename(self.token)

    def by_file(self) -> Path:
        return self._written({"tokenFile": str(self.token)})

    def by_plugin(self) -> Path:
        credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}
        self.plugin.write_text(
            f"#!/bin/sh\ntoken=$(cat {self.token})\n"
            f'echo \'{json.dumps(credential)[:-1]}, "status": {{"token": "\'$token\'"}}}}\'\n'
        )
        self.plugin.chmod(0o700)
        plugin = {"command": str(self.plugin), "apiVersion": credential["apiVersion"], "interactiveMode": "Never"}
        return self._written({"exec": plugin})

    def _written(self, user: Json) -> Path:
        self._config["users"][0]["user"] = user
        self.path.write_text(yaml.safe_dump(self._config))
        return self.path


SOURCES = pytest.mark.parametrize(
    "source", [Credentials.by_file, Credentials.by_plugin], ids=["token file", "exec plugin"]
)


@SOURCES
def test_credentials_that_run_out_and_come_back(
    plane: ControlPlane, proxy: FaultProxy, profile: str, tmp_path: Path, source: Callable[[Credentials], Path]
) -> None:
    credentials = Credentials(plane, proxy, tmp_path)
    operator = MaintenanceController(plane, tmp_path, once(profile), flags=JSON_LOG, kubeconfig=source(credentials))
    scene = Scene(plane, proxy, operator, f"{profile}-node")
    scene.add(profile)
    with operator:
        scene.await_state("operational")
        eventually(lambda: proxy.watched["/api/v1/nodes"] == 1, "the nodes are watched")
        credentials.put("expired")
        # A client that keeps a token until it is refused has to be refused once. A refusal of anything else may be cut
        # off.
        proxy.rule(Answer(401), path=NODES, watch=True, times=1)
        proxy.cut_all()
        eventually(lambda: scene.troubles("unauthorized") >= 2, "it is refused by the server itself")
        scene.wish()
        credentials.put(credentials.good)
        scene.await_state()
        scene.await_restored()
        (line,) = [line for line in scene.interruptions() if line["code"] == "unauthorized"]
        assert f"{proxy.url} does not accept the credentials of operator: " in line["error"]
        (event,) = eventually(lambda: scene.outages("CredentialsRefused"), "it is told, for all kinds together")
        assert (event["type"], event["regarding"]["kind"]) == ("Warning", "Namespace")
        assert "does not accept the credentials of operator" in event["note"]


class TestCommands:
    """A user who waits at a terminal gets the error at once, in one line, with the server and what would be right."""

    def explain(self, kubeconfig: Path, folder: Path) -> str:
        (folder / "config").mkdir()
        (folder / "config" / "maintenance.yaml").write_text(once("once"))
        argv = [str(HAULOUT), "explain", "node", "--kubeconfig", str(kubeconfig)]
        done = subprocess.run(
            argv, cwd=folder, env=environment(), text=True, capture_output=True, check=False, timeout=60
        )
        assert (done.returncode, done.stdout) == (1, "")
        return done.stderr

    def test_a_server_that_is_not_there(self, plane: ControlPlane, proxy: FaultProxy, tmp_path: Path) -> None:
        proxy.refuse()
        said = self.explain(plane.kubeconfig(server=proxy.url), tmp_path)
        failed = f"GET {proxy.url}/api/v1/nodes: no connection: Connection refused"
        assert said == f"Error: nodes cannot be listed: {failed}\n"
        proxy.accept()

    @pytest.mark.parametrize("code", [429, 500, 503])
    def test_a_server_that_fails(self, plane: ControlPlane, proxy: FaultProxy, tmp_path: Path, code: int) -> None:
        proxy.rule(Answer(code, retry_after=30))
        said = self.explain(plane.kubeconfig(server=proxy.url), tmp_path)
        assert said == f"Error: {proxy.url} does not list its nodes: as the test wished\n"

    @SOURCES
    def test_credentials_that_have_run_out(
        self, plane: ControlPlane, proxy: FaultProxy, tmp_path: Path, source: Callable[[Credentials], Path]
    ) -> None:
        credentials = Credentials(plane, proxy, tmp_path)
        credentials.put("expired")
        said = self.explain(source(credentials), tmp_path)
        refused = f"{proxy.url} does not accept the credentials of operator: Unauthorized"
        assert said == f"Error: {refused} (renew them if they have expired)\n"

    def test_a_plugin_that_cannot_log_in(self, plane: ControlPlane, proxy: FaultProxy, tmp_path: Path) -> None:
        credentials = Credentials(plane, proxy, tmp_path)
        kubeconfig = credentials.by_plugin()
        credentials.plugin.write_text("#!/bin/sh\necho log in again >&2\nexit 3\n")
        own, said = self.explain(kubeconfig, tmp_path).splitlines()
        assert own == "log in again"
        failed = f'operator: exec plugin "{credentials.plugin}" failed with exit code 3'
        assert said == f"Error: nodes cannot be listed: {failed}"


def test_limits_hold_under_every_fault(plane: ControlPlane, proxy: FaultProxy, profile: str, tmp_path: Path) -> None:
    """Ten nodes at once, two at a time, and never three."""
    names = [f"{profile}-{number}" for number in range(10)]
    plane.load(node_object(name, labels={PROFILE: profile, GO: "true"}) for name in names)
    actions: list[Action] = [
        Answer(500),
        CutAfter(),
        Answer(409),
        CutBefore(),
        Answer(503),
        Delay(0.2, 0.2),
        Answer(504),
    ]
    rules = [
        proxy.rule(action, method="PATCH", path=NODE, skip=3 * number, times=1) for number, action in enumerate(actions)
    ]
    # The first watch begins with all nodes and a bookmark: it is cut off in the middle of the work, as are the next.
    listed = len(plane.api().items("nodes")) + 1
    rules += [
        proxy.rule(CutStream(events=listed + 5), path=NODES, times=1),
        proxy.rule(CutStream(events=5), path=NODES, times=2),
        proxy.rule(InsertEvent(EXPIRED, events=3), path=NODES, times=1),
    ]
    with (
        sampled(plane, f"{PROFILE}={profile}") as seen,
        MaintenanceController(plane, tmp_path, roll_config(2, profile=profile), server=proxy.url),
    ):
        around = ["maintenance-required", "in-maintenance", "operational"]
        eventually(lambda: all(seen.moves.get(name, [])[-3:] == around for name in names), "all have been around")
        eventually(lambda: all(rule.acted for rule in rules), "every fault has happened")
    assert seen.most <= 2
