"""The command line of Skyhook against the embedded cluster: every output, prompt and exit code."""

from __future__ import annotations

import asyncio
import io
import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from haulout import __version__
from haulout.cli.skyhook.command import COMMANDS, main, nodewright
from haulout.embedded import Json, Resource
from haulout.surfaces.packages.entries.entry import PackageEntry, to_text
from haulout.surfaces.packages.node import names as node_names
from haulout.surfaces.registry import definition
from tests.build.served import HAULOUT, Served
from tests.build.server import serve

P = "skyhook.nvidia.com/"
SKYHOOKS = Resource("skyhook.nvidia.com", "v1alpha1", "skyhooks")
NODEWRIGHTS = Resource("nodewright.nvidia.com", "v1alpha1", "nodewrights")
NODES = Resource("", "v1", "nodes")
STAMP = {f"{P}version": "v0.13.0"}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("skyhook")) as made:
        made.make(*(yaml.safe_load(definition(name)) for name in ("skyhooks", "deploymentpolicies", "nodewrights")))
        for name in ("skyhook", "nodewright", "elsewhere"):
            made.make({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        yield made


class Desk:
    """A person at a terminal: `say` runs a command and returns what was printed."""

    def __init__(self, served: Served, capsys: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch) -> None:
        self.served, self._capsys, self._patch = served, capsys, patch
        self.err = ""

    def say(self, *words: str, code: int = 0, types: str = "", command: Callable[[Sequence[str]], int] = main) -> str:
        self._patch.setattr("sys.stdin", io.StringIO(types))
        kubeconfig = str(self.served.folder / "kubeconfig")
        found = command([*words, "--kubeconfig", kubeconfig])
        out, self.err = self._capsys.readouterr()
        assert found == code, self.err
        return out

    def node(self, name: str, skyhook: str = "", *entries: PackageEntry, **fields: Any) -> None:
        marks = {f"{P}nodeState_{skyhook}": to_text({entry.key: entry for entry in entries})} if skyhook else {}
        meta = {"name": name, "annotations": marks | fields.get("annotations", {}), "labels": fields.get("labels", {})}
        body = {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": fields.get("spec", {})}
        self.served.make(body)

    def skyhook(self, name: str, status: Json | None = None, **fields: Any) -> None:
        meta = {"name": name, "annotations": fields.get("annotations", STAMP)}
        packages = {"aa": {"version": "1.0", "image": "x/aa"}, "bb": {"version": "2.0", "image": "x/bb"}}
        body = {"apiVersion": "skyhook.nvidia.com/v1alpha1", "kind": "Skyhook", "metadata": meta}
        self.served.make({**body, "spec": {"packages": packages}})
        if status:
            patch = {"status": status}
            self.served.call(lambda world: world.server.patch(SKYHOOKS, "", name, patch, subresource="status"))

    def found(self, name: str) -> Json:
        found = self.served.call(lambda world: world.server.get(SKYHOOKS, "", name))
        assert found is not None
        return found

    def marks(self, node: str) -> Json:
        annotations: Json = self.served.node(node)["metadata"].get("annotations", {})
        return {name: value for name, value in annotations.items() if name.startswith(P)}


@pytest.fixture
def desk(served: Served, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    yield Desk(served, capsys, monkeypatch)
    for resource in (SKYHOOKS, NODEWRIGHTS, NODES):
        names = [each["metadata"]["name"] for each in served.call(lambda world, kind=resource: world.server.list(kind))]  # type: ignore[misc]
        for name in names:
            served.call(lambda world, kind=resource, name=name: world.server.delete(kind, "", name))  # type: ignore[misc]


def entry(name: str, stage: str, state: str, restarts: int = 0) -> PackageEntry:
    version = {"aa": "1.0", "bb": "2.0"}[name]
    return PackageEntry(name, version, f"x/{name}", stage=stage, state=state, restarts=restarts)


DONE = entry("aa", "config", "complete")


class TestCommandLine:
    @pytest.mark.parametrize(
        ("words", "problem"),
        [
            (["fly"], 'unknown command "fly" for "skyhook"'),
            (["pause"], "accepts 1 arg(s), received 0"),
            (["pause", "a", "b"], "accepts 1 arg(s), received 2"),
            (["version", "x"], "accepts 0 arg(s), received 1"),
            (["node", "ignore"], "requires at least 1 arg(s), only received 0"),
            (["node", "list"], 'required flag(s) "skyhook" not set'),
            (["node", "list", "--skyhook="], "--skyhook flag is required"),
            (["package", "rerun", "aa"], 'required flag(s) "skyhook", "node" not set'),
            (["node", "list", "--skyhook", "x", "-o", "xml"], 'invalid output format "xml"'),
            (["pause", "a", "--stage", "apply"], "unknown flag: --stage"),
            (["pause", "a", "--force"], "unknown flag: --force"),
            (["pause", "a", "-x"], "unknown shorthand flag: 'x' in -x"),
            (["pause", "a", "--context"], "flag needs an argument: --context"),
            (["pause", "a", "-n"], "flag needs an argument: -n, --namespace"),
            (
                ["package", "logs", "a", "--skyhook", "x", "--tail", "few"],
                'invalid argument "few" for "--tail" flag: invalid syntax',
            ),
            (
                ["version", "--timeout", "10"],
                'invalid argument "10" for "--timeout" flag: time: missing unit in duration "10"',
            ),
            (
                ["package", "rerun", "aa", "--skyhook", "x", "--node", "n", "--stage", "upgrade"],
                'invalid stage "upgrade": must be one of apply, config, interrupt, post-interrupt',
            ),
        ],
    )
    def test_mistakes(self, words: list[str], problem: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(words) == 1
        assert capsys.readouterr().err == f"{problem}\n"

    @pytest.mark.parametrize(
        ("words", "shown"),
        [
            (["--version"], f"Skyhook plugin: v{__version__}\n"),
            (["help", "pause"], "Usage: skyhook pause SKYHOOK"),
            (["help", "node", "list"], "Usage: skyhook node list"),
            (["help"], "Usage: skyhook COMMAND"),
            (["node", "nosuch"], "Usage: skyhook node COMMAND"),
        ],
    )
    def test_help_and_version_as_of_the_original(
        self, words: list[str], shown: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(words) == 0
        assert shown in capsys.readouterr().out

    def test_no_cluster(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["node", "list", "--skyhook", "x", "--kubeconfig", "/nowhere"]) == 1
        assert "initializing kubernetes client: " in capsys.readouterr().err

    @pytest.mark.parametrize("words", [[], ["--help"], ["node"], ["node", "list", "-h"], ["help"][:0]])
    def test_help(self, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
        assert main(words) == 0
        assert "Usage: skyhook" in capsys.readouterr().out

    def test_flags_stand_anywhere_and_are_short_or_long(self, desk: Desk) -> None:
        desk.node("n1", "tuning", DONE)
        expected = desk.say("node", "list", "--skyhook", "tuning", "-o", "json")
        for words in (
            ["-ojson", "node", "--skyhook=tuning", "list"],
            ["node", "-vo=JSON", "list", "--skyhook", "tuning"],
            ["--output", "Json", "node", "list", "--verbose=false", "--skyhook", "tuning"],
        ):
            assert desk.say(*words) == expected


class TestVersion:
    def test_of_this_program_alone(self, desk: Desk) -> None:
        assert desk.say("version", "--client-only") == f"Skyhook plugin:\tv{__version__}\n"

    def test_of_an_operator_that_is_not_there(self, desk: Desk) -> None:
        why = 'unable to determine operator version; no skyhook operator deployment found in namespace "away"'
        assert desk.say("version", "-n", "away").splitlines()[1] == f"Skyhook operator:\tunknown ({why})"

    @pytest.mark.parametrize(
        ("labels", "image", "shown"),
        [
            ({}, "ghcr.io/nvidia/Skyhook/operator:v0.13.0", "v0.13.0"),
            ({"app.kubernetes.io/version": "v0.9.1"}, "ghcr.io/nvidia/skyhook/operator:v0.13.0", "v0.9.1"),
            ({"app": "skyhook-operator"}, "r:5000/mirror/operator:v0.10.0@sha256:ab", "v0.10.0"),
        ],
    )
    def test_of_an_operator(self, desk: Desk, labels: Json, image: str, shown: str) -> None:
        with deployed(desk.served, labels, image):
            assert desk.say("version") == f"Skyhook plugin:\tv{__version__}\nSkyhook operator:\t{shown}\n"


class deployed:  # noqa: N801
    """Create a Deployment that looks like an operator, as long as the block lasts."""

    def __init__(self, served: Served, labels: Json, image: str, namespace: str = "skyhook") -> None:
        self._served, self._namespace = served, namespace
        pod = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": image}]}}
        spec = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": pod}
        meta = {"name": "operator", "namespace": namespace, "labels": labels}
        self._body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}

    def __enter__(self) -> None:
        self._served.make(self._body)

    def __exit__(self, *args: object) -> None:
        kind = Resource("apps", "v1", "deployments")
        self._served.call(lambda world: world.server.delete(kind, self._namespace, "operator"))


SWITCHES = [
    pytest.param("pause", "paused", {"pause": "true"}, id="pause"),
    pytest.param("resume", "resumed", {}, id="resume"),
    pytest.param("disable", "disabled", {"disable": "true"}, id="disable"),
    pytest.param("enable", "enabled", {}, id="enable"),
]


@pytest.mark.parametrize(("verb", "done", "marks"), SWITCHES)
class TestSwitches:
    def begin(self, desk: Desk, verb: str) -> Json:
        before = {"resume": {"pause": "true"}, "enable": {"disable": "true"}}.get(verb, {})
        desk.skyhook("x", annotations={**STAMP, **{f"{P}{name}": value for name, value in before.items()}})
        return before

    def now(self, desk: Desk) -> Json:
        found = desk.found("x")["metadata"]["annotations"]
        return {name.removeprefix(P): value for name, value in found.items() if name not in STAMP}

    def test_with_consent(self, desk: Desk, verb: str, done: str, marks: Json) -> None:
        self.begin(desk, verb)
        assert desk.say(verb, "x", "-y") == f'Skyhook "x" {done}\n'
        assert self.now(desk) == marks

    @pytest.mark.parametrize("answer", ["y\n", "Y\n", " y \n"])
    def test_asked(self, desk: Desk, verb: str, done: str, marks: Json, answer: str) -> None:
        self.begin(desk, verb)
        prompt = f'This will {verb} Skyhook "x". Continue? [y/N]: '
        assert desk.say(verb, "x", types=answer) == f'{prompt}Skyhook "x" {done}\n'
        assert self.now(desk) == marks

    @pytest.mark.parametrize("answer", ["", "n\n", "yes\n", "\n"])
    def test_without_consent(self, desk: Desk, verb: str, done: str, marks: Json, answer: str) -> None:
        before = self.begin(desk, verb)
        assert desk.say(verb, "x", types=answer).endswith("[y/N]: Aborted.\n")
        assert self.now(desk) == before

    def test_dry_run(self, desk: Desk, verb: str, done: str, marks: Json) -> None:
        before = self.begin(desk, verb)
        assert desk.say(verb, "x", "--dry-run") == f'[dry-run] Would {verb} Skyhook "x"\n'
        assert self.now(desk) == before

    def test_of_nobody(self, desk: Desk, verb: str, done: str, marks: Json) -> None:
        desk.say(verb, "ghost", "-y", code=1)
        assert 'getting skyhook "ghost": ' in desk.err
        assert "not found" in desk.err
        desk.say(verb, "../nodes/n1", "-y", code=1)
        assert "not found" in desk.err


class TestOldOperators:
    def test_annotations_that_it_does_not_know(self, desk: Desk) -> None:
        desk.skyhook("x", annotations={f"{P}version": "v0.7.6"})
        desk.say("pause", "x", "-y", code=1)
        assert "operator version v0.7.6 does not support this command; minimum supported version is v0.8.0" in desk.err
        desk.say("resume", "x", "-y")

    def test_the_deployment_counts_where_the_stamp_is_none(self, desk: Desk) -> None:
        desk.skyhook("x", annotations={f"{P}version": "dev"})
        with deployed(desk.served, {}, "skyhook:v0.7.0"):
            desk.say("disable", "x", "-y", code=1)
        desk.say("disable", "x", "-y")
        assert desk.err.startswith("Warning: unable to determine operator version")


class TestNodeList:
    def test_table(self, desk: Desk) -> None:
        desk.node("worker-b", "x", DONE, entry("bb", "apply", "erroring", 3))
        desk.node("worker-a", "x", DONE, entry("bb", "config", "complete", 1))
        desk.node("c", "x", entry("aa", "apply", "in_progress"))
        desk.node("d", "x", entry("aa", "interrupt", "skipped"))
        desk.node("e", "x")
        desk.node("other", "y", DONE)
        desk.node("broken", annotations={f"{P}nodeState_x": "{"})
        head = "Skyhook: x\n\nSummary: 5 nodes (1 complete, 1 erroring, 3 in progress)\n\n"
        assert desk.say("node", "list", "--skyhook", "x") == head + (
            "NODE      STATUS       PACKAGES\n"
            "----      ------       --------\n"
            "c         in_progress  0/1\n"
            "d         unknown      0/1\n"
            "e         unknown      0/0\n"
            "worker-a  complete     2/2\n"
            "worker-b  ERRORING     1/2\n"
        )
        assert desk.say("node", "list", "--skyhook", "x", "-o", "wide") == head + (
            "NODE      STATUS       PACKAGES  RESTARTS\n"
            "----      ------       --------  --------\n"
            "c         in_progress  0/1       0\n"
            "d         unknown      0/1       0\n"
            "e         unknown      0/0       0\n"
            "worker-a  complete     2/2       1\n"
            "worker-b  ERRORING     1/2       3\n"
        )

    def test_for_machines(self, desk: Desk) -> None:
        desk.node("a", "x", DONE, entry("bb", "apply", "erroring", 3))
        expected = {
            "skyhookName": "x",
            "nodes": [
                {"nodeName": "a", "status": "erroring", "packagesComplete": 1, "packagesTotal": 2, "restarts": 3}
            ],
        }
        shown = desk.say("node", "list", "--skyhook", "x", "-o", "json")
        assert shown == json.dumps(expected, indent=2) + "\n"
        shown = desk.say("node", "list", "--skyhook", "x", "-o", "yaml")
        assert shown == (
            "nodes:\n- nodeName: a\n  packagesComplete: 1\n  packagesTotal: 2\n  restarts: 3\n  status: erroring\n"
            "skyhookName: x\n"
        )

    def test_none(self, desk: Desk) -> None:
        assert desk.say("node", "list", "--skyhook", "x") == 'No nodes found for Skyhook "x"\n'


READS = (
    ("node", "list", "--skyhook", "x"),
    ("node", "status"),
    ("node", "reset", "a", "--skyhook", "x"),
    ("package", "status", "aa", "--skyhook", "x"),
    ("package", "rerun", "aa", "--skyhook", "x", "--node", "a"),
    ("reset", "x"),
)


@pytest.mark.parametrize("words", READS, ids=" ".join)
def test_states_that_cannot_be_read_are_told_of_when_asked(desk: Desk, words: tuple[str, ...]) -> None:
    desk.skyhook("x")
    desk.node("a", annotations={f"{P}nodeState_x": "["})
    quiet = desk.say(*words)
    assert desk.err == ""
    assert desk.say(*words, "-v") == quiet
    assert desk.err.startswith('Warning: skipping node "a" - invalid annotation: ')


class TestNodeStatus:
    @pytest.fixture(autouse=True)
    def nodes(self, desk: Desk) -> None:
        desk.node("a-1", "x", entry("bb", "apply", "in_progress", 2), DONE)
        desk.served.change(NODES, "a-1", {"metadata": {"annotations": {f"{P}nodeState_w": to_text({"aa|1.0": DONE})}}})
        desk.node("a-2", "x", DONE)
        desk.node("b.example", "x", DONE)

    @pytest.mark.parametrize(
        ("words", "rows"),
        [
            ([], ["a-1 w", "a-1 x", "a-2 x", "b.example x"]),
            (["a-2"], ["a-2 x"]),
            (["a-.*", "b.example"], ["a-1 w", "a-1 x", "a-2 x", "b.example x"]),
            (["a-[2-9]"], ["a-2 x"]),
            (["a-", "a-2"], ["a-2 x"]),
            (["a-.*", "--skyhook", "w"], ["a-1 w"]),
        ],
    )
    def test_which(self, desk: Desk, words: list[str], rows: list[str]) -> None:
        _, _, *lines = desk.say("node", "status", *words).splitlines()
        assert [" ".join(line.split()[:2]) for line in lines] == rows

    def test_table(self, desk: Desk) -> None:
        assert desk.say("node", "status", "a-1") == (
            "NODE  SKYHOOK  STATUS       PACKAGES\n"
            "----  -------  ------       --------\n"
            "a-1   w        complete     1/1\n"
            "a-1   x        in_progress  1/2\n"
        )
        assert desk.say("node", "status", "a-1", "--skyhook", "x", "-o", "wide") == (
            "NODE  SKYHOOK  PACKAGE  VERSION  STAGE   STATE        RESTARTS  IMAGE\n"
            "----  -------  -------  -------  -----   -----        --------  -----\n"
            "a-1   x        aa       1.0      config  complete     0         x/aa\n"
            "a-1   x        bb       2.0      apply   in_progress  2         x/bb\n"
        )

    def test_for_machines(self, desk: Desk) -> None:
        [found] = json.loads(desk.say("node", "status", "a-2", "-o", "json"))
        package = {"name": "aa", "version": "1.0", "stage": "config", "state": "complete", "restarts": 0}
        assert found == {
            "nodeName": "a-2",
            "skyhookName": "x",
            "status": "complete",
            "packagesComplete": 1,
            "packagesTotal": 1,
            "packages": [{**package, "image": "x/aa"}],
        }

    def test_none(self, desk: Desk) -> None:
        assert desk.say("node", "status", "z") == "No nodes matched the specified patterns\n"
        assert desk.say("node", "status", "--skyhook", "z") == "No Skyhook activity found on specified nodes\n"
        desk.say("node", "status", "a[", code=1)
        assert desk.err.startswith('matching nodes: invalid regex pattern "a[": ')


class TestNodeEdits:
    def test_reset(self, desk: Desk) -> None:
        desk.node("a", "x", DONE, annotations={f"{P}status_x": "complete"})
        desk.node("b", "x", DONE)
        head = "Skyhook: x\nNodes to reset (1):\n  - a (1 packages)\n"
        assert (
            desk.say("node", "reset", "a", "--skyhook", "x", "--dry-run") == f"{head}\n[dry-run] No changes applied\n"
        )
        prompt = (
            '\nThis will remove ALL package state for Skyhook "x" on these nodes.\n'
            "All packages will re-run from the beginning.\nContinue? [y/N]: "
        )
        assert desk.say("node", "reset", "a", "--skyhook", "x", types="no\n") == f"{head}{prompt}Aborted\n"
        assert desk.say("node", "reset", "a", "--skyhook", "x", types="", code=1) == head + prompt
        assert desk.err == "reading confirmation: EOF\n"
        done = '\nSuccessfully reset 1 node(s) for Skyhook "x"\n'
        assert desk.say("node", "reset", "a", "--skyhook", "x", types="Yes\n") == head + prompt + done
        assert desk.marks("a") == {f"{P}status_x": "complete"}
        assert f"{P}nodeState_x" in desk.marks("b")
        assert desk.say("node", "reset", "a", "--skyhook", "x") == 'No nodes have state for Skyhook "x"\n'
        assert desk.say("node", "reset", "c", "--skyhook", "x") == "No nodes matched the specified patterns\n"

    def test_ignore(self, desk: Desk) -> None:
        desk.node("a")
        desk.node("b", labels={f"{P}ignore": "true"})
        head = "Ignoring 2 node(s):\n  - a\n  - b\n"
        assert desk.say("node", "ignore", "[ab]", "--dry-run") == f"{head}\n[dry-run] No changes applied\n"
        shown = desk.say("node", "ignore", "[ab]")
        assert shown == f"{head}  b: already ignored\n\nSuccessfully ignored 1 node(s)\n"
        assert desk.served.node("a")["metadata"]["labels"][f"{P}ignore"] == "true"

    def test_unignore(self, desk: Desk) -> None:
        desk.node("a", labels={f"{P}ignore": "true"})
        desk.node("b", labels={f"{P}ignore": "false"})
        shown = desk.say("node", "unignore", "a", "b")
        assert shown == ("Unignoring 2 node(s):\n  - a\n  - b\n  b: not ignored\n\nSuccessfully unignored 1 node(s)\n")
        assert f"{P}ignore" not in desk.served.node("a")["metadata"].get("labels", {})


STOPPED = {
    "currentBatch": 4,
    "consecutiveFailures": 2,
    "completedNodes": 5,
    "failedNodes": 2,
    "shouldStop": True,
    "lastBatchSize": 3,
    "lastBatchFailed": True,
}
NUMBERS = {"matched": 9, "ceiling": 3, "inProgress": 0, "completed": 5, "progressPercent": 55}


class TestReset:
    def test_everything(self, desk: Desk) -> None:
        desk.skyhook("x", {"nodeOrderOffset": 7, "compartmentStatuses": {"gpu": {**NUMBERS, "batchState": STOPPED}}})
        noted = (node_names.kept_config, node_names.picked_annotation, node_names.stage_times, node_names.last_error)
        left = {f"{P}{mark}_x": "1" for mark in ("status", "cordon", "version", "copyDir")}
        left |= {name_of("x"): "1" for name_of in noted}
        desk.node(
            "a",
            "x",
            DONE,
            annotations={**left, f"{P}autoTaint_{P[:-1]}": "true", f"{P}nodeState_y": "{}", f"{P}version_y": "v1"},
            labels={f"{P}status_x": "complete", f"{P}status_y": "complete"},
            spec={"unschedulable": True},
        )
        head = (
            "Skyhook: x\nNodes to reset (1):\n  - a (1 packages)\n\n"
            "Batch state will also be reset (use --skip-batch-reset to preserve)\n"
        )
        assert desk.say("reset", "x", "--dry-run") == f"{head}\n[dry-run] No changes applied\n"
        prompt = (
            '\nThis will remove ALL package state for Skyhook "x" on 1 node(s).\n'
            "All packages will re-run from the beginning.\n"
            "Batch state will be reset to start from batch 1.\nContinue? [y/N]: "
        )
        assert desk.say("reset", "x", types="maybe\n") == f"{head}{prompt}Aborted\n"
        assert desk.say("reset", "x", types="YES\n") == (
            f'{head}{prompt}\nSuccessfully reset 1 node(s) for Skyhook "x"\nBatch state reset for Skyhook "x"\n'
        )
        assert desk.marks("a") == {f"{P}nodeState_y": "{}", f"{P}version_y": "v1"}
        labels = desk.served.node("a")["metadata"]["labels"]
        assert [name for name in labels if name.startswith(P)] == [f"{P}status_y"]
        assert "unschedulable" not in desk.served.node("a")["spec"]
        status = desk.found("x")["status"]
        assert status["compartmentStatuses"] == {"gpu": {**NUMBERS, "batchState": {"currentBatch": 1}}}
        assert "nodeOrderOffset" not in status

    def test_nodes_alone(self, desk: Desk) -> None:
        desk.skyhook("x", {"compartmentStatuses": {"gpu": {**NUMBERS, "batchState": STOPPED}}})
        desk.node("a", "x", DONE)
        assert desk.say("reset", "x", "--skip-batch-reset", "-y") == (
            'Skyhook: x\nNodes to reset (1):\n  - a (1 packages)\n\nSuccessfully reset 1 node(s) for Skyhook "x"\n'
        )
        assert desk.found("x")["status"]["compartmentStatuses"]["gpu"]["batchState"] == STOPPED

    @pytest.mark.parametrize(
        "mark", [f"{P}cordon_y", f"{P}cordonPre_x", "haulout.dev/cordon"], ids=["another", "before", "ledger"]
    )
    def test_a_cordon_that_is_not_ours_alone_stays(self, desk: Desk, mark: str) -> None:
        desk.node("a", "x", DONE, annotations={f"{P}cordon_x": "true", mark: "{}"}, spec={"unschedulable": True})
        desk.say("reset", "x", "-y")
        assert desk.served.node("a")["spec"]["unschedulable"]

    def test_a_cordon_of_a_person_stays(self, desk: Desk) -> None:
        desk.node("a", "x", DONE, spec={"unschedulable": True})
        desk.say("reset", "x", "-y")
        assert desk.served.node("a")["spec"]["unschedulable"]

    def test_of_a_skyhook_that_is_gone(self, desk: Desk) -> None:
        desk.node("a", "x", DONE)
        assert desk.say("reset", "x", "-y").endswith('Successfully reset 1 node(s) for Skyhook "x"\n')
        assert desk.err.startswith('Warning: failed to get skyhook for batch reset: getting skyhook "x": ')

    def test_of_no_nodes(self, desk: Desk) -> None:
        desk.node("a", annotations={f"{P}nodeState_x": "["})
        assert desk.say("reset", "x") == 'No nodes have state for Skyhook "x"\n'

    @pytest.mark.parametrize("group", ["deployment-policy", "dp"])
    def test_batches_alone(self, desk: Desk, group: str) -> None:
        gate = {"wave": 3, "nodes": ["n"], "since": "2026-01-01T00:00:00Z", "generation": 1}
        compartments = {"gpu": {**NUMBERS, "batchState": STOPPED, "batchNodes": ["n"], "gate": gate}, "cpu": NUMBERS}
        halt = {"generation": 1, "reason": "QueryNotFulfilled"}
        desk.skyhook("x", {"nodeOrderOffset": 7, "compartmentStatuses": compartments, "halt": halt})
        head = (
            "Skyhook: x\nCompartments: 2 total, 1 with batch state\n\n"
            "Current batch state:\n  - gpu: batch 4, 5 completed, 2 failed\n"
        )
        fields = (
            "CurrentBatch: 1",
            "ConsecutiveFailures: 0",
            "CompletedNodes: 0",
            "FailedNodes: 0",
            "ShouldStop: false",
        )
        listed = "".join(f"  - {field}\n" for field in fields)
        preview = f"\n[dry-run] Would reset batch state to:\n{listed}\n[dry-run] No changes applied\n"
        assert desk.say(group, "reset", "x", "--dry-run") == f"{head}{preview}"
        prompt = (
            '\nThis will reset the batch state for Skyhook "x".\n'
            "The next reconciliation will start from batch 1.\nContinue? [y/N]: "
        )
        assert desk.say(group, "reset", "x", types="\n") == f"{head}{prompt}Aborted\n"
        assert desk.say(group, "reset", "x", "-y") == (f'{head}\nSuccessfully reset batch state for Skyhook "x"\n')
        status = desk.found("x")["status"]
        fresh = {**NUMBERS, "batchState": {"currentBatch": 1}}
        assert status["compartmentStatuses"] == {"gpu": {**fresh, "batchNodes": ["n"]}, "cpu": fresh}
        assert status["nodeOrderOffset"] == 7
        assert "halt" not in status

    def test_no_batches(self, desk: Desk) -> None:
        desk.skyhook("x")
        assert desk.say("dp", "reset", "x") == 'Skyhook "x" has no compartment statuses to reset\n'
        desk.say("dp", "reset", "ghost", code=1)


class TestPackages:
    @pytest.fixture(autouse=True)
    def nodes(self, desk: Desk) -> None:
        desk.skyhook("x")
        desk.node("a", "x", DONE, entry("bb", "apply", "erroring", 3))
        desk.node("b", "x", DONE)

    def test_status(self, desk: Desk) -> None:
        head = "Skyhook: x\nPackages: aa:1.0, bb:2.0\n\n"
        assert desk.say("package", "status", "aa", "--skyhook", "x") == head + (
            "NODE  PACKAGE  VERSION  STAGE   STATE\n"
            "----  -------  -------  -----   -----\n"
            "a     aa       1.0      config  complete\n"
            "b     aa       1.0      config  complete\n"
        )
        assert desk.say("package", "status", "bb", "--skyhook", "x", "--node", "a", "--node", "b", "-o", "wide") == (
            f"{head}"
            "NODE  PACKAGE  VERSION  STAGE  STATE     RESTARTS  IMAGE\n"
            "----  -------  -------  -----  -----     --------  -----\n"
            "a     bb       2.0      apply  erroring  3         x/bb\n"
        )
        found = json.loads(desk.say("package", "status", "bb", "--skyhook", "x", "-o", "json"))
        assert found == [
            {
                "name": "bb",
                "version": "2.0",
                "image": "x/bb",
                "stage": "apply",
                "state": "erroring",
                "restarts": 3,
                "nodeName": "a",
            }
        ]
        assert desk.say("package", "status", "bb", "--skyhook", "x", "--node", "b") == (
            'No package status found for skyhook "x"\n'
        )
        desk.say("package", "status", "bb", "--skyhook", "ghost", code=1)

    def test_rerun_from_the_beginning(self, desk: Desk) -> None:
        words = ("package", "rerun", "bb", "--skyhook", "x", "--node", ".*")
        head = (
            "Package: bb (version 2.0)\nSkyhook: x\nNodes to reset (1):\n"
            "  - a (current state: erroring, stage: apply)\n"
        )
        assert desk.say(*words, "--dry-run") == f"{head}\n[dry-run] No changes applied\n"
        assert desk.say(*words, types="n\n").endswith(
            "\nThis will remove package state from node annotations and cause the package to re-run from the beginning.\n"
            "Continue? [y/N]: Aborted\n"
        )
        assert desk.say(*words, "-y") == f'{head}\nSuccessfully reset package "bb" on 1 node(s)\n'
        assert desk.marks("a") == {f"{P}nodeState_x": to_text({"aa|1.0": DONE})}
        assert desk.say(*words, "-y") == 'Package "bb" (version 2.0) has no state on matched nodes\n'
        desk.say("package", "rerun", "aa", "--skyhook", "x", "--node", "b", "--confirm")
        assert desk.marks("b") == {}

    def test_rerun_of_a_stage(self, desk: Desk) -> None:
        words = ("package", "rerun", "bb", "--skyhook", "x", "--node", "a", "--stage", "post-interrupt")
        shown = desk.say(*words, types="y\n")
        assert "Skyhook: x\nRe-run from stage: post-interrupt\nNodes to reset (1):\n" in shown
        assert "\nThis will reset package state to re-run from the 'post-interrupt' stage.\n" in shown
        rerun = entry("bb", "post-interrupt", "in_progress", 3)
        assert desk.marks("a") == {f"{P}nodeState_x": to_text({"aa|1.0": DONE, rerun.key: rerun})}

    def test_rerun_of_nothing(self, desk: Desk) -> None:
        rerun = ("package", "rerun")
        assert desk.say(*rerun, "aa", "--skyhook", "x", "--node", "z") == "No nodes matched the specified patterns\n"
        desk.say(*rerun, "zz", "--skyhook", "x", "--node", "a", code=1)
        assert desk.err == 'package "zz" not found in skyhook "x"\n'


def pod(name: str, package: str, node: str, statuses: Json, created: str = "2026-01-01T00:00:00Z") -> Json:
    meta = {"name": name, "labels": {f"{P}package": package}, "creationTimestamp": created}
    containers = [{"name": container} for container in statuses]
    reported = [{"name": container, "state": state} for container, state in statuses.items() if state is not None]
    return {
        "metadata": meta,
        "spec": {"nodeName": node, "initContainers": containers},
        "status": {"initContainerStatuses": reported},
    }


class TestNodeWright:
    """The commands that `nodewright` has, or answers otherwise than `skyhook`."""

    N = "nodewright.nvidia.com/"

    def say(self, desk: Desk, *words: str, code: int = 0, types: str = "") -> str:
        return desk.say(*words, code=code, types=types, command=nodewright)

    def unit(self, desk: Desk, name: str = "x") -> None:
        packages = {"aa": {"version": "1.0", "image": "x/aa"}}
        body = {"apiVersion": "nodewright.nvidia.com/v1alpha1", "kind": "NodeWright", "metadata": {"name": name}}
        desk.served.make({**body, "spec": {"packages": packages, "nodeSelectors": {"matchLabels": {"t": "y"}}}})

    def notes(self, **values: str) -> Json:
        return {f"{self.N}{word}_x": text for word, text in values.items()}

    def marks(self, desk: Desk, node: str) -> Json:
        annotations: Json = desk.served.node(node)["metadata"].get("annotations", {})
        return {name.removeprefix(self.N): value for name, value in annotations.items() if name.startswith(self.N)}

    def test_a_reset_keeps_the_cordon_of_nodes_that_are_still_selected(self, desk: Desk) -> None:
        self.unit(desk)
        state = to_text({DONE.key: DONE})
        notes = self.notes(nodeState=state, status="complete", cordon="true", drainStart="t")
        desk.node("a", annotations=notes, labels={"t": "y"}, spec={"unschedulable": True})
        desk.node("b", annotations=notes, spec={"unschedulable": True})
        desk.node("c", annotations=self.notes(nodeState="{"), labels={"t": "y"})
        out = self.say(desk, "reset", "x", "-y")
        assert "  - c (malformed state)" in out
        assert 'Successfully reset 3 node(s) for NodeWright "x"' in out
        assert [self.marks(desk, node) for node in ("a", "b", "c")] == [{"cordon_x": "true"}, {}, {}]
        assert [bool(desk.served.node(node)["spec"].get("unschedulable")) for node in ("a", "b")] == [True, False]

    def test_a_reset_of_nodes_clears_their_status_too(self, desk: Desk) -> None:
        self.unit(desk)
        notes = self.notes(nodeState="{", status="erroring", cordon="true", drainStart="t", drainBlocked="{}")
        desk.node("a", annotations=notes, labels={f"{self.N}status_x": "erroring"})
        self.say(desk, "node", "reset", "a", "--nodewright", "x", "-y")
        assert self.marks(desk, "a") == {"cordon_x": "true"}
        assert f"{self.N}status_x" not in desk.served.node("a")["metadata"].get("labels", {})

    @pytest.mark.parametrize(("package", "left"), [("aa", {"bb|2.0"}), ("bb:2.0", {"aa|1.0"}), ("bb:1.0", None)])
    def test_a_reset_of_one_package(self, desk: Desk, package: str, left: set[str] | None) -> None:
        self.unit(desk)
        state = {each.key: each for each in (DONE, entry("bb", "config", "complete"))}
        desk.node("a", annotations=self.notes(nodeState=to_text(state)))
        out = self.say(desk, "reset", "x", "--package", package, "-y")
        found = set(json.loads(self.marks(desk, "a")["nodeState_x"]))
        assert found == (left or set(state))
        assert ("Successfully reset package" in out) is (left is not None)

    def test_the_state_of_a_package_is_set(self, desk: Desk) -> None:
        self.unit(desk)
        desk.node("a", annotations=self.notes(nodeState=to_text({DONE.key: DONE})), labels={"t": "y", "z": "1"})
        desk.node("b", labels={"t": "y", "z": "2"})
        words = ("update-state", "x", "aa", "1.0", "post-interrupt", "complete", "-y")
        assert "on 1 node(s)" in self.say(desk, *words)
        assert json.loads(self.marks(desk, "a")["nodeState_x"])["aa|1.0"]["stage"] == "post-interrupt"
        assert "on 1 node(s)" in self.say(desk, *words, "--add", "-l", "z=2")
        assert json.loads(self.marks(desk, "b")["nodeState_x"])["aa|1.0"]["image"] == "x/aa"
        assert "[dry-run]" in self.say(desk, *words[:-1], "--dry-run")
        assert "no state on matched nodes" in self.say(
            desk, "update-state", "x", "aa", "9.0", "apply", "complete", "-y"
        )

    @pytest.mark.parametrize(
        ("stage", "state", "problem"),
        [("fly", "complete", 'invalid stage "fly"'), ("apply", "fine", 'invalid state "fine"')],
    )
    def test_no_other_state_is_set(self, desk: Desk, stage: str, state: str, problem: str) -> None:
        self.say(desk, "update-state", "x", "aa", "1.0", stage, state, "-y", code=1)
        assert desk.err.startswith(problem)

    def test_nodes_show_their_cordons(self, desk: Desk) -> None:
        notes = self.notes(nodeState=to_text({DONE.key: DONE}), cordon="true")
        desk.node("a", annotations={**notes, f"{self.N}runtimeRequiredCordon": "true"})
        head, _, row = self.say(desk, "node", "status").splitlines()
        assert head.split() == ["NODE", "SKYHOOK", "STATUS", "PACKAGES", "CORDONED", "RUNTIME-REQUIRED-CORDON"]
        assert row.split() == ["a", "x", "complete", "1/1", "true", "true"]
        (found,) = json.loads(self.say(desk, "node", "status", "-o", "json"))
        assert (found["cordoned"], found["runtimeRequiredCordon"]) == (True, True)
        assert "CORDONED" not in desk.say("node", "status")

    @pytest.mark.parametrize(
        ("words", "problem"),
        [
            (["node", "list"], 'required flag(s) "nodewright" not set'),
            (["node", "list", "--skyhook="], "--nodewright flag is required"),
            (["package", "rerun", "aa"], 'required flag(s) "nodewright", "node" not set'),
            (["node", "list", "--skyhook"], "flag needs an argument: --nodewright"),
            (["pause", "a", "--nodewright", "x"], "unknown flag: --nodewright"),
        ],
    )
    def test_mistakes_are_told_with_the_flag_of_the_program(
        self, words: list[str], problem: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert nodewright(words) == 1
        assert capsys.readouterr().err == f"{problem}\n"

    @pytest.mark.parametrize("words", [["help"], *([*path, "--help"] for path in COMMANDS)], ids=" ".join)
    def test_help_has_the_word_of_the_program(self, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
        assert nodewright(words) == 0
        out = capsys.readouterr().out
        assert out.count("nodewright") >= 1
        assert "skyhook" not in out.lower()

    def test_both_programs_know_both_flags(self, desk: Desk) -> None:
        desk.node("a", annotations=self.notes(nodeState=to_text({DONE.key: DONE})))
        for flag in ("--nodewright", "--skyhook"):
            assert self.say(desk, "node", "list", flag, "x").startswith("NodeWright: x\n")
            assert desk.say("node", "list", flag, "x").startswith("Skyhook: x\n")

    def test_a_shell_completes_the_flag_of_the_program(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert nodewright(["__complete", "node", "list", "--no"]) == 0
        assert capsys.readouterr().out == "--nodewright\tName of the NodeWright.\n"

    @pytest.mark.parametrize("is_edited", [False, True], ids=["untouched", "edited"])
    def test_the_batches_of_the_object_that_leads_are_reset(self, desk: Desk, is_edited: bool) -> None:
        counts = dict.fromkeys(("matched", "ceiling", "inProgress", "completed", "progressPercent"), 1)
        batches = {"compartmentStatuses": {"all": {**counts, "batchState": {"currentBatch": 4}}}}
        desk.skyhook("x", batches)
        notes = {f"{self.N}mirrored-from": "x", f"{self.N}mirrored-generation": "1"}
        spec = json.loads(json.dumps(desk.found("x")["spec"]))
        spec["packages"]["aa"]["version"] = "1.1" if is_edited else "1.0"
        body = {"apiVersion": "nodewright.nvidia.com/v1alpha1", "kind": "NodeWright"}
        desk.served.make({**body, "metadata": {"name": "x", "annotations": notes}, "spec": spec})
        patch = {"status": batches}
        desk.served.call(lambda world: world.server.patch(NODEWRIGHTS, "", "x", patch, subresource="status"))
        self.say(desk, "dp", "reset", "x", "-y")
        found = desk.served.call(lambda world: [world.server.get(kind, "", "x") for kind in (SKYHOOKS, NODEWRIGHTS)])
        waves = [(each or {})["status"]["compartmentStatuses"]["all"]["batchState"]["currentBatch"] for each in found]
        assert waves == ([4, 1] if is_edited else [1, 4])

    @pytest.mark.parametrize(
        ("namespace", "note"),
        [("nodewright", ""), ("skyhook", 'Note: the operator is in namespace "skyhook"\n'), ("elsewhere", "")],
    )
    def test_the_operator_is_looked_for_in_both_namespaces_and_then_everywhere(
        self, desk: Desk, namespace: str, note: str
    ) -> None:
        labels = {"app.kubernetes.io/name": "nodewright", "app.kubernetes.io/version": "v0.20.0"}
        with deployed(desk.served, labels, "reg.test/any:v1", namespace):
            assert self.say(desk, "version").splitlines()[1:] == ["Skyhook operator:\tv0.20.0"]
        assert desk.err == note


ENDED: Json = {"terminated": {"exitCode": 0}}
FAILED: Json = {"terminated": {"exitCode": 3}}
RUNS: Json = {"running": {}}
PULLS = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
ASKED = ["package", "logs", "aa", "--skyhook", "x"]


class TestLogs:
    async def shown(self, tmp_path: Path, pods: list[Json], *words: str) -> list[Json]:
        """Print the logs of a cluster that has these pods. Return which logs were asked for."""
        asked: list[Json] = []

        async def listed(request: web.Request) -> web.Response:
            # The pods of the original since it was renamed have the second label alone.
            found = {f"{P}name=x": pods, "nodewright.nvidia.com/name=x": []}[request.query["labelSelector"]]
            return web.json_response({"kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": found})

        async def logged(request: web.Request) -> web.Response:
            asked.append(dict(request.query))
            if request.query["container"] == "aa-configcheck":
                return web.json_response({"kind": "Status", "code": 400, "message": "too early"}, status=400)
            return web.Response(text=f"{request.match_info['pod']} {request.query['container']}\nends")

        app = web.Application()
        app.router.add_get("/api/v1/namespaces/skyhook/pods", listed)
        app.router.add_get("/api/v1/namespaces/skyhook/pods/{pod}/log", logged)
        async with serve(app) as url:
            config = {
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "c"}}],
                "clusters": [{"name": "c", "cluster": {"server": "https://nowhere.test"}}],
            }
            (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
            flags = ["--kubeconfig", str(tmp_path / "kubeconfig"), "--server", url]
            assert await asyncio.to_thread(main, [*ASKED, *words, *flags]) == 0
        return asked

    @pytest.mark.parametrize(
        ("words", "pods", "expected", "asked"),
        [
            pytest.param([], [], 'No pods found for skyhook "x" in namespace "skyhook"\n', [], id="no pods"),
            pytest.param(
                [], [pod("p", "aab-1.0", "n", {})], "No pods matched the specified filters\n", [], id="another package"
            ),
            pytest.param(
                ["--node", "m"],
                [pod("p", "aa-1.0", "n", {})],
                "No pods matched the specified filters\n",
                [],
                id="another node",
            ),
            pytest.param(
                ["--tail", "5", "-f", "--node", "n.*"],
                [pod("p", "aa-1.0", "n1", {"aa-init": ENDED, "aa-apply": FAILED, "aa-applycheck": PULLS})],
                "==> Pod: p, Container: aa-apply [Exit: 3], Node: n1 <==\np aa-apply\nends\n",
                [{"container": "aa-apply", "follow": "true", "tailLines": "5"}],
                id="what has started",
            ),
            pytest.param(
                [],
                [
                    pod("old", "aa-1.0", "n", {"aa-init": ENDED, "aa-config": ENDED, "aa-configcheck": RUNS}),
                    pod("new", "aa-1.0", "n", {"aa-init": PULLS, "aa-apply": None}, "2026-01-02T00:00:00Z"),
                ],
                "==> Pod: new, Container: aa-init [ImagePullBackOff], Node: n <==\n"
                "(no logs available: ImagePullBackOff - no such image)\n"
                "\n---\n"
                "==> Pod: old, Container: aa-config [Completed], Node: n <==\nold aa-config\nends\n"
                "\n==> Pod: old, Container: aa-configcheck [Running], Node: n <==\n"
                "Error getting logs for old/aa-configcheck: ",
                [{"container": "aa-config"}, {"container": "aa-configcheck"}],
                id="newest first",
            ),
            pytest.param(
                [],
                [pod("p", "aa-1.0", "n", {"aa-init": RUNS, "aa-apply": PULLS})],
                "==> Pod: p, Container: aa-init [Running], Node: n <==\np aa-init\nends\n",
                [{"container": "aa-init"}],
                id="still copying",
            ),
            pytest.param(
                ["--stage", "interrupt"],
                [pod("p", "aa-1.0", "n", {"interrupt": RUNS})],
                "==> Pod: p, Container: interrupt [Running], Node: n <==\np interrupt\nends\n",
                [{"container": "interrupt"}],
                id="a stage",
            ),
        ],
    )
    async def test_logs(
        self,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        words: list[str],
        pods: list[Json],
        expected: str,
        asked: list[Json],
    ) -> None:
        found = await self.shown(tmp_path, pods, *words)
        assert capsys.readouterr().out.startswith(expected)
        assert found == asked


async def test_it_acts_as_the_user_that_its_flags_name(tmp_path: Path) -> None:
    seen: list[list[tuple[str, str]]] = []

    async def answered(request: web.Request) -> web.Response:
        seen.append([(name, value) for name, value in request.headers.items() if name.startswith("Impersonate-")])
        return web.json_response({"kind": "Status", "code": 403, "message": "no"}, status=403)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answered)
    async with serve(app) as url:
        config = {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c"}}],
            "clusters": [{"name": "c", "cluster": {"server": url}}],
        }
        (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
        flags = ["--kubeconfig", str(tmp_path / "kubeconfig"), "--as", "jane", "--as-uid", "7", "--as-group", "night"]
        extra = ["--as-user-extra", "reason=disks", "--as-user-extra=reason=fans"]
        assert await asyncio.to_thread(main, ["pause", "x", "-y", *flags, *extra]) == 1
    assert seen[0] == [
        ("Impersonate-User", "jane"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "night"),
        ("Impersonate-Extra-reason", "disks"),
        ("Impersonate-Extra-reason", "fans"),
    ]


def test_an_extra_without_a_value_is_a_mistake(desk: Desk) -> None:
    desk.say("pause", "x", "-y", "--as", "jane", "--as-user-extra", "reason", code=1)
    assert desk.err.startswith('invalid argument "reason" for "--as-user-extra" flag: ')


def test_it_is_an_executable_of_two_names(served: Served, tmp_path: Path) -> None:
    said = served.run("as", "kubectl-skyhook", "version", "--client-only")
    assert (said.returncode, said.stdout) == (0, f"Skyhook plugin:\tv{__version__}\n")


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (
            "",
            [
                "completion",
                "deployment-policy",
                "disable",
                "enable",
                "node",
                "package",
                "pause",
                "reset",
                "resume",
                "update-state",
                "version",
            ],
        ),
        ("pa", ["package", "pause"]),
        ("package|", ["logs", "rerun", "status"]),
        ("package|rerun|--st", ["--stage"]),
        ("pause|", []),
    ],
)
def test_what_can_be_typed_next(words: str, found: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["__complete", *words.split("|")]) == 0
    assert [line.partition("\t")[0] for line in capsys.readouterr().out.splitlines()] == found


def test_a_shell_completes_commands_and_flags(tmp_path: Path) -> None:
    """The script of bash, sourced and asked as bash asks it."""
    program = tmp_path / "skyhook"
    program.write_text(f'#!/bin/sh\nexec {HAULOUT} as skyhook "$@"\n')
    program.chmod(0o755)
    text = (
        "source <(skyhook completion bash); COMP_WORDS=(skyhook node st); COMP_CWORD=2; _skyhook; echo ${COMPREPLY[@]}"
    )
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(["bash", "-ec", text], env=env, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("status\n", "")


@pytest.mark.parametrize("shell", ["bash", "fish", "powershell", "zsh"])
def test_there_is_a_script_for_each_shell_of_the_original(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert nodewright(["completion", shell]) == 0
    assert "nodewright __complete" in capsys.readouterr().out
    assert main(["completion"]) == 0
    assert shell in capsys.readouterr().out
