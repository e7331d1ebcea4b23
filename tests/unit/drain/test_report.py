"""What each remaining pod waits for, when the drain will be over, and the root reasons that people see."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from haulout.cluster.key import Key, node_key
from haulout.cluster.rows import ObjectRow, PodRow, Row, Value, WorkloadRow
from haulout.cluster.store import Listing, Store
from haulout.cluster.view import OUTCOME, View
from haulout.core.action import Refusal
from haulout.core.drain.options import POD_ANNOTATION, Act, DrainOptions, DrainRow, PodRules, Rule, drain_row
from haulout.core.drain.pace import Permit, permit_key
from haulout.core.drain.plan import outcome_name
from haulout.core.drain.progress import Progress, Standing, progress, reasons
from haulout.core.reason import Reason, roots
from tests.build.podrows import budget, budget_key, owner, pod, pod_key
from tests.build.rows import START, at, node

EVERYTHING = DrainOptions(force=True, ignore_daemonsets=True, delete_local_data=True)
OURS = owner("ReplicaSet", "web-abc")
CLOSED = "PodDisruptionBudget default/web allows no disruption now"


def store_of(*rows: Row) -> Store:
    store = Store()
    for kind in ("Node", "Pod", "PodDisruptionBudget", "DaemonSet"):
        store.begin_list("", kind)
        for row in rows:
            if row.key.kind == kind:
                store.put(row)
        store.end_list("", kind, 1)
    for row in rows:
        if not isinstance(row, ObjectRow):
            store.write(row)
    return store


def drain(**fields: Any) -> DrainRow:
    key = node_key("n0")
    return msgspec.structs.replace(drain_row("toy", key, key, options=EVERYTHING), **fields)


def found(*rows: Row, seconds: float = 0, **fields: Any) -> Progress:
    return progress(View(store_of(node("n0"), *rows)), drain(**fields), at(seconds))


def explained(*rows: Row, seconds: float = 0, **fields: Any) -> tuple[Reason, ...]:
    return reasons(View(store_of(node("n0"), *rows), explaining=True), drain(**fields), at(seconds))


def permit(name: str, of: str = "web", *, granted: bool = False, since: float = -9) -> Permit:
    key = permit_key(budget_key(of), pod_key(name))
    who = {"pod": pod_key(name), "pod_uid": f"uid-{name}", "budget": budget_key(of)}
    return Permit(key=key, granted=granted, waiting_since=at(since), **who)  # type: ignore[arg-type]


def refusal(name: str, code: int, message: str, cause: str = "", seconds: float = -3) -> Value:
    outcome = Key("", OUTCOME, "", outcome_name(pod_key(name), f"uid-{name}"))
    return Value(key=outcome, state="failed", value=Refusal(code, message, cause, at(seconds)))


ENDING = pod("p", OURS, deleting_at=at(20), deletion_grace_for=30)
STUCK = pod("p", OURS, deleting_at=at(20), deletion_grace_for=30, finalizers=("a.io/x", "b.io/y"))
OVERLAP = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."


@pytest.mark.parametrize(
    ("rows", "standing", "message", "since", "blocked"),
    [
        pytest.param([pod("p", OURS)], Standing.EVICTING, "", None, False, id="nothing-in-its-way"),
        pytest.param([pod("p", OURS), permit("p", granted=True)], Standing.EVICTING, "", None, False, id="let-go"),
        pytest.param(
            [ENDING],
            Standing.TERMINATING,
            "terminating; its grace period ends 2026-03-01T10:00:20Z",
            -10,
            False,
            id="ending",
        ),
        pytest.param(
            [STUCK],
            Standing.TERMINATING,
            "terminating; it waits for its finalizers: a.io/x, b.io/y",
            -10,
            False,
            id="finalizers",
        ),
        pytest.param([pod("p", OURS), permit("p")], Standing.BUDGET, CLOSED, -9, True, id="budget"),
        pytest.param(
            [pod("p", OURS), permit("p", granted=True), refusal("p", 429, "no", "DisruptionBudget")],
            *(Standing.BUDGET, "no", -3, True),
            id="refused-by-its-budget",
        ),
        pytest.param(
            [pod("p", OURS), permit("p"), permit("p", "all", since=-12)],
            *(Standing.SEVERAL_BUDGETS, "covered by several budgets: all, web", -12, True),
            id="several-budgets",
        ),
        pytest.param(
            [pod("p", OURS), refusal("p", 403, "it ends", "NamespaceTerminating")],
            *(Standing.NAMESPACE, "it ends", -3, True),
            id="namespace-ends",
        ),
        pytest.param(
            [pod("p", OURS), refusal("p", 500, "oh dear")], Standing.FAILED, "oh dear", -3, True, id="refused-otherwise"
        ),
        pytest.param(
            [pod("p", OURS), permit("p"), refusal("p", 500, "oh dear")],
            *(Standing.BUDGET, CLOSED, -9, True),
            id="closed-comes-before-an-old-error",
        ),
    ],
)
def test_standings(rows: list[Row], standing: Standing, message: str, since: float | None, blocked: bool) -> None:
    (each,) = found(*rows).pods
    assert (each.standing, each.message, each.blocked) == (standing, message, blocked)
    assert each.since == (None if since is None else at(since))


@pytest.mark.parametrize(
    ("act", "standing", "message"),
    [
        (Act.WAIT, Standing.WAITING, "it is waited for, not evicted"),
        (Act.BLOCK, Standing.HELD, "a rule keeps it on its node"),
        (Act.DELETE, Standing.EVICTING, ""),
    ],
)
def test_rules(act: Act, standing: Standing, message: str) -> None:
    rules = PodRules((Rule(act),))
    (each,) = found(pod("p"), rules=rules).pods
    assert (each.standing, each.message) == (standing, message)
    (ending,) = found(ENDING, rules=rules).pods
    assert ending.standing is Standing.TERMINATING, "it goes, whoever made it"


def test_a_pod_that_its_annotation_keeps_says_so() -> None:
    kept = pod("p", annotations={POD_ANNOTATION: "block"})
    (each,) = found(kept, rules=PodRules(annotation=True)).pods
    assert each.message == "its annotation haulout.dev/drain keeps it on its node"


def test_the_end_of_a_grace_period_is_said_once() -> None:
    (within,), (past,) = explained(ENDING), explained(ENDING, seconds=30)
    assert (within.text, within.until) == ("pod default/p: terminating within its grace period", at(20))
    assert (past.text, past.until) == ("pod default/p: terminating; its grace period ended 2026-03-01T10:00:20Z", None)


def test_what_is_left_out() -> None:
    agent = WorkloadRow(key=Key("", "DaemonSet", "default", "agent"), uid="uid-agent")
    state = found(agent, pod("a", owner("DaemonSet", "agent")), pod("m", mirror=True), pod("other", node="n1"))
    assert state.cleared
    assert not state.done, "rows alone prove nothing"


class TestProgress:
    def test_the_errors_of_a_refused_drain_and_the_pods_beside_them(self) -> None:
        state = found(pod("bare"), pod("web", OURS), options=DrainOptions())
        assert state.errors.endswith("default/bare")
        assert [each.pod.key.name for each in state.pods] == ["web"]
        assert not found(pod("bare"), options=DrainOptions()).cleared, "nothing to wait for, and yet not done"

    def test_failed_where_everybody_has_been_refused_for_good(self) -> None:
        one, two = pod("p", OURS), pod("q", OURS)
        assert found(one, refusal("p", 500, "x")).failed
        assert not found(one, two, refusal("p", 500, "x")).failed
        assert not found(one, permit("p", granted=True), refusal("p", 429, "x", "DisruptionBudget")).failed
        assert not found().failed

    def test_its_end_is_that_of_the_last_grace(self) -> None:
        later = pod("q", OURS, deleting_at=at(50), deletion_grace_for=30)
        assert found(ENDING, later).ends_at == at(50)
        assert found(ENDING, pod("q", OURS)).ends_at is None
        assert found(ENDING, later, pod("bare"), options=DrainOptions(delete_local_data=True)).ends_at is None
        assert found().ends_at is None

    def test_daemonsets_that_cannot_be_read_are_taken_to_be_there(self) -> None:
        store = store_of(node("n0"), pod("a", owner("DaemonSet", "agent")))
        store.set_listing("", "DaemonSet", Listing.UNREADABLE, "forbidden")
        assert progress(View(store), drain(), START).cleared


def behind(*rows: Row, name: str = "p") -> list[Reason]:
    """Return the root reasons of a pod that its budget keeps."""
    (tree,) = explained(pod(name, OURS, labels=WEB), permit(name), *rows)
    assert tree.code == "pdb-blocks"
    return roots(tree)


WEB = {"app": "web", "pod-template-hash": "abc"}


def replica(name: str, **fields: Any) -> PodRow:
    return pod(name, OURS, node=fields.pop("node", "n1"), labels=WEB, **fields)


class TestRoots:
    def test_a_budget_that_its_controller_has_not_looked_at(self) -> None:
        (root,) = behind(budget("web", generation=2, observed_generation=1))
        assert (root.code, root.subject) == ("pdb-unobserved", budget_key("web"))
        assert root.act == "see why kube-controller-manager does not process PodDisruptionBudgets"

    def test_a_budget_that_is_open_lets_them_go_in_turn(self) -> None:
        (root,) = behind(budget("web", allowed=1))
        assert root.code == "pdb-paced"
        assert root.text.endswith(
            "3 of 3 pods are healthy, 2 required, 1 eviction allowed now: evicting the pods one after the other"
        )
        assert root.act == ""

    def test_the_replicas_that_are_not_ready(self) -> None:
        rows = [
            replica("crashes", ready=False, trouble="CrashLoopBackOff"),
            replica("homeless", ready=False, node="", phase="Pending", trouble="Unschedulable"),
            replica("starts", ready=False, trouble="ContainerCreating"),
            replica("ends", ready=False, deleting_at=at(5)),
            replica("ended", ready=False, phase="Succeeded"),
        ]
        found = behind(budget("web", current_healthy=1, desired_healthy=3), *rows)
        assert {root.code for root in found} == {"replica-not-ready"}
        assert [root.act for root in found] == [
            "fix pod default/crashes on node n1: CrashLoopBackOff",
            "find a node for pod default/homeless: Unschedulable",
            "wait until pod default/starts on node n1 is ready",
        ]

    def test_not_more_of_them_than_anybody_reads(self) -> None:
        many = [replica(f"r{number}", ready=False, trouble="Error") for number in range(9)]
        assert len(behind(budget("web", current_healthy=0, desired_healthy=9), *many)) == 5

    def test_replicas_that_are_missing(self) -> None:
        (root,) = behind(budget("web", current_healthy=2, desired_healthy=3, expected_pods=4), replica("q"))
        assert (root.code, root.act) == ("pdb-short", "wait until Deployment default/web has its pods again")

    def test_a_budget_that_never_opens(self) -> None:
        (root,) = behind(budget("web", min_available="3"), replica("q"))
        assert root.code == "pdb-strict"
        assert root.act == (
            "add a replica to Deployment default/web or lower minAvailable of PodDisruptionBudget default/web (now 3)"
        )

    def test_a_budget_that_is_gone_leaves_the_pod_itself(self) -> None:
        (root,) = behind()
        assert (root.code, root.subject) == ("pdb-blocks", pod_key("p"))

    @pytest.mark.parametrize(
        ("rows", "code", "act"),
        [
            pytest.param([ENDING], "terminating", "", id="within-its-grace"),
            pytest.param(
                [pod("p", OURS, deleting_at=at(-31))],
                "terminating",
                "see why the kubelet of node n0 does not end pod default/p",
                id="overdue",
            ),
            pytest.param(
                [STUCK],
                "finalizer",
                "remove finalizers a.io/x, b.io/y from pod default/p, or see why its owner does not",
                id="finalizers",
            ),
            pytest.param([pod("p", OURS)], "evicting", "", id="on-its-way"),
            pytest.param(
                [pod("p", OURS), refusal("p", 403, "x", "NamespaceTerminating")],
                "namespaceterminating",
                "see why the deletion of namespace default does not end",
                id="namespace",
            ),
            pytest.param([pod("p", OURS), refusal("p", 500, "x")], "error", "", id="error"),
            pytest.param(
                [pod("p", OURS), permit("p"), permit("p", "all")],
                "pdbs-overlap",
                "let only one of the PodDisruptionBudgets default/all, default/web select pod default/p",
                id="several-budgets",
            ),
        ],
    )
    def test_other_reasons(self, rows: list[Row], code: str, act: str) -> None:
        (tree,) = explained(*rows)
        assert (tree.code, tree.act) == (code, act)

    def test_the_grace_that_is_left_is_an_until(self) -> None:
        assert explained(ENDING)[0].until == at(20)
        assert explained(ENDING, seconds=21)[0].until is None

    @pytest.mark.parametrize(("act", "word"), [(Act.WAIT, "end"), (Act.BLOCK, "remove")])
    def test_rules(self, act: Act, word: str) -> None:
        (tree,) = explained(pod("p", OURS), rules=PodRules((Rule(act),)))
        assert tree.act.startswith(f"{word} pod default/p")
        assert "annotation haulout.dev/drain" in tree.act

    def test_a_refused_drain_comes_first(self) -> None:
        trees = explained(pod("a", OURS), pod("bare"), pod("more"), options=DrainOptions())
        assert [tree.code for tree in trees] == ["drain-refused", "evicting"]
        assert trees[0].act == "remove default/bare, default/more by hand, or allow the drain to"
