"""`haulout console` against an embedded cluster, as a browser sees it."""

from __future__ import annotations

import http.client
import json
import re
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from haulout.base import yaml as strict_yaml
from haulout.console.page_headers import CSP, HEADERS
from haulout.embedded import CUSTOM_RESOURCE_DEFINITIONS, NODES, Json
from haulout.surfaces.registry import definition
from tests.build.console import ConsoleCaller, console_of, running_console
from tests.build.served import HAULOUT, PATIENCE, Served
from tests.build.workloads import node
from tests.scenario.test_plan_of_notify import notice
from tests.scenario.test_plan_surfaces import budget, maintenance
from tests.scenario.test_status import SETTINGS

CLOSED = (
    "fleet",
    "stream",
    "causes",
    "budgets",
    "rollouts",
    "installation",
    "works",
    "nodes/a",
    "explain/node/a",
    "whoami",
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder: Path = tmp_path_factory.mktemp("console")
    with Served(folder) as made:
        surfaces = {"nodemaintenance": {}, "notify": {"config": "notify.yaml"}}
        (folder / "haulout.yaml").write_text(yaml.safe_dump({**SETTINGS, "surfaces": surfaces}))
        (folder / "notify.yaml").write_text(yaml.safe_dump({"slaPeriod": "1h", "operators": {}}))
        names = ("nodedisruptionbudgets", "maintenancerecords", "nodemaintenances", "notifymaintenances")
        definitions = [strict_yaml.load(definition(name)) for name in names]
        made.call(lambda world: [world.server.create(CUSTOM_RESOURCE_DEFINITIONS, each) for each in definitions])
        made.make(*map(node, ("a", "b", "c")), budget(1), maintenance("one", "a"), maintenance("two", "b"))
        made.make({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fleet"}}, notice("held", "c"))
        yield made


@pytest.fixture(scope="module")
def console(served: Served) -> Iterator[ConsoleCaller]:
    with running_console(served) as made:
        assert made.login().status == 204
        made.until(lambda: made.read("fleet")["tables"].get("NodeMaintenance") == "listed")
        yield made


def test_everything_is_closed_without_a_session(console: ConsoleCaller) -> None:
    stranger = ConsoleCaller(console.port)
    assert {stranger.get(path).status for path in (*CLOSED, "nothing")} == {401}
    assert stranger.ask("POST", "/api/v1/acts", {}).status == 401
    assert stranger.ask("POST", "/api/v1/login", {"secret": "guessed"}).json["code"] == "wrong-secret"


def test_every_answer_has_the_headers_of_a_page_that_runs_nothing_foreign(console: ConsoleCaller) -> None:
    for answer in (console.ask("GET", "/fleet"), console.get("fleet"), console.get("nothing"), console.ask("PUT", "/")):
        assert answer.headers["Content-Security-Policy"] == CSP
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Server"] == "haulout"
        assert "Access-Control-Allow-Origin" not in answer.headers


@pytest.mark.parametrize(
    "said",
    [
        "GET /api/v1/fleet HTTP/1.1\r\n\r\n",
        "GET /" + "x" * 70_000 + " HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nX-Long: " + "x" * 70_000 + "\r\n\r\n",
        "\x16\x03\x01\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: nothing\r\n\r\n",
    ],
    ids=["no host", "long line", "long header", "no HTTP", "unknown encoding"],
)
def test_what_is_no_request_gets_a_problem_with_the_same_headers(said: str, console: ConsoleCaller) -> None:
    with socket.create_connection(("127.0.0.1", console.port), timeout=PATIENCE) as call:
        call.sendall(said.encode("latin-1"))
        reply = http.client.HTTPResponse(call)
        reply.begin()
        problem = json.loads(reply.read())
    assert 400 <= reply.status < 500
    assert (problem["status"], problem["type"]) == (reply.status, "about:blank")
    assert reply.headers["Content-Type"] == "application/problem+json"
    assert {name: reply.headers[name] for name in HEADERS} == HEADERS
    assert reply.headers["Cache-Control"] == "no-store"


def test_a_problem_is_not_stored_and_a_401_says_how_to_come_in(console: ConsoleCaller) -> None:
    refused = ConsoleCaller(console.port).get("fleet")
    assert refused.headers["WWW-Authenticate"] == 'Bearer realm="haulout"'
    assert {answer.headers["Cache-Control"] for answer in (refused, console.get("nothing"))} == {"no-store"}


def test_head_is_get_without_a_body(console: ConsoleCaller) -> None:
    for path in ("fleet", "causes", "nodes/a", "whoami"):
        answer = console.ask("HEAD", f"/api/v1/{path}")
        assert (answer.status, answer.body) == (200, b""), path
        assert answer.headers["Content-Type"].startswith("application/json")
    assert console.ask("HEAD", "/api/v1/stream").status == 405
    assert console.ask("HEAD", "/api/v1/nothing").status == 404


def test_a_console_for_a_team_starts_in_an_outage_and_shows_it(served: Served, tmp_path: Path) -> None:
    known = (served.folder / "kubeconfig").read_text()
    (tmp_path / "kubeconfig").write_text(re.sub(r"http://[^\s\"',}]+", "http://127.0.0.1:9", known))
    words = ("console", "--no-open", "--door", "bearer", "--behind-proxy")
    env = {**served.environment(), "KUBECONFIG": str(tmp_path / "kubeconfig")}
    pipe = subprocess.PIPE
    argv = [str(HAULOUT), *words]
    with console_of(subprocess.Popen(argv, cwd=tmp_path, env=env, text=True, stdout=pipe, stderr=pipe)) as door:
        assert door.ask("GET", "/").status == 200
        refused = ConsoleCaller(door.port, token="one").get("fleet")
        assert (refused.status, refused.json["code"]) == (503, "no-answer")


def test_a_name_that_points_at_loopback_is_refused(console: ConsoleCaller) -> None:
    assert console.get("fleet", Host=f"evil.example:{console.port}").json["code"] == "wrong-host"
    assert console.ask("GET", "/", Host="evil.example").status == 421


def test_every_view_is_the_page(console: ConsoleCaller) -> None:
    pages = {console.ask("GET", path).body for path in ("/", "/fleet", "/nodes/some-node", "/what-if")}
    assert len(pages) == 1
    assert console.ask("GET", "/assets/../../etc/passwd").status == 404
    assert console.ask("GET", "/favicon.nothing").status == 404


def test_the_fleet_is_that_of_status(console: ConsoleCaller, served: Served) -> None:
    printed = json.loads(served.run("status", "-o", "json").stdout)["fleet"]
    rows = console.rows()
    assert {row["name"]: row["state"] for row in printed["nodes"]} == {name: row["state"] for name, row in rows.items()}
    assert console.read("causes")["causes"] == printed["causes"]
    assert console.read("budgets")["budgets"] == printed["budgets"]
    assert [work["object"] for work in console.read("works")["works"]] == [work["object"] for work in printed["works"]]


def test_an_explanation_is_that_of_explain(console: ConsoleCaller, served: Served) -> None:
    for words in (("node", "a"), ("nm", "two"), ("ndb", "few"), ("notifymaintenance", "fleet/held")):
        done = served.run("explain", *words, "-o", "json")
        assert done.stdout, done.stderr
        assert lasting(console.read(f"explain/{'/'.join(words)}")) == lasting(json.loads(done.stdout)), words


def lasting(document: Json) -> str:
    """Return a document without the instants of conditions, which are those of the look while no operator writes them."""
    return re.sub(r'"lastTransitionTime": "[^"]*"', "", json.dumps(document, sort_keys=True, indent=1))


def test_a_kind_that_is_not_followed_says_what_to_do(console: ConsoleCaller) -> None:
    machine, skyhook = console.get("explain/Machine/fleet/m"), console.get("explain/skyhook/tune")
    assert [each.status for each in (machine, skyhook)] == [404, 404]
    assert [each.json["code"] for each in (machine, skyhook)] == ["not-followed", "not-followed"]
    assert "haulout explain machine fleet/m" in machine.json["detail"]
    assert "add packages to `surfaces`" in skyhook.json["detail"]
    assert console.get("explain/NotifyMaintenance/fleet/nothing").json["code"] == "not-found"


def test_a_page_of_a_node_has_everything_about_it(console: ConsoleCaller) -> None:
    page = console.read("nodes/a")
    assert page["row"]["name"] == page["explain"]["node"] == "a"
    assert [work["object"] for work in page["works"]] == ["nodemaintenance/one"]
    assert page["pods"] == []
    assert "start" in {act["act"] for act in page["acts"]}
    assert console.get("nodes/nowhere").json["code"] == "not-found"


def test_the_stream_brings_what_changes(console: ConsoleCaller, served: Served) -> None:
    events = console.events(console.read("fleet")["seq"])
    served.change(NODES, "c", {"spec": {"unschedulable": True}})
    rows = next(data for name, data in events if name == "rows")
    assert {row["name"]: row["state"] for row in rows["set"]}["c"] == "cordoned"
    served.change(NODES, "c", {"spec": {"unschedulable": None}})
    again = next(data for name, data in events if name == "rows")
    assert again["seq"] > rows["seq"]
    events.close()


def test_a_stream_from_a_picture_that_nobody_remembers_begins_anew(console: ConsoleCaller) -> None:
    events = console.events(1)
    assert next(events)[0] == "resync"
    events.close()


def test_an_act_is_done_once_for_its_key(console: ConsoleCaller) -> None:
    body = {
        "act": "start",
        "target": {"kind": "Node", "name": "c"},
        "args": {"with": "nodemaintenance"},
        "dryRun": True,
    }
    done = console.ask("POST", "/api/v1/acts", body, X_Haulout_Act="0f3a5c1e-0000")
    assert [write["verb"] for write in done.json["writes"]] == ["create"]
    assert console.ask("POST", "/api/v1/acts", body, X_Haulout_Act="0f3a5c1e-0000").body == done.body
    other = {**body, "reason": "another"}
    assert console.ask("POST", "/api/v1/acts", other, X_Haulout_Act="0f3a5c1e-0000").json["code"] == "malformed"


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Sec_Fetch_Site": None},
        {"Sec_Fetch_Site": None, "Origin": "null"},
        {"Sec_Fetch_Site": None, "Origin": "http://127.0.0.1:1"},
        {"Content_Type": "text/plain"},
        {"Content_Type": None},
        {"X_Haulout_Act": None},
        {"X_Haulout_Act": "x"},
    ],
    ids=str,
)
def test_what_another_site_could_send_writes_nothing(console: ConsoleCaller, headers: dict[str, str | None]) -> None:
    body = {"act": "start", "target": {"kind": "Node", "name": "c"}, "args": {"with": "nodemaintenance"}}
    assert 400 <= console.ask("POST", "/api/v1/acts", body, **headers).status < 500
    assert console.rows()["c"]["state"] == "in service"


def test_the_bearer_door_needs_tls(served: Served) -> None:
    done = served.run("console", "--door", "bearer", "--no-open")
    assert (done.returncode, done.stdout) == (1, "")
    assert "--behind-proxy" in done.stderr
    assert served.run("console", "--listen", "0.0.0.0:0").returncode == 2


def test_behind_a_proxy_the_bearer_door_listens_on_loopback_alone(served: Served) -> None:
    for listen in ("0.0.0.0:0", ":0", "[::]:0"):
        done = served.run("console", "--door", "bearer", "--behind-proxy", "--listen", listen)
        assert (done.returncode, done.stdout) == (2, "")
        assert "loopback" in done.stderr


def test_the_calendar_has_the_windows_of_budgets(console: ConsoleCaller, served: Served) -> None:
    night = {"type": "Allow", "schedule": "0 2 * * *", "duration": "2h", "timeZone": "Europe/Berlin"}
    served.make({**budget(1), "metadata": {"name": "night"}, "spec": {"windows": [night]}})
    query = "calendar?from=2026-10-24T00:00:00Z&to=2026-10-26T12:00:00Z"
    found = console.until(lambda: [each for each in console.read(query)["windows"] if each["name"] == "budget night"])
    assert found[0]["timeZone"] == "Europe/Berlin"
    # Clocks are set back in the night of the 25th.
    assert [opening["from"][-6:] for opening in found[0]["open"]] == ["+02:00", "+02:00", "+01:00"]
    assert console.get("calendar?from=2026-01-01T00:00:00Z&to=2028-01-01T00:00:00Z").json["code"] == "malformed"


def test_a_forecast_runs_beside_the_console(console: ConsoleCaller) -> None:
    objects = [{"kind": "NodeDisruptionBudget", "metadata": {"name": "all"}, "spec": {"maxUnavailable": 3}}]
    begun = console.ask("POST", "/api/v1/forecasts", {"changes": {"objects": objects, "workFor": "30m"}})
    assert begun.status == 202

    def ended() -> Any:
        found = console.read(f"forecasts/{begun.json['id']}")
        return found if found["state"] in ("done", "failed") else None

    found = console.until(ended)
    assert (found["state"], found["detail"]) == ("done", "")
    assert [each["name"] for each in found["plan"]["nodes"]] == ["a", "b", "c"]
    assert console.get("forecasts/nothing").status == 404


def test_the_logbook_comes_in_pages(console: ConsoleCaller, served: Served) -> None:
    served.make(*map(record, range(3)))
    first = console.read("records?limit=2&surface=nodemaintenance")
    assert [each["metadata"]["name"] for each in first["records"]] == ["r2", "r1"]
    rest = console.read(f"records?limit=2&surface=nodemaintenance&continue={first['continue']}")
    assert [each["metadata"]["name"] for each in rest["records"]] == ["r0"]
    assert "continue" not in rest
    assert console.get("records?continue=garbage").json["code"] == "malformed"
    assert console.read("records?node=nowhere")["records"] == []
    assert len(console.read("records?from=2026-03-01T01:30:00Z&outcome=completed")["records"]) == 2


def record(number: int) -> Json:
    begun_at, ended_at = f"2026-03-01T0{number}:00:00Z", f"2026-03-01T0{number}:45:00Z"
    return {
        "apiVersion": "haulout.dev/v1alpha1",
        "kind": "MaintenanceRecord",
        "metadata": {"name": f"r{number}"},
        "spec": {"node": {"name": "a", "uid": "u"}, "surface": "nodemaintenance", "begunAt": begun_at},
        "status": {"outcome": "Completed", "endedAt": ended_at},
    }
