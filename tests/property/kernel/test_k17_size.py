"""K17: after objects have come and gone, everything that the kernel remembers is as small as before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings

from haulout.cluster.key import Key, node_key
from haulout.cluster.limits import Count, Limit, Membership, Tally
from haulout.cluster.rows import NodeRow, Row
from haulout.cluster.view import FactDemand, View
from haulout.core.action import Annotate, Create, Evict, Label, Send, Tell
from haulout.core.arbiter import Rules, arbiter
from haulout.core.decision import NOTHING, Decider, Decision, Source
from haulout.core.holds import Claim, Want
from haulout.kernel.requests import Done, Lost, Refused
from tests.build.desk import FATES, Cluster, Desk, Script, pod, pod_key, steps
from tests.build.examples import examples
from tests.build.footprint import footprint
from tests.build.rows import START, at, node
from tests.build.toy import roll
from tests.build.walk import Move, Walk, tapes

A, B = node_key("a"), node_key("b")
NAMES = ("a", "b", "c")
DAY = timedelta(days=1)


class Recent(Count, frozen=True):
    """A count of the nodes of the last day, by the value of a label."""

    def groups(self, row: Row) -> Iterable[Membership]:
        assert isinstance(row, NodeRow)
        if "since" in row.labels:
            yield Membership(row.labels.get("x", ""), at(float(row.labels["since"])) + DAY)


def everything(key: Key, view: View, now: datetime) -> Decision:
    """Read, wait, claim, send, demand, fail and write, as the labels of the node say."""
    row = view.get(key, NodeRow)
    if row is None:
        return NOTHING
    does = row.labels.get("does", "")
    view.count(Recent(), row.labels.get("x", ""))
    match does:
        case "fails":
            raise ValueError("broken")
        case "waits":
            return Decision(until=now + DAY)
        case "claims":
            return Decision(claims=(Claim(key, key, frozenset({Want.EXCLUSIVE}), (Limit(Recent(), "0", 1),)),))
        case "sends":
            outcome = view.outcome(f"mail about {key.name}")
            return steps(Send(f"mail about {key.name}", "mail", "hello")) if outcome is None else NOTHING
        case "demands":
            view.fact(FactDemand("weather", key.name, DAY))
            return Decision(sources=(Source("elsewhere", "Pod"),))
        case "writes":
            return steps(Label(key, "x", "1"), Create(pod_key(key.name), {}), Annotate(node_key("a"), "y", "1"))
        case "talks":
            return steps(Tell(key, "Said", "Say", "something", "test"))
        case "queues":
            full = view.full((Limit(Recent(), "1", 0), Limit(Recent(), "0", 1)))
            return NOTHING if full else steps(Label(key, "x", "0"))
    return NOTHING


DOES = ("", "fails", "waits", "claims", "sends", "demands", "writes", "talks", "queues")


class Churn(Walk):
    def __init__(self, tape: bytes) -> None:
        super().__init__(tape)
        pods = Script("pods", "Pod")
        pods.wishes = {}
        deciders = (Decider("all", "Node", everything), pods.decider, arbiter(Rules(("all",))))
        self.desk = Desk(*deciders, kinds=("Node", "Pod"))
        self.desk.begin()
        self.round()
        self.before = footprint(self.desk.kernel)

    def round(self) -> None:
        """Let one node come and go, so that everything exists that is made only once."""
        for does in DOES:
            self.desk.world.put(node("a", x="0", since="0", does=does))
            self.desk.world.put(pod("a"))
            self.desk.watch()
            for request in list(self.desk.tray):
                self.desk.meet(request, "429")
        self.leadership_changes()
        self.empty()

    def empty(self) -> None:
        while self.desk.world.objects or self.desk.feed.behind or self.desk.tray:
            # What is under way may create something once more.
            for key in list(self.desk.world.objects):
                self.desk.world.delete(key)
            self.desk.settle()
        for name in NAMES:
            self.desk.store.erase(FactDemand("weather", name, DAY).key)
        # A day later, with the dust settled.
        self.desk.wait(60)
        self.desk.kernel.next_instant()
        self.desk.kernel.loop.forget_counts()

    def moves(self) -> Sequence[Move]:
        answering = [self.server_answers] * 3 if self.desk.tray else []
        living = [self.node_comes, self.node_comes, self.node_goes, self.pod_comes, self.time_passes, self.list_again]
        return [self.watch, *living, self.leadership_changes, *answering]

    def watch(self) -> None:
        self.desk.watch(self.tape.pick((1, 4)))

    def node_comes(self) -> None:
        labels = {"does": self.tape.pick(DOES), "x": self.tape.pick("01"), "since": self.tape.pick("059")}
        self.desk.world.put(node(self.tape.pick(NAMES), labels=labels))

    def node_goes(self) -> None:
        self.desk.world.delete(node_key(self.tape.pick(NAMES)))

    def pod_comes(self) -> None:
        self.desk.world.put(pod(self.tape.pick(NAMES)))

    def time_passes(self) -> None:
        self.desk.wait(self.tape.pick((0.1, 1.0, 6.0, 61.0)))

    def list_again(self) -> None:
        self.desk.feed.list()
        self.desk.run()

    def leadership_changes(self) -> None:
        self.desk.kernel.follow()
        self.desk.watch()
        self.desk.kernel.lead()
        self.desk.run()

    def server_answers(self) -> None:
        self.desk.meet(self.tape.pick(self.desk.tray), self.tape.pick(("200", "200", *FATES)))

    def finish(self) -> None:
        self.empty()
        after = footprint(self.desk.kernel)
        grown = {
            place: (self.before.get(place, 0), size)
            for place, size in after.items()
            if size > self.before.get(place, 0)
        }
        assert not grown, f"something is remembered of nodes that are gone: {grown}"


@settings(max_examples=examples(80), deadline=None, derandomize=True)
@given(tapes(40, 100))
def test_k17_after_any_churn_everything_is_as_small_as_before(tape: bytes) -> None:
    Churn(tape).go()


def test_k17_a_key_whose_object_is_gone_is_asked_until_it_wants_nothing() -> None:
    script = Script()
    desk = Desk(script.decider, world=Cluster(node("a"), node("b"))).begin()
    script.wishes[A] = lambda view, now: (
        steps(Label(B, "cleaned", "1")) if "cleaned" not in labels_of(view, B) else NOTHING
    )
    desk.world.delete(A)
    desk.watch()
    assert desk.kernel.loop.subjects(A)[0] in desk.kernel.loop._askings.asked
    desk.meet(desk.only())
    assert desk.kernel.loop.subjects(A)[0] not in desk.kernel.loop._askings.asked


def labels_of(view: View, key: Key) -> dict[str, str]:
    row = view.get(key, NodeRow)
    return {**row.labels} if row else {}


MANY = 300


def churned(desk: Desk, **labels: str) -> dict[str, int]:
    """Return how everything grows while so many nodes come and go beside one that stays."""
    for number in range(MANY):
        desk.world.put(node(f"n{number}", labels=labels))
        desk.watch()
        desk.world.delete(node_key(f"n{number}"))
        desk.watch()
    return footprint(desk.kernel)


def test_k17_timers_of_those_who_are_gone_go_too() -> None:
    desk = Desk(Decider("all", "Node", everything), world=Cluster(node("a", does="waits"))).begin()
    assert churned(desk, does="waits")["loop._askings"] < 20


def test_k17_timers_that_were_put_off_do_not_pile_up() -> None:
    script = Script()
    desk = Desk(script.decider, world=Cluster(node("a"))).begin()
    for number in range(MANY):
        desk.wants(script, A, Decision(until=START + DAY + timedelta(seconds=number)))
    assert footprint(desk.kernel)["loop._askings"] < 20


def test_k17_counts_that_depend_on_time_forget_who_is_gone() -> None:
    desk = Desk(Decider("all", "Node", everything), world=Cluster(node("a", since="0"))).begin()
    tallies = desk.store.table("", "Node").tallies
    churned(desk, since="0")
    assert all(tally_size(tally) < 30 for tally in tallies.values())


class Numbered(Count, frozen=True):
    """A count of all nodes, one of many: budgets that come and go have one each."""

    number: int

    def groups(self, row: Row) -> Iterable[Membership]:
        yield Membership(())


def test_k17_counts_that_no_decision_reads_any_more_do_not_pile_up() -> None:
    script = Script()
    desk = Desk(script.decider, world=Cluster(node("a"))).begin()
    for number in range(MANY):

        def reads(view: View, now: datetime, number: int = number) -> Decision:
            view.count(Numbered(number), ())
            return NOTHING

        script.wishes[A] = reads
        desk.world.label(A, note=str(number))
        desk.watch()
    assert len(desk.store.table("", "Node").tallies) < 40


def tally_size(tally: Tally) -> int:
    return sum(len(part) for part in vars(tally).values() if hasattr(part, "__len__"))


def test_k17_a_follower_does_not_pile_up_what_it_will_never_ask_about() -> None:
    desk = Desk(Decider("all", "Node", everything), world=Cluster(node("a"))).begin()
    desk.kernel.follow()
    before = footprint(desk.kernel)
    after = churned(desk, does="waits")
    assert {place for place, size in after.items() if size > before.get(place, 0) + 2} == set()


def test_k17_who_edits_many_objects_does_not_remember_them_all() -> None:
    script = Script()
    desk = Desk(script.decider, world=Cluster(node("a"))).begin()
    for number in range(MANY):
        name = f"n{number}"
        desk.world.put(node(name))
        desk.watch()
        desk.wants(script, A, steps(Label(node_key(name), "x", "1")))
        desk.settle()
        script.wishes.clear()
        desk.world.delete(node_key(name))
        desk.watch()
        desk.wait(1)
    assert footprint(desk.kernel)["actor._edit_rates"] < 30


@pytest.mark.parametrize("answer", [Done(), Refused(422), Lost(), Refused(429, retry_after=1.0)], ids=repr)
def test_k17_what_became_of_a_write_on_something_gone_is_forgotten(answer: Done | Refused | Lost) -> None:
    script = Script("pods", "Pod")
    desk = Desk(script.decider, world=Cluster(pod("p")), kinds=("Pod",)).begin()
    desk.wants(script, pod_key("p"), steps(Evict(pod_key("p"), desk.world.objects[pod_key("p")].uid)))
    script.wishes.clear()
    desk.world.delete(pod_key("p"))
    desk.answer(desk.only(), answer)
    desk.settle()
    assert desk.kernel.size() == 0


def test_k17_the_toy_leaves_nothing_behind() -> None:
    desk = Desk(roll(1), arbiter(Rules(("toy",))), world=Cluster(*(node(f"n{i}", want="yes") for i in range(20))))
    desk.begin()
    desk.settle()
    for key in list(desk.world.objects):
        desk.world.delete(key)
    desk.settle()
    assert desk.kernel.size() == 0


def test_k17_what_is_refused_to_an_earlier_term_is_held_against_nobody() -> None:
    script = Script()
    desk = Desk(script.decider, world=Cluster(node("a"))).begin()
    desk.wants(script, A, steps(Label(A, "x", "1")))
    script.wishes.clear()
    desk.kernel.follow()
    desk.kernel.lead()
    desk.run()
    desk.world.delete(A)
    desk.watch()
    desk.answer(desk.only(), Refused(422, "no"))
    desk.settle()
    assert desk.kernel.size() == 0
