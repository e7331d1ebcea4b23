"""The reflector against a server with one fault at a time: the objects, the calls of the sink, the requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from haulout.kube.errors import ConnectionFailed, KubeError, RequestTimeout, TooLarge
from haulout.kube.reflector import Reflector, State, Tuning
from haulout.kube.transport import Reply
from haulout.kube.turns import Allowance, Turns
from haulout.model.node import Node
from tests.build.fakeapi import Server, Streaming, refusal
from tests.build.picture import Picture
from tests.build.virtual import LoopClock, virtual


class Running:
    def __init__(self, server: Server, picture: Picture[Node] | None = None, **options: Any) -> None:
        self.picture: Picture[Node] = picture or Picture()
        self.waits: list[float] = []
        self.reflector = Reflector(
            server,
            "/api/v1/nodes",
            Node,
            self.picture,
            LoopClock(),
            random=Random(1),
            sleep=self._sleep,
            **options,
        )

    async def _sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        await asyncio.sleep(seconds)


@asynccontextmanager
async def running(server: Server, picture: Picture[Node] | None = None, **options: Any) -> AsyncIterator[Running]:
    started = Running(server, picture, **options)
    task = asyncio.create_task(started.reflector.run())
    await asyncio.sleep(0.5)
    try:
        yield started
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()


def fleet(*names: str) -> Server:
    server = Server()
    for name in names:
        server.put(name)
    return server


@virtual
async def test_lists_by_one_stream_and_goes_on_watching_it() -> None:
    server = fleet("a", "b")
    async with running(server) as it:
        assert it.picture.versions() == {"a": "101", "b": "102"}
        server.put("c")
        server.put("a")
        server.delete("b")
        await asyncio.sleep(1)
        assert it.picture.versions() == server.picture() == {"c": "103", "a": "104"}
        assert it.picture.told == ["begin", "listed 102"]
        assert server.asked == ["stream"]
        assert it.waits == []


@virtual
async def test_selectors_are_part_of_every_request() -> None:
    server = fleet("a")
    server.streaming = "422"
    async with running(server, labels="x=y", fields="spec.nodeName=n"):
        assert server.asked == ["stream", "page", "watch 101"]
        for query in server.requests:
            assert (query["labelSelector"], query["fieldSelector"]) == ("x=y", "spec.nodeName=n")


@pytest.mark.parametrize("streaming", ["422", "400", "error-event", "ends"])
@virtual
async def test_refused_streaming_list_is_paged_at_once(streaming: Streaming) -> None:
    server = fleet("a", "b", "c")
    server.streaming = streaming
    async with running(server, tuning=Tuning(page_size=2)) as it:
        assert it.picture.versions() == server.picture()
        assert server.asked == ["stream", "page", "page+", "watch 103"]
        assert it.picture.told[-1] == "listed 103"
        assert it.waits == []


@virtual
async def test_streaming_list_that_a_server_ignores_is_given_up_after_a_while() -> None:
    server = fleet("a", "b")
    server.streaming, server.bookmarks_every = "ignored", None
    async with running(server, tuning=Tuning(marker_for=15)) as it:
        await asyncio.sleep(14)
        assert server.asked == ["stream"]
        await asyncio.sleep(2)
        assert server.asked == ["stream", "page", "watch 102"]
        assert it.picture.versions() == server.picture()
        assert not [told for told in it.picture.told if told.startswith("trouble")]


@virtual
async def test_streaming_list_that_a_busy_server_ignores_is_given_up_too() -> None:
    server = fleet("a")
    server.streaming, server.bookmarks_every = "ignored", None
    async with running(server, tuning=Tuning(marker_for=15)) as it:
        for _ in range(20):
            server.put("a")
            await asyncio.sleep(1)
        assert server.asked[:2] == ["stream", "page"]
        assert it.picture.versions() == server.picture()


@virtual
async def test_streaming_list_may_take_long_while_it_brings_objects() -> None:
    server = fleet("a")
    server.streaming = "ignored"
    server.bookmarks_every = None
    async with running(server, tuning=Tuning(marker_for=15)) as it:
        for count in range(30):
            server.put(f"n{count}")
            await asyncio.sleep(5)
        assert server.asked == ["stream"]
        assert it.reflector.state is State.STREAM


@virtual
async def test_refusal_is_remembered_and_forgotten() -> None:
    server = fleet("a")
    server.streaming = "422"
    async with running(server, tuning=Tuning(refused_for=600)):
        await relist(server)
        assert server.asked == ["stream", "page", "watch 101", "watch 101", "page", "watch 102"]
        server.streaming = "works"
        await asyncio.sleep(700)
        server.requests.clear()
        await relist(server)
        assert server.asked[-1] == "stream"


async def relist(server: Server) -> None:
    server.cut()
    server.put("x")
    server.compact()
    await asyncio.sleep(2)


@pytest.mark.parametrize("by_http", [True, False], ids=["http", "event"])
@virtual
async def test_expired_version_is_listed_anew(by_http: bool) -> None:
    server = fleet("a")
    server.gone_by_http = by_http
    async with running(server) as it:
        server.cut()
        server.delete("a")
        server.put("b")
        server.compact()
        await asyncio.sleep(2)
        assert it.picture.versions() == server.picture() == {"b": "103"}
        assert server.asked == ["stream", "watch 101", "stream"]
        assert it.picture.told[-4:] == ["trouble unreachable", "trouble expired", "begin", "listed 103"]


@virtual
async def test_bookmarks_move_the_version() -> None:
    server = fleet("a")
    async with running(server) as it:
        server.version = 200
        await asyncio.sleep(61)
        server.cut()
        await asyncio.sleep(2)
        assert server.asked == ["stream", "watch 200"]
        assert it.picture.told[-2:] == ["trouble unreachable", "fine"]


@virtual
async def test_broken_watch_goes_on_where_it_was() -> None:
    server = fleet("a")
    async with running(server) as it:
        server.cut()
        server.put("b")
        await asyncio.sleep(2)
        assert it.picture.versions() == server.picture()
        assert server.asked == ["stream", "watch 101"]
        assert it.picture.told == ["begin", "listed 101", "trouble unreachable", "fine"]


@virtual
async def test_watch_that_the_server_ends_goes_on_without_a_wait() -> None:
    server = fleet("a")
    async with running(server) as it:
        await asyncio.sleep(900)
        assert 3 <= len([asked for asked in server.asked if asked == "watch 101"]) <= 4
        assert it.waits == []
        assert it.picture.told == ["begin", "listed 101"]


@virtual
async def test_watch_that_always_ends_at_once_is_not_hammered() -> None:
    server = fleet("a")
    async with running(server) as it:
        for _ in range(600):
            for stream in server.streams:
                stream.end()
            await asyncio.sleep(0.1)
        assert len(server.requests) < 25
        assert it.picture.complete is False


@virtual
async def test_half_open_stream_is_left() -> None:
    server = fleet("a")
    async with running(server) as it:
        # By then the server is known to send bookmarks.
        await asyncio.sleep(150)
        assert server.asked == ["stream", "watch 101"]
        server.streams[0].stalled = True
        server.put("b")
        await asyncio.sleep(91)
        assert it.picture.versions() == server.picture()
        assert server.asked[2:] == ["stream"]
        assert it.picture.told[2:] == ["trouble unreachable", "begin", "listed 102"]


@virtual
async def test_quiet_watch_with_bookmarks_is_left_alone() -> None:
    server = fleet("a")
    async with running(server) as it:
        await asyncio.sleep(340)
        assert server.asked == ["stream", "watch 101"]
        assert it.picture.told == ["begin", "listed 101"]


@virtual
async def test_quiet_watch_of_a_server_without_bookmarks_is_taken_up_again_and_no_trouble() -> None:
    server = fleet("a")
    server.streaming, server.bookmarks_every = "422", None
    async with running(server) as it:
        await asyncio.sleep(250)
        assert {query["timeoutSeconds"] for query in server.requests if "watch" in query} <= {
            *map(str, range(54, 61)),
            server.requests[0]["timeoutSeconds"],
        }
        assert it.picture.told == ["begin", "listed 101"]
        server.streams[0].stalled = True
        server.put("b")
        await asyncio.sleep(91)
        assert it.picture.versions() == server.picture()
        assert it.picture.told[2] == "trouble unreachable"
        assert it.picture.complete


@virtual
async def test_line_without_an_end_leads_to_a_list() -> None:
    server = fleet("a")
    async with running(server) as it:
        server.streams[0].end(TooLarge("a line without an end"))
        await asyncio.sleep(5)
        assert server.asked == ["stream", "stream"]
        assert it.picture.told[2:] == ["trouble garbled", "begin", "listed 101"]
        assert it.picture.complete


@virtual
async def test_line_that_is_garbled_each_time_leads_to_a_list() -> None:
    server = fleet("a")
    async with running(server) as it:
        server.put("b")
        server.spoilt_watches = 100
        server.streams[0].say(b"<html>\n")
        await asyncio.sleep(30)
        assert "page" in server.asked
        assert it.picture.versions() == server.picture()


@virtual
async def test_version_in_the_servers_future_is_listed_anew_and_told() -> None:
    server = fleet("a", "b")
    async with running(server) as it:
        server.faults += [refusal(504, "Timeout", cause="ResourceVersionTooLarge")]
        server.cut()
        await asyncio.sleep(2)
        assert server.asked == ["stream", "watch 102", "stream"]
        assert it.picture.told[-3:] == ["trouble expired", "begin", "listed 102 future"]


@virtual
async def test_restored_backup_is_found_out_though_the_server_keeps_silent() -> None:
    server = fleet("a", "b")
    backup, version = dict(server.objects), server.version
    async with running(server) as it:
        server.put("a")
        server.put("c")
        await asyncio.sleep(1)
        server.restore(backup, version)
        await asyncio.sleep(400)
        assert server.asked[1:4] == ["watch 104", "probe 104", "stream"]
        assert it.picture.versions() == server.picture() == {"a": "101", "b": "102"}
        assert it.picture.told[-1] == "listed 102 future"


@virtual
async def test_list_from_before_what_was_seen_is_told_as_such() -> None:
    server = fleet("a", "b")
    backup, version = dict(server.objects), server.version
    async with running(server) as it:
        server.put("a")
        await asyncio.sleep(1)
        server.restore(backup, version)
        server.faults += [refusal(410, "Expired")]
        await asyncio.sleep(2)
        assert it.picture.told[-1] == "listed 102 future"
        assert it.picture.versions() == {"a": "101", "b": "102"}


@virtual
async def test_expired_token_restarts_the_list_in_larger_pages() -> None:
    server = fleet(*"abcdef")
    server.streaming = "422"
    server.faults += [None, None, refusal(410, "Expired")]
    async with running(server, tuning=Tuning(page_size=2)) as it:
        assert server.asked == ["stream", "page", "page+", "page", "page+", "watch 106"]
        assert [query["limit"] for query in server.requests[1:5]] == ["2", "2", "4", "4"]
        assert it.picture.told == ["begin", "trouble expired", "begin", "listed 106"]
        assert it.picture.versions() == server.picture()
        assert server.pages_held == 0


@pytest.mark.parametrize(
    "fault,code",
    [
        (refusal(401, "Unauthorized"), "unauthorized"),
        (refusal(403, "Forbidden"), "unreadable"),
        (refusal(429, "TooManyRequests", retry_after="7"), "throttled"),
        (refusal(503, "ServiceUnavailable"), "failing"),
        (ConnectionFailed("refused"), "unreachable"),
        (RequestTimeout("no answer"), "unreachable"),
    ],
    ids=["401", "403", "429", "503", "connection", "timeout"],
)
@virtual
async def test_failures_of_a_list_are_told_and_tried_again(fault: KubeError, code: str) -> None:
    server = fleet("a")
    server.faults += [fault, fault]
    async with running(server) as it:
        await asyncio.sleep(20)
        assert it.picture.told == [f"trouble {code}", f"trouble {code}", "begin", "listed 101"]
        assert server.asked == ["stream"] * 3


@virtual
async def test_watch_that_may_not_be_read_keeps_its_version() -> None:
    server = fleet("a")
    async with running(server) as it:
        server.faults += [refusal(403, "Forbidden"), refusal(401, "Unauthorized"), refusal(500, "InternalError")]
        server.cut()
        await asyncio.sleep(10)
        assert server.asked == ["stream", *["watch 101"] * 4]
        assert it.picture.told[2:] == [
            "trouble unreachable",
            "trouble unreadable",
            "trouble unauthorized",
            "trouble failing",
            "fine",
        ]


@virtual
async def test_watch_that_fails_over_an_event_is_listed_anew() -> None:
    server = fleet("a")
    async with running(server):
        server.streams[0].say(b'{"type":"ERROR","object":{"code":500,"message":"cannot decode"}}')
        await asyncio.sleep(2)
        assert server.asked == ["stream", "stream"]


@virtual
async def test_retry_after_is_obeyed() -> None:
    server = fleet("a")
    server.faults += [refusal(429, "TooManyRequests", retry_after="7")]
    async with running(server) as it:
        await asyncio.sleep(10)
        assert 7 <= it.waits[0] <= 7.2


@virtual
async def test_waits_grow_with_full_jitter_up_to_the_longest_and_start_over_after_progress() -> None:
    server = fleet("a")
    server.faults += [ConnectionFailed("refused")] * 40
    async with running(server) as it:
        await asyncio.sleep(2000)
        ceilings = [min(30, 0.2 * 2**count) for count in range(40)]
        assert all(0 <= wait <= ceiling for wait, ceiling in zip(it.waits, ceilings, strict=True))
        assert max(it.waits) > 25
        server.cut()
        await asyncio.sleep(1)
        assert it.waits[-1] <= 0.2


@virtual
async def test_kind_that_is_not_served_is_an_empty_list_until_it_is() -> None:
    server = fleet("a")
    async with running(server) as it:
        server.served = False
        server.cut()
        await asyncio.sleep(35)
        assert it.picture.rows == {}
        assert it.picture.complete
        assert it.picture.told[2:] == ["trouble unreachable", "begin", "listed  future"]
        assert len(server.requests) == 5
        server.served = True
        await asyncio.sleep(11)
        assert it.picture.versions() == server.picture()


@pytest.mark.parametrize("is_api_server", [True, False])
@virtual
async def test_kind_is_not_gone_because_somebody_says_so(is_api_server: bool) -> None:
    """Of a kind that every API server has not even an API server is believed."""
    server = fleet("a")
    async with running(server, always_served=is_api_server) as it:
        server.served, server.is_api_server = False, is_api_server
        server.cut()
        await asyncio.sleep(35)
        assert it.picture.versions() == server.picture()
        assert set(it.picture.told[2:]) == {"trouble unreachable", "trouble failing"}
        server.served = True
        await asyncio.sleep(60)
        assert it.picture.told[-1].startswith("listed")


class Endless(Server):
    """A server whose next page is always the second one."""

    async def request(self, *args: Any, **more: Any) -> Reply:
        await super().request(*args)
        return Reply(200, b'{"metadata":{"resourceVersion":"7","continue":"7:1"},"items":[]}')


@virtual
async def test_pages_without_end_are_not_followed_for_ever() -> None:
    server = Endless()
    server.streaming = "422"
    async with running(server) as it:
        await asyncio.sleep(100)
        assert set(it.picture.told) == {"begin", "trouble garbled"}
        assert len(server.requests) < 60


class Meandering(Server):
    """A server whose pages have no objects, and each a next one."""

    async def request(self, *args: Any, **more: Any) -> Reply:
        await super().request(*args)
        number = len(self.requests)
        return Reply(200, f'{{"metadata":{{"resourceVersion":"7","continue":"{number}"}},"items":[]}}'.encode())


@virtual
async def test_pages_of_another_cluster_take_turns_though_they_are_empty() -> None:
    server = Meandering()
    server.streaming = "422"
    async with running(server, allowance=Allowance(Turns(0.1), LoopClock())):
        await asyncio.sleep(100)
        assert 900 < len(server.requests) < 1100


@pytest.mark.parametrize("streaming", ["works", "422"], ids=["stream", "page"])
@virtual
async def test_object_that_cannot_be_decoded_is_reported_and_spoils_nothing(streaming: Streaming) -> None:
    server = fleet("a", "b")
    server.put("bad", spec={"unschedulable": "perhaps"})
    server.streaming = streaming
    async with running(server) as it:
        server.put("b", spec={"taints": 7})
        server.put("a")
        await asyncio.sleep(1)
        assert set(it.picture.versions()) == {"a"}
        assert it.picture.broken_names == {"bad", "b"}
        assert any(told.startswith("broken bad: Expected `bool`, got `str`") for told in it.picture.told)
        server.put("b")
        await asyncio.sleep(1)
        assert it.picture.broken_names == {"bad"}


@virtual
async def test_broken_object_can_still_be_deleted() -> None:
    server = fleet("a")
    async with running(server) as it:
        server.objects["a"]["spec"] = 7
        server.delete("a")
        await asyncio.sleep(1)
        assert it.picture.rows == {}
        assert not it.picture.broken_names


@virtual
async def test_bytes_that_are_no_event_break_the_stream_and_lose_nothing() -> None:
    server = fleet("a")
    async with running(server) as it:
        server.streams[0].say(b"<html>")
        server.put("b")
        await asyncio.sleep(2)
        assert it.picture.versions() == server.picture()
        assert server.asked == ["stream", "watch 101"]
        assert "trouble garbled" in it.picture.told


class Patient(Picture[Node]):
    """A sink that counts the turns that other work gets between the first object of a list and its end."""

    turns = -1

    def put(self, obj: Node) -> None:
        if not self.rows:
            self._turn()
        super().put(obj)

    def _turn(self) -> None:
        self.turns += 1
        if not self.complete:
            asyncio.get_running_loop().call_soon(self._turn)


@pytest.mark.parametrize("streaming", ["works", "422"], ids=["stream", "page"])
@virtual
async def test_other_work_goes_on_during_a_long_list(streaming: Streaming) -> None:
    server = fleet(*(f"n{count}" for count in range(1000)))
    server.streaming = streaming
    patient = Patient()
    async with running(server, patient, tuning=Tuning(page_size=1000, batch=100)):
        assert len(patient.rows) == 1000
        assert 9 <= patient.turns <= 12
