"""What the webhook allows and refuses, as tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from haulout.cluster.key import Key, node_key
from haulout.cluster.rows import BudgetRow, NodeRow, PodRow, PodTraits, Row, Taint
from haulout.cluster.store import Listing, Store
from haulout.cluster.view import View
from haulout.core.admission import AdmissionRequest, Verdict
from haulout.serve.reviews import decode
from haulout.surfaces.nodemaintenance.admit import Maintenance, Quorum, admit
from haulout.surfaces.nodemaintenance.wire import MaintenanceRow
from tests.build.maintenances import maintenance_key
from tests.build.rows import node

CONTROL_PLANE = {"node-role.kubernetes.io/control-plane": ""}
MASTER = {"node-role.kubernetes.io/master": "true"}
Unlisted = Mapping[str, Listing] | None
TABLES = ("Node", "NodeMaintenance", "Pod", "PodDisruptionBudget")
VIOLATION = (
    "can not put master/control-plane node into maintenance at this moment, disrupting node m1 will violate etcd quorum"
)
GUARD_LABELS = {"app": "guard"}


def maintenance(name: str, of: str, *, deleting: bool = False) -> MaintenanceRow:
    deleting_at = datetime(2026, 3, 1, tzinfo=UTC) if deleting else None
    return MaintenanceRow(key=maintenance_key(name), uid=name, version=1, node=of, deleting_at=deleting_at)


def guard(allowed: int, selector: Mapping[str, Any] | None = None, name: str = "etcd-guard-pdb") -> BudgetRow:
    key = Key("", "PodDisruptionBudget", "openshift-etcd", name)
    return BudgetRow(key=key, version=1, disruptions_allowed=allowed, selector=selector)


def guard_pod(on: str, ready: str, labels: Mapping[str, str] = GUARD_LABELS, ns: str = "openshift-etcd") -> PodRow:
    key = Key("", "Pod", ns, f"guard-{on}")
    return PodRow(key=key, version=1, node=on, labels=labels, ready=None if ready == "Unknown" else ready == "True")


def member(on: str, *, ready: bool = True) -> PodRow:
    key = Key("", "Pod", "kube-system", f"etcd-{on}")
    spec = PodTraits(mirror=True)
    return PodRow(key=key, version=1, node=on, labels={"component": "etcd"}, ready=ready, spec=spec)


def tainted(name: str) -> NodeRow:
    return NodeRow(key=node_key(name), version=1, taints=(Taint("a", "NoSchedule"),))


def view_of(rows: Iterable[Row], unlisted: Unlisted = None) -> View:
    store = Store()
    for table in TABLES:
        store.set_listing("", table, (unlisted or {}).get(table, Listing.LISTED))
    for row in rows:
        store.put(row)
    return View(store)


def asked(operation: str, new: Any = None, old: Any = None) -> AdmissionRequest:
    """Return a request as the server makes it from a review."""
    request = {"uid": "u", "operation": operation, "object": new, "oldObject": old}
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return decode(msgspec.json.encode(review)).read(Maintenance)


def created(name: Any, rows: Iterable[Row], quorum: Quorum = Quorum.NONE, unlisted: Unlisted = None) -> Verdict:
    return admit(quorum, asked("CREATE", {"spec": {"nodeName": name}}), view_of(rows, unlisted))


def test_a_node_that_exists_and_has_none_yet_is_accepted() -> None:
    assert created("a", [node("a"), node("b"), maintenance("x", "b"), node("c")]) == Verdict(allowed=True)


@pytest.mark.parametrize(
    ("name", "rows", "message", "doubts"),
    [
        pytest.param(
            "a", [node("b")], "invalid nodeName, no node with name a found", (node_key("a"),), id="no such node"
        ),
        pytest.param("", [node("b")], "invalid nodeName, no node with name  found", (), id="no name"),
        pytest.param(
            "a",
            [node("a"), maintenance("x", "a")],
            "invalid nodeName, a NodeMaintenance for node a already exists",
            (maintenance_key("x"),),
            id="a second one",
        ),
        pytest.param(
            "a",
            [node("a"), maintenance("x", "a", deleting=True)],
            "invalid nodeName, a NodeMaintenance for node a already exists",
            (maintenance_key("x"),),
            id="one that is being deleted",
        ),
        pytest.param(
            "a",
            [maintenance("x", "a")],
            "invalid nodeName, no node with name a found",
            (node_key("a"),),
            id="the node is looked for first",
        ),
    ],
)
def test_refusals_of_a_new_one(name: str, rows: list[Row], message: str, doubts: tuple[Key, ...]) -> None:
    expected = Verdict(allowed=False, code=403, reason="Forbidden", message=message, doubts=doubts)
    assert created(name, rows) == expected


@pytest.mark.parametrize(
    ("unlisted", "listing", "message"),
    [
        pytest.param(
            "Node",
            Listing.WAITING,
            "could not get node for validating spec.NodeName, please try again: could not get node:"
            " the list of Node objects is not complete yet",
            id="nodes not listed yet",
        ),
        pytest.param(
            "Node",
            Listing.UNREADABLE,
            "could not get node for validating spec.NodeName, please try again: could not get node:"
            " Node objects cannot be read",
            id="nodes unreadable",
        ),
        pytest.param(
            "NodeMaintenance",
            Listing.UNREADABLE,
            "could not list NodeMaintenances for validating spec.NodeName, please try again:"
            " NodeMaintenance objects cannot be read",
            id="maintenances unreadable",
        ),
    ],
)
def test_what_cannot_be_read_is_no_reason_to_accept(unlisted: str, listing: Listing, message: str) -> None:
    verdict = created("a", [node("a")], unlisted={unlisted: listing})
    assert (verdict.allowed, verdict.code, verdict.message) == (False, 403, message)


@pytest.mark.parametrize("spec", [{}, {"spec": None}, {"spec": {}}], ids=["no spec", "null", "empty"])
def test_a_missing_spec_is_a_missing_name(spec: Any) -> None:
    verdict = admit(Quorum.NONE, asked("CREATE", spec), view_of([node("a")]))
    assert verdict.message == "invalid nodeName, no node with name  found"


@pytest.mark.parametrize(
    ("old", "new", "code", "message"),
    [
        pytest.param({"nodeName": "a"}, {"nodeName": "a", "reason": "other"}, 0, "", id="another reason"),
        pytest.param(
            {"nodeName": "a"}, {"nodeName": "b"}, 403, "updating spec.NodeName isn't allowed", id="another node"
        ),
        pytest.param({"nodeName": "a"}, None, 403, "updating spec.NodeName isn't allowed", id="no node any more"),
        pytest.param(None, {"nodeName": ""}, 0, "", id="none before and after"),
        pytest.param(
            {"nodeName": "a"},
            {"nodeName": 1},
            400,
            "the object is not a NodeMaintenance: Expected `str`, got `int` - at `$.spec.nodeName`",
            id="undecodable",
        ),
    ],
)
def test_updates(old: Any, new: Any, code: int, message: str) -> None:
    verdict = admit(Quorum.OPENSHIFT, asked("UPDATE", {"spec": new}, {"spec": old}), view_of([]))
    assert (verdict.allowed, 0 if verdict.allowed else verdict.code, verdict.message) == (not code, code, message)


@pytest.mark.parametrize("content", [None, {"spec": []}, {"spec": {"nodeName": ["a"]}}], ids=["none", "list", "name"])
def test_what_cannot_be_decoded_is_a_bad_request(content: Any) -> None:
    verdict = admit(Quorum.NONE, asked("CREATE", content), view_of([node("a")]))
    assert (verdict.allowed, verdict.code, verdict.reason) == (False, 400, "BadRequest")


@pytest.mark.parametrize("operation", ["DELETE", "CONNECT", ""])
def test_everything_else_passes(operation: str) -> None:
    assert admit(Quorum.NONE, asked(operation), view_of([])) == Verdict(allowed=True)


@pytest.mark.parametrize(
    ("rows", "quorum", "refused"),
    [
        pytest.param([node("m1")], Quorum.OPENSHIFT, False, id="a worker"),
        pytest.param([node("m1", labels=CONTROL_PLANE)], Quorum.NONE, False, id="not on OpenShift"),
        pytest.param([node("m1", labels=CONTROL_PLANE)], Quorum.OPENSHIFT, True, id="no budget"),
        pytest.param([node("m1", labels=MASTER)], Quorum.OPENSHIFT, True, id="the old label"),
        pytest.param(
            [node("m1", labels=MASTER), guard(1), guard(1, name="other")], Quorum.OPENSHIFT, True, id="two budgets"
        ),
        pytest.param([node("m1", labels=MASTER), guard(1)], Quorum.OPENSHIFT, False, id="a disruption is allowed"),
        pytest.param([node("m1", labels=MASTER), guard(0)], Quorum.OPENSHIFT, False, id="no member here"),
        pytest.param(
            [node("m1", labels=MASTER), guard(0, {"matchLabels": GUARD_LABELS}), guard_pod("m1", "True")],
            Quorum.OPENSHIFT,
            True,
            id="a healthy member",
        ),
        pytest.param(
            [node("m1", labels=MASTER), guard(0, {"matchLabels": GUARD_LABELS}), guard_pod("m1", "Unknown")],
            Quorum.OPENSHIFT,
            True,
            id="a member of unknown health",
        ),
        pytest.param(
            [node("m1", labels=MASTER), guard(0, {"matchLabels": GUARD_LABELS}), guard_pod("m1", "False")],
            Quorum.OPENSHIFT,
            False,
            id="a member that is down already",
        ),
        pytest.param(
            [node("m1", labels=MASTER), guard(0, {"matchLabels": GUARD_LABELS}), guard_pod("m1", "True", {"app": "x"})],
            Quorum.OPENSHIFT,
            False,
            id="a pod that is no member",
        ),
        pytest.param(
            [node("m1", labels=MASTER), guard(0), guard_pod("m1", "True", ns="default")],
            Quorum.OPENSHIFT,
            False,
            id="a pod elsewhere",
        ),
        pytest.param(
            [node("m1", labels=MASTER), guard(0), guard_pod("m1", "True")],
            Quorum.OPENSHIFT,
            True,
            id="without a selector every pod",
        ),
        pytest.param(
            [
                node("m1", labels=MASTER),
                guard(0, {"matchExpressions": [{"key": "app", "operator": "In", "values": ["guard"]}]}),
                guard_pod("m1", "True"),
            ],
            Quorum.OPENSHIFT,
            True,
            id="one value in an expression",
        ),
        pytest.param(
            [node("m1", labels=CONTROL_PLANE), member("m1"), member("m2"), member("m3")],
            Quorum.MEMBERS,
            False,
            id="two of three left",
        ),
        pytest.param(
            [node("m1", labels=CONTROL_PLANE), member("m1"), member("m2", ready=False), member("m3")],
            Quorum.MEMBERS,
            True,
            id="one of three down",
        ),
        pytest.param(
            [
                node("m1", labels=CONTROL_PLANE),
                member("m1"),
                member("m2"),
                member("m3"),
                node("m2"),
                maintenance("x", "m2"),
            ],
            Quorum.MEMBERS,
            True,
            id="one of three in maintenance",
        ),
        pytest.param(
            [node("m1", labels=CONTROL_PLANE), member("m1", ready=False), member("m2"), member("m3", ready=False)],
            Quorum.MEMBERS,
            False,
            id="down itself",
        ),
        pytest.param(
            [node("m1", labels=CONTROL_PLANE), member("m2")], Quorum.MEMBERS, False, id="a control plane without etcd"
        ),
        pytest.param([node("m1", labels=CONTROL_PLANE), member("m1")], Quorum.MEMBERS, True, id="the only member"),
        pytest.param([node("m1"), member("m1")], Quorum.MEMBERS, False, id="a worker with etcd"),
    ],
)
def test_quorum(rows: list[Row], quorum: Quorum, refused: bool) -> None:
    verdict = created("m1", rows, quorum)
    assert (verdict.allowed, verdict.message) == (not refused, VIOLATION if refused else "")


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ({"key": "a", "operator": "In", "values": ["x", "y"]}, 'operator "In" without a single value'),
        ({"key": "a", "operator": "Exists"}, 'operator "Exists"'),
        ({"key": "a", "operator": "NotIn", "values": ["x"]}, 'operator "NotIn"'),
    ],
)
def test_a_selector_that_the_original_cannot_read_is_refused_with_its_words(expression: Any, message: str) -> None:
    rows = [node("m1", labels=MASTER), guard(0, {"matchExpressions": [expression]})]
    verdict = created("m1", rows, Quorum.OPENSHIFT)
    assert not verdict.allowed
    assert verdict.message == f"{message} cannot be converted into the old label selector format"


def test_a_quorum_that_cannot_be_read_is_not_there() -> None:
    verdict = created("m1", [node("m1", labels=MASTER)], Quorum.OPENSHIFT, {"PodDisruptionBudget": Listing.UNREADABLE})
    assert (verdict.allowed, verdict.code, verdict.message) == (
        False,
        500,
        "PodDisruptionBudget objects cannot be read",
    )


def test_quorum_refusals_name_what_may_have_changed() -> None:
    rows = [node("m1", labels=MASTER), guard(0), guard_pod("m1", "True")]
    assert created("m1", rows, Quorum.OPENSHIFT).doubts == (rows[1].key, rows[2].key)


@pytest.mark.parametrize(
    ("rows", "warned"),
    [
        pytest.param([node("a")], True, id="the only node"),
        pytest.param([node("a"), node("b")], False, id="another one"),
        pytest.param([node("a"), node("b", cordoned=True)], True, id="the other is cordoned"),
        pytest.param([node("a"), tainted("b")], True, id="the other is tainted"),
        pytest.param([node("a"), node("b"), maintenance("x", "b")], True, id="the other is in maintenance"),
    ],
)
def test_taking_the_last_schedulable_node_is_warned_of(rows: list[Row], warned: bool) -> None:
    verdict = created("a", rows)
    text = "no schedulable node is left beside a: pods that leave it cannot run elsewhere"
    assert (verdict.allowed, verdict.warnings) == (True, (text,) if warned else ())


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["spec", "nodeName", "x"]), inner),
    max_leaves=8,
)
OBJECTS = st.none() | st.dictionaries(st.sampled_from(["spec", "metadata", "status"]), ANYTHING)


@given(operation=st.sampled_from(["CREATE", "UPDATE", "DELETE", ""]), new=OBJECTS, old=OBJECTS)
def test_whatever_is_in_an_object_there_is_a_verdict(operation: str, new: Any, old: Any) -> None:
    rows = [node("", labels=MASTER), node("a", labels=MASTER), guard(0), guard_pod("a", "True")]
    for quorum in Quorum:
        verdict = admit(quorum, asked(operation, new, old), view_of(rows))
        assert verdict.allowed or verdict.message
