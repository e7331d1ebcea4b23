"""What `haulout drain` prints about a drain at one moment, and its exit codes."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from msgspec.structs import replace
from rich.console import Console

from haulout.byhand import drain
from haulout.byhand.drain import Order
from haulout.byhand.drain_picture import Lines, cause_lines, document, draw_drain, preview, statement
from haulout.byhand.drain_state import CODES, DrainOutcome, DrainState, NodeState
from haulout.cli.root import main
from haulout.cluster.key import Key
from haulout.core.drain.causes import Cause
from tests.build.rows import at

DONE, RUNNING, BLOCKED, FAILED = DrainOutcome.DONE, DrainOutcome.RUNNING, DrainOutcome.BLOCKED, DrainOutcome.FAILED


def pods(*names: str) -> tuple[Key, ...]:
    return tuple(Key("", "Pod", "ns", name) for name in names)


BUDGET = Cause("pdb-blocks", "PodDisruptionBudget ns/b: 1 healthy", pods("c"), act="add a replica")
ENDING = Cause("terminating", "terminating", pods("b"), until=at(75))
WORKING = NodeState(
    "n1",
    cordoned=True,
    departed_pods=("ns/a",),
    ending=("ns/b",),
    staying=("ns/c",),
    ignored=("ns/d",),
    warnings="ignoring d",
)
EMPTY = NodeState("n2", DONE, cordoned=True, before=True)
LEAVING = NodeState("n4", cordoned=True, ending=("ns/b",), last_grace_ends_at=at(75))


@pytest.fixture
def orders(monkeypatch: pytest.MonkeyPatch) -> list[Order]:
    """The orders that command lines make. They are not carried out."""
    given: list[Order] = []

    def take(order: Order, cluster: object) -> int:
        given.append(order)
        return 0

    monkeypatch.setattr(drain, "drain_nodes", take)
    return given


class TestCommandLine:
    def test_says_nothing_is_as_kubectl_does(self, orders: list[Order]) -> None:
        assert main(["drain", "a", "b"]) == 0
        (order,) = orders
        assert (order.nodes, order.timeout_for, order.wait, order.dry_run) == (("a", "b"), timedelta(), True, False)
        options = order.options
        assert (options.force, options.ignore_daemonsets, options.delete_local_data) == (False, False, False)
        assert (options.grace_for, options.selector, options.disable_eviction, options.skip_ending_for) == (
            None,
            None,
            False,
            0,
        )

    def test_every_flag(self, orders: list[Order]) -> None:
        words = "--force --ignore-daemonsets=true --delete-emptydir-data --grace-period=0 --timeout 1m30s "
        words += "--pod-selector app=x --disable-eviction --skip-wait-for-delete-timeout 7 --no-wait --dry-run=client"
        assert main(["drain", "-l", "pool=a", *words.split(), "-o", "json"]) == 0
        (order,) = orders
        assert (order.selector, order.timeout_for, order.wait) == ("pool=a", timedelta(seconds=90), False)
        assert (order.dry_run, order.json) == (True, True)
        options = order.options
        assert (options.force, options.ignore_daemonsets, options.delete_local_data) == (True, True, True)
        assert (options.grace_for, options.disable_eviction, options.skip_ending_for) == (0, True, 7)
        assert options.selector is not None
        assert options.selector.matches({"app": "x"})

    def test_what_is_switched_off_by_a_word(self, orders: list[Order]) -> None:
        assert main(["drain", "a", "--force=false", "--dry-run=none"]) == 0
        assert (orders[0].options.force, orders[0].dry_run) == (False, False)

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            pytest.param(["drain"], "name nodes or give a --selector\n", id="no node"),
            pytest.param(["drain", "a", "-l", "x"], "--selector, not both", id="nodes and labels"),
            pytest.param(["drain", "a", "--timeout", "soon"], "a duration such as", id="no duration"),
            pytest.param(["drain", "a", "--timeout=-1s"], "must not be negative", id="before it begins"),
            pytest.param(["drain", "a", "--pod-selector", "a in"], "--pod-selector", id="no selector"),
            pytest.param(["drain", "a", "--force=maybe"], "--force", id="neither yes nor no"),
            pytest.param(["uncordon"], "name nodes or give a --selector\n", id="uncordon nobody"),
        ],
    )
    def test_wrong_ones(self, words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(words) == 2
        assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("outcomes", "whole", "code"),
    [
        pytest.param([DONE, DONE], DONE, 0, id="all done"),
        pytest.param([DONE, BLOCKED], BLOCKED, 3, id="one blocked"),
        pytest.param([BLOCKED, DrainOutcome.TIMED_OUT], DrainOutcome.TIMED_OUT, 4, id="blocked and timed out"),
        pytest.param([BLOCKED, DrainOutcome.TIMED_OUT, FAILED], FAILED, 1, id="one failed"),
        pytest.param([DONE, DrainOutcome.INTERRUPTED], DrainOutcome.INTERRUPTED, 130, id="interrupted"),
    ],
)
def test_the_gravest_outcome_counts(outcomes: list[DrainOutcome], whole: DrainOutcome, code: int) -> None:
    state = DrainState(1, tuple(NodeState(f"n{number}", each) for number, each in enumerate(outcomes)))
    assert state.outcome is whole
    assert CODES[whole] == code


def test_those_that_have_ended_stay_as_they_are() -> None:
    ended = DrainState(1, (WORKING, EMPTY)).ended_as(DrainOutcome.TIMED_OUT)
    assert [node.outcome for node in ended.nodes] == [DrainOutcome.TIMED_OUT, DONE]


class TestLines:
    def test_each_thing_is_told_once(self) -> None:
        lines = Lines(verb="evicting")
        first = lines.of(DrainState(1, (WORKING,), (BUDGET, ENDING)))
        assert first == [
            "node/n1 cordoned",
            "Warning: ignoring d",
            "evicting pod ns/b",
            "evicting pod ns/a",
            "pod ns/a gone",
            "waiting: PodDisruptionBudget ns/b: 1 healthy",
            "  1 pod: ns/c",
            "  to go on: add a replica",
        ]
        assert lines.of(DrainState(2, (WORKING,), (BUDGET, ENDING))) == []

    def test_what_blocks_is_told_again_after_a_while(self) -> None:
        lines = Lines(verb="evicting", every=30)
        lines.of(DrainState(1, (WORKING,), (BUDGET,)))
        assert lines.of(DrainState(31, (WORKING,), (BUDGET,)))[0].startswith("waiting: ")

    def test_the_end_of_the_last_grace_period_is_told_when_it_is_known_and_when_it_is_put_off(self) -> None:
        lines = Lines(verb="evicting")
        assert "node/n4: the last grace period ends 10:01:15 UTC" in lines.of(DrainState(1, (LEAVING,)))
        assert lines.of(DrainState(2, (LEAVING,))) == []
        assert lines.of(DrainState(3, (replace(LEAVING, last_grace_ends_at=at(70)),))) == []
        later = replace(LEAVING, last_grace_ends_at=at(90))
        assert lines.of(DrainState(4, (later,))) == ["node/n4: the last grace period ends 10:01:30 UTC"]

    def test_how_nodes_end(self) -> None:
        refused = NodeState("n3", FAILED, error="forbidden")
        assert Lines(verb="evicting").of(DrainState(1, (EMPTY, refused))) == [
            "node/n2 already cordoned",
            "node/n2 drained",
            "node/n3 failed: forbidden",
        ]


def test_the_statement_of_what_stands() -> None:
    state = DrainState(12.3, (WORKING, EMPTY), (BUDGET, ENDING))
    assert statement(state, DrainOutcome.INTERRUPTED).splitlines() == [
        "interrupted after 12 s. State of the nodes:",
        "  node/n1: cordoned; 1 of 3 pods gone, 1 terminating, 1 not evicted",
        "    gone: ns/a",
        "    terminating: ns/b",
        "    not evicted: ns/c",
        "  node/n2: cordoned before; drained, 0 pods gone",
        "  PodDisruptionBudget ns/b: 1 healthy",
        "    1 pod: ns/c",
        "    to go on: add a replica",
        "to undo: haulout uncordon n1",
    ]


def test_a_preview() -> None:
    paced = Cause("pdb-paced", "PodDisruptionBudget ns/p: 1 may go", pods("f"))
    staying = NodeState("n1", staying=("ns/c", "ns/e", "ns/f"), ending=("ns/b",), warnings="ignoring d")
    refused = NodeState("n3", BLOCKED, staying=("ns/x",), error="cannot delete x")
    assert preview(DrainState(0, (staying, EMPTY, refused), (BUDGET, paced, ENDING))).splitlines() == [
        "node/n1 would be cordoned",
        "  ignoring d",
        "  would evict pod ns/e",
        "  would evict pod ns/f, in turn",
        "  would wait for pod ns/b: it is terminating",
        "  would not evict pod ns/c yet",
        "node/n2 already cordoned",
        "  no pod would have to go",
        "node/n3 would be cordoned",
        "  nothing would be evicted: cannot delete x",
        "PodDisruptionBudget ns/b: 1 healthy",
        "  1 pod: ns/c",
        "  to go on: add a replica",
        "PodDisruptionBudget ns/p: 1 may go",
        "  1 pod: ns/f",
    ]


def test_a_document() -> None:
    told = json.loads(document(DrainState(1.26, (WORKING,), (BUDGET, ENDING)), DrainOutcome.TIMED_OUT))
    assert told == {
        "outcome": "timed-out",
        "exitCode": 4,
        "dryRun": False,
        "seconds": 1.3,
        "nodes": [
            {
                "name": "n1",
                "outcome": "running",
                "cordoned": True,
                "cordonedBefore": False,
                "total": 3,
                "gone": ["ns/a"],
                "terminating": ["ns/b"],
                "notEvicted": ["ns/c"],
                "ignored": ["ns/d"],
                "warnings": "ignoring d",
            }
        ],
        "causes": [
            {
                "code": "pdb-blocks",
                "text": "PodDisruptionBudget ns/b: 1 healthy",
                "blocks": True,
                "pods": ["ns/c"],
                "act": "add a replica",
            },
            {
                "code": "terminating",
                "text": "terminating",
                "blocks": False,
                "pods": ["ns/b"],
                "until": "2026-03-01T10:01:15Z",
            },
        ],
    }


def test_the_end_of_the_last_grace_period_in_statement_and_document() -> None:
    state = DrainState(1, (LEAVING,))
    line = "  node/n4: cordoned; 0 of 1 pod gone, 1 terminating, the last grace period ends 10:01:15 UTC"
    assert line in statement(state, DrainOutcome.TIMED_OUT).splitlines()
    (body,) = json.loads(document(state, DrainOutcome.TIMED_OUT))["nodes"]
    assert body["lastGraceEndsAt"] == "2026-03-01T10:01:15Z"


def test_many_pods_are_shortened() -> None:
    cause = Cause("pdb-blocks", "b", pods("a", "b", "c", "d", "e", "f"))
    assert cause_lines(cause) == ["b", "  6 pods: ns/a, ns/b, ns/c, ns/d and 2 more"]


def test_the_picture_has_bars_and_causes() -> None:
    console = Console(width=100, record=True)
    with console.capture() as capture:
        console.print(draw_drain(DrainState(3, (WORKING, EMPTY), (BUDGET, ENDING)), 100, 24))
    lines = [line.rstrip() for line in capture.get().splitlines()]
    assert lines[0].startswith("n1  ━")
    assert lines[0].endswith("1 of 3 pods gone, 1 terminating, 1 not evicted")
    assert lines[1].endswith("drained, 0 pods gone")
    assert "  to go on: add a replica" in lines
    assert "terminating until 10:01:15 UTC" in lines
    assert lines[-1] == "1 of 2 nodes drained, 3 s"


def on_screen(state: DrainState, width: int = 80, height: int = 24) -> list[str]:
    """Return the lines of the picture as a terminal of this size shows them."""
    console = Console(width=width, height=height)
    with console.capture() as capture:
        console.print(draw_drain(state, width, height))
    return [line.rstrip() for line in capture.get().splitlines()]


def blocking(number: int) -> Cause:
    text = f"PodDisruptionBudget shop/budget-{number} allows no disruption: 3 of 3 pods that it wants are healthy"
    return Cause(
        "pdb-blocks", text, pods("a", "b"), act=f"add a replica to Deployment shop/app-{number}, or wait for it"
    )


@pytest.mark.parametrize("causes", [0, 1, 2, 9], ids=lambda causes: f"{causes} causes")
@pytest.mark.parametrize("nodes", [1, 20, 23, 400], ids=lambda nodes: f"{nodes} nodes")
def test_causes_and_total_stay_on_a_small_screen(nodes: int, causes: int) -> None:
    """The bottom of a picture that is too high is cut off."""
    many = tuple(replace(WORKING, name=f"worker-with-a-long-name-{number}.example.com") for number in range(nodes))
    lines = on_screen(DrainState(3, many, (ENDING, *map(blocking, range(causes)))))
    assert len(lines) < 24
    assert lines[-1] == f"0 of {nodes} nodes drained, 3 s"
    assert ("budget-0" in "".join(lines)) == (causes > 0)
    shown = sum(line.startswith("worker-") for line in lines)
    assert shown == nodes or (shown >= 3 and f"and {nodes - shown} more nodes" in lines)


def test_drained_nodes_make_room_for_the_others() -> None:
    nodes = (*(replace(EMPTY, name=f"drained-{number}") for number in range(30)), WORKING)
    assert on_screen(DrainState(3, nodes))[0].startswith("n1")


@pytest.mark.parametrize("name", ["zone-a-01", "ip-10-0-1-123.eu-central-1.compute.internal"])
def test_at_80_columns_every_bar_has_the_whole_name_of_its_node(name: str) -> None:
    """A node whose pods are all terminating has the longest text."""
    lines = on_screen(DrainState(3, (replace(LEAVING, name=name), replace(WORKING, name="n1"))))
    assert lines[0].startswith(f"{name}  ")
    assert lines[1].startswith("n1 ")
    assert "0 of 1 pod gone" in lines[0]
