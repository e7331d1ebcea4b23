"""What `haulout explain` prints about a fixed cluster, and its errors when the cluster cannot be read."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from haulout.cli.root import main
from haulout.cluster.key import node_key
from haulout.core.decision import Decision
from haulout.core.declaration import Enabled
from haulout.explain import snapshot
from haulout.explain.documents import as_json, explanation_document
from haulout.explain.fleet import Cause, Fleet, fleet_of
from haulout.explain.fleet_picture import fleet_lines
from haulout.explain.node import Explanation, as_text, explain
from haulout.kernel.loop import Loop
from haulout.kernel.rooms import Subject
from haulout.surfaces.profiles.surface import PROFILES
from tests.build.profiles import Profiles, config_text, worker
from tests.build.rows import at
from tests.build.server import serve

NOW = at(90)
INSIDE = {"cloud.sap/maintenance-state": "in-maintenance"}
A_DURATION = "(a duration such as 90s or 1h30m, or a number of seconds)"
CONFIG = config_text(
    """
    - name: os
      operational: {transitions: [{check: a && !b, next: maintenance-required}]}
      maintenance-required:
        transitions:
        - {check: a && few, next: in-maintenance}
        - {check: "!a || d", next: operational}
      in-maintenance: {transitions: [{check: hold && d, next: operational}]}
    - name: fw
      operational: {transitions: [{check: a, next: in-maintenance}]}
    - name: fails
      operational: {transitions: [{check: a && recent, next: in-maintenance}]}
    - name: rests
    """,
    checks="""
    - {type: maxMaintenance, name: few, config: {max: 1, groupBy: [zone]}}
    - {type: maxMaintenance, name: recent, config: {max: 1, skipAfter: 1h}}
    - {type: wait, name: hold, config: {duration: 1h}}
    """,
)


def data(**current: str) -> str:
    entries = {
        name: {"Transition": "2026-03-01T10:00:00Z", "Current": state, "Previous": state}
        for name, state in current.items()
    }
    return json.dumps({"Profiles": entries, "Notifications": {}})


PICTURE = (
    worker("busy", "os", data(os="in-maintenance"), zone="z1", labels=INSIDE),
    worker("waits", "os", data(os="maintenance-required"), zone="z1", a=""),
    worker("goes", "os", data(os="maintenance-required"), zone="z2", a=""),
    worker("rests", "rests", data(rests="operational")),
    worker(
        "odd",
        "ghost--os",
        data(os="operational"),
        annotations={"haulout.dev/priority": "high", "haulout.dev/cordon": '{"before":true,"by":["profiles"]}'},
        b="",
    ),
    worker("two", "os--fw", data(os="in-maintenance", fw="operational"), zone="z3", a="", labels=INSIDE),
    worker("garbled", "os", "garbage", zone="z4", labels=INSIDE),
    worker("word", "os", data(os="broken"), zone="z4"),
    worker("fails", "fails", data(fails="operational"), a=""),
)


@pytest.fixture(scope="module")
def picture() -> Profiles:
    """A settled kernel whose requests are not sent."""
    made = Profiles(CONFIG, *PICTURE)
    made.desk.kernel.run(NOW)
    return made


ASKED = (Enabled(PROFILES),)


def explained(picture: Profiles, name: str) -> Explanation:
    found = explain(picture.desk.kernel, ASKED, node_key(name), NOW)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param(
            "busy",
            """\
node busy
  held by profiles, profile os, since 2026-03-01 10:00:00 UTC
  profile os is in-maintenance
    to operational if hold && d: not yet
      hold: the node has not been in-maintenance for 1 h yet, until 2026-03-01 11:00:00 UTC (in 58 min 30 s)
      d: the label d is missing on the node
blocked by:
  hold: the node has not been in-maintenance for 1 h yet, until 2026-03-01 11:00:00 UTC (in 58 min 30 s)
  d: the label d is missing on the node
what would help:
  set the label d on the node""",
            id="works on the node",
        ),
        pytest.param(
            "waits",
            """\
node waits
  wanted by profiles, profile os, transition 1 to in-maintenance: waits
  profile os is maintenance-required
    to in-maintenance if a && few: waits
      few: 1 of 1 nodes in maintenance with zone=z1 (busy)
    to operational if !a || d: not yet
      a must not pass: the label a is on the node
      d: the label d is missing on the node
blocked by:
  few: 1 of 1 nodes in maintenance with zone=z1 (busy); there: hold: the node has not been in-maintenance for 1 h yet
  a must not pass: the label a is on the node
  d: the label d is missing on the node
what would help:
  for busy: set the label d on the node""",
            id="waits for room",
        ),
        pytest.param(
            "goes",
            """\
node goes
  wanted by profiles, profile os, transition 1 to in-maintenance: granted
  profile os is maintenance-required
    to in-maintenance if a && few: goes
    to operational if !a || d: not yet
      a must not pass: the label a is on the node
      d: the label d is missing on the node""",
            id="about to go",
        ),
        pytest.param(
            "rests",
            """\
node rests
  profile rests is operational, and no transition leads out of it""",
            id="nothing to do",
        ),
        pytest.param(
            "odd",
            """\
node odd
  uncordoned by hand; it had been cordoned by profiles
  profile os is operational
    to maintenance-required if a && !b: not yet
      a: the label a is missing on the node
      b must not pass: the label b is on the node
  profile ghost is not configured (configured are: default, os, fw, fails, rests)
  The annotation haulout.dev/priority is "high": it counts as 0 (a whole number would be right)
blocked by:
  a: the label a is missing on the node
  b must not pass: the label b is on the node
  profile ghost is not configured (configured are: default, os, fw, fails, rests)""",
            id="odd labels and annotations",
        ),
        pytest.param(
            "two",
            """\
node two
  held by profiles, profile os, since 2026-03-01 10:00:00 UTC
  profile os is in-maintenance
    to operational if hold && d: not yet
      hold: the node has not been in-maintenance for 1 h yet, until 2026-03-01 11:00:00 UTC (in 58 min 30 s)
      d: the label d is missing on the node
  profile fw is operational
    to in-maintenance if a: another profile of this node is in maintenance
blocked by:
  hold: the node has not been in-maintenance for 1 h yet, until 2026-03-01 11:00:00 UTC (in 58 min 30 s)
  d: the label d is missing on the node
  to in-maintenance if a: another profile of this node is in maintenance
what would help:
  set the label d on the node""",
            id="another profile has the node",
        ),
        pytest.param(
            "garbled",
            """\
node garbled
  held by profiles, profile os
  failed to parse json value in data annotation: Expecting value: line 1 column 1 (char 0); the node is left alone \
until cloud.sap/maintenance-data is repaired or removed
blocked by:
  failed to parse json value in data annotation: Expecting value: line 1 column 1 (char 0); the node is left alone \
until cloud.sap/maintenance-data is repaired or removed""",
            id="data that cannot be read",
        ),
        pytest.param(
            "word",
            """\
node word
  profile os is broken
    Failed to apply current state: failed to create internal state from unknown label value: node state "broken" \
is not known (known: operational, maintenance-required, in-maintenance)
blocked by:
  Failed to apply current state: failed to create internal state from unknown label value: node state "broken" \
is not known (known: operational, maintenance-required, in-maintenance)""",
            id="an unknown state",
        ),
        pytest.param(
            "fails",
            """\
node fails
  profile fails is operational
    At least one check plugin failed: had failed transition checks: failed check instances: recent
    to in-maintenance if a && recent: failed check instances: recent
      recent fails: the maintenance data of 1 nodes in maintenance cannot be read
blocked by:
  At least one check plugin failed: had failed transition checks: failed check instances: recent
  recent fails: the maintenance data of 1 nodes in maintenance cannot be read
what would help:
  repair or remove the annotation of the maintenance data on garbled""",
            id="a check that fails",
        ),
    ],
)
def test_text(picture: Profiles, name: str, text: str) -> None:
    assert as_text(explained(picture, name), NOW).partition("\nlook up:")[0] == text


def test_flags_of_the_node() -> None:
    row = worker("n")
    made = Profiles(CONFIG, type(row)(key=row.key, unschedulable=True, deleting_at=NOW))
    made.desk.kernel.run(NOW)
    assert as_text(explained(made, "n"), NOW).splitlines()[0] == "node n (cordoned, not ready, being deleted)"


def test_json(picture: Profiles) -> None:
    assert json.loads(as_json(explanation_document(explained(picture, "busy")))) == {
        "node": "busy",
        "flags": [],
        "cordon": "",
        "holds": [
            {
                "surface": "profiles",
                "slot": "profile os",
                "since": "2026-03-01T10:00:00Z",
                "wants": ["exclusive"],
                "begun": True,
                "granted": True,
            }
        ],
        "reasons": [
            {
                "code": "profile-state",
                "text": "profile os is in-maintenance",
                "because": [
                    {
                        "code": "checks-do-not-pass",
                        "text": "to operational if hold && d: not yet",
                        "because": [
                            {
                                "code": "check-waits",
                                "text": "hold: the node has not been in-maintenance for 1 h yet",
                                "until": "2026-03-01T11:00:00Z",
                            },
                            {
                                "code": "check-waits",
                                "text": "d: the label d is missing on the node",
                                "act": "set the label d on the node",
                            },
                        ],
                    }
                ],
            }
        ],
        "settings": "",
        "incomplete": [],
        "act": "set the label d on the node",
    }


def test_the_cause_at_the_node_that_takes_the_place_counts_for_the_node_that_waits(picture: Profiles) -> None:
    fleet = fleet_of(picture.desk.kernel, [PROFILES], ["Node"], "zone", NOW)
    found = {cause.text: cause for cause in fleet.causes}["hold: the node has not been in-maintenance for 1 h yet"]
    assert {"busy", "waits"} <= {*found.nodes}


def test_a_profile_that_wants_nothing_does_not_keep_a_node_that_another_profile_holds() -> None:
    made = Profiles(CONFIG, worker("x", "os--fw", data(os="in-maintenance", fw="operational"), labels=INSIDE))
    made.desk.kernel.run(NOW)
    shown, _, keeps = as_text(explained(made, "x"), NOW).partition("blocked by:")
    assert "a: the label a is missing on the node" in shown
    assert "the label a" not in keeps
    causes = fleet_of(made.desk.kernel, [PROFILES], ["Node"], "zone", NOW).causes
    assert [each for each in causes if "the label a" in each.text] == []


def test_a_node_in_a_queue_is_told_what_would_help_the_node_that_it_waits_for(picture: Profiles) -> None:
    assert explained(picture, "waits").act == "for busy: set the label d on the node"


def test_a_cause_says_on_which_node_it_stands(picture: Profiles) -> None:
    fleet = fleet_of(picture.desk.kernel, [PROFILES], ["Node"], "zone", NOW)
    (found,) = [each for each in fleet.causes if each.text.startswith("hold: ")]
    assert ("waits" in found.nodes, "waits" in found.at, "busy" in found.at) == (True, False, True)


def test_where_others_wait_for_a_node_it_is_named_beside_the_act() -> None:
    def last_line(act: str, *at: str) -> str:
        cause = Cause("check-waits", "the label d is missing", ("n1", "n2"), act, None, at)
        return fleet_lines(Fleet(NOW, (), (), (), (cause,)), 120)[-1].strip()

    act = "set the label d on the node"
    assert last_line(act, "n1") == f"what would help on n1: {act}"
    assert last_line(act, "n1", "n2") == f"what would help: {act}"
    assert last_line("end the work on n1", "n1") == "what would help: end the work on n1"


def test_a_cause_lasts_until_the_first_of_its_nodes_goes_on() -> None:
    late, early = data(os="in-maintenance"), data(os="in-maintenance").replace("10:00:00", "09:40:00")
    nodes = [
        worker(name, "os", text, zone=name, labels=INSIDE) for name, text in (("a", late), ("b", early), ("c", late))
    ]
    made = Profiles(CONFIG, *nodes)
    made.desk.kernel.run(NOW)
    found = {each.code: each for each in fleet_of(made.desk.kernel, [PROFILES], ["Node"], "zone", NOW).causes}
    (waits,) = [each for each in found.values() if each.until is not None]
    assert (waits.nodes, waits.until) == (("a", "b", "c"), NOW.replace(hour=10, minute=40, second=0))


def test_a_decision_that_fails_for_one_node_hides_no_other(picture: Profiles, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = picture.desk.kernel
    decide = Loop.explain

    def fails_for_one(loop: Loop, subject: Subject, now: datetime) -> Decision:
        if subject.key.name == "waits":
            raise AssertionError
        return decide(loop, subject, now)

    monkeypatch.setattr(Loop, "explain", fails_for_one)
    fleet = fleet_of(kernel, [PROFILES], ["Node"], "zone", NOW)
    assert {"waits", "busy"} <= {each.name for each in fleet.nodes}
    found = explain(kernel, ASKED, node_key("waits"), NOW)
    assert found is not None
    assert [reason.text for reason in found.reasons] == ["it cannot be decided: AssertionError"]


def test_a_node_that_is_not_there(picture: Profiles) -> None:
    assert explain(picture.desk.kernel, ASKED, node_key("nobody"), NOW) is None


def test_explaining_sends_nothing(picture: Profiles) -> None:
    assert picture.desk.world.writes == []


class Server:
    """An API server in a thread that answers every request in the same way."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._stack = contextlib.AsyncExitStack()

    def __enter__(self) -> str:
        self._thread.start()
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        address: str = self._run(self._stack.enter_async_context(serve(app)))
        return address

    def __exit__(self, *args: object) -> None:
        self._run(self._stack.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)


def status(code: int, message: str) -> web.Response:
    body = {"kind": "Status", "code": code, "message": message}
    return web.json_response(body, status=code)


async def forbid(request: web.Request) -> web.Response:
    return status(403, 'nodes is forbidden: User "me" cannot list resource "nodes"')


async def refuse(request: web.Request) -> web.Response:
    return status(401, "Unauthorized")


async def fail(request: web.Request) -> web.Response:
    return status(503, "etcd has no leader")


async def stall(request: web.Request) -> web.Response:
    """Answer that there are nodes, but never send them."""
    if "watch" in request.query:
        await asyncio.sleep(30)
    return web.json_response({"metadata": {"resourceVersion": "1"}, "items": []})


class TestWithoutAPicture:
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.delenv("KUBECONFIG", raising=False)
        (tmp_path / "config").mkdir()
        (tmp_path / "config" / "maintenance.yaml").write_text(CONFIG)
        return tmp_path

    def ask(self, server: str, folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> str:
        kubeconfig = {
            "current-context": "me@test",
            "clusters": [{"name": "test", "cluster": {"server": server}}],
            "users": [{"name": "me", "user": {"token": "t"}}],
            "contexts": [{"name": "me@test", "context": {"cluster": "test", "user": "me"}}],
        }
        (folder / "kubeconfig").write_text(yaml.safe_dump(kubeconfig))
        assert main(["explain", "n", "--kubeconfig", "kubeconfig", *words]) == 1
        out, err = capsys.readouterr()
        assert out == ""
        return err

    @pytest.mark.parametrize(
        ("answer", "said"),
        [
            pytest.param(
                forbid,
                'Error: {server} does not list its nodes: nodes is forbidden: User "me" cannot list resource "nodes"\n',
                id="forbidden",
            ),
            pytest.param(
                refuse,
                "Error: {server} does not accept anonymous requests: Unauthorized (credentials are needed)\n",
                id="unauthorized",
            ),
            pytest.param(fail, "Error: {server} does not list its nodes: etcd has no leader\n", id="failing"),
            pytest.param(stall, "Error: {server} did not list its nodes within 0.5 s\n", id="silent"),
        ],
    )
    def test_a_cluster_that_does_not_tell(
        self,
        answer: Any,
        said: str,
        folder: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(snapshot, "LIST_WITHIN", 0.5)
        with Server(answer) as server:
            assert self.ask(server, folder, capsys) == said.replace("{server}", server)

    def test_a_cluster_that_is_not_there(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        said = self.ask("http://127.0.0.1:1", folder, capsys)
        assert said == (
            "Error: nodes cannot be listed: GET http://127.0.0.1:1/api/v1/nodes: no connection: Connection refused\n"
        )

    def test_no_kubeconfig(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["explain", "n"]) == 1
        assert "no cluster to talk to: no --kubeconfig, no KUBECONFIG, not in a pod" in capsys.readouterr().err

    def test_an_unknown_context(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        said = self.ask("http://127.0.0.1:1", folder, capsys, "--context", "ghost")
        assert said.startswith("Error: ")
        assert "ghost" in said
        assert len(said.splitlines()) == 1

    @pytest.mark.parametrize(
        ("words", "files", "said"),
        [
            pytest.param(
                ["--config", "absent.yaml"], {}, ["Error: absent.yaml: No such file or directory"], id="no file"
            ),
            pytest.param(
                [],
                {"config/maintenance.yaml": "intervals: {requeue: soon}\nprofiles: [{}]\n"},
                [
                    f'Error: config/maintenance.yaml:1:22: intervals.requeue: time: invalid duration "soon" {A_DURATION}',
                    "config/maintenance.yaml:2:12: profiles.0.name: string value is not set (needed: a text)",
                ],
                id="everything that is wrong with the configuration",
            ),
            pytest.param(
                ["--config", "m.yaml"],
                {"m.yaml": "a: [\n"},
                ["Error: m.yaml:2:1: did not find expected node content"],
                id="no YAML",
            ),
            pytest.param(
                [],
                {"haulout.yaml": "log: {level: loud}\nlug: 1\n"},
                [
                    "Error: haulout.yaml:1:7: log.level: 'loud' is no log level (one of debug, info, warning, error)",
                    "haulout.yaml:2:1: lug: unknown setting (did you mean log?)",
                ],
                id="everything that is wrong with the settings",
            ),
            pytest.param(
                [],
                {"haulout.yaml": "surfaces: {profiles: {config: elsewhere.yaml}}\n"},
                ["Error: elsewhere.yaml: No such file or directory (a file that surface profiles needs)"],
                id="the settings name another file",
            ),
        ],
    )
    def test_a_configuration_that_is_wrong(
        self,
        words: list[str],
        files: dict[str, str],
        said: list[str],
        folder: Path,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        for name, text in files.items():
            (folder / name).write_text(text)
        assert self.ask("http://127.0.0.1:1", folder, capsys, *words).splitlines() == said
