"""The webhook server, as the API server and any other client that can reach it see it."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import tracemalloc
from collections.abc import AsyncIterator, Mapping
from typing import Any

import aiohttp
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from haulout.cluster.key import Key, node_key
from haulout.cluster.store import Listing, Store
from haulout.cluster.view import View
from haulout.core.admission import ALLOWED, AdmissionRequest, Answer, Items, Question, Verdict, Webhook, denial
from haulout.runtime.logs import fields
from haulout.runtime.metrics import Metrics
from haulout.serve import admission
from haulout.serve.admission import LONGEST_BODY, Admission, refusal
from haulout.serve.reviews import Malformed, decode, encode, read_review
from haulout.serve.web import listen
from tests.build.rows import node

PATH = "/validate"
REQUEST: dict[str, Any] = {
    "uid": "u-1",
    "kind": {"group": "g", "version": "v1", "kind": "Thing"},
    "operation": "CREATE",
    "name": "a",
    "userInfo": {"username": "alice", "groups": ["system:authenticated"]},
    "object": {"metadata": {"name": "a"}},
    "oldObject": None,
    "dryRun": True,
    "options": {"kind": "CreateOptions"},
}
REVIEW: dict[str, Any] = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": REQUEST}


def rule(request: AdmissionRequest, view: View) -> Verdict:
    """Answer as the name of the object says."""
    match request.name:
        case "break":
            raise ZeroDivisionError
        case "wait":
            view.node("x")
        case "warn":
            return Verdict(allowed=True, warnings=("mind the gap", "x" * 1000))
        case "deny":
            return denial("not today")
        case "bad":
            return Verdict(allowed=False, code=400, reason="BadRequest", message="no Thing")
        case "needs-node":
            return ALLOWED if view.node("late") else denial("no node", node_key("late"))
    return ALLOWED


class Metadata(msgspec.Struct, frozen=True):
    name: str = ""


class Thing(msgspec.Struct, frozen=True):
    """An object as the rule reads it."""

    metadata: Metadata = Metadata()


HOOK = Webhook("v.thing.io", PATH, rule, Thing, "things")


class Server:
    """A webhook server. `late`: what a look at the API server finds."""

    def __init__(self) -> None:
        self.store = Store()
        self.metrics = Metrics()
        self.looks: list[Key] = []
        self.late: Any = None
        self.url = ""
        self.admission = Admission(self.store, self.metrics, self._look)

    async def _look(self, key: Key) -> None:
        self.looks.append(key)
        if self.late is not None:
            self.store.answer(self.late)

    async def post(self, body: Any, headers: Mapping[str, str] | None = None, path: str = PATH) -> tuple[int, Any]:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"Content-Type": "application/json", **(headers or {})}
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{self.url}{path}", data=io.BytesIO(content), headers=sent) as answer,
        ):
            text = await answer.text()
            return answer.status, json.loads(text) if answer.content_type == "application/json" else text


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "LISTED_WITHIN", 0.5)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    made = Server()
    listening = await listen("127.0.0.1:0", made.admission.routes((HOOK,)), method="POST", longest_body=LONGEST_BODY)
    assert listening is not None
    try:
        made.url = f"http://127.0.0.1:{listening.port}"
        yield made
    finally:
        await listening.cleanup()


def review(**request: Any) -> dict[str, Any]:
    return {**REVIEW, "request": {**REQUEST, **request}}


def response(**more: Any) -> dict[str, Any]:
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {"uid": "u-1", **more}}


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("fine", {"allowed": True}),
        ("deny", {"allowed": False, "status": {"code": 403, "reason": "Forbidden", "message": "not today"}}),
        ("bad", {"allowed": False, "status": {"code": 400, "reason": "BadRequest", "message": "no Thing"}}),
        ("warn", {"allowed": True, "warnings": ["mind the gap", "x" * 256]}),
        (
            "break",
            {
                "allowed": False,
                "status": {
                    "code": 500,
                    "reason": "InternalError",
                    "message": "the rule of v.thing.io failed: ZeroDivisionError",
                },
            },
        ),
        (
            "wait",
            {
                "allowed": False,
                "status": {"code": 500, "reason": "InternalError", "message": "Node is waiting, please try again"},
            },
        ),
    ],
)
async def test_answers(server: Server, name: str, answer: dict[str, Any]) -> None:
    assert await server.post(review(name=name)) == (200, response(**answer))


def test_what_a_rule_is_told() -> None:
    assert decode(json.dumps(REVIEW).encode()).read(Thing) == AdmissionRequest(
        uid="u-1",
        operation="CREATE",
        kind="Thing",
        name="a",
        user="alice",
        groups=("system:authenticated",),
        dry_run=True,
        object=Thing(Metadata("a")),
    )


def nested(depth: int) -> bytes:
    return b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":' + b'{"a":' * depth


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        pytest.param(b"", "Input data was truncated", id="empty"),
        pytest.param(b"null", "Expected `object`, got `null`", id="null"),
        pytest.param(b"[]", "Expected `object`, got `array`", id="a list"),
        pytest.param(b"{", "Input data was truncated", id="cut off"),
        pytest.param(b"\xff\xfe{}", "malformed", id="not UTF-8"),
        pytest.param(json.dumps(review(uid="\ud800")).encode(), "not an AdmissionReview", id="half a character"),
        pytest.param({}, "'' '' was sent where", id="nothing in it"),
        pytest.param({**REVIEW, "kind": "Pod"}, "'admission.k8s.io/v1' 'Pod' was sent", id="another kind"),
        pytest.param({**REVIEW, "apiVersion": "admission.k8s.io/v1beta1"}, "v1beta1' 'Adm", id="an old version"),
        pytest.param({**REVIEW, "request": None}, "has no request", id="no request"),
        pytest.param({**REVIEW, "request": {}}, "missing required field `uid`", id="an empty request"),
        pytest.param(review(uid=""), "has no uid", id="no uid"),
        pytest.param(review(uid=7), "Expected `str`, got `int` - at `$.request.uid`", id="a uid that is a number"),
        pytest.param(review(userInfo=[]), "at `$.request.userInfo`", id="a user that is a list"),
        pytest.param(review(operation=None), "at `$.request.operation`", id="no operation"),
        pytest.param(nested(100_000), "nested too deeply", id="nested deeply"),
        pytest.param(b"[" * 1_000_000, "Expected `object`", id="a million brackets"),
    ],
)
async def test_what_cannot_be_answered_is_a_bad_request(server: Server, body: Any, problem: str) -> None:
    code, said = await server.post(body)
    assert (code, said["kind"], said["code"], said["reason"]) == (400, "Status", 400, "BadRequest")
    assert problem in said["message"]
    # And it is none the worse for it.
    assert (await server.post(REVIEW))[0] == 200


async def test_an_object_of_any_depth_is_read_or_refused(server: Server) -> None:
    """Where the limit is depends on how deep the program itself is: somewhere in these depths."""
    before, after = json.dumps(review()).encode().split(b'"object": {', 1)
    bodies = [before + b'"object": {"x": ' + b"[" * depth + b"]" * depth + b"," + after for depth in range(880, 1010)]
    codes = [(await server.post(body))[0] for body in bodies]
    assert set(codes) == {200, 400}


@pytest.mark.parametrize("kind", ["text/plain", "application/yaml", "application/x-www-form-urlencoded"])
async def test_another_kind_of_body_is_a_bad_request(server: Server, kind: str) -> None:
    code, said = await server.post(REVIEW, {"Content-Type": kind})
    assert (code, said["message"]) == (400, f"the body is {kind}, application/json was expected")


def test_a_refusal_may_quote_a_header_that_is_no_text() -> None:
    body = refusal(400, "BadRequest", "the body is text/\udcff").body
    assert isinstance(body, bytes)
    assert json.loads(body)["message"] == "the body is text/"


async def test_a_parameter_of_the_content_type_is_fine(server: Server) -> None:
    assert (await server.post(REVIEW, {"Content-Type": "application/json; charset=utf-8"}))[0] == 200


async def test_a_body_without_end_is_not_read_to_its_end(server: Server) -> None:
    code, said = await server.post(b" " * (LONGEST_BODY + 1))
    assert (code, said["code"]) == (413, 413)


async def sent(server: Server, head: str, body: bytes = b"") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, port = server.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{head}\r\n\r\n".encode() + body)
    return reader, writer


async def status(reader: asyncio.StreamReader) -> bytes:
    return (await asyncio.wait_for(reader.readline(), 60)).split()[1]


async def test_a_body_that_says_it_is_too_long_is_not_received(server: Server) -> None:
    reader, writer = await sent(server, f"Content-Length: {LONGEST_BODY + 1}")
    assert await status(reader) == b"413"
    writer.close()


def long_review(size: int) -> bytes:
    """Return a long review of empty objects, which take a hundred times the memory when they are decoded."""
    junk = b",".join([b"{}"] * (size // 3))
    return json.dumps(review(object={"x": "JUNK"})).encode().replace(b'"JUNK"', b"[" + junk + b"]")


async def test_of_a_long_object_only_what_the_rule_reads_is_decoded() -> None:
    body = long_review(LONGEST_BODY - 2**16)
    tracemalloc.start()
    try:
        assert decode(body).read(Thing).object == Thing()
        assert tracemalloc.get_traced_memory()[1] < 2 * len(body)
    finally:
        tracemalloc.stop()


async def test_long_reviews_are_answered_and_those_beyond_are_asked_to_come_again(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = long_review(admission.LONG_BODY + 2**12)
    head, beyond = f"Content-Length: {len(body)}", 3
    places = admission.LONG_AT_ONCE + admission.LONG_WAITING
    # Each has sent all but its last byte: as many as may be are being received, the others wait for them.
    calls = [await sent(server, head, body[:-1]) for _ in range(places + beyond)]
    for _, done in zip(range(beyond), asyncio.as_completed([status(reader) for reader, _ in calls]), strict=False):
        assert await done == b"429"
    # Ordinary ones do not wait for any of them.
    assert (await server.post(REVIEW))[0] == 200
    for _, writer in calls:
        writer.close()


async def test_a_long_review_is_answered(server: Server) -> None:
    assert await server.post(long_review(2**20)) == (200, response(allowed=True))


async def test_the_api_server_is_looked_at_by_a_few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looking: list[int] = []
    most: list[int] = []

    async def look(key: Key) -> None:
        looking.append(1)
        most.append(len(looking))
        await asyncio.sleep(0)
        looking.pop()

    store = Store()
    store.set_listing("", "Node", Listing.LISTED)
    asked = decode(json.dumps(review(name="needs-node")).encode()).read(Thing)
    judging = Admission(store, Metrics(), look)
    await asyncio.gather(*(judging.judge(HOOK, asked) for _ in range(100)))
    assert (len(most), max(most)) == (100, admission.LOOKS_AT_ONCE)


class Duplicate(msgspec.Struct, frozen=True):
    """An object as the rule below reads it from a list."""


EVERYTHING = Question("/apis/g/v1/things", Duplicate, lists=True)


def listing_rule(request: AdmissionRequest, view: View) -> Verdict:
    if EVERYTHING not in request.answers:
        return Verdict(allowed=False, questions=(EVERYTHING,))
    answer = request.answers[EVERYTHING]
    assert isinstance(answer, Items)
    return denial(f"after list {answer.objects[0]}")


async def test_reviews_that_need_a_list_share_the_next_one_and_hold_up_no_look() -> None:
    lists: list[int] = []
    begun, gate = asyncio.Event(), asyncio.Event()

    async def ask(question: Question) -> Answer:
        number = len(lists) + 1
        lists.append(number)
        begun.set()
        await gate.wait()
        return Items((number,))

    judge = Admission(Store(), Metrics(), ask=ask)
    hook = Webhook("v.thing.io", PATH, listing_rule, Thing, "things")
    request = AdmissionRequest(uid="u", operation="CREATE")
    async with asyncio.TaskGroup() as group:
        first = group.create_task(judge.judge(hook, request))
        await begun.wait()
        later = [group.create_task(judge.judge(hook, request)) for _ in range(50)]
        await asyncio.sleep(0)
        assert not judge._looks.locked()
        gate.set()
    assert first.result().message == "after list 1"
    # None is answered with a list that began before it was asked.
    assert {each.result().message for each in later} == {"after list 2"}
    assert lists == [1, 2]


async def test_what_a_stranger_calls_itself_is_logged_in_part(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "haulout.admission")
    await server.post(review(name="deny", operation="x" * 20_000, userInfo={"username": "y" * 20_000}))
    [line] = [each for each in caplog.records if each.getMessage() == "denied"]
    assert sum(len(str(value)) for value in fields(line).values()) < 1000


def test_an_answer_has_a_bounded_length() -> None:
    refused = encode("u", denial("x" * 3_000_000))
    warned = encode("u", Verdict(allowed=True, warnings=("x" * 1000,) * 100_000))
    assert max(len(refused), len(warned)) < 16_384


async def test_a_body_that_does_not_come_is_not_waited_for(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "BODY_WITHIN", 0.05)
    host, port = server.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{{"
    writer.write(head.encode())
    assert b" 400 " in await asyncio.wait_for(reader.readline(), 60)
    writer.close()


@pytest.mark.parametrize(("method", "path", "code"), [("GET", PATH, 405), ("PUT", PATH, 405), ("POST", "/other", 404)])
async def test_nothing_else_is_served(server: Server, method: str, path: str, code: int) -> None:
    async with aiohttp.ClientSession() as session, session.request(method, f"{server.url}{path}") as answer:
        assert answer.status == code


async def test_a_doubt_is_looked_into_before_anybody_is_refused(server: Server) -> None:
    server.store.set_listing("", "Node", Listing.LISTED)
    server.late = node("late")
    assert await server.post(review(name="needs-node")) == (200, response(allowed=True))
    assert server.looks == [node_key("late")]


async def test_a_doubt_that_proves_right_is_a_refusal(server: Server) -> None:
    server.store.set_listing("", "Node", Listing.LISTED)
    _, said = await server.post(review(name="needs-node"))
    assert said["response"]["status"]["message"] == "no node"
    assert len(server.looks) == 1


async def test_a_look_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(key: Key) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(admission, "LOOK_WITHIN", 0.05)
    store = Store()
    store.set_listing("", "Node", Listing.LISTED)
    asked = decode(json.dumps(review(name="needs-node")).encode()).read(Thing)
    verdict = await Admission(store, Metrics(), never).judge(HOOK, asked)
    assert verdict.message == "no node"


async def test_what_is_still_being_listed_is_waited_for(server: Server) -> None:
    server.late = node("late")
    asking = asyncio.create_task(server.post(review(name="needs-node")))
    await asyncio.sleep(0.2)
    assert not asking.done()
    server.store.set_listing("", "Node", Listing.LISTED)
    assert await asking == (200, response(allowed=True))


async def test_what_cannot_be_read_is_not_waited_for(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "LISTED_WITHIN", 3600.0)
    server.store.set_listing("", "Node", Listing.UNREADABLE)
    async with asyncio.timeout(60):
        _, said = await server.post(review(name="needs-node"))
    assert said["response"]["status"]["message"] == "Node is unreadable, please try again"


async def test_requests_are_counted_by_path_and_code(server: Server) -> None:
    await server.post(review(name="deny"))
    await server.post(b"nonsense")
    text = server.metrics.render().decode()
    assert f'controller_runtime_webhook_requests_total{{code="200",webhook="{PATH}"}} 1' in text
    assert f'controller_runtime_webhook_requests_total{{code="400",webhook="{PATH}"}} 1' in text
    assert f'controller_runtime_webhook_requests_total{{code="500",webhook="{PATH}"}} 0' in text
    assert f'controller_runtime_webhook_latency_seconds_count{{webhook="{PATH}"}} 2' in text
    assert f'controller_runtime_webhook_requests_in_flight{{webhook="{PATH}"}} 0' in text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@settings(max_examples=200, deadline=None)
@given(field=st.sampled_from([*REQUEST, "subResource", "namespace"]), value=JSON, data=st.binary(max_size=40))
def test_whatever_is_sent_is_read_or_malformed(field: str, value: Any, data: bytes) -> None:
    whole = json.dumps(review(**{field: value})).encode()
    for body in (whole, data, whole[: len(data) * 8] + data):
        try:
            asked = decode(body).read(Thing)
            assert read_review(body, Thing) == asked
        except Malformed as error:
            str(error).encode()
        else:
            encode(asked.uid, denial(f"no {asked.name}"))
