"""What becomes of an act that a person orders: its writes, or a refusal with a code."""

from __future__ import annotations

import json

import msgspec
import pytest

from haulout.acts.answers import Code, Done, Problem, Written
from haulout.acts.orders import Order, perform
from haulout.acts.prepare import Target
from haulout.kube.errors import KubeError, RequestTimeout, error_from_reply
from tests.build.acting import Desk, forbidden
from tests.build.workloads import node

PLURAL = "nodemaintenances"
PATH = f"/apis/nodemaintenance.medik8s.io/v1beta1/{PLURAL}"
NODE = Target("Node", "", "n1")
MAINTENANCE = Target("NodeMaintenance", "", "n1")


@pytest.fixture
def desk() -> Desk:
    made = Desk(PLURAL)
    made.make(node("n1"))
    return made


async def refused(desk: Desk, order: Order) -> Problem:
    answer = await perform(desk.caller(), order)
    assert isinstance(answer, Problem)
    return answer


async def done(desk: Desk, order: Order) -> Done:
    answer = await perform(desk.caller(), order)
    assert isinstance(answer, Done), answer
    return answer


def status(code: int, reason: str, message: str) -> KubeError:
    body = {"kind": "Status", "code": code, "reason": reason, "message": message}
    return error_from_reply(code, json.dumps(body).encode())


async def test_start_and_cancel_of_a_maintenance(desk: Desk) -> None:
    started = await done(desk, Order("start", NODE, reason="firmware"))
    assert started == Done((Written("create", PLURAL, "", "n1"),), (), "haulout cancel nodemaintenance/n1")
    assert (await desk.get(f"{PATH}/n1"))["spec"] == {"nodeName": "n1", "reason": "firmware"}
    cancelled = await done(desk, Order("cancel", MAINTENANCE))
    assert cancelled.undo == "haulout start node/n1 --with nodemaintenance --reason firmware"
    assert (await refused(desk, Order("cancel", MAINTENANCE))).code is Code.NOT_FOUND


async def test_a_dry_run_is_sent_as_one_and_stores_nothing(desk: Desk) -> None:
    assert len((await done(desk, Order("start", NODE, dry_run=True))).writes) == 1
    assert desk.queries == [{"fieldManager": "haulout-cli", "dryRun": "All"}]
    assert (await desk.get(PATH))["items"] == []


async def test_a_missing_right_is_named_before_anything_is_written(desk: Desk) -> None:
    desk.denied.add(f"create {PLURAL}")
    problem = await refused(desk, Order("start", NODE))
    assert (problem.code, problem.verb, problem.resource) == (Code.MISSING_RIGHT, "create", PLURAL)
    assert set(msgspec.to_builtins(problem)) == {"code", "detail", "verb", "group", "resource", "namespace"}
    assert desk.writes == []


async def test_a_right_that_is_not_known_is_left_to_the_api_server(desk: Desk) -> None:
    desk.unanswered.add(f"create {PLURAL}")
    assert len((await done(desk, Order("start", NODE))).writes) == 1


async def test_an_object_that_may_not_be_read_names_the_right(desk: Desk) -> None:
    desk.denied.add("get nodes")
    problem = await refused(desk, Order("start", NODE))
    assert (problem.code, problem.verb, problem.resource) == (Code.MISSING_RIGHT, "get", "nodes")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        pytest.param(error_from_reply(403, forbidden("create", PLURAL)), Code.MISSING_RIGHT, id="rights"),
        pytest.param(
            status(403, "Forbidden", 'admission webhook "x" denied the request: no'), Code.REFUSED, id="admission"
        ),
        pytest.param(status(422, "Invalid", "spec.nodeName"), Code.REFUSED, id="invalid"),
        pytest.param(status(409, "AlreadyExists", "it exists"), Code.NOT_POSSIBLE, id="exists"),
        pytest.param(RequestTimeout("no answer"), Code.NO_ANSWER, id="no answer"),
    ],
)
async def test_the_code_of_a_refused_write(desk: Desk, error: KubeError, code: Code) -> None:
    desk.fails["POST"] = error
    assert (await refused(desk, Order("start", NODE))).code is code


@pytest.mark.parametrize(
    ("order", "code"),
    [
        pytest.param(Order("start", Target("Node", "", "n2")), Code.NOT_FOUND, id="no such node"),
        pytest.param(Order("stop", NODE), Code.INVALID, id="no such act"),
        pytest.param(Order("cancel", NODE), Code.INVALID, id="not for the kind"),
        pytest.param(Order("start", Target("Pod", "a", "b")), Code.INVALID, id="no such kind"),
        pytest.param(Order("start", Target("Node", "", "../x")), Code.INVALID, id="a path"),
        pytest.param(Order("start", Target("Node", "a", "n1")), Code.INVALID, id="a namespace"),
        pytest.param(Order("start", NODE, {"with": "magic"}), Code.INVALID, id="no such way"),
        pytest.param(Order("start", NODE, {"colour": "red"}), Code.INVALID, id="no such argument"),
        pytest.param(Order("start", NODE, reason="x" * 2000), Code.INVALID, id="a long reason"),
    ],
)
async def test_orders_that_cannot_be_carried_out(desk: Desk, order: Order, code: Code) -> None:
    assert (await refused(desk, order)).code is code
    assert desk.writes == []


async def test_a_kind_that_the_cluster_does_not_serve_is_no_missing_right() -> None:
    desk = Desk()
    desk.make(node("n1"))
    problem = await refused(desk, Order("start", NODE, {"with": "nodemaintenance"}))
    assert problem.code is Code.NOT_POSSIBLE
    assert "nodemaintenances.nodemaintenance.medik8s.io" in problem.detail


async def test_an_object_that_changed_meanwhile_is_not_touched(desk: Desk) -> None:
    await done(desk, Order("start", NODE))
    desk.fails["DELETE"] = status(409, "Conflict", "the UID in the precondition does not match")
    assert (await refused(desk, Order("cancel", MAINTENANCE))).code is Code.CHANGED
    method, _, body = desk.writes[-1]
    assert method == "DELETE"
    assert body["preconditions"] == {"uid": (await desk.get(f"{PATH}/n1"))["metadata"]["uid"]}
