"""The whole kernel against a world that refuses, loses, delays, restarts and changes at any time."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from haulout.cluster.key import Key, node_key
from haulout.core.action import Send
from haulout.core.arbiter import Rules, arbiter
from haulout.kernel.kernel import Kernel
from haulout.kernel.requests import Answer, Change, Lost, Refused, Request, Telling, Withdrawn
from haulout.kernel.rooms import Subject
from tests.build.examples import examples
from tests.build.rows import START, node
from tests.build.toy import roll
from tests.build.world import Feed, World

NAMES = [f"n{i}" for i in range(6)]
names = st.sampled_from(NAMES)
MOST = 2


class Faults(RuleBasedStateMachine):
    """A state machine in which never more than `MOST` nodes are in, and all that want it have been in once the faults stop."""

    @initialize(zone_most=st.none() | st.just(1))
    def begin(self, zone_most: int | None) -> None:
        self.world = World()
        self.now: datetime = START
        self.zone_most = zone_most
        self.moves: list[Key] = []
        for index, name in enumerate(NAMES):
            self.world.put(node(name, zone=f"z{index % 2}", want="yes"))
        self.restart()

    def restart(self) -> None:
        self.flying: list[Request] = []
        self.kernel = Kernel([roll(MOST, zone_most=self.zone_most), arbiter(Rules(("toy",)))], on_failure=fail)
        self.feed = Feed(self.world, self.kernel.store)
        self.feed.list()
        self.run_kernel()

    def run_kernel(self) -> None:
        while True:
            self.kernel.run(self.now)
            fresh = self.kernel.take_requests()
            self.flying += [request for request in fresh if not isinstance(request.body, Telling | Send)]
            if not fresh:
                return

    def answer(self, request: Request, answer: Answer) -> None:
        self.flying.remove(request)
        self.kernel.on_answer(request.id, answer, self.now)
        self.run_kernel()

    @precondition(lambda self: self.flying)
    @rule(
        data=st.data(),
        fate=st.sampled_from(["ok", "ok", "ok", "409", "422", "429", "500", "lost", "lost-done", "check"]),
    )
    def server_answers(self, data: st.DataObject, fate: str) -> None:
        request = data.draw(st.sampled_from(self.flying))
        if fate == "ok":
            self.answer(request, self.world.carry_out(request.body))
        elif fate == "lost-done":
            self.world.carry_out(request.body)
            self.answer(request, Lost("timed out"))
        elif fate == "check":
            current = self.kernel.actor.is_current(request.id)
            self.answer(request, self.world.carry_out(request.body) if current else Withdrawn())
        elif fate == "lost":
            self.answer(request, Lost("timed out"))
        else:
            self.answer(request, Refused(int(fate), "no", retry_after=1.0 if fate == "429" else None))

    @rule(events=st.integers(1, 3))
    def watch_delivers(self, events: int) -> None:
        self.feed.watch(events)
        self.run_kernel()

    @rule()
    def list_again(self) -> None:
        self.feed.list()
        self.run_kernel()

    @rule(name=names)
    def heartbeat(self, name: str) -> None:
        if node_key(name) in self.world.objects:
            self.world.heartbeat(node_key(name))

    @rule(name=names, value=st.sampled_from(["a", "b", None]))
    def person_labels(self, name: str, value: str | None) -> None:
        if node_key(name) in self.world.objects:
            self.world.label(node_key(name), note=value)

    @rule(name=names)
    def node_goes(self, name: str) -> None:
        self.world.delete(node_key(name))

    @rule(name=names)
    def node_comes(self, name: str) -> None:
        if node_key(name) not in self.world.objects:
            self.world.put(node(name, zone="z0", want="yes"))

    @rule(seconds=st.sampled_from([0.01, 0.5, 1.0, 2.0, 5.0, 30.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        self.run_kernel()

    @rule(done=st.booleans())
    def process_dies(self, done: bool) -> None:
        for request in self.flying if done else ():
            self.world.carry_out(request.body)
        self.restart()

    @rule(done=st.booleans())
    def leadership_changes(self, done: bool) -> None:
        self.kernel.follow()
        for request in list(self.flying):
            if done:
                self.world.carry_out(request.body)
            self.answer(request, Lost("gave up"))
        assert not self.flying
        self.feed.watch()
        self.kernel.lead()
        self.run_kernel()

    @invariant()
    def never_too_many(self) -> None:
        inside = [row for row in self.world.objects.values() if row.labels.get("state") == "in"]
        assert len(inside) <= MOST
        if self.zone_most is not None:
            zones = Counter(row.labels["zone"] for row in inside)
            assert not zones or max(zones.values()) <= self.zone_most

    @invariant()
    def one_write_an_object(self) -> None:
        targets = Counter(request.body.target for request in self.flying if isinstance(request.body, Change))
        assert all(times == 1 for times in targets.values())

    def teardown(self) -> None:
        """Stop all faults. Every subject ends, nothing more is written, and nothing that is over is remembered."""
        if not hasattr(self, "world"):
            return
        self.settle()
        assert {row.labels.get("state") for row in self.world.objects.values()} <= {"done"}
        for key in list(self.world.objects):
            self.world.delete(key)
        self.settle()
        assert self.kernel.size() <= 2, "something is remembered of nodes that are gone"

    def settle(self) -> None:
        for _ in range(2000):
            self.feed.watch()
            self.run_kernel()
            if self.flying:
                request = self.flying[0]
                self.answer(request, self.world.carry_out(request.body))
                continue
            upcoming = self.kernel.next_instant()
            if upcoming is None:
                return
            self.now = max(self.now, upcoming)
        raise AssertionError("it does not come to rest")


def fail(subject: Subject, error: Exception) -> None:
    raise AssertionError(f"{subject} failed") from error


TestFaults = Faults.TestCase
TestFaults.settings = settings(max_examples=examples(150), stateful_step_count=40, deadline=None)
