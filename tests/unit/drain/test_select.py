"""The filters of `kubectl drain`, one row of its table after the other, and the rules that come before them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from haulout.base.selector import parse
from haulout.cluster.rows import NodeRow, PodRow
from haulout.core.drain.options import Act, DrainOptions, PodRules, Rule
from haulout.core.drain.selection import LAST, Fate, Fates, aggregate, changes_at, select
from tests.build.podrows import owner, pod
from tests.build.rows import START, at, node

KUBECTL = DrainOptions()
EVERYTHING = DrainOptions(force=True, ignore_daemonsets=True, delete_local_data=True)
IGNORED, GOES = Fate(Act.IGNORE), Fate(Act.EVICT)
SKIPPED = Fate(Act.IGNORE, skipped=True)
AGENT = owner("DaemonSet", "agent")
NO_CONTROLLER = "cannot delete Pods that declare no controller (use --force to override)"
LOCAL_DATA = "Pods with local storage (use --delete-emptydir-data to override)"
OF_DAEMONSET = "DaemonSet-managed Pods (use --ignore-daemonsets to ignore)"
WAITS = Fate(Act.WAIT)
CLUSTER_API_LABEL = "cluster.x-k8s.io/drain"
HONORED = PodRules(cluster_api_label=True)
MACHINE = node("n0", annotations={"cluster.x-k8s.io/machine": "worker-0"})
LOST = msgspec.structs.replace(node("n0"), conditions=(("Ready", "Unknown"),))


def options(base: DrainOptions = EVERYTHING, **fields: Any) -> DrainOptions:
    return msgspec.structs.replace(base, **fields)


def there(namespace: str, name: str) -> bool | None:
    return name == "agent"


def nowhere(namespace: str, name: str) -> bool | None:
    return False


def unknown(namespace: str, name: str) -> bool | None:
    return None


def fate(each: PodRow, given: DrainOptions = EVERYTHING, **more: Any) -> Fate:
    """Return the fate of a pod, without what decided it."""
    found = Fates(given, more.pop("daemonset", there), more.pop("now", START), **more).of(each)
    return msgspec.structs.replace(found, decided_by="")


def refused(text: str) -> Fate:
    return Fate(Act.BLOCK, error=text)


@pytest.mark.parametrize(
    ("each", "given", "expected"),
    [
        pytest.param(pod("p", owner()), KUBECTL, GOES, id="controlled"),
        pytest.param(pod("p", owner("Job", "j", "batch/v1")), KUBECTL, GOES, id="another-controller-is-not-looked-up"),
        pytest.param(pod("p"), KUBECTL, refused(NO_CONTROLLER), id="bare"),
        pytest.param(pod("p", owner(controller=False)), KUBECTL, refused(NO_CONTROLLER), id="owned-not-controlled"),
        pytest.param(
            pod("p"), EVERYTHING, Fate(Act.EVICT, "deleting Pods that declare no controller"), id="bare-forced"
        ),
        pytest.param(pod("p", phase="Succeeded"), KUBECTL, GOES, id="bare-but-succeeded"),
        pytest.param(pod("p", phase="Failed"), KUBECTL, GOES, id="bare-but-failed"),
        pytest.param(pod("p", AGENT), KUBECTL, refused(OF_DAEMONSET), id="daemonset"),
        pytest.param(
            pod("p", AGENT), EVERYTHING, Fate(Act.IGNORE, "ignoring DaemonSet-managed Pods"), id="daemonset-ignored"
        ),
        pytest.param(pod("p", AGENT, phase="Failed"), KUBECTL, GOES, id="daemonset-but-failed"),
        pytest.param(
            pod("p", owner("DaemonSet", "agent", "apps.kruise.io/v1alpha1")), KUBECTL, GOES, id="daemonset-look-alike"
        ),
        pytest.param(
            pod("p", owner("DaemonSet", "gone")),
            options(force=False),
            refused('daemonsets.apps "gone" not found'),
            id="daemonset-missing",
        ),
        pytest.param(pod("p", owner("DaemonSet", "gone")), EVERYTHING, GOES, id="daemonset-missing-forced"),
        pytest.param(
            pod("p", owner("DaemonSet", "gone"), local_data=True),
            options(delete_local_data=False),
            refused(LOCAL_DATA),
            id="daemonset-missing-with-local-data",
        ),
        pytest.param(pod("p", mirror=True), KUBECTL, IGNORED, id="mirror"),
        pytest.param(pod("p", owner("Node", "n0", "v1"), mirror=True), EVERYTHING, IGNORED, id="mirror-everything"),
        pytest.param(pod("p", owner(), local_data=True), KUBECTL, refused(LOCAL_DATA), id="local-data"),
        pytest.param(pod("p", owner(), local_data=True), EVERYTHING, GOES, id="local-data-warning-is-lost"),
        pytest.param(
            pod("p", local_data=True),
            EVERYTHING,
            Fate(Act.EVICT, "deleting Pods that declare no controller"),
            id="local-data-bare-has-the-last-warning",
        ),
        pytest.param(pod("p", local_data=True, phase="Succeeded"), KUBECTL, GOES, id="local-data-but-succeeded"),
        pytest.param(pod("p", owner(), deleting_at=at(-600)), EVERYTHING, GOES, id="terminating-is-a-candidate"),
        pytest.param(pod("p", owner()), options(disable_eviction=True), Fate(Act.DELETE), id="eviction-disabled"),
        pytest.param(
            pod("p", AGENT),
            options(disable_eviction=True),
            Fate(Act.IGNORE, "ignoring DaemonSet-managed Pods"),
            id="eviction-disabled-spares-daemonsets",
        ),
        pytest.param(
            pod("p", labels={"app": "x"}), options(KUBECTL, ignored=parse("app=x")), IGNORED, id="ignored-by-labels"
        ),
    ],
)
def test_filters(each: PodRow, given: DrainOptions, expected: Fate) -> None:
    assert fate(each, given) == expected


def test_a_daemonset_that_cannot_be_looked_up_counts_as_there() -> None:
    assert fate(pod("p", AGENT), daemonset=unknown) == Fate(Act.IGNORE, "ignoring DaemonSet-managed Pods")
    assert fate(pod("p", AGENT), KUBECTL, daemonset=unknown) == refused(OF_DAEMONSET)


class TestSkippingWhatShouldBeGone:
    """`deletionTimestamp` is the end of the grace; whole seconds beyond the span count."""

    ending = pod("p", owner(), deleting_at=START)

    @pytest.mark.parametrize(("seconds", "skipped"), [(0, False), (5, False), (5.999, False), (6, True), (60, True)])
    def test_after_so_many_seconds(self, seconds: float, skipped: bool) -> None:
        found = fate(self.ending, options(skip_ending_for=5), now=at(seconds))
        assert found == (SKIPPED if skipped else GOES)

    def test_never_unless_asked_for(self) -> None:
        assert fate(self.ending, now=at(10**6)) == GOES
        assert fate(self.ending, now=at(10**6), node=LOST) == GOES

    def test_a_pod_that_nobody_deleted_is_not_skipped(self) -> None:
        assert fate(pod("p", owner()), options(skip_ending_for=5), now=at(10**6)) == GOES

    def test_on_a_lost_node_alone(self) -> None:
        given = options(skip_lost_for=5)
        assert fate(self.ending, given, now=at(5), node=LOST) == SKIPPED
        assert fate(self.ending, given, now=at(4.9), node=LOST) == GOES
        assert fate(self.ending, given, now=at(5), node=node("n0")) == GOES

    def test_the_sooner_of_both(self) -> None:
        given = options(skip_ending_for=20, skip_lost_for=5)
        assert changes_at([self.ending], given, START, LOST) == at(5)
        assert changes_at([self.ending], given, START, node("n0")) == at(21)

    def test_when_time_alone_changes_something(self) -> None:
        later = pod("q", owner(), deleting_at=at(3))
        given = options(skip_ending_for=5)
        assert changes_at([later, self.ending], given, START, None) == at(6)
        assert changes_at([later, self.ending], given, at(6), None) == at(9)
        assert changes_at([later, self.ending], given, at(9), None) is None
        assert changes_at([later, self.ending, pod("r")], EVERYTHING, START, LOST) is None


class TestRules:
    @pytest.mark.parametrize("act", list(Act))
    def test_the_annotation_decides_where_it_is_allowed_to(self, act: Act) -> None:
        each = pod("p", annotations={"haulout.dev/drain": f" {act.name.title()} "})
        assert fate(each, KUBECTL, rules=PodRules(annotation=True)) == Fate(act)
        assert fate(each, KUBECTL) == refused(NO_CONTROLLER)

    def test_an_annotation_that_says_nothing_is_no_rule(self) -> None:
        each = pod("p", owner(), annotations={"haulout.dev/drain": "perhaps"})
        assert fate(each, rules=PodRules(annotation=True)) == GOES

    @pytest.mark.parametrize(
        ("word", "expected"),
        [
            ("skip", IGNORED),
            ("SKIP", IGNORED),
            ("s-kip", GOES),
            ("wait-completed", WAITS),
            ("WaitCompleted", WAITS),
            ("Wait-Completed", WAITS),
            ("wait-comp-leted", GOES),
            ("evict", GOES),
            ("wait", GOES),
            ("", GOES),
        ],
    )
    def test_the_label_of_cluster_api_is_compared_as_there(self, word: str, expected: Fate) -> None:
        each = pod("p", owner(), labels={CLUSTER_API_LABEL: word})
        assert fate(each, rules=HONORED, node=MACHINE) == expected
        assert fate(each, node=MACHINE) == GOES

    @pytest.mark.parametrize(
        ("of", "expected"),
        [
            pytest.param(MACHINE, IGNORED, id="a machine's"),
            pytest.param(node("n0", annotations={"cluster.x-k8s.io/cluster-name": "a"}), IGNORED, id="of a cluster"),
            pytest.param(node("n0", annotations={"cluster.x-k8s.io/other": "a"}), GOES, id="nothing of it"),
            pytest.param(None, GOES, id="gone"),
        ],
    )
    def test_the_label_of_cluster_api_counts_on_its_nodes_alone(self, of: NodeRow | None, expected: Fate) -> None:
        assert fate(pod("p", owner(), labels={CLUSTER_API_LABEL: "skip"}), rules=HONORED, node=of) == expected

    def test_pods_of_daemonsets_are_not_waited_for_whatever_their_label(self) -> None:
        each = pod("p", AGENT, labels={CLUSTER_API_LABEL: "wait-completed"})
        assert fate(each, rules=HONORED, node=MACHINE).act is Act.IGNORE

    @pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
    def test_what_has_ended_is_not_waited_for(self, phase: str) -> None:
        each = pod("p", phase=phase, labels={CLUSTER_API_LABEL: "wait-completed"})
        assert fate(each, rules=HONORED, node=MACHINE) == IGNORED
        assert fate(each, rules=PodRules((Rule(Act.WAIT),))) == IGNORED

    @pytest.mark.parametrize(
        ("rule", "concerned"),
        [
            pytest.param(Rule(Act.WAIT), "abcd", id="all"),
            pytest.param(Rule(Act.WAIT, namespaces=frozenset({"jobs"})), "b", id="namespace"),
            pytest.param(Rule(Act.WAIT, selector=parse("app=web")), "a", id="labels"),
            pytest.param(Rule(Act.WAIT, controller_kinds=frozenset({"Job"})), "b", id="controller"),
            pytest.param(Rule(Act.WAIT, restart_policies=frozenset({"Never"})), "bd", id="restart-policy"),
            pytest.param(
                Rule(Act.WAIT, controller_kinds=frozenset({"Job"}), selector=parse("app=web")), "", id="all-of-them"
            ),
        ],
    )
    def test_whom_a_rule_concerns(self, rule: Rule, concerned: str) -> None:
        pods = [
            pod("a", owner(), labels={"app": "web"}),
            pod("b", owner("Job", "j", "batch/v1"), namespace="jobs", restart_policy="Never"),
            pod("c", owner()),
            pod("d", restart_policy="Never"),
        ]
        selection = select(pods, EVERYTHING, there, START, rules=PodRules((rule,)))
        assert "".join(each.key.name for each, found in selection.pods if found.act is Act.WAIT) == concerned

    def test_the_first_rule_that_concerns_it_and_its_order(self) -> None:
        rules = PodRules((Rule(Act.DELETE, selector=parse("app=x"), order=5), Rule(Act.BLOCK, order=-1)))
        assert fate(pod("p", labels={"app": "x"}), rules=rules) == Fate(Act.DELETE, order=5)
        assert fate(pod("p"), rules=rules) == Fate(Act.BLOCK, order=-1)

    def test_annotation_then_label_then_rules(self) -> None:
        rules = PodRules((Rule(Act.WAIT),), annotation=True, cluster_api_label=True)
        label, note = {"cluster.x-k8s.io/drain": "skip"}, {"haulout.dev/drain": "delete"}
        assert fate(pod("p", labels=label, annotations=note), rules=rules, node=MACHINE) == Fate(Act.DELETE)
        assert fate(pod("p", labels=label), rules=rules, node=MACHINE) == IGNORED
        assert fate(pod("p"), rules=rules, node=MACHINE) == WAITS

    def test_no_rule_moves_a_mirror_pod(self) -> None:
        rules = PodRules((Rule(Act.DELETE),), annotation=True)
        assert fate(pod("p", mirror=True, annotations={"haulout.dev/drain": "evict"}), rules=rules) == IGNORED


class TestOrder:
    def test_our_own_pods_go_last(self) -> None:
        given = options(own=parse("app=operator"), by_priority=True)
        assert fate(pod("p", owner(), labels={"app": "operator"}, priority=5), given).order == LAST
        assert fate(pod("p", owner(), priority=2_000_001_000), given).order < LAST

    def test_by_priority_where_asked_for(self) -> None:
        assert fate(pod("p", owner(), priority=7), options(by_priority=True)).order == 7
        assert fate(pod("p", owner(), priority=7)).order == 0


class TestTexts:
    def test_what_is_selected_at_all(self) -> None:
        pods = [pod("a", owner(), labels={"app": "x"}), pod("b", owner())]
        selection = select(pods, options(selector=parse("app=x")), there, START)
        assert [each.key.name for each in selection.awaited_pods] == ["a"]

    def test_warnings_are_grouped_by_text(self) -> None:
        pods = [pod("a"), pod("b", AGENT), pod("c", namespace="other"), pod("d", owner())]
        assert select(pods, EVERYTHING, there, START).warnings == (
            "deleting Pods that declare no controller: default/a, other/c; ignoring DaemonSet-managed Pods: default/b"
        )

    def test_one_error_as_it_is_and_the_prefix_that_doubles(self) -> None:
        selection = select([pod("a"), pod("b", owner())], KUBECTL, there, START)
        assert selection.errors == f"cannot delete {NO_CONTROLLER}: default/a"
        assert [each.key.name for each in selection.awaited_pods] == ["b"]

    def test_several_errors_in_brackets(self) -> None:
        pods = [pod("a"), pod("b", AGENT), pod("c")]
        assert select(pods, KUBECTL, there, START).errors == (
            f"[cannot delete {NO_CONTROLLER}: default/a, default/c, cannot delete {OF_DAEMONSET}: default/b]"
        )

    def test_no_error_is_no_text(self) -> None:
        assert select([], KUBECTL, nowhere, START).errors == aggregate([]) == ""

    def test_of_equal_texts_one_is_left(self) -> None:
        assert aggregate(["x", "x"]) == "x"
        assert aggregate(["x", "y", "x"]) == "[x, y]"


def test_what_is_awaited() -> None:
    """Everything but what is ignored has to be gone, also what is only waited for or kept by a rule."""
    assert [act for act in Act if Fate(act).awaited] == [Act.BLOCK, Act.WAIT, Act.EVICT, Act.DELETE]
    assert [act for act in Act if Fate(act).goes] == [Act.EVICT, Act.DELETE]


def test_the_span_counts_from_the_end_of_the_grace() -> None:
    """Deleted at 0 with 30 s of grace: the timestamp says 30, and 5 more whole seconds have to pass."""
    asked_at, grace = START, timedelta(seconds=30)
    ending = pod("p", owner(), deleting_at=asked_at + grace, deletion_grace_for=30)
    assert fate(ending, options(skip_ending_for=5), now=at(35.9)) == GOES
    assert fate(ending, options(skip_ending_for=5), now=at(36)) == SKIPPED
