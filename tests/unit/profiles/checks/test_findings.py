"""What checks tell people: what is missing, the act that helps, and when time alone helps."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from haulout.cluster.key import Key, node_key
from haulout.cluster.project import within
from haulout.cluster.rows import LeaseRow, NodeRow, Row, Value
from haulout.cluster.view import FactDemand
from haulout.plugins.checks import kubernikus_count, prometheus_instant
from haulout.plugins.checks.prometheus_instant import Sample
from haulout.surfaces.profiles.load import known_plugins
from haulout.surfaces.profiles.wire import DATA_ANNOTATION, PROFILE_LABEL, STATE_LABEL
from tests.build.checks import hypervisor, judged, member, pod
from tests.build.rows import START, at, node

REQUIRED = "maintenance-required"
STAGGER = "{{duration: 10s, leaseName: l, leaseNamespace: ns, parallel: {parallel}}}"
PROMETHEUS = '{url: "http://prom", query: up, expr: "value > 3"}'
PACE_FOR = timedelta(seconds=30)


def lease(number: int) -> LeaseRow:
    key = Key("", within("Lease", "ns"), "ns", f"l-{number}")
    return LeaseRow(key=key, uid=key.name, version=1, holder="o", duration_for=10, acquired_at=START, renewed_at=START)


def ready(*statuses: str) -> NodeRow:
    return NodeRow(key=node_key("n"), conditions=tuple(("Ready", status) for status in statuses))


def busy(name: str, data: str = "") -> NodeRow:
    labels = {STATE_LABEL: "in-maintenance", PROFILE_LABEL: "p"}
    return node(name, labels=labels, annotations={DATA_ANNOTATION: data} if data else {})


def size(nodes: int) -> Value:
    key = FactDemand(kubernikus_count.PROBE, ("mine", "", ""), PACE_FOR).key
    return Value(key=key, value=nodes, state="fresh")


def sample(value: str) -> Value:
    key = FactDemand(prometheus_instant.PROBE, ("http://prom", "up"), PACE_FOR).key
    return Value(key=key, value=Sample(value), state="fresh")


def case(
    plugin: str, config: str, *rows: Row, finding: str, act: str = "", passes: bool = False, name: str, **how: Any
) -> Any:
    return pytest.param(plugin, config, rows, how, (passes, finding, act), id=f"{plugin}: {name}")


CASES = [
    case(
        "hasAnnotation",
        "{key: k, value: v}",
        node("n"),
        finding="the annotation k=v is missing on the node",
        act="set the annotation k=v on the node",
        name="missing",
    ),
    case(
        "hasAnnotation",
        "{key: k, value: v}",
        node("n", annotations={"k": "w"}),
        finding="the annotation k of the node is 'w', not 'v'",
        act="set the annotation k=v on the node",
        name="another value",
    ),
    case(
        "hasAnnotation",
        "{key: k}",
        node("n", annotations={"k": "w"}),
        finding="the annotation k is on the node",
        act="remove the annotation k from the node",
        passes=True,
        name="there",
    ),
    case(
        "hasLabel",
        "{key: k}",
        node("n"),
        finding="the label k is missing on the node",
        act="set the label k on the node",
        name="missing",
    ),
    case(
        "hasLabel",
        "{key: k}",
        node("n", k=""),
        finding="the label k is on the node",
        act="remove the label k from the node",
        passes=True,
        name="there",
    ),
    case(
        "anyLabel",
        "{key: k, value: v}",
        node("n", k="w"),
        finding="no node has the label k=v",
        act="set the label k=v on a node",
        name="none",
    ),
    case(
        "anyLabel",
        "{key: k}",
        node("n", k="v"),
        node("o", k="w"),
        finding="the label k is on n, o",
        act="remove the label k from n, o",
        passes=True,
        name="several",
    ),
    case(
        "anyLabel",
        "{key: k}",
        node("n", k="v"),
        explaining=False,
        finding="the label k is on a node",
        passes=True,
        name="names are for people",
    ),
    case("condition", "{type: Ready, status: 'True'}", ready(), finding="the node has no condition Ready", name="none"),
    case(
        "condition",
        "{type: Ready, status: 'True'}",
        ready("False"),
        finding="the condition Ready of the node is False, not True",
        name="another status",
    ),
    case(
        "condition",
        "{type: Ready, status: 'True'}",
        ready("True"),
        finding="the condition Ready of the node is True",
        passes=True,
        name="as wanted",
    ),
    case(
        "wait",
        "{duration: 90m}",
        state="in-maintenance",
        finding="the node has not been in-maintenance for 1 h 30 min yet",
        name="not yet",
    ),
    case(
        "wait",
        "{duration: 1m}",
        now=at(61),
        finding="the node has been operational for more than 1 min",
        passes=True,
        name="long enough",
    ),
    case(
        "waitExclude",
        "{duration: 1h, exclude: [sat, sun]}",
        finding="the node has not been operational for 1 h yet, sat, sun not counted",
        name="not yet",
    ),
    case(
        "waitExclude",
        "{duration: 1h, exclude: [mon, tue, wed, thu, fri, sat, sun]}",
        finding="no weekday counts",
        act="take a weekday out of `exclude` of the check",
        name="never",
    ),
    case(
        "waitExclude",
        "{duration: 1m, exclude: [sat]}",
        now=at(61),
        finding="the node has been operational for more than 1 min, sat not counted",
        passes=True,
        name="long enough",
    ),
    case(
        "timeWindow",
        "{start: '22:00', end: '23:00', weekdays: [sun, mon], timezone: Europe/Berlin}",
        finding="the time window 22:00-23:00 Europe/Berlin on sun, mon is closed",
        name="closed",
    ),
    case(
        "timeWindow",
        "{start: '09:00', end: '23:00', weekdays: [sun], exclude: ['Mar 1']}",
        finding="the time window 09:00-23:00 UTC on sun is closed, because this day is excluded",
        name="excluded",
    ),
    case(
        "timeWindow",
        "{start: '09:00', end: '09:00', weekdays: [sun]}",
        finding="the time window 09:00-09:00 UTC on sun never opens: it ends when it begins",
        act="set another `start` or `end` in the check",
        name="never",
    ),
    case(
        "timeWindow",
        "{start: '09:00', end: '23:00', weekdays: [sun]}",
        finding="the time window 09:00-23:00 UTC on sun is open",
        passes=True,
        name="open",
    ),
    case(
        "maxMaintenance",
        "{max: 1}",
        node("n"),
        busy("o"),
        may_wait=False,
        finding="1 of 1 nodes in maintenance",
        name="full",
    ),
    case(
        "maxMaintenance",
        "{max: 2}",
        node("n"),
        busy("o"),
        may_wait=False,
        finding="1 of 2 nodes in maintenance",
        passes=True,
        name="room",
    ),
    case(
        "maxMaintenance",
        "{max: -1}",
        finding="",
        act="set `max` of the check to 1 or more",
        passes=True,
        name="a limit of none never opens",
    ),
    case(
        "maxMaintenance",
        "{max: 1, skipAfter: 1h}",
        node("n"),
        busy("o", data="garbage"),
        finding="",
        act="repair or remove the annotation of the maintenance data on o",
        name="data that cannot be read",
    ),
    case(
        "nodeCount",
        "{count: 3}",
        node("n"),
        node("o"),
        finding="the number of nodes in the cluster is 2, below 3",
        act="add nodes to the cluster",
        name="few",
    ),
    case(
        "nodeCount",
        "{count: 1}",
        finding="the number of nodes in the cluster is 1, at least 1",
        passes=True,
        name="enough",
    ),
    case("kubernikusCount", "{cluster: mine}", finding="Kubernikus has not answered yet", name="no answer"),
    case(
        "kubernikusCount",
        "{cluster: mine}",
        node("n"),
        size(2),
        finding="the cluster has fewer nodes than the 2 of the node pools of mine in Kubernikus",
        name="few",
    ),
    case(
        "kubernikusCount",
        "{cluster: mine}",
        node("n"),
        size(1),
        finding="the cluster has at least as many nodes as the 1 of the node pools of mine in Kubernikus",
        passes=True,
        name="enough",
    ),
    case("prometheusInstant", PROMETHEUS, finding="Prometheus at http://prom has not answered yet", name="no answer"),
    case(
        "prometheusInstant",
        PROMETHEUS,
        node("n"),
        sample("2.5"),
        finding="value > 3 does not hold for up, whose value is 2.5",
        name="does not hold",
    ),
    case(
        "prometheusInstant",
        PROMETHEUS,
        node("n"),
        sample("4"),
        finding="value > 3 holds for up, whose value is 4",
        passes=True,
        name="holds",
    ),
    case(
        "prometheusInstant",
        '{url: "http://prom", query: up, expr: "value >"}',
        node("n"),
        sample("4"),
        finding="",
        act="correct `expr` of the check",
        name="a bad expression",
    ),
    case(
        "clusterSemver",
        "{key: v}",
        node("n", v="1.2.3"),
        finding="no other node has a version above 1.2.3 in the label v",
        name="newest",
    ),
    case(
        "clusterSemver",
        "{key: v}",
        node("n", v="1.2.3"),
        node("o", v="1.3.0"),
        finding="the version 1.2.3 in the label v of the node is below 1.3.0",
        passes=True,
        name="older",
    ),
    case("clusterSemver", "{key: v}", finding="", act="set the label v on the node to its version", name="no label"),
    case(
        "clusterSemver",
        "{key: v}",
        node("n", v="x"),
        finding="",
        act="set the label v on the node to a version, such as 1.2.3",
        name="no version",
    ),
    case(
        "affinity",
        "null",
        member("n", p=REQUIRED),
        member("o", p=REQUIRED),
        pod("a", "n"),
        state=REQUIRED,
        finding="the node has pods that prefer operational nodes; o, which has none, goes first",
        name="another node goes first",
    ),
    case(
        "affinity",
        "{minOperational: 1}",
        member("n", p=REQUIRED),
        member("o", p="operational"),
        pod("a", "n"),
        state=REQUIRED,
        finding="at least 1 nodes with profile p are operational",
        passes=True,
        name="enough are operational",
    ),
    case(
        "affinity",
        "null",
        member("n", p=REQUIRED),
        state=REQUIRED,
        finding="the node has no pods that prefer operational nodes",
        passes=True,
        name="no such pods",
    ),
    case(
        "affinity",
        "null",
        member("n", p=REQUIRED),
        pod("a", "n"),
        state=REQUIRED,
        finding="every node that waits has pods that prefer operational nodes",
        passes=True,
        name="all alike",
    ),
    case(
        "affinity",
        "null",
        finding="",
        act="use the check in transitions out of maintenance-required alone",
        name="in another state",
    ),
    case(
        "stagger",
        STAGGER.format(parallel=1),
        node("n"),
        lease(0),
        may_wait=False,
        finding="all 1 Leases ns/l are taken",
        name="taken",
    ),
    case(
        "stagger",
        STAGGER.format(parallel=2),
        node("n"),
        lease(0),
        may_wait=False,
        finding="1 of 2 Leases ns/l are free",
        passes=True,
        name="free",
    ),
    case(
        "stagger",
        STAGGER.format(parallel=0),
        finding="the check has no Leases",
        act="set `parallel` of the check to 1 or more",
        name="never",
    ),
    case(
        "checkHypervisor",
        "{evicted: true, numInstances: 0}",
        node("n"),
        hypervisor("n", status={"evicted": False, "numInstances": 2}),
        finding="in the status of the Hypervisor evicted is false, not true; numInstances is 2, not 0",
        name="other values",
    ),
    case(
        "checkHypervisor",
        "{evicted: true}",
        node("n"),
        hypervisor("n", status={"evicted": True}),
        finding="in the status of the Hypervisor evicted is true",
        passes=True,
        name="as wanted",
    ),
    case(
        "hypervisorCondition",
        "{type: Ready, status: 'True'}",
        node("n"),
        hypervisor("n", status={}),
        finding="the Hypervisor has no condition Ready",
        name="none",
    ),
    case(
        "hypervisorCondition",
        "{type: Ready, status: 'True'}",
        node("n"),
        hypervisor("n", status={"conditions": [{"type": "Ready", "status": "True"}]}),
        finding="the condition Ready of the Hypervisor is True",
        passes=True,
        name="as wanted",
    ),
]


@pytest.mark.parametrize(("plugin", "config", "rows", "how", "expected"), CASES)
def test_says_what_is_missing_and_the_act_that_helps(
    plugin: str, config: str, rows: tuple[Any, ...], how: dict[str, Any], expected: tuple[bool, str, str]
) -> None:
    verdict = judged(plugin, config, *rows, **how)
    assert (verdict.passed, verdict.finding, verdict.act) == expected


def test_every_check_of_ours_is_in_the_table_with_both_answers() -> None:
    answers = {(each.values[0], each.values[4][0]) for each in CASES if each.values[4][1]}
    assert answers == {(name, passes) for name in known_plugins().checks for passes in (True, False)}


@pytest.mark.parametrize(
    ("plugin", "config", "until"),
    [
        ("wait", "{duration: 1h}", at(3600)),
        ("waitExclude", "{duration: 1h, exclude: [sat]}", at(3600)),
        ("timeWindow", "{start: '22:00', end: '23:00', weekdays: [sun]}", START.replace(hour=22)),
    ],
)
def test_says_when_time_alone_helps(plugin: str, config: str, until: Any) -> None:
    assert judged(plugin, config).until == until


def test_names_the_node_that_goes_first() -> None:
    fleet = member("n", p=REQUIRED), member("o", p=REQUIRED), pod("a", "n")
    assert judged("affinity", "null", *fleet, state=REQUIRED).waits_for == node_key("o")
