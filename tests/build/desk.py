"""A kernel that a test feeds by hand. Its requests wait in a tray until the test answers them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.rows import NodeRow, ObjectRow, PodRow, Value
from haulout.cluster.view import CONFIG, View
from haulout.core.action import Action, Create, Delete, Evict, Measure, Say
from haulout.core.decision import NOTHING, Decider, Decision
from haulout.kernel.kernel import Kernel
from haulout.kernel.requests import Answer, Body, Change, Done, Look, Lost, Refused, Request, Telling
from haulout.kernel.rooms import Subject
from haulout.kernel.wakes import Reports
from tests.build.rows import START
from tests.build.world import Feed, World, copy

# The fates of a request. `lost-done`: it is carried out, and the answer is lost.
FATES = ("200", "404", "409", "422", "429", "429-after", "429-budget", "500", "lost", "lost-done")
RETRY_AFTER = 3.0

Writing = Change | Create | Evict | Delete


def pod_key(name: str, namespace: str = "default") -> Key:
    return Key("", "Pod", namespace, name)


def pod(name: str, node: str = "n", **labels: str) -> PodRow:
    return PodRow(key=pod_key(name), node=node, phase="Running", ready=True, labels=labels)


class Cluster(World):
    """A world that can refuse requests and lose answers.

    `graceful`: evicted and deleted objects stay as terminating until `finish`.
    `forbids`: returns the refusal of a write, or None.
    """

    def __init__(self, *rows: ObjectRow, graceful: bool = False) -> None:
        super().__init__()
        self.graceful = graceful
        self.forbids: Callable[[Change | Create], Refused | None] = lambda body: None
        for row in rows:
            self.put(row)

    def meet(self, body: Body, fate: str) -> Answer:
        # A GET never answers 404 for an existing object, and cannot conflict.
        if isinstance(body, Look) and fate in {"404", "409", "422", "429-budget"}:
            fate = "200"
        match fate:
            case "200":
                return self.carry_out(body)
            case "lost":
                return Lost("timed out")
            case "lost-done":
                self.carry_out(body)
                return Lost("timed out")
            case "429-after":
                return Refused(429, "slow down", retry_after=RETRY_AFTER)
            case "429-budget":
                return Refused(429, "budget exhausted", cause="DisruptionBudget")
            case _:
                return Refused(int(fate), "no")

    def carry_out(self, body: Body) -> Answer:
        if isinstance(body, Change | Create) and (refusal := self.forbids(body)):
            return refusal
        found = self.objects.get(body.target) if isinstance(body, Evict | Delete) else None
        if not self.graceful or not isinstance(body, Evict | Delete) or found is None or found.uid != body.uid:
            return super().carry_out(body)
        self.writes.append(body)
        stored = self.put(msgspec.structs.replace(found, deleting_at=START)) if not found.deleting_at else found
        return Done(row=copy(stored)) if isinstance(body, Delete) else Done()

    def finish(self, key: Key) -> None:
        """Remove an object that is terminating."""
        if (row := self.objects.get(key)) and row.deleting_at:
            self.delete(key)

    def _create(self, body: Create) -> Answer:
        if body.target.kind != "Pod" or body.target in self.objects:
            return super()._create(body)
        labels: dict[str, str] = body.body.get("metadata", {}).get("labels", {})
        return Done(row=copy(self.put(PodRow(key=body.target, labels=labels))))


Wish = Decision | Exception | Callable[[View, datetime], Decision]


class Script:
    """A decider that returns for each key the decision that the test wrote down, and remembers when each key was asked."""

    def __init__(self, name: str = "script", kind: str = "Node", **options: Any) -> None:
        self.wishes: dict[Key, Wish] = {}
        self.asked: list[tuple[datetime, Key]] = []
        self.reads: type[ObjectRow] = PodRow if kind == "Pod" else NodeRow
        self.decider = Decider(name, kind, self.decide, **options)

    def subject(self, key: Key) -> Subject:
        return Subject(self.decider.name, key)

    def decide(self, key: Key, view: View, now: datetime) -> Decision:
        self.asked.append((now, key))
        view.get(key, self.reads)
        view.config(self.decider.name)
        wish = self.wishes.get(key, NOTHING)
        if isinstance(wish, Exception):
            raise wish
        return wish if isinstance(wish, Decision) else wish(view, now)

    def times(self, key: Key) -> int:
        return sum(asked == key for _, asked in self.asked)


def steps(*actions: Action, **more: Any) -> Decision:
    """Return a decision with one action in each step."""
    return Decision(actions=tuple((action,) for action in actions), **more)


def together(*actions: Action, **more: Any) -> Decision:
    """Return a decision with all actions in one step."""
    return Decision(actions=(actions,), **more)


class Desk:
    def __init__(
        self,
        *deciders: Decider,
        world: Cluster | None = None,
        kinds: tuple[str, ...] = ("Node",),
        reports: Reports | None = None,
        keeps_ledger: bool = False,
    ) -> None:
        self.world = world or Cluster()
        self.failed: list[tuple[Subject, Exception]] = []
        self.kernel = Kernel(
            deciders, reports, lambda subject, error: self.failed.append((subject, error)), keeps_ledger=keeps_ledger
        )
        self.store = self.kernel.store
        self.feed = Feed(self.world, self.store, kinds)
        self.now = START
        self.tray: list[Request] = []
        self.said: list[Telling | Measure | Say] = []
        self.handed_out: list[tuple[datetime, Body]] = []
        self._pokes = 0

    def begin(self) -> Desk:
        self.feed.list()
        self.run()
        return self

    def run(self) -> None:
        while True:
            self.kernel.run(self.now)
            fresh = self.kernel.take_requests()
            for request in fresh:
                if isinstance(request.body, Telling | Measure | Say):
                    self.said.append(request.body)
                else:
                    self.tray.append(request)
                    self.handed_out.append((self.now, request.body))
            if not fresh:
                return

    def wait(self, seconds: float) -> None:
        """Let time pass, from one instant at which something is due to the next."""
        end = self.now + timedelta(seconds=seconds)
        while (instant := self.kernel.next_instant()) is not None and instant <= end:
            self.now = max(self.now, instant)
            self.run()
        self.now = end
        self.run()

    def wants(self, script: Script, key: Key, wish: Wish) -> None:
        """Let the script want this of the key from now on, and ask it at once."""
        script.wishes[key] = wish
        self.poke(script)

    def poke(self, script: Script) -> None:
        self._pokes += 1
        self.store.write(Value(key=Key("", CONFIG, "", script.decider.name), value=self._pokes))
        self.run()

    def watch(self, events: int | None = None) -> None:
        self.feed.watch(events)
        self.run()

    def answer(self, request: Request, answer: Answer) -> None:
        self.tray.remove(request)
        self.kernel.on_answer(request.id, answer, self.now)
        self.run()

    def meet(self, request: Request, fate: str = "200") -> None:
        self.answer(request, self.world.meet(request.body, fate))

    def only(self) -> Request:
        assert len(self.tray) == 1, f"in the tray: {[request.body for request in self.tray]}"
        return self.tray[0]

    def bodies(self) -> list[Body]:
        return [request.body for request in self.tray]

    def sent(self, of: type[Writing | Look] | tuple[type[Writing | Look], ...]) -> list[datetime]:
        """Return when requests of this type were handed out."""
        return [instant for instant, body in self.handed_out if isinstance(body, of)]

    def settle(self, most: int = 3000) -> None:
        """Deliver all changes, answer all requests without faults and let time pass, until nothing is left to happen."""
        for _ in range(most):
            self.watch()
            if self.tray:
                self.meet(self.tray[0])
                continue
            for key in [key for key, row in self.world.objects.items() if row.deleting_at]:
                self.world.finish(key)
            instant = self.kernel.next_instant()
            if instant is None and not self.feed.behind:
                return
            self.now = max(self.now, instant or self.now)
        raise AssertionError("it does not come to rest")


def targets(requests: Iterable[Request]) -> list[Key]:
    return [request.body.target for request in requests if isinstance(request.body, Change | Create | Evict | Delete)]
