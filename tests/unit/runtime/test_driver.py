"""The driver and the sender: what is sent, how answers are handled, and when they sleep."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from haulout.base.clock import Clock
from haulout.cluster.key import Key, node_key
from haulout.cluster.rows import NodeRow, ObjectRow
from haulout.cluster.store import Listing
from haulout.cluster.view import View
from haulout.core.action import Create, Delete, Evict, Label, Measure, Say, Send, Tell
from haulout.core.decision import NOTHING, Decision
from haulout.kernel.requests import (
    Answer,
    Body,
    Change,
    Done,
    Listed,
    ListPods,
    Look,
    Lost,
    Refused,
    Request,
    Withdrawn,
)
from haulout.kube.errors import ConnectionFailed, KubeError, RequestTimeout, error_from_reply
from haulout.kube.lease import Election
from haulout.runtime.driver import LONGEST_REQUEST, MOST_AT_ONCE
from haulout.runtime.leadership import Leadership
from haulout.runtime.sender import SendFailed
from tests.build.desk import Script, pod_key, steps
from tests.build.fakeapi import refusal
from tests.build.objects import Objects
from tests.build.rows import at, node
from tests.build.shell import Shell, node_path, put_node
from tests.build.virtual import START, virtual

A = node_key("a")
P = pod_key("p")


def objects_with(name: str = "a", **labels: str) -> Objects:
    objects = Objects()
    put_node(objects, name, **labels)
    return objects


# The driver


@virtual
async def test_what_is_decided_is_sent_and_its_answer_is_the_row() -> None:
    script = Script()
    objects = objects_with()
    shell = Shell(objects, script.decider)
    shell.list()
    script.wishes[A] = lambda view, now: wants_label(shell)
    async with shell.running():
        await asyncio.sleep(1)
    assert objects.short == ["PATCH a"]
    assert objects.stored[node_path("a")]["metadata"]["labels"] == {"x": "1"}
    row = shell.kernel.store.row(A)
    assert isinstance(row, NodeRow)
    assert row.labels == {"x": "1"}


def wants_label(shell: Shell) -> Decision:
    row = shell.kernel.store.row(A)
    return NOTHING if isinstance(row, NodeRow) and "x" in row.labels else steps(Label(A, "x", "1"))


@virtual
async def test_a_bug_in_one_request_does_not_end_the_work_on_others(caplog: pytest.LogCaptureFixture) -> None:
    script = Script()
    objects = objects_with()
    put_node(objects, "b")
    shell = Shell(objects, script.decider)
    shell.list()
    b = node_key("b")
    script.wishes[A] = steps(Label(A, "x", "1"))
    script.wishes[b] = lambda view, now: NOTHING if "x" in labels_of(shell, b) else steps(Label(b, "x", "1"))
    perform = shell.sender.perform

    async def buggy(request: Request, guard: Any) -> Answer:
        if isinstance(request.body, Change) and request.body.target == A:
            raise RuntimeError("a bug")
        return await perform(request, guard)

    shell.sender.perform = buggy  # type: ignore[method-assign]
    async with shell.running():
        await asyncio.sleep(1)
    assert objects.stored[node_path("b")]["metadata"]["labels"] == {"x": "1"}
    assert "request failed" in caplog.text


@virtual
async def test_only_so_many_requests_are_under_way_at_once_and_all_are_sent() -> None:
    script, objects, names = Script(), Objects(), [f"n{number:03}" for number in range(3 * MOST_AT_ONCE)]
    shell = Shell(objects, script.decider)
    for name in names:
        put_node(objects, name)
        key = node_key(name)
        script.wishes[key] = lambda view, now, key=key: (  # type: ignore[misc]
            NOTHING if "x" in labels_of(shell, key) else steps(Label(key, "x", "1"))
        )
    shell.list()
    perform, under_way, counts = shell.sender.perform, set[int](), list[int]()

    async def noted(request: Request, guard: Any) -> Answer:
        under_way.add(request.id)
        counts.append(len(under_way))
        answer = await perform(request, guard)
        under_way.discard(request.id)
        return answer

    shell.sender.perform = noted  # type: ignore[method-assign]
    async with shell.running():
        await asyncio.sleep(60)
    assert max(counts) == MOST_AT_ONCE
    assert all(objects.stored[node_path(name)]["metadata"]["labels"] == {"x": "1"} for name in names)


def labels_of(shell: Shell, key: Key) -> Mapping[str, str]:
    row = shell.kernel.store.row(key)
    return row.labels if isinstance(row, NodeRow) else {}


@virtual
async def test_it_sleeps_until_something_is_due_or_comes_in() -> None:
    script = Script()
    shell = Shell(objects_with(), script.decider)
    shell.list()
    script.wishes[A] = Decision(until=at(0).replace(year=2026, month=1, day=1, hour=0, second=30))
    slices = []
    shell.driver.before_asking.append(lambda: slices.append(shell.clock.monotonic()))
    async with shell.running():
        await asyncio.sleep(29)
        assert len(slices) <= 2
        script.wishes.clear()
        await asyncio.sleep(1.1)
        assert [instant for instant, _ in script.asked][1] >= START.replace(second=30)
        before = len(slices)
        shell.wake.poke()
        await asyncio.sleep(0.1)
        assert len(slices) == before + 1


@pytest.mark.parametrize("set_by", [-3600.0, -86_400.0, 3600.0], ids=["an hour back", "a day back", "an hour forth"])
@pytest.mark.parametrize(
    "answer", [Refused(500, "no"), Refused(429, "slow", retry_after=7), Refused(409, "no"), Lost("")]
)
@virtual
async def test_nothing_waits_longer_than_its_span_when_the_clock_is_set(answer: Answer, set_by: float) -> None:
    """Back-offs, throttling, conflicts and looks end after seconds, whatever the wall clock says."""
    script = Script()
    shell = Shell(objects_with(), script.decider)
    shell.list()
    script.wishes[A] = lambda view, now: NOTHING if "x" in labels_of(shell, A) else steps(Label(A, "x", "1"))
    perform = shell.sender.perform

    async def first(request: Request, guard: Any) -> Answer:
        shell.sender.perform = perform  # type: ignore[method-assign]
        return answer

    shell.sender.perform = first  # type: ignore[method-assign]
    async with shell.running():
        await asyncio.sleep(0.5)
        assert "x" not in labels_of(shell, A)
        shell.clock.set_by = set_by
        await asyncio.sleep(10)
        assert labels_of(shell, A) == {"x": "1"}


@virtual
async def test_time_that_passes_makes_no_leader_and_repeats_no_statement() -> None:
    """What time alone wakes is asked again, and neither leads nor tells anew what it has told."""
    script = Script()
    shell = Shell(objects_with(), script.decider)
    shell.list()
    said = Measure("said")
    script.wishes[A] = lambda view, now: Decision(actions=((said,),), until=now + timedelta(seconds=1))
    async with shell.running():
        await asyncio.sleep(5)
        assert shell.metrics.series("said") == {(): 1.0}
        shell.kernel.follow()
        await asyncio.sleep(100)
        assert not shell.kernel.leading


@virtual
async def test_what_waits_for_a_time_of_day_follows_the_wall_clock() -> None:
    """A decision that waits for noon is asked at noon, and not when as much time has passed as there was to it."""
    script = Script()
    shell = Shell(objects_with(), script.decider)
    shell.list()
    noon = START.replace(hour=12)
    script.wishes[A] = lambda view, now: Decision(until=noon) if now < noon else NOTHING
    async with shell.running():
        await asyncio.sleep(1)
        shell.clock.set_by = 11.5 * 3600
        await asyncio.sleep(1700)
        assert script.asked[-1][0] < noon
        await asyncio.sleep(160)
        assert noon <= script.asked[-1][0] < noon + timedelta(seconds=61)
        shell.clock.set_by = 11.25 * 3600
        await asyncio.sleep(61)
        assert script.asked[-1][0] < noon
        await asyncio.sleep(1000)
        assert script.asked[-1][0] >= noon


@virtual
async def test_a_heartbeat_that_changes_nothing_does_not_stir_it() -> None:
    script = Script()
    shell = Shell(objects_with(), script.decider)
    shell.list()
    slices = []
    async with shell.running():
        await asyncio.sleep(1)
        shell.driver.before_asking.append(lambda: slices.append(1))
        row = shell.kernel.store.row(A)
        assert row is not None
        shell.kernel.store.put(msgspec.structs.replace(row, version=row.version + 1))
        shell.wake.stir()
        await asyncio.sleep(1)
        assert not slices
        shell.kernel.store.put(node("a", uid=row.uid, version=row.version + 1, x="1"))
        shell.wake.stir()
        await asyncio.sleep(1)
        assert slices


@virtual
async def test_what_runs_before_asking_runs_before_anyone_is_asked() -> None:
    script = Script()
    shell = Shell(objects_with(), script.decider)
    order: list[str] = []
    shell.driver.before_asking.append(lambda: order.append("configuration"))
    script.wishes[A] = lambda view, now: noted(order)
    shell.list()
    async with shell.running():
        await asyncio.sleep(1)
    assert order[:2] == ["configuration", "asked"]


def noted(order: list[str]) -> Decision:
    order.append("asked")
    return NOTHING


@virtual
async def test_askings_are_counted() -> None:
    shell = Shell(objects_with(), Script().decider)
    shell.list()
    async with shell.running():
        await asyncio.sleep(1)
    assert b"haulout_askings_total 1" in shell.metrics.render()


@virtual
async def test_a_slow_peer_of_a_message_blocks_nothing() -> None:
    script = Script()
    forever = asyncio.Event()

    async def slow(payload: Any) -> None:
        await forever.wait()

    objects = objects_with()
    shell = Shell(objects, script.decider, channels={"mail": slow})
    shell.list()
    script.wishes[A] = steps(Send("m", "mail", "hello"), Label(A, "x", "1"))
    async with shell.running():
        await asyncio.sleep(1)
        assert objects.short == ["PATCH a"]


# The sender


async def performed(shell: Shell, body: Body, *, guard: float | None = 5.0) -> Answer:
    return await shell.sender.perform(Request(1, body), lambda: guard)


CHANGE = Change(A, {"metadata": {"labels": {"x": "1"}}}, version=1, slim=True)
FAULTS: list[tuple[KubeError, Answer]] = [
    (refusal(404, "NotFound", name="a"), Refused(404, "NotFound")),
    (refusal(404, "NotFound"), Refused(0, "NotFound")),
    (error_from_reply(404, b"404 page not found"), Refused(0, "answered with HTTP 404")),
    (refusal(409, "Conflict"), Refused(409, "Conflict")),
    (refusal(422, "Invalid"), Refused(422, "Invalid")),
    (refusal(429, "TooManyRequests", retry_after="7"), Refused(429, "TooManyRequests", retry_after=7.0)),
    (refusal(429, "TooManyRequests"), Refused(429, "TooManyRequests")),
    (refusal(429, "Budget", cause="DisruptionBudget"), Refused(429, "Budget", cause="DisruptionBudget")),
    (refusal(500, "InternalError"), Refused(500, "InternalError")),
    (refusal(502, "BadGateway"), Lost("BadGateway")),
    (refusal(504, "Timeout"), Lost("Timeout")),
    (ConnectionFailed("reset", sent=True), Lost("reset")),
    (ConnectionFailed("refused"), Refused(0, "refused")),
    (RequestTimeout("no answer"), Lost("no answer")),
]


@pytest.mark.parametrize("fault, answer", FAULTS, ids=lambda value: f"{type(value).__name__} {value}")
def test_every_failure_is_an_answer_and_what_may_have_had_an_effect_is_lost(fault: KubeError, answer: Answer) -> None:
    @virtual
    async def scenario() -> None:
        objects = objects_with()
        objects.faults.append(fault)
        assert await performed(Shell(objects), CHANGE) == answer

    scenario()


@virtual
async def test_what_the_guard_withholds_is_never_sent() -> None:
    objects = objects_with()
    assert await performed(Shell(objects), CHANGE, guard=None) == Withdrawn()
    assert not objects.asked


@virtual
async def test_the_guard_says_how_long_it_may_take() -> None:
    objects = objects_with()
    await performed(Shell(objects), CHANGE, guard=2.5)
    assert objects.asked[0].timeout == 2.5


@virtual
async def test_a_slim_answer_is_metadata_and_a_whole_one_a_row() -> None:
    shell = Shell(objects_with())
    slim = await performed(shell, CHANGE)
    assert isinstance(slim, Done)
    assert isinstance(slim.metadata, ObjectRow)
    assert slim.row is None
    whole = await performed(shell, Change(A, {"spec": {"unschedulable": True}}, version=2))
    assert isinstance(whole, Done)
    assert isinstance(whole.row, NodeRow)
    assert (whole.row.unschedulable, whole.row.labels, whole.row.version) == (True, {"x": "1"}, 3)


@virtual
async def test_a_patch_names_the_version_that_it_was_made_for() -> None:
    objects = objects_with()
    await performed(Shell(objects), CHANGE)
    assert objects.asked[0].body["metadata"]["resourceVersion"] == "1"


@pytest.mark.parametrize(
    "body, asked",
    [
        (Look(A), "GET /api/v1/nodes/a"),
        (Create(P, {"metadata": {"name": "p"}}), "POST /api/v1/namespaces/default/pods"),
        (Evict(P, "u"), "POST /api/v1/namespaces/default/pods/p/eviction"),
        (Delete(P, "u", grace_for=0), "DELETE /api/v1/namespaces/default/pods/p"),
    ],
    ids=["look", "create", "evict", "delete"],
)
def test_every_request_finds_its_way(body: Body, asked: str) -> None:
    @virtual
    async def scenario() -> None:
        objects = objects_with()
        await performed(Shell(objects), body)
        assert f"{objects.asked[0].method} {objects.asked[0].path}" == asked

    scenario()


LIST = ListPods(A, Key("", "Proof", "a", "u/toy/a"))


def listed(objects: Objects, *items: object) -> None:
    objects.put("/api/v1/pods", {"kind": "PodList", "metadata": {}, "items": list(items)})


@virtual
async def test_the_pods_of_a_node_are_listed_at_one_version_and_from_no_cache() -> None:
    objects = Objects()
    listed(objects, {"metadata": {"name": "p", "namespace": "default", "resourceVersion": "5"}})
    answer = await performed(Shell(objects), LIST)
    assert isinstance(answer, Listed)
    assert ([row.key for row in answer.rows], answer.version) == ([P], 1)
    (call,) = objects.asked
    assert (call.method, call.path) == ("GET", "/api/v1/pods")
    assert call.query == {"fieldSelector": "spec.nodeName=a", "limit": "500"}


@virtual
async def test_a_list_with_a_pod_that_cannot_be_read_is_refused() -> None:
    objects = Objects()
    listed(objects, {"metadata": {"name": "p", "namespace": "default"}, "spec": "not an object"})
    answer = await performed(Shell(objects), LIST)
    assert isinstance(answer, Refused)
    assert answer.message.startswith("pod default/p cannot be read: ")


@virtual
async def test_a_list_that_is_forbidden_is_refused_with_the_servers_words() -> None:
    objects = Objects()
    objects.faults.append(refusal(403, "Forbidden"))
    answer = await performed(Shell(objects), LIST)
    assert isinstance(answer, Refused)
    assert answer.code == 403


@virtual
async def test_a_completed_deletion_leaves_no_row() -> None:
    objects = Objects()
    objects.put("/api/v1/namespaces/default/pods/p", {"kind": "Status", "status": "Success"})
    assert await performed(Shell(objects), Delete(P, "u")) == Done()


@virtual
async def test_a_completed_deletion_of_an_object_whose_status_is_no_text_is_read(
    caplog: pytest.LogCaptureFixture,
) -> None:
    objects = objects_with()
    objects.put(node_path("a"), {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"})
    with caplog.at_level(logging.WARNING):
        assert await performed(Shell(objects), Delete(A, "u")) == Done()
    assert caplog.text == ""


@virtual
async def test_an_answer_that_cannot_be_read_leaves_it_to_the_watch(caplog: pytest.LogCaptureFixture) -> None:
    objects = objects_with()
    objects.stored[node_path("a")]["spec"] = "not an object"
    with caplog.at_level(logging.WARNING):
        assert await performed(Shell(objects), Look(A)) == Done()
    assert "answer cannot be read" in caplog.text


@virtual
async def test_a_cluster_that_is_not_open_refuses() -> None:
    answer = await performed(Shell(objects_with()), Look(Key("far", "Node", "", "a")))
    assert answer == Refused(0, "there is no connection to cluster far")


@virtual
async def test_requests_are_counted_by_what_became_of_them() -> None:
    objects = objects_with()
    shell = Shell(objects)
    objects.faults.append(refusal(409, "Conflict"))
    for _ in range(2):
        await performed(shell, CHANGE)
    text = shell.metrics.render()
    assert b'haulout_requests_total{kind="Node",outcome="409",verb="change"} 1' in text
    assert b'haulout_requests_total{kind="Node",outcome="done",verb="change"} 1' in text


@virtual
async def test_evictions_are_counted_to_the_surface_that_wants_them() -> None:
    objects = objects_with()
    shell = Shell(objects, surfaces={"part": "whole"})
    objects.faults += [refusal(409, "Conflict") for _ in range(3)]
    for name in ("part", "part", "other"):
        await performed(shell, Evict(P, "u", surface=name))
    found = {
        dict(labels)["surface"]: value for labels, value in shell.metrics.series("haulout_evictions_total").items()
    }
    assert found == {"whole": 2, "other": 1}


@virtual
async def test_pods_that_drains_delete_are_counted_to_their_surface() -> None:
    objects = objects_with()
    shell = Shell(objects)
    objects.faults.append(refusal(403, "Forbidden"))
    for surface in ("toy", ""):
        await performed(shell, Delete(P, "u", surface=surface))
    found = {tuple(dict(labels).values()) for labels in shell.metrics.series("haulout_pod_deletions_total")}
    assert found == {("failed", "toy")}


# What servers say is quoted in errors: bytes that are no text, line ends, orders for terminals, and far too much of it.
HOSTILE = "550 \udcff\n2026-01-01 forged\x1b[2J\u202e " + "x " * 100_000


@virtual
async def test_a_message_goes_by_its_channel_and_any_failure_is_an_outcome() -> None:
    sent: list[Any] = []

    async def fine(payload: Any) -> None:
        sent.append(payload)

    async def broken(payload: Any) -> None:
        raise ValueError("no such recipient")

    async def wordy(payload: Any) -> None:
        raise SendFailed("the server is full")

    shell = Shell(Objects(), channels={"fine": fine, "broken": broken, "wordy": wordy})
    assert await performed(shell, Send("m", "fine", "hello")) == Done()
    assert await performed(shell, Send("m", "wordy", "hello")) == Refused(0, "the server is full")
    assert await performed(shell, Send("m", "broken", "hello")) == Refused(0, "ValueError: no such recipient")
    assert await performed(shell, Send("m", "pigeon", "hello")) == Refused(0, "no client sends messages by pigeon")
    assert sent == ["hello"]
    for error in (SendFailed(HOSTILE), ValueError(HOSTILE)):

        async def hostile(payload: Any, error: Exception = error) -> None:
            raise error

        refused = await performed(Shell(Objects(), channels={"hostile": hostile}), Send("m", "hostile", "hello"))
        assert isinstance(refused, Refused)
        assert (refused.message.isprintable(), len(refused.message)) == (True, 1000)
    # Who must not act any more sends nothing either.
    assert await shell.sender.perform(Request(1, Send("m", "fine", "late")), lambda: None) == Withdrawn()
    assert sent == ["hello"]


@virtual
async def test_statements_are_counted_said_and_told(caplog: pytest.LogCaptureFixture) -> None:
    script = Script()
    shell = Shell(objects_with(), script.decider)
    shell.list()
    told = Tell(A, "Moved", "Move", "now in", "test")
    # The standard library refuses a field called `name`.
    line = Say("moved", (("node", "a"), ("name", "x")), "warning")
    script.wishes[A] = steps(told, Measure("moves", (("node", "a"),)), line)
    recorded: list[tuple[Any, ...]] = []
    shell.sender._recorder.record = lambda *args, **more: recorded.append(args)  # type: ignore[method-assign]
    with caplog.at_level(logging.WARNING):
        async with shell.running():
            await asyncio.sleep(1)
    assert b'moves{node="a"} 1' in shell.metrics.render()
    assert [line.getMessage() for line in caplog.records] == ["moved"]
    ((_, reference, reason, note),) = recorded
    assert (reference.kind, reference.name, reference.uid, reason, note) == ("Node", "a", "uid-a", "Moved", "now in")


@virtual
async def test_warnings_of_different_things_are_told_one_by_one() -> None:
    script = Script()
    shell = Shell(objects_with(), script.decider)
    shell.list()
    warnings = [Tell(A, "Unknown", "Find", f"{name} is not known", "test", warning=True) for name in ("x", "y")]
    script.wishes[A] = steps(*warnings, *(Tell(A, "Moved", "Move", f"{name} has moved", "test") for name in ("x", "y")))
    async with shell.running():
        await asyncio.sleep(1)
    await shell.sender._recorder.flush()
    events = [stored for path, stored in shell.objects.stored.items() if "/events/" in path]
    assert sorted(event["note"] for event in events) == ["x has moved", "x is not known", "y is not known"]


@virtual
async def test_what_is_measured_since_then_is_a_time() -> None:
    shell = Shell(Objects())
    await asyncio.sleep(90)
    for since in (shell.clock.now() - timedelta(seconds=40), shell.clock.now() + timedelta(seconds=5)):
        shell.sender.state(Measure("waits", (("flow", "x"),), since=since))
    text = shell.metrics.render()
    assert b'waits_count{flow="x"} 2' in text
    assert b'waits_sum{flow="x"} 40' in text, "a clock that goes wrong takes nothing away"


async def test_what_is_measured_with_its_sign_may_be_less_than_nothing() -> None:
    shell = Shell(Objects())
    shell.sender.state(Measure("errors", since=shell.clock.now() + timedelta(seconds=5), signed=True))
    assert b"errors_sum -4.9" in shell.metrics.render()


# Until when a process may write


class Lease(SimpleNamespace):
    """A stand-in for an election. `was_held`: whether the Lease is or has been ours."""

    until: float | None
    ends: float | None
    was_held: bool = True

    def may_write_until(self) -> float | None:
        return self.until

    def lease_ends_at(self) -> float | None:
        return self.ends

    @property
    def leading(self) -> bool:
        return self.until is not None

    async def run(self, on_gained: Callable[[], None], on_lost: Callable[[], None]) -> None:
        if self.was_held:
            on_gained()


@pytest.mark.parametrize(
    "lease, signalled, seconds",
    [
        (None, False, LONGEST_REQUEST),
        (None, True, None),
        (Lease(until=None, ends=None), False, None),
        (Lease(until=110.0, ends=115.0), False, 15.0),
        (Lease(until=110.0, ends=115.0), True, None),
        (Lease(until=100.0, ends=105.0), False, None),
        (Lease(until=99.0, ends=104.0), False, None),
        (Lease(until=900.0, ends=1000.0), False, LONGEST_REQUEST),
    ],
    ids=["no lease", "signalled", "lost", "leading", "leading and signalled", "at the deadline", "after it", "long"],
)
def test_k15_a_process_writes_while_it_leads_and_has_not_been_told_to_end(
    lease: Lease | None, signalled: bool, seconds: float | None
) -> None:
    assert may_write_for(lease, signalled=signalled) == seconds


@pytest.mark.parametrize(
    "of_surface, seconds",
    [
        (Lease(until=105.0, ends=108.0), 8.0),
        (Lease(until=100.0, ends=105.0), None),
        (Lease(until=None, ends=None), None),
        (Lease(until=None, ends=None, was_held=False), 15.0),
    ],
    ids=["held", "at the deadline", "just lost", "another's"],
)
def test_k15_no_longer_than_the_lease_of_a_surface_lets_it(of_surface: Lease, seconds: float | None) -> None:
    assert may_write_for(Lease(until=110.0, ends=115.0), of_surface) == seconds


def test_k15_a_process_that_makes_way_for_another_does_not_write() -> None:
    assert may_write_for(None, replaced=True) is None


def may_write_for(
    lease: Lease | None, *of_surfaces: Lease, signalled: bool = False, replaced: bool = False
) -> float | None:
    """Return what a process answers after its elections have run."""
    from haulout.app.ending import Ending
    from haulout.app.process import Process
    from haulout.settings.settings import Settings

    async def begin() -> bool:
        return True

    leadership = Leadership(
        cast(Election, lease) if lease else None,
        {str(number): cast(Election, each) for number, each in enumerate(of_surfaces)},
        cast(Clock, SimpleNamespace(monotonic=lambda: 100.0)),
        begin=begin,
        gained=lambda: None,
        surface_held=lambda surface, held: None,
        lost=lambda why: None,
    )
    asyncio.run(leadership.run())
    ending = Ending(lambda: None)
    if signalled:
        ending.signal()
    if replaced:
        ending.replace(Settings())
    return Process._may_write_for(cast(Process, SimpleNamespace(ending=ending, leadership=leadership)))


# What other clusters cost


@virtual
async def test_decisions_are_charged_to_the_cluster_whose_rows_have_caused_them() -> None:
    script, charged = Script(), list[str]()
    shell = Shell(objects_with("a"), script.decider, charge=lambda cluster, seconds: charged.append(cluster))
    store = shell.kernel.store
    shell.list()
    store.set_listing("far", "Node", Listing.LISTED)

    def reads_another_cluster(view: View, now: datetime) -> Decision:
        view.node("n", "far")
        return NOTHING

    script.wishes[A] = reads_another_cluster
    shell.driver._slice()
    store.put(node("n", cluster="far", x="1"))
    shell.driver._slice()
    assert charged == ["far"]
    store.put(node("a", version=1000, x="2"))
    shell.driver._slice()
    assert (script.times(A), charged) == (3, ["far"])
