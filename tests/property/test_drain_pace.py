"""Drains of several nodes against a server that counts budgets, in rows: watches lag, answers fail or are lost."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from haulout.cluster.key import Key
from haulout.cluster.rows import BudgetRow, NodeRow, ObjectRow, PodRow
from haulout.cluster.store import Store
from haulout.cluster.view import View
from haulout.core.action import Evict
from haulout.core.decision import NOTHING, Decider, Decision
from haulout.core.declaration import Enabled
from haulout.core.drain.options import DrainOptions, drain_row
from haulout.kernel.assemble import assemble
from haulout.kernel.requests import Answer, Body, Done, Lost, Refused, Request
from haulout.kernel.rooms import Subject
from tests.build.drains import declared
from tests.build.examples import examples
from tests.build.podrows import budget, budget_key, pod
from tests.build.rows import START, node
from tests.build.world import World, copy

DRAINED, SPARE = ("n0", "n1", "n2"), "spare"
OPTIONS = DrainOptions(force=True)
APPS = "ab"
SLOW_TRY = timedelta(seconds=30)

replace = msgspec.structs.replace


class Cluster(World):
    """A cluster with budgets. `needed`: how many pods of an app must be healthy. Its controller counts on demand."""

    def __init__(self, needed: dict[str, int], policy: str) -> None:
        super().__init__()
        self.needed = needed
        self.policy = policy
        self.births = 0
        # What was not done by an eviction: where in the log, and to what.
        self.foreign: list[tuple[int, Key]] = []
        self._evicting = False

    def put(self, row: ObjectRow) -> ObjectRow:
        self._note(row.key)
        return super().put(row)

    def delete(self, key: Key) -> None:
        self._note(key)
        super().delete(key)

    def _note(self, key: Key) -> None:
        if not self._evicting and key.kind in ("Pod", "PodDisruptionBudget"):
            self.foreign.append((len(self.log), key))

    def born(self, app: str, on: str, **fields: Any) -> None:
        self.births += 1
        self.put(pod(f"{app}-{self.births}", node=on, labels={"app": app}, **fields))

    def pods(self, app: str = "") -> list[PodRow]:
        rows = [row for row in self.objects.values() if isinstance(row, PodRow)]
        return [row for row in rows if app in ("", row.labels["app"])]

    def drained_pods(self) -> list[PodRow]:
        return [row for row in self.pods() if row.node in DRAINED]

    def budget_of(self, app: str) -> BudgetRow | None:
        row = self.objects.get(budget_key(app))
        return row if isinstance(row, BudgetRow) else None

    def count(self, app: str) -> None:
        """Compute the status of the budgets, as the disruption controller does."""
        old = self.budget_of(app) or budget(app, app, unhealthy_policy=self.policy)
        known = {row.key.name for row in self.pods(app) if row.deleting_at is None}
        disrupted = old.disrupted & known
        healthy = sum(bool(row.ready) and row.key.name in known - disrupted for row in self.pods(app))
        needed = self.needed[app]
        fresh = replace(
            old,
            current_healthy=healthy,
            desired_healthy=needed,
            expected_pods=len(known),
            disruptions_allowed=max(0, healthy - needed),
            disrupted=disrupted,
        )
        if self.budget_of(app) is None or fresh != old:
            self.put(fresh)

    def carry_out(self, body: Body) -> Answer:
        if not isinstance(body, Evict):
            return super().carry_out(body)
        self._evicting = True
        answer = self._evicted(body)
        self._evicting = False
        return answer

    def _evicted(self, body: Evict) -> Answer:
        found = self.objects.get(body.target)
        if not isinstance(found, PodRow):
            return Refused(404, "not found")
        if found.uid != body.uid:
            return Refused(409, "the UID in the precondition does not match")
        counts = self.budget_of(found.labels["app"])
        if (
            found.deleting_at is None
            and found.phase == "Running"
            and counts is not None
            and self._guards(counts, found)
        ):
            if counts.disruptions_allowed == 0:
                return Refused(429, "Cannot evict pod as it would violate the pod's disruption budget.", None, CAUSE)
            less = counts.disruptions_allowed - 1
            self.put(replace(counts, disruptions_allowed=less, disrupted=counts.disrupted | {found.key.name}))
        self.put(replace(found, deleting_at=found.deleting_at or START + timedelta(days=1)))
        return Done()

    @staticmethod
    def _guards(counts: BudgetRow, found: PodRow) -> bool:
        enough = counts.current_healthy >= counts.desired_healthy > 0
        return found.ready or not (counts.unhealthy_policy == "AlwaysAllow" or enough)


CAUSE = "DisruptionBudget"


class Lagging:
    """One watch of some kinds, in order, as late as the test wants."""

    def __init__(self, world: World, store: Store, *kinds: str) -> None:
        self.world, self.store, self.kinds = world, store, kinds
        for kind in kinds:
            store.begin_list("", kind)
        for row in world.objects.values():
            if row.key.kind in kinds:
                store.put(copy(row))
        for kind in kinds:
            store.end_list("", kind, world.version)
        self.position = len(world.log)

    def bring(self, events: int | None = None) -> None:
        while self.position < len(self.world.log) and events != 0:
            version, key, row = self.world.log[self.position]
            self.position += 1
            if key.kind not in self.kinds:
                continue
            events = None if events is None else events - 1
            if row is None:
                self.store.remove(key, version)
            else:
                self.store.put(copy(row))


def decide(key: Key, view: View, now: datetime) -> Decision:
    found = view.get(key, NodeRow)
    if found is None or not found.unschedulable:
        return NOTHING
    return Decision(marks=(drain_row("toy", key, key, options=OPTIONS),))


class Pacing(RuleBasedStateMachine):
    """A state machine in which no budget whose row was current refuses an eviction, and all pods leave once the faults stop."""

    @initialize(
        needed=st.fixed_dictionaries({app: st.integers(0, 4) for app in APPS}),
        places=st.lists(st.tuples(st.sampled_from(APPS), st.sampled_from((*DRAINED, SPARE))), min_size=3, max_size=9),
        policy=st.sampled_from(["", "AlwaysAllow"]),
        guarded=st.sampled_from(["ab", "a"]),
    )
    def begin(self, needed: dict[str, int], places: list[tuple[str, str]], policy: str, guarded: str) -> None:
        self.world = Cluster(needed, policy)
        self.guarded = guarded
        self.now: datetime = START
        self.slow: Counter[str] = Counter()
        self.evictions: Counter[Key] = Counter()
        for name in (*DRAINED, SPARE):
            self.world.put(node(name, cordoned=name != SPARE))
        for app, on in places:
            self.world.born(app, on)
        for app in guarded:
            self.world.count(app)
        self.restart()

    def restart(self) -> None:
        self.flying: list[Request] = []
        # The decision was made when all was known. It is valid until another client changes something.
        self.sure: dict[int, int] = {}
        surface = declared(Decider("toy", "Node", decide), drains=True)
        self.kernel = assemble([Enabled(surface)], together=False, on_failure=fail).kernel
        store = self.kernel.store
        self.watches = [
            Lagging(self.world, store, "Node", "DaemonSet"),
            Lagging(self.world, store, "Pod"),
            Lagging(self.world, store, "PodDisruptionBudget"),
        ]
        self.run_kernel()

    def run_kernel(self) -> None:
        while True:
            self.kernel.run(self.now)
            fresh = self.kernel.take_requests()
            self.flying += fresh
            for request in fresh:
                if isinstance(request.body, Evict) and self.knows_all(request.body.target.name[0]):
                    self.sure[request.id] = len(self.world.foreign)
            if not fresh:
                return

    def knows_all(self, app: str) -> bool:
        """Whether everything that other clients have done to the budget and its pods has been delivered."""
        places = {"Pod": self.watches[1].position, "PodDisruptionBudget": self.watches[2].position}
        news = [position for position, key in self.world.foreign if key.name[0] == app and position >= places[key.kind]]
        return not news

    def carry_out(self, request: Request) -> Answer:
        body = request.body
        if not isinstance(body, Evict):
            return self.world.carry_out(body)
        app = body.target.name[0]
        sure = self.sure.get(request.id) == len(self.world.foreign)
        answer = self.world.carry_out(body)
        if isinstance(answer, Refused) and answer.cause == CAUSE and sure:
            self.slow[app] += 1
        if isinstance(answer, Done):
            self.evictions[body.target] += 1
        most = (self.now - START) // SLOW_TRY
        assert self.slow[app] <= most, "refused although everything was known, and not by the slow try"
        return answer

    def answer(self, request: Request, answer: Answer) -> None:
        self.flying.remove(request)
        self.kernel.on_answer(request.id, answer, self.now)
        self.run_kernel()

    @precondition(lambda self: self.flying)
    @rule(data=st.data(), fate=st.sampled_from(["ok", "ok", "ok", "ok", "500", "lost", "lost-done"]))
    def server_answers(self, data: st.DataObject, fate: str) -> None:
        request = data.draw(st.sampled_from(self.flying))
        match fate:
            case "ok":
                self.answer(request, self.carry_out(request))
            case "lost-done":
                self.carry_out(request)
                self.answer(request, Lost("timed out"))
            case "lost":
                self.answer(request, Lost("timed out"))
            case _:
                self.answer(request, Refused(500, "oh dear"))

    @rule(which=st.integers(0, 2), events=st.integers(1, 3))
    def watch_brings(self, which: int, events: int) -> None:
        self.watches[which].bring(events)
        self.run_kernel()

    @rule(app=st.sampled_from(APPS))
    def controller_counts(self, app: str) -> None:
        if app in self.guarded:
            self.world.count(app)

    @rule(data=st.data())
    def pod_ends(self, data: st.DataObject) -> None:
        leaving = [row for row in self.world.pods() if row.deleting_at is not None]
        if leaving:
            self.end(data.draw(st.sampled_from(leaving)))

    def end(self, row: PodRow) -> None:
        self.world.delete(row.key)
        self.world.born(row.labels["app"], SPARE, ready=False, phase="Pending")

    @rule(data=st.data(), ready=st.booleans())
    def pod_changes(self, data: st.DataObject, ready: bool) -> None:
        row = data.draw(st.sampled_from(self.world.pods()))
        self.world.put(replace(row, ready=ready, phase="Running"))

    @rule(seconds=st.sampled_from([0.01, 1.0, 5.0, 31.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        self.run_kernel()

    @rule(done=st.booleans())
    def process_dies(self, done: bool) -> None:
        for request in self.flying if done else ():
            self.carry_out(request)
        self.restart()

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        self.settle()
        left = self.world.drained_pods()
        assert all(row.deleting_at is None for row in left)
        for row in left:
            app = row.labels["app"]
            assert app in self.guarded, f"nothing keeps {row.key.name}, and it is still there"
            assert len(self.world.pods(app)) <= self.world.needed[app], f"the budget of {row.key.name} could open"
        assert all(times == 1 for times in self.evictions.values())

    def settle(self) -> None:
        """Stop all faults, and let everything happen at once that can happen elsewhere."""
        quiet_until = self.now + timedelta(minutes=10)
        for _ in range(3000):
            for app in self.guarded:
                self.world.count(app)
            for watch in self.watches:
                watch.bring()
            self.run_kernel()
            if self.flying:
                self.answer(self.flying[0], self.carry_out(self.flying[0]))
                continue
            if self.move_on():
                continue
            upcoming = self.kernel.next_instant()
            self.nobody_waits_in_vain(upcoming)
            if upcoming is None or upcoming > quiet_until:
                return
            self.now = max(self.now, upcoming)
        raise AssertionError("it does not come to rest")

    def move_on(self) -> bool:
        for row in self.world.pods():
            if row.deleting_at is not None:
                self.end(row)
                return True
            if not row.ready:
                self.world.put(replace(row, ready=True, phase="Running"))
                return True
        return False

    def nobody_waits_in_vain(self, upcoming: datetime | None) -> None:
        """Who is at rest while a budget is open waits for a clock: for that of a failed try, or of a refused one."""
        for app in self.guarded:
            counts = self.world.budget_of(app)
            waits = [row for row in self.world.drained_pods() if row.labels["app"] == app]
            if counts is not None and counts.disruptions_allowed and waits:
                assert upcoming is not None, f"{waits[0].key.name} waits for nothing"
                assert upcoming <= self.now + SLOW_TRY


def fail(subject: Subject, error: Exception) -> None:
    raise AssertionError(f"{subject} failed") from error


TestPacing = Pacing.TestCase
TestPacing.settings = settings(max_examples=examples(120), stateful_step_count=40, deadline=None)
