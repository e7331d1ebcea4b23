"""The reflector under any failures: once they end, the sink has the server's objects, and no second page is held."""

from __future__ import annotations

import asyncio
import json
from random import Random
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from haulout.kube.errors import ConnectionFailed, KubeError, RequestTimeout, TooLarge
from haulout.kube.reflector import Reflector, Tuning
from haulout.model.node import Node
from tests.build.examples import examples
from tests.build.fakeapi import Server, Streaming, refusal
from tests.build.picture import Picture
from tests.build.virtual import LoopClock, VirtualLoop

NAMES = st.sampled_from("abcdefg")
# A stalled stream, then a version from the future, then a refusal in every wait: all this may lie in the way.
LONG_ENOUGH = 2000.0


def fault(code: str) -> KubeError:
    match code:
        case "reset":
            return ConnectionFailed("reset by peer")
        case "timeout":
            return RequestTimeout("no answer")
        case "future":
            return refusal(504, "Timeout", cause="ResourceVersionTooLarge")
        case "throttled":
            return refusal(429, "TooManyRequests", retry_after="3")
        case _:
            return refusal(int(code), "Refused")


FAULTS = st.lists(
    st.none()
    | st.sampled_from(["400", "401", "403", "404", "410", "422", "500", "503", "504"]).map(fault)
    | st.sampled_from(["reset", "timeout", "future", "throttled"]).map(fault),
    min_size=1,
    max_size=6,
)


class ReflectorMachine(RuleBasedStateMachine):
    @initialize(seed=st.integers(0, 2**32), names=st.lists(NAMES))
    def start(self, seed: int, names: list[str]) -> None:
        self.loop = VirtualLoop()
        self.server = Server()
        self.picture: Picture[Node] = Picture()
        self.backup: tuple[dict[str, Any], int] | None = None
        for name in names:
            self.server.put(name)
        reflector = Reflector(
            self.server,
            "/api/v1/nodes",
            Node,
            self.picture,
            LoopClock(self.loop),
            tuning=Tuning(page_size=2),
            random=Random(seed),
        )
        self.task = self.loop.create_task(reflector.run())

    @rule(name=NAMES, broken=st.booleans())
    def put(self, name: str, broken: bool) -> None:
        self.server.put(name, spec={"taints": 7} if broken else {})

    @precondition(lambda self: self.server.objects)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        self.server.delete(data.draw(st.sampled_from(sorted(self.server.objects))))

    @rule(seconds=st.sampled_from([0.0005, 0.0015, 0.1, 1.0, 20.0, 400.0]))
    def wait(self, seconds: float) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))

    @rule(faults=FAULTS)
    def fail(self, faults: list[KubeError | None]) -> None:
        self.server.faults.extend(faults)

    @rule(how=st.sampled_from(["cut", "end", "stall", "garbage", "endless", "error", "gone"]))
    def disturb(self, how: str) -> None:
        for stream in self.server.streams:
            match how:
                case "cut":
                    stream.end(ConnectionFailed("reset by peer"))
                case "end":
                    stream.end()
                case "stall":
                    stream.stalled = True
                case "garbage":
                    stream.say(b'{"type":"ADDED","object":{"meta')
                case "endless":
                    stream.end(TooLarge("a line without an end"))
                case "error":
                    stream.say(b'{"type":"ERROR","object":{"code":500}}')
                case "gone":
                    stream.say(b'{"type":"ERROR","object":{"code":410}}')
            # What was cut off, or said after garbage, is not heard.
            stream.stalled = stream.stalled or how in ("cut", "end", "endless")

    @rule()
    def compact(self) -> None:
        self.server.compact()

    @rule(
        streaming=st.sampled_from(["works", "422", "400", "error-event", "ignored", "ends"]),
        bookmarks=st.booleans(),
        by_http=st.booleans(),
    )
    def change_server(self, streaming: Streaming, bookmarks: bool, by_http: bool) -> None:
        self.server.streaming = streaming
        self.server.bookmarks_every = 60.0 if bookmarks else None
        self.server.gone_by_http = by_http

    @rule()
    def back_up(self) -> None:
        self.backup = json.loads(json.dumps(self.server.objects)), self.server.version

    @precondition(lambda self: self.backup is not None)
    @rule()
    def restore(self) -> None:
        assert self.backup is not None
        objects, version = self.backup
        self.server.restore(objects, version)
        # Versions that are lost and replaced by newer ones before a list cannot be noticed by any client.
        self.settle()

    @rule(served=st.booleans())
    def serve(self, served: bool) -> None:
        self.server.served = served

    @rule()
    def settle(self) -> None:
        self.server.faults.clear()
        self.server.served = True
        self.loop.run_until_complete(asyncio.sleep(LONG_ENOUGH))
        broken = {name for name, obj in self.server.objects.items() if obj.get("spec")}
        expected = {name: version for name, version in self.server.picture().items() if name not in broken}
        assert self.picture.versions() == expected
        assert broken <= self.picture.broken_names
        assert self.picture.complete

    @invariant()
    def one_page_at_most(self) -> None:
        # Looked at when the next page is asked for: the last one is gone by then.
        assert not self.server.pages_held

    @invariant()
    def runs(self) -> None:
        assert not self.task.done()

    def teardown(self) -> None:
        if hasattr(self, "task"):
            self.settle()
            self.task.cancel()
            self.loop.run_until_complete(asyncio.gather(self.task, return_exceptions=True))
            self.loop.close()


ReflectorMachine.TestCase.settings = settings(
    max_examples=examples(120),
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
)
TestReflectorMachine = ReflectorMachine.TestCase
