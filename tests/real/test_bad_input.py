"""Wrong files, flags, labels, annotations and rights: each is reported once and clearly, and affects no other object."""

from __future__ import annotations

import signal
import socket
import subprocess
from collections.abc import Callable, Container, Iterator, Mapping
from pathlib import Path

import pytest

from tests.real.profiles import DATA, GO, PROFILE, STATE, entries_of, label_of
from tests.rig.api import Api, Json
from tests.rig.fleet import node_object
from tests.rig.operator import HAULOUT, JSON_LOG, MaintenanceController, Operator, Platform, environment
from tests.rig.plane import ControlPlane
from tests.rig.process import free_port
from tests.rig.wait import eventually

pytestmark = pytest.mark.tools("etcd", "kube-apiserver")

STAY = "settings cannot be used, the last good ones stay in force"
EVENTS = "events.k8s.io/v1/events"
CONFIG_VALID = "maintenance_controller_config_valid"
REQUIRED = "maintenance-required"
# Nodes with the profile make one transition, by a label. The interval is so long that nothing happens because it is over.
ONCE = f"""
intervals: {{requeue: 1h}}
instances:
  check:
  - {{type: hasLabel, name: go, config: {{key: {GO}}}}}
profiles:
- name: once
  operational: {{transitions: [{{check: go, next: {REQUIRED}}}]}}
"""


@pytest.fixture
def fresh(plane: ControlPlane, prefix: str) -> Iterator[Callable[..., str]]:
    """A function that makes nodes that want their transition. They are removed after the test."""

    def make(name: str, profile: str = "once", *, annotations: Mapping[str, str] | None = None, go: bool = True) -> str:
        labels = {PROFILE: profile, **({GO: "true"} if go else {})}
        plane.load([node_object(f"{prefix}-{name}", labels=labels, annotations=annotations)])
        return f"{prefix}-{name}"

    yield make
    plane.wipe(prefix)


def told(api: Api, node: str, reason: str = "") -> list[Json]:
    found = api.items(EVENTS, "default", fieldSelector=f"regarding.name={node}")
    return [event for event in found if reason in ("", event["reason"])]


def own_events(api: Api, *, before: Container[str] = ()) -> list[Json]:
    """Return the events of an operator outside of any pod about itself, in order."""
    found = told(api, "default", "")
    own = [
        each for each in found if each["reportingController"] == "haulout" and each["metadata"]["name"] not in before
    ]
    return sorted(own, key=lambda each: str(each["metadata"]["name"]))


def names_of(events: list[Json]) -> set[str]:
    return {event["metadata"]["name"] for event in events}


def await_event(api: Api, node: str, reason: str) -> Json:
    (event,) = eventually(lambda: told(api, node, reason), f"{reason} of {node}")
    return event


def await_state(api: Api, wanted: str, *nodes: str) -> None:
    eventually(lambda: {state(api, node) for node in nodes} == {wanted}, f"{', '.join(nodes)}: {wanted}")


def state(api: Api, node: str) -> str | None:
    return label_of(api.get("nodes", node), STATE)


def current(api: Api, node: str) -> dict[str, str]:
    return {name: entry["Current"] for name, entry in entries_of(api.get("nodes", node)).items()}


def seeded(state: str) -> str:
    entry = f'{{"Transition":"2026-03-01T10:00:00Z","Current":"{state}","Previous":"{state}"}}'
    return f'{{"Profiles":{{"once":{entry}}},"Notifications":{{}}}}'


class TestNodes:
    def test_each_bad_node_is_told_of_and_the_good_one_goes_on(
        self, plane: ControlPlane, fresh: Callable[..., str], tmp_path: Path
    ) -> None:
        api, before = plane.api(), plane.audit.mark()
        garbled = fresh("garbled", annotations={DATA: "{not json"})
        word = fresh("word", annotations={DATA: seeded("rebooting")})
        both = fresh("both", "once--ghost")
        urgent = fresh("urgent", annotations={"haulout.dev/priority": "very"})
        ledger = fresh("ledger", annotations={"haulout.dev/cordon": "[1, 2"})
        good = fresh("good")
        with MaintenanceController(plane, tmp_path, ONCE, flags=JSON_LOG) as operator:
            await_state(api, REQUIRED, good, both, urgent, ledger)
            reasons = {
                garbled: ("MaintenanceDataInvalid", "ParseMaintenanceData", "Warning", "failed to parse json value"),
                word: ("ChangeMaintenanceStateFailed", "ChangeMaintenanceState", "Normal", "Will stay in rebooting"),
                both: ("UnknownMaintenanceProfile", "AttachProfile", "Warning", "asks for profile ghost"),
                urgent: ("AnnotationInvalid", "ReadAnnotation", "Warning", 'priority is "very": it counts as 0'),
                ledger: ("AnnotationInvalid", "ReadAnnotation", "Warning", 'cordon is "[1, 2": it counts as absent'),
            }
            for name, (reason, action, kind, note) in reasons.items():
                event = await_event(api, name, reason)
                assert (event["action"], event["type"]) == (action, kind)
                assert note in event["note"]
                assert event["regarding"]["uid"] == api.get("nodes", name)["metadata"]["uid"]
            failures = 'maintenance_controller_transition_failure_count{profile="once"}'
            assert operator.metric(failures) == 1
            assert current(api, word) == {"once": "rebooting"}
            (line,) = operator.logged("Failed to reconcile. Skipping node patching.")
            assert (line["node"], line["level"]) == (garbled, "error")
            api.patch("nodes", garbled, {"metadata": {"annotations": {DATA: None}}})
            api.patch("nodes", word, {"metadata": {"annotations": {DATA: seeded("operational")}}})
            await_state(api, REQUIRED, garbled, word)
        patches = [entry for entry in plane.audit.entries(since=before, verb="patch") if entry.name == garbled]
        assert patches[0].user == "test", "a node whose data cannot be read is left alone"

    def test_older_data_is_taken_over(self, plane: ControlPlane, fresh: Callable[..., str], tmp_path: Path) -> None:
        old = (
            '{"LastTransition":"2022-08-01T10:00:00Z","LastNotificationTimes":{"ops":"2022-08-01T11:00:00Z"},'
            '"ProfileStates":{"once":"in-maintenance"},"PreviousStates":{"once":"in-maintenance"}}'
        )
        node = fresh("old", annotations={DATA: old})
        with MaintenanceController(plane, tmp_path, ONCE):
            await_state(plane.api(), "in-maintenance", node)
        assert plane.api().get("nodes", node)["metadata"]["annotations"][DATA] == (
            '{"Profiles":{"once":{"Transition":"2022-08-01T10:00:00Z","Current":"in-maintenance",'
            '"Previous":"in-maintenance"}},"Notifications":{"ops":"2022-08-01T11:00:00Z"}}'
        )

    def test_deleted_created_anew_and_relabelled_in_the_middle(
        self, plane: ControlPlane, fresh: Callable[..., str], tmp_path: Path
    ) -> None:
        api = plane.api()
        reborn, moved = fresh("reborn"), fresh("moved")
        config = ONCE + "- name: other\n"
        with MaintenanceController(plane, tmp_path, config) as operator:
            series = f'maintenance_controller_profile_state{{node="{moved}",profile="once",state="{REQUIRED}"}}'
            eventually(lambda: operator.metric(series) == 1, "its state is shown")
            await_state(api, REQUIRED, reborn)
            api.delete("nodes", reborn)
            fresh("reborn", go=False)
            eventually(lambda: DATA in api.get("nodes", reborn)["metadata"]["annotations"], "the second is known")
            assert current(api, reborn) == {"once": "operational"}
            api.patch("nodes", moved, {"metadata": {"labels": {PROFILE: "other"}}})
            eventually(lambda: current(api, moved) == {"other": "operational"}, "the other profile starts anew")
            eventually(lambda: operator.metric(series) == 0, "what is detached is no longer shown")


UNKNOWN = 'the requested check plugin type "hasLable" is not known to the registry (did you mean "hasLabel"?)'
SPAN = "(a duration such as 90s or 1h30m, or a number of seconds)"
MISSING = "missing field (set the variable NOT_SET, or give a default: ${NOT_SET:default})"
# What is wrong, and as which line of the file.
BROKEN = {
    "[unclosed": "2:1: did not find expected ',' or ']'",
    ONCE.replace("hasLabel", "hasLable"): f"5:12: instances.check.0.type: {UNKNOWN}",
    ONCE.replace("check: go", 'check: "go &&"'): (
        "8:39: profiles.0.operational.transitions.0.check: parsing error: unexpected end at column 6"
    ),
    ONCE.replace(GO, '"${NOT_SET}"'): f"5:46: instances.check.0.config.key: {MISSING}",
    ONCE.replace("requeue: 1h", "requeue: [30]"): f"2:22: intervals.requeue: type mismatch {SPAN}",
}


class TestConfiguration:
    def test_while_it_is_wrong_nothing_happens_and_once_it_is_right_everything_goes_on(
        self, plane: ControlPlane, fresh: Callable[..., str], tmp_path: Path
    ) -> None:
        """G5: without any event of the nodes."""
        api = plane.api()
        before = names_of(own_events(api))
        names = [fresh(f"{number:02}", go=False) for number in range(20)]
        with MaintenanceController(plane, tmp_path, ONCE, flags=JSON_LOG) as operator:
            await_state(api, "operational", *names)
            since = plane.audit.mark()
            for text, problem in BROKEN.items():
                operator.write(text)
                where = f"config/maintenance.yaml:{problem}"
                eventually(lambda: where in str(self.problems(operator)[-1:]), where)  # noqa: B023
                assert operator.metric(CONFIG_VALID) == 0
            asked = operator.metric("haulout_askings_total")
            for name in names:
                api.patch("nodes", name, {"metadata": {"labels": {GO: "true"}}})
            eventually(
                lambda: operator.metric("haulout_askings_total") >= asked + len(names), "all have been looked at"
            )
            assert plane.audit.counts(since=since, user="operator")["patch nodes"] == 0
            operator.write(ONCE)
            await_state(api, REQUIRED, *names)
            assert operator.metric(CONFIG_VALID) == 1
            eventually(lambda: len(own_events(api, before=before)) > len(BROKEN), "all is told")
            *wrong, right = own_events(api, before=before)
            assert all(problem in event["note"] for problem, event in zip(BROKEN.values(), wrong, strict=True))
            assert {(event["reason"], event["type"]) for event in wrong} == {("ConfigurationInvalid", "Warning")}
            assert (right["reason"], right["type"]) == ("ConfigurationRestored", "Normal")
            assert right["regarding"] == {"kind": "Namespace", "name": "default", "apiVersion": "v1"}
        assert len(self.problems(operator)) == len(BROKEN), "each is said once"

    def problems(self, operator: MaintenanceController) -> list[list[str]]:
        lines = operator.logged("Failed to parse configuration file (syntax error)")
        lines += operator.logged("Failed to parse configuration file (semantic error)")
        return [line["problems"] for line in sorted(lines, key=lambda line: str(line["ts"]))]

    def test_a_file_that_is_missing_ends_nothing(
        self, plane: ControlPlane, fresh: Callable[..., str], tmp_path: Path
    ) -> None:
        api, node = plane.api(), fresh("n")
        before = names_of(own_events(api))
        operator = MaintenanceController(plane, tmp_path, ONCE, flags=JSON_LOG)
        (tmp_path / "config" / "maintenance.yaml").unlink()
        with operator:
            (line,) = eventually(
                lambda: operator.logged("Failed to parse configuration file (syntax error)"), "it is said"
            )
            assert line["error"] == "No such file or directory"
            assert operator.get("/metrics")[0] == 200
            (event,) = eventually(lambda: own_events(api, before=before), "it is told, though seen before it leads")
            assert event["note"].endswith("(syntax error): config/maintenance.yaml: No such file or directory")
            operator.write(ONCE)
            await_state(api, REQUIRED, node)

    def test_settings_that_break_while_it_runs_stay_as_they_were(
        self, plane: ControlPlane, fresh: Callable[..., str], tmp_path: Path
    ) -> None:
        api, first, second = plane.api(), fresh("first"), fresh("second", "other")
        before = names_of(own_events(api))
        basic = "leader: {elect: false}\n"
        with Platform(plane, tmp_path, ONCE, basic) as operator:
            await_state(api, REQUIRED, first)
            operator.settle(f"{basic}lug: {{level: loud}}\nlog: {{level: loud}}")
            kept = "settings are invalid, the last good ones stay in force"
            eventually(lambda: len(operator.logged(kept)) >= 2, "both are said")
            lines = operator.logged(kept)
            assert [line["error"] for line in lines] == [
                "haulout.yaml:5:1: lug: unknown setting (did you mean log?)",
                "haulout.yaml:6:7: log.level: 'loud' is no log level (one of debug, info, warning, error)",
            ]
            (tmp_path / "config" / "other.yaml").write_text(ONCE.replace("name: once", "name: other"))
            operator.basic = operator.basic.replace("maintenance.yaml", "other.yaml")
            operator.settle(basic)
            await_state(api, REQUIRED, second)
            assert operator.logged("settings are valid again")
            eventually(lambda: len(own_events(api, before=before)) == 2, "both are told")
            wrong, right = own_events(api, before=before)
            assert all(line["error"] in wrong["note"] for line in lines)
            assert (wrong["reason"], right["reason"]) == ("ConfigurationInvalid", "ConfigurationRestored")

    def test_another_way_to_the_cluster_is_taken_while_it_runs(
        self, plane: ControlPlane, fresh: Callable[..., str], tmp_path: Path
    ) -> None:
        api, node = plane.api(), fresh("a", go=False)
        basic = "leader: {elect: false}\n"
        with Platform(plane, tmp_path, ONCE, basic) as operator:
            await_state(api, "operational", node)
            known = f"kubeconfig: {plane.kubeconfig('operator')}\n"
            operator.basic = operator.basic.replace(known, "kubeconfig: nowhere.yaml\n")
            operator.settle(basic)
            eventually(lambda: operator.logged(STAY), "with one that does not exist it goes on as before")
            eventually(lambda: len(operator.logged("Loaded kubeconfig")) == 2, "which it has put together again")
            before = plane.audit.mark()
            operator.basic = operator.basic.replace("nowhere.yaml", str(plane.kubeconfig("operator-b")))
            operator.settle(basic)
            eventually(lambda: len(operator.logged("Loaded kubeconfig")) == 3, "the other one is used")
            api.patch("nodes", node, {"metadata": {"labels": {GO: "true"}}})
            await_state(api, REQUIRED, node)
            assert not operator.logged("a changed setting needs a restart")
        patches = [entry.user for entry in plane.audit.entries(since=before) if entry.act == "patch nodes"]
        assert set(patches) - {"test"} == {"operator-b"}


READ: Json = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]}
WRITE: Json = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["patch"]}
TELL: Json = {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]}


def interruptions(operator: Operator) -> list[Json]:
    """Return the interruptions of the nodes' watch.

    Pods and their owners, which are only counted, cannot be read either.
    """
    return [line for line in operator.logged("watch interrupted") if line["kind"] == "Node"]


class TestRights:
    """A missing right that is granted later needs no restart."""

    def grant(self, plane: ControlPlane, user: str, *rules: Json) -> None:
        path = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{user}"
        plane.api().request("PATCH", path, {"rules": rules}, content_type="application/merge-patch+json")

    def test_nodes_that_may_not_be_read(self, plane: ControlPlane, fresh: Callable[..., str], tmp_path: Path) -> None:
        node, user = fresh("n"), plane.limited_user([WRITE, TELL])
        with MaintenanceController(plane, tmp_path, ONCE, flags=JSON_LOG, user=user) as operator:
            (line,) = eventually(lambda: interruptions(operator), "it is said")
            assert line["code"] == "unreadable"
            assert f'nodes is forbidden: User "{user}" cannot' in line["error"]
            series = 'haulout_watch_troubles_total{code="unreadable",kind="Node"}'
            eventually(lambda: operator.metric(series) >= 1, "it is counted")
            asked = haulout("explain", node, "--kubeconfig", str(plane.kubeconfig(user)), cwd=tmp_path)
            assert (asked.returncode, asked.stdout) == (1, "")
            assert asked.stderr.startswith(
                f'Error: {plane.server} does not list its nodes: nodes "{node}" is forbidden: User "{user}" cannot list'
            )
            self.grant(plane, user, READ, WRITE, TELL)
            await_state(plane.api(), REQUIRED, node)
            assert len(interruptions(operator)) == 1, "once for each interruption"

    def test_rights_that_are_taken_away_and_given_back(
        self, plane: ControlPlane, fresh: Callable[..., str], tmp_path: Path
    ) -> None:
        """First to write nodes, then to tell of it."""
        api = plane.api()
        node, user = fresh("n"), plane.limited_user([READ])
        with MaintenanceController(plane, tmp_path, ONCE, flags=JSON_LOG, user=user) as operator:
            line = eventually(lambda: operator.logged("write failed"), "it is said")[0]
            assert line["object"] == f"Node/{node}"
            assert f'nodes "{node}" is forbidden: User "{user}" cannot patch' in line["error"]
            assert operator.metric('haulout_refusals_total{code="403",surface="profiles"}') >= 1
            assert state(api, node) is None
            self.grant(plane, user, READ, WRITE)
            await_state(api, REQUIRED, node)
            (line,) = eventually(lambda: operator.logged("event not written"), "what cannot be told is logged")
            assert "ChangedMaintenanceState" in line["reason"]
            assert f'User "{user}" cannot create resource "events"' in line["error"]
            assert told(api, node) == []


def haulout(*words: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    argv = [str(HAULOUT), *words]
    return subprocess.run(
        argv, cwd=cwd, env=environment(**env), text=True, capture_output=True, check=False, timeout=60
    )


class TestEnds:
    """Exit codes, each with one line on stderr that says why."""

    @pytest.mark.parametrize(
        ("words", "code", "said"),
        [
            pytest.param(["--nope"], 2, "flag provided but not defined: -nope\nUsage of", id="an unknown flag"),
            pytest.param(["--metrics-timeout=x"], 2, 'invalid value "x" for flag -metrics-timeout', id="a bad value"),
            pytest.param(["--kubeconfig=absent"], 1, "absent", id="no kubeconfig"),
            pytest.param(["--kubecontext=ghost"], 1, "ghost", id="no such context"),
            pytest.param(["--enable-leader-election"], 1, "leader election needs a namespace", id="no namespace"),
            pytest.param(["--metrics-addr=nowhere"], 1, "'nowhere' is not an address to listen on", id="no address"),
            pytest.param(["--health-addr=:70000"], 1, "':70000' is not an address to listen on", id="no such port"),
            pytest.param(["validate-config"], 1, "./config/maintenance.yaml: No such file or directory", id="no file"),
        ],
    )
    def test_at_the_start(self, words: list[str], code: int, said: str, plane: ControlPlane, tmp_path: Path) -> None:
        free = [
            f"--metrics-addr=127.0.0.1:{free_port()}",
            f"--health-addr=127.0.0.1:{free_port()}",
            "--zap-devel=false",
        ]
        argv = words if words == ["validate-config"] else [*free, *words]
        done = haulout("as", "maintenance-controller", *argv, cwd=tmp_path, KUBECONFIG=str(plane.kubeconfig()))
        assert done.returncode == code, done.stderr
        assert said in done.stderr
        assert "Traceback" not in done.stderr

    def test_an_address_in_use(self, plane: ControlPlane, tmp_path: Path) -> None:
        with socket.create_server(("127.0.0.1", free_port())) as taken:
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            words = [f"--metrics-addr={address}", "--health-addr=0", "--zap-devel=false"]
            done = haulout("as", "maintenance-controller", *words, cwd=tmp_path, KUBECONFIG=str(plane.kubeconfig()))
        assert done.returncode == 1
        (line,) = [line for line in done.stderr.splitlines() if '"level":"error"' in line]
        assert f"cannot listen on {address}: " in line
        assert "address already in use" in line.lower()
        assert "Traceback" not in done.stderr

    def test_a_signal_ends_it_with_0(self, plane: ControlPlane, tmp_path: Path) -> None:
        with MaintenanceController(plane, tmp_path, ONCE, flags=JSON_LOG) as operator:
            operator.process.send(signal.SIGTERM)
            assert operator.process.wait() == 0
        last = operator.process.text().splitlines()[-1]
        assert '"msg":"Received SIGTERM or SIGINT. See you later."' in last

    def test_it_waits_for_one_more_scrape_and_a_second_signal_ends_it_with_1(
        self, plane: ControlPlane, fresh: Callable[..., str], tmp_path: Path
    ) -> None:
        flags = [*JSON_LOG, "--metrics-timeout=10m"]
        with MaintenanceController(plane, tmp_path / "a", ONCE, flags=flags) as scraped:
            scraped.process.send(signal.SIGTERM)
            eventually(lambda: scraped.logged("waiting for one more scrape"), "it waits")
            node = fresh("n")
            assert scraped.process.running
            assert scraped.get("/metrics")[0] == 200
            assert scraped.process.wait() == 0
        assert state(plane.api(), node) is None, "it does not act any more"
        with MaintenanceController(plane, tmp_path / "b", ONCE, flags=flags) as hurried:
            hurried.process.send(signal.SIGINT)
            hurried.process.send(signal.SIGTERM)
            assert hurried.process.wait() == 1
        assert "Traceback" not in hurried.process.text()

    def test_nobody_waits_for_a_scrape_of_what_is_not_served(self, plane: ControlPlane, tmp_path: Path) -> None:
        flags = ["--metrics-addr=0", "--metrics-timeout=10m"]
        with MaintenanceController(plane, tmp_path, ONCE, flags=flags) as operator:
            operator.process.send(signal.SIGTERM)
            assert operator.process.wait() == 0
