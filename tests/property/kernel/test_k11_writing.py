"""K11 to K13: one write per object, only while everything is as decided, never twice, and not again too soon."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from haulout.cluster.key import Key, node_key
from haulout.cluster.limits import Limit
from haulout.cluster.rows import PodRow, Row, Taint
from haulout.cluster.view import View
from haulout.core.action import Action, Annotate, Create, Delete, Evict, Label, Patch, SetTaint, Tell
from haulout.core.arbiter import Rules, arbiter
from haulout.core.decision import NOTHING, Decision
from haulout.core.holds import Claim, Grant, Want, grant_key, hold_key, is_granted
from haulout.kernel.requests import Answer, Body, Change, Done, Look, Lost, Refused, Request, Withdrawn
from haulout.kernel.rooms import Subject
from haulout.kernel.wakes import Reports
from tests.build.compare import content, wish_of
from tests.build.desk import FATES, RETRY_AFTER, Cluster, Desk, Script, pod, pod_key, steps, targets, together
from tests.build.examples import examples
from tests.build.rows import START, at, node
from tests.build.toy import Inside
from tests.build.walk import Move, Walk, tapes

A, B = node_key("a"), node_key("b")
P = pod_key("p")
IN = Label(A, "x", "1")


def desk_with(script: Script, *more: Script, world: Cluster | None = None, kinds: tuple[str, ...] = ("Node",)) -> Desk:
    deciders = [script.decider, *(other.decider for other in more)]
    return Desk(*deciders, world=world or Cluster(node("a"), node("b")), kinds=kinds).begin()


# K11: one write per object

WISHES: tuple[tuple[Action, ...], ...] = (
    (Label(A, "x", "1"),),
    (Label(A, "x", "2"), Label(B, "x", "2")),
    (Patch(A, {"spec": {"podCIDR": "10.0.0.0/24"}}, subresource="status"), Annotate(A, "y", "1")),
    (SetTaint(B, Taint("t", "NoSchedule"), present=True), Label(A, "z", "1"), Tell(A, "Said", "Say", "said", "test")),
    (Annotate(B, "y", None), Label(B, "x", None)),
    (Create(pod_key("new"), {}), Label(A, "x", "3")),
    (Patch(B, {"metadata": {"labels": {"w": "1"}}}),),
)


class Crowd(Walk):
    """A walk in which two deciders edit two nodes, in one step or in several, while other clients write, too."""

    def __init__(self, tape: bytes) -> None:
        super().__init__(tape)
        self.scripts = (Script("one"), Script("two"))
        self.desk = desk_with(*self.scripts, kinds=("Node", "Pod"))
        # What each decision under way was made on: rows as decided, our own answers since then included.
        self.basis: dict[Subject, dict[Key, Row | None]] = {}
        self.answers: dict[int, Answer] = {}
        self.written: dict[int, Row | None] = {}
        self.askings = [0, 0]

    def moves(self) -> Sequence[Move]:
        served = [self.server_serves] * 2 * any(request.id not in self.answers for request in self.desk.tray)
        answers = [self.answer_arrives] * 2 * bool(self.answers)
        others = [self.somebody_writes, self.somebody_makes_it_anew, self.time_passes, self.wish]
        return [self.watch, *others, *served, *answers]

    def wish(self) -> None:
        actions = self.tape.pick(WISHES)
        script, key = self.tape.pick(self.scripts), self.tape.pick((A, B))
        wanted = self.tape.pick((steps(*actions), together(*actions), NOTHING))
        script.wishes[key] = wanted
        self.desk.poke(script)

    def watch(self) -> None:
        self.desk.watch(self.tape.pick((1, 2, 3)))

    def somebody_writes(self) -> None:
        key = self.tape.pick((A, B))
        labels = {self.tape.pick(("x", "note")): self.tape.pick(("1", "2", None))}
        self.desk.world.label(key, **labels)

    def somebody_makes_it_anew(self) -> None:
        key = self.tape.pick((A, B))
        self.desk.world.delete(key)
        self.desk.world.put(node(key.name))

    def time_passes(self) -> None:
        self.desk.wait(self.tape.pick((0.01, 1.0, 6.0)))

    def server_serves(self) -> None:
        """Carry out a request. At the moment of sending everything must be as decided."""
        request = self.tape.pick([request for request in self.desk.tray if request.id not in self.answers])
        fate = self.tape.pick(("200", "200", "200", *FATES))
        if isinstance(request.body, Look):
            self.answers[request.id] = self.desk.world.meet(request.body, fate)
            return
        if not self.desk.kernel.actor.is_current(request.id):
            self.desk.answer(request, Withdrawn())
            return
        subject, target = self.sender_of(request)
        for key in (subject.key, target):
            assert content(self.desk.store.row(key)) == self.basis[subject][key], f"{key} is not as decided"
        self.answers[request.id] = self.desk.world.meet(request.body, fate)
        self.written[request.id] = content(self.desk.world.objects.get(target))

    def answer_arrives(self) -> None:
        request = self.tape.pick([request for request in self.desk.tray if request.id in self.answers])
        answer = self.answers.pop(request.id)
        wrote = self.sender_of(request) if isinstance(answer, Done) and not isinstance(request.body, Look) else None
        self.desk.answer(request, answer)
        if wrote:
            subject, target = wrote
            # What was decided for an object that is not there holds as long as it is not there.
            if self.basis[subject][target] is not None or self.desk.store.row(target) is not None:
                self.basis[subject][target] = self.written[request.id]

    def sender_of(self, request: Request) -> tuple[Subject, Key]:
        _, work, job = self.desk.kernel.actor._outbox.sent[request.id]
        assert work is not None
        assert job is not None
        return work.subject, job.target

    def check(self) -> None:
        assert all(times == 1 for times in Counter(targets(self.desk.tray)).values())
        for number, script in enumerate(self.scripts):
            for _, key in script.asked[self.askings[number] :]:
                subject = script.subject(key)
                self.basis[subject] = {key: content(self.desk.store.row(key)) for key in (A, B, pod_key("new"))}
            self.askings[number] = len(script.asked)

    def finish(self) -> None:
        while self.answers:
            self.answer_arrives()
        for script in self.scripts:
            script.wishes.clear()
            self.desk.poke(script)
        self.desk.settle()
        rows = {key: self.desk.store.row(key) for kind in ("Node", "Pod") for key in self.desk.store.keys("", kind)}
        assert rows == self.desk.world.objects
        assert not self.desk.failed


@settings(max_examples=examples(250), deadline=None, derandomize=True)
@given(tapes())
def test_k11_one_write_an_object_and_only_on_rows_as_decided(tape: bytes) -> None:
    Crowd(tape).go()


@pytest.mark.parametrize("of", ["own", "target"])
def test_k11_a_changed_row_withdraws_the_write_and_asks_again(of: str) -> None:
    script = Script()
    desk = desk_with(script)
    desk.wants(script, B, steps(Label(A, "x", "1")))
    script.wishes.clear()
    request, asked = desk.only(), script.times(B)
    assert desk.kernel.actor.is_current(request.id)
    desk.world.label(B if of == "own" else A, note="1")
    desk.watch()
    assert not desk.kernel.actor.is_current(request.id)
    desk.answer(request, Withdrawn())
    assert script.times(B) == asked + 1
    assert not desk.tray


def test_k11_a_heartbeat_withdraws_nothing() -> None:
    script = Script()
    desk = desk_with(script)
    desk.wants(script, B, steps(Label(A, "x", "1")))
    desk.world.heartbeat(A)
    desk.world.heartbeat(B)
    desk.watch()
    assert desk.kernel.actor.is_current(desk.only().id)


def test_k11_nothing_is_handed_out_for_a_decision_that_was_made_without_leadership() -> None:
    script = Script()
    desk = desk_with(script)
    desk.kernel.actor.may_write = lambda: False
    desk.wants(script, A, steps(IN))
    assert not desk.tray
    assert desk.kernel.actor.size() == 0


def test_k11_a_write_of_an_earlier_term_is_withdrawn_in_the_next() -> None:
    script = Script()
    desk = desk_with(script)
    desk.wants(script, A, steps(IN))
    request = desk.only()
    desk.kernel.follow()
    desk.kernel.lead()
    assert not desk.kernel.actor.is_current(request.id)


def test_k11_a_write_is_withdrawn_when_its_grant_is_gone() -> None:
    script = Script()
    desk = Desk(script.decider, arbiter(Rules(("script",))), world=Cluster(node("a"))).begin()
    claim = Claim(A, A, frozenset({Want.EXCLUSIVE}))
    desk.wants(
        script, A, lambda view, now: Decision(((IN,),) if is_granted(view, "script", claim) else (), claims=(claim,))
    )
    request = desk.only()
    assert desk.kernel.actor.is_current(request.id)
    grant = grant_key(hold_key("script", claim))
    desk.store.write(Grant(key=grant, hold=hold_key("script", claim), granted=False))
    assert not desk.kernel.actor.is_current(request.id)


def test_k11_its_own_answer_lets_the_next_step_go_on() -> None:
    script = Script()
    desk = desk_with(script)
    desk.wants(script, A, steps(Label(A, "x", "1"), Label(B, "x", "1")))
    asked = script.times(A)
    assert not desk.only().continues
    desk.meet(desk.only())
    assert targets(desk.tray) == [B]
    assert desk.only().continues
    assert desk.kernel.actor.is_current(desk.only().id)
    assert script.times(A) == asked


@pytest.mark.parametrize("echo_first", [True, False])
def test_k11_what_somebody_else_wrote_since_its_own_answer_drops_the_later_steps(echo_first: bool) -> None:
    script = Script()
    desk = desk_with(script)
    desk.wants(script, A, steps(Label(A, "x", "1"), Label(B, "x", "1")))
    script.wishes.clear()
    request = desk.only()
    answer = desk.world.carry_out(request.body)
    desk.world.label(A, note="somebody else's")
    desk.watch() if echo_first else None
    desk.answer(request, answer)
    desk.watch()
    assert not any(desk.kernel.actor.is_current(request.id) for request in desk.tray)


def test_k11_a_refusal_withholds_the_later_steps_and_not_its_siblings() -> None:
    script = Script()
    desk = desk_with(script, world=Cluster(node("a"), node("b"), node("c")))
    first = (Label(A, "x", "1"), Label(B, "x", "1"))
    desk.wants(script, A, Decision(actions=(first, (Label(node_key("c"), "x", "1"),))))
    assert targets(desk.tray) == [A, B]
    desk.meet(desk.tray[0], "422")
    assert targets(desk.tray) == [B]
    desk.meet(desk.only())
    assert not desk.tray


def test_k11_who_waits_for_an_object_is_asked_again_if_it_has_changed_meanwhile() -> None:
    one, two = Script("one"), Script("two")
    desk = desk_with(one, two)
    desk.wants(one, A, steps(Label(A, "x", "1")))
    desk.wants(two, A, steps(Label(A, "y", "1")))
    assert targets(desk.tray) == [A]
    asked = two.times(A)
    desk.meet(desk.only())
    assert two.times(A) == asked + 1
    second = desk.only().body
    assert isinstance(second, Change)
    assert second.version == desk.world.objects[A].version


def test_k11_the_answer_of_an_earlier_term_does_not_end_what_is_under_way_in_this() -> None:
    script = Script()
    desk = desk_with(script)
    desk.wants(script, A, steps(IN))
    earlier = desk.only()
    desk.kernel.follow()
    desk.kernel.lead()
    desk.run()
    asked = script.times(A)
    desk.answer(earlier, Withdrawn())
    assert targets(desk.tray) == [A]
    desk.poke(script)
    assert script.times(A) == asked, "asked while its write is under way"


# K12: never twice while the effect is unknown

NEW = pod_key("new")


class Unknown:
    """A write whose effect is unknown until its object is seen to have changed, or a look has been answered."""

    def __init__(self, body: Body) -> None:
        assert isinstance(body, Change | Create | Evict | Delete)
        self.body = body

    def is_seen(self, row: Row | None) -> bool:
        match self.body:
            case Evict() | Delete():
                return not isinstance(row, PodRow) or row.uid != self.body.uid or row.deleting_at is not None
            case Change():
                return row is None or row.version > (self.body.version or 0)
            case Create():
                return row is not None


class Once(Walk):
    """A walk in which pods are evicted and deleted, nodes create pods and are labelled, and answers get lost."""

    def __init__(self, tape: bytes) -> None:
        super().__init__(tape)
        self.pods, self.nodes = Script("pods", "Pod"), Script("nodes")
        world = Cluster(node("a"), pod("p"), graceful=True)
        self.desk = desk_with(self.pods, self.nodes, world=world, kinds=("Node", "Pod"))
        self.unknown: dict[Hashable, Unknown] = {}
        self.seen = len(self.desk.handed_out)

    def moves(self) -> Sequence[Move]:
        answers = [self.server_answers] * 4 if self.desk.tray else []
        return [self.watch, self.time_passes, self.wish, self.poke, self.pod_goes, self.pod_comes, *answers]

    def wish(self) -> None:
        row = self.desk.world.objects.get(P)
        uid = row.uid if row else "?"
        self.desk.wants(self.pods, P, self.tape.pick((NOTHING, steps(Evict(P, uid)), steps(Delete(P, uid)))))
        self.desk.wants(self.nodes, A, self.tape.pick((NOTHING, steps(Create(NEW, {})), steps(IN))))

    def poke(self) -> None:
        self.desk.poke(self.pods)
        self.desk.poke(self.nodes)

    def watch(self) -> None:
        self.desk.watch(1)

    def time_passes(self) -> None:
        self.desk.wait(self.tape.pick((0.01, 1.0, 3.0, 6.0)))

    def pod_goes(self) -> None:
        self.desk.world.delete(self.tape.pick((P, NEW)))

    def pod_comes(self) -> None:
        if P not in self.desk.world.objects:
            self.desk.world.put(pod("p"))

    def server_answers(self) -> None:
        request = self.tape.pick(self.desk.tray)
        answer = self.desk.world.meet(request.body, self.tape.pick(("200", "lost", "lost-done", *FATES)))
        if isinstance(request.body, Look):
            settles = isinstance(answer, Done) or (isinstance(answer, Refused) and answer.code == 404)
            looked = [wish for wish, each in self.unknown.items() if each.body.target == request.body.target]
            for wish in looked if settles else ():
                del self.unknown[wish]
        elif isinstance(answer, Lost) or (isinstance(answer, Done) and isinstance(request.body, Evict | Delete)):
            self.unknown[wish_of(request.body)] = Unknown(request.body)
        self.desk.answer(request, answer)

    def check(self) -> None:
        for wish, each in list(self.unknown.items()):
            if each.is_seen(self.desk.store.row(each.body.target)):
                del self.unknown[wish]
        for _, body in self.desk.handed_out[self.seen :]:
            assert wish_of(body) not in self.unknown, f"sent again while its effect is unknown: {body}"
        self.seen = len(self.desk.handed_out)

    def finish(self) -> None:
        """In the end, what is wanted has come about."""
        self.desk.wants(self.nodes, A, lambda view, now: steps(IN, *create_unless_there(view)))
        self.desk.wants(self.pods, P, lambda view, now: steps(*evict_if_there(view)))
        self.desk.settle()
        assert P not in self.desk.world.objects
        assert NEW in self.desk.world.objects
        assert self.desk.world.objects[A].labels["x"] == "1"


def evict_if_there(view: View) -> list[Evict]:
    row = view.get(P, PodRow)
    return [Evict(P, row.uid)] if row is not None and not row.deleting_at else []


def create_unless_there(view: View) -> list[Create]:
    return [Create(NEW, {})] if view.get(NEW, PodRow) is None else []


@settings(max_examples=examples(250), deadline=None, derandomize=True)
@given(tapes())
def test_k12_nothing_is_sent_again_while_its_effect_is_unknown(tape: bytes) -> None:
    Once(tape).go()


def pods_desk(*, graceful: bool = False) -> tuple[Desk, Script]:
    script = Script(kind="Pod")
    return desk_with(script, world=Cluster(pod("p"), graceful=graceful), kinds=("Pod",)), script


def uid(desk: Desk) -> str:
    return desk.world.objects[P].uid


@pytest.mark.parametrize("fate", ["200", "lost", "lost-done"])
@pytest.mark.parametrize("act", [Evict, Delete], ids=["eviction", "deletion"])
def test_k12_an_eviction_or_deletion_is_not_repeated_until_a_look_after_five_seconds(
    act: type[Evict | Delete], fate: str
) -> None:
    desk, script = pods_desk()
    desk.wants(script, P, steps(act(P, uid(desk))))
    desk.meet(desk.only(), fate)
    desk.poke(script)
    desk.wait(4.9)
    assert not desk.tray
    desk.wait(0.2)
    assert desk.bodies() == [Look(P)]
    assert desk.sent(Look) == [at(5)]


@pytest.mark.parametrize("answer", [Refused(500), Refused(429), Lost("timed out")], ids=repr)
def test_k12_a_look_that_fails_is_repeated_and_the_action_still_is_not(answer: Answer) -> None:
    desk, script = pods_desk()
    desk.wants(script, P, steps(Evict(P, uid(desk))))
    desk.meet(desk.only(), "lost")
    desk.wait(5)
    desk.answer(desk.only(), answer)
    desk.poke(script)
    assert not desk.tray
    desk.wait(5)
    assert desk.bodies() == [Look(P)]


@pytest.mark.parametrize("seen", ["terminating", "gone", "other UID"])
def test_k12_the_effect_seen_ends_the_wait(seen: str) -> None:
    desk, script = pods_desk(graceful=seen == "terminating")
    desk.wants(script, P, steps(Evict(P, uid(desk))))
    desk.meet(desk.only(), "lost-done")
    desk.world.put(pod("p")) if seen == "other UID" else None
    script.wishes.clear()
    desk.watch()
    desk.wait(10)
    assert not desk.sent(Look)
    assert desk.kernel.actor.size() == 0


def test_k12_a_lost_creation_is_looked_for_before_it_is_repeated() -> None:
    script = Script()
    desk = desk_with(script, kinds=("Node", "Pod"))
    desk.wants(script, A, steps(Create(NEW, {})))
    desk.meet(desk.only(), "lost")
    desk.poke(script)
    assert not desk.tray
    desk.wait(5)
    desk.meet(desk.only())
    assert targets(desk.tray) == [NEW]


def test_k12_what_a_lost_write_may_have_taken_stays_taken() -> None:
    script = Script()
    desk = desk_with(script)
    limit = Limit(Inside(), "", 1)
    desk.wants(script, A, steps(Label(A, "state", "in")))
    desk.meet(desk.only(), "lost")
    assert not desk.store.has_room(limit)
    desk.wait(5)
    assert not desk.store.has_room(limit)
    script.wishes.clear()
    desk.meet(desk.only())
    assert desk.store.has_room(limit)


@pytest.mark.parametrize("fate", ["422", "lost"])
def test_k12_another_write_on_the_object_does_not_end_what_a_lost_one_may_have_taken(fate: str) -> None:
    one, two = Script("one"), Script("two")
    desk = desk_with(one, two)
    limit = Limit(Inside(), "", 1)
    desk.wants(one, A, steps(Label(A, "state", "in")))
    desk.meet(desk.only(), "lost")
    desk.wants(two, A, steps(Label(A, "other", "1")))
    assert not desk.store.has_room(limit)
    desk.meet(desk.only(), fate)
    assert not desk.store.has_room(limit)


def test_k12_an_answer_that_cannot_be_read_is_no_row_and_ends_nothing() -> None:
    script = Script()
    desk = desk_with(script)
    limit = Limit(Inside(), "", 1)
    desk.wants(script, A, steps(Label(A, "state", "in")))
    script.wishes.clear()
    request = desk.only()
    desk.world.carry_out(request.body)
    desk.answer(request, Done())
    assert not desk.store.has_room(limit)
    desk.watch()
    assert not desk.store.has_room(limit)
    assert desk.store.expects(A) is None


def test_k12_all_who_lost_a_write_on_one_object_are_asked_again() -> None:
    one, two = Script("one"), Script("two")
    desk = desk_with(one, two)
    desk.wants(one, A, steps(Label(A, "one", "1")))
    desk.meet(desk.only(), "lost")
    desk.wants(two, A, steps(Label(A, "two", "1")))
    desk.meet(desk.only(), "lost")
    two.wishes.clear()
    desk.settle()
    assert {**desk.world.objects[A].labels} == {"one": "1"}


def test_k12_who_wanted_the_same_as_a_lost_write_is_asked_again_too() -> None:
    one, two = Script("one"), Script("two")
    desk = desk_with(one, two)
    desk.wants(one, A, steps(Label(A, "x", "1")))
    desk.meet(desk.only(), "lost")
    desk.wants(two, A, steps(Label(A, "x", "1")))
    assert not desk.tray
    one.wishes.clear()
    desk.settle()
    assert {**desk.world.objects[A].labels} == {"x": "1"}


def test_k12_a_lost_patch_whose_effect_has_been_seen_already_is_not_waited_for() -> None:
    script = Script()
    desk = desk_with(script)
    desk.wants(script, A, lambda view, now: steps(IN) if not view_has(desk, "x") else NOTHING)
    request = desk.only()
    desk.world.carry_out(request.body)
    desk.watch()
    desk.answer(request, Lost("connection reset"))
    assert desk.kernel.next_instant() is None
    assert desk.store.expects(A) is None


def view_has(desk: Desk, label: str) -> bool:
    row = desk.store.row(A)
    return label in getattr(row, "labels", {})


# K13: not again too soon


class Refusals(Reports):
    def __init__(self) -> None:
        self.codes: list[int] = []
        self.slowed: list[Subject] = []
        self.unanswered: list[Subject] = []

    def on_refusal(self, subject: Subject, body: Body, answer: Refused) -> None:
        self.codes.append(answer.code)

    def on_lost_answer(self, subject: Subject) -> None:
        self.unanswered.append(subject)

    def on_restless(self, subject: Subject, target: Key) -> None:
        self.slowed.append(subject)


def test_k9_a_key_that_follows_changes_of_its_own_object_is_not_slowed() -> None:
    """What others do to the object that a decision is about is a reason to edit another one again, however often."""
    script, reports = Script(), Refusals()
    desk = Desk(script.decider, world=Cluster(node("a"), node("b")), reports=reports).begin()
    for turn in range(50):
        desk.world.label(A, turn=str(turn))
        desk.watch(1)
        desk.wants(script, A, steps(Label(B, "turn", str(turn))))
        desk.meet(desk.only(), "200")
    assert (desk.world.objects[B].labels["turn"], reports.slowed) == ("49", [])


def test_that_no_answer_came_is_reported() -> None:
    script, reports = Script(), Refusals()
    desk = Desk(script.decider, world=Cluster(node("a"), node("b")), reports=reports).begin()
    desk.wants(script, A, steps(IN))
    desk.answer(desk.only(), Lost("no answer"))
    assert (reports.unanswered, reports.codes) == ([script.subject(A)], [])


@pytest.mark.parametrize("code", [422, 500, 0, 403])
def test_k13_the_same_action_waits_twice_as_long_after_each_refusal_up_to_a_minute(code: int) -> None:
    script = Script()
    desk = desk_with(script)
    desk.wants(script, A, steps(IN))
    for _ in range(9):
        desk.answer(desk.only(), Refused(code, "no"))
        desk.wait(60)
    times = desk.sent(Change)
    spans = [(later - earlier).total_seconds() for earlier, later in pairwise(times)]
    assert [span >= wait for span, wait in zip(spans, (1, 2, 4, 8, 16, 32, 60, 60), strict=False)] == [True] * 8


@settings(max_examples=examples(80), deadline=None, derandomize=True)
@given(st.lists(st.sampled_from(("422", "500", "200")), min_size=1, max_size=8))
def test_k13_back_off_delays_exactly_by_its_failures_and_success_ends_it(fates: list[str]) -> None:
    script = Script()
    desk = desk_with(script)
    failures = 0
    desk.wants(script, A, steps(Patch(A, {"metadata": {"labels": {"n": "1"}}})))
    for fate in fates:
        sent_at = desk.now
        desk.meet(desk.only(), fate)
        failures = failures + 1 if fate != "200" else 0
        if fate == "200":
            desk.poke(script)
            assert desk.now == sent_at
        else:
            delay = min(2 ** (failures - 1), 60)
            desk.wait(delay - 0.001)
            assert not desk.tray, "too soon"
            desk.wait(0.002)
        assert targets(desk.tray) == [A]


def test_k13_a_refused_key_is_asked_at_once_and_another_wish_goes_at_once() -> None:
    script = Script()
    desk = desk_with(script)
    desk.wants(script, A, steps(IN))
    asked = script.times(A)
    desk.meet(desk.only(), "422")
    assert script.times(A) == asked + 1
    assert not desk.tray
    desk.wants(script, A, steps(Label(A, "x", "2")))
    assert targets(desk.tray) == [A]
    assert desk.now == START


def test_k13_a_text_that_says_when_makes_no_other_wish() -> None:
    script = Script()
    desk = desk_with(script)
    desk.wants(script, A, lambda view, now: steps(Annotate(A, "since", now.isoformat())))
    desk.meet(desk.only(), "422")
    desk.wait(0.5)
    desk.poke(script)
    assert not desk.tray


def test_k13_a_conflict_waits_for_the_version_and_no_longer() -> None:
    script = Script()
    desk = desk_with(script)
    desk.wants(script, A, steps(IN))
    desk.world.heartbeat(A)
    desk.meet(desk.only())
    desk.wait(0.5)
    assert not desk.tray
    desk.watch()
    change = desk.only().body
    assert isinstance(change, Change)
    assert change.version == desk.world.objects[A].version


def test_k13_a_conflict_whose_version_has_come_already_waits_for_nothing() -> None:
    script = Script()
    desk = desk_with(script)
    desk.wants(script, A, steps(IN))
    request = desk.only()
    desk.world.heartbeat(A)
    answer = desk.world.carry_out(request.body)
    desk.watch()
    desk.answer(request, answer)
    assert targets(desk.tray) == [A]
    assert desk.now == START


def test_k13_a_conflict_whose_version_does_not_come_is_looked_into_after_a_second() -> None:
    script = Script()
    desk = desk_with(script)
    desk.wants(script, A, steps(IN))
    desk.world.heartbeat(A)
    desk.meet(desk.only())
    desk.wait(0.999)
    assert not desk.sent(Look)
    desk.wait(0.001)
    look = next(request for request in desk.tray if request.body == Look(A))
    desk.meet(look)
    desk.settle()
    assert desk.world.objects[A].labels["x"] == "1"
    assert (desk.sent(Look), len(desk.sent(Change))) == ([at(1)], 2)


@pytest.mark.parametrize(
    "answer, seconds",
    [(Refused(429, retry_after=RETRY_AFTER), RETRY_AFTER), (Refused(429, retry_after=0.0), 1.0)],
    ids=["with Retry-After", "with Retry-After 0"],
)
def test_k13_throttling_pauses_all_writes_to_that_cluster(answer: Refused, seconds: float) -> None:
    script = Script(cluster=None)
    far = node_key("far", "elsewhere")
    desk = desk_with(script, world=Cluster(node("a"), node("b")))
    desk.store.begin_list("elsewhere", "Node")
    desk.store.put(node("far", cluster="elsewhere"))
    desk.store.end_list("elsewhere", "Node", 1)
    desk.wants(script, A, steps(IN))
    desk.answer(desk.only(), answer)
    desk.wants(script, B, steps(Label(B, "x", "1")))
    desk.wants(script, far, steps(Label(far, "x", "1")))
    assert targets(desk.tray) == [far]
    desk.wait(seconds - 0.001)
    assert targets(desk.tray) == [far]
    desk.wait(0.001)
    assert sorted(targets(desk.tray)) == [A, B, far]


@pytest.mark.parametrize(
    "answer",
    [
        Refused(429),
        Refused(429, 'admission webhook "vm.example.com" denied the request: it is being moved', retry_after=20.0),
        Refused(429, "no", retry_after=20.0, cause="DisruptionBudget"),
    ],
    ids=["without Retry-After", "a webhook's", "a budget's"],
)
def test_k13_a_429_that_is_about_one_object_pauses_no_other(answer: Refused) -> None:
    script = Script()
    desk = desk_with(script, world=Cluster(node("a"), node("b")))
    desk.wants(script, A, steps(IN))
    desk.answer(desk.only(), answer)
    desk.wants(script, B, steps(Label(B, "x", "1")))
    assert targets(desk.tray) == [B]


def test_k13_a_write_that_was_handed_out_before_the_pause_waits_for_its_end() -> None:
    script = Script()
    desk = desk_with(script)
    desk.wants(script, A, together(Label(A, "x", "1"), Label(B, "x", "1")))
    first, second = desk.tray
    desk.answer(first, Refused(429, retry_after=RETRY_AFTER))
    assert not desk.kernel.actor.is_current(second.id)
    desk.answer(second, Withdrawn())
    desk.wait(RETRY_AFTER - 0.001)
    assert not desk.tray
    desk.wait(0.001)
    assert targets(desk.tray) == [A, B]
    assert all(desk.kernel.actor.is_current(request.id) for request in desk.tray)


def test_k13_the_answer_to_a_look_pauses_writes_too() -> None:
    script = Script()
    desk = desk_with(script)
    desk.wants(script, A, steps(IN))
    desk.meet(desk.only(), "404")
    desk.answer(next(request for request in desk.tray if request.body == Look(A)), Refused(429, retry_after=20.0))
    desk.wants(script, B, steps(Label(B, "x", "1")))
    desk.wait(19.9)
    assert not desk.sent(Change)[1:]
    desk.wait(0.1)
    assert B in targets(desk.tray)


def test_k13_no_look_is_sent_during_a_pause() -> None:
    script = Script()
    desk = desk_with(script)
    desk.wants(script, A, together(Label(A, "x", "1"), Label(B, "x", "1")))
    first, second = desk.tray
    desk.answer(first, Lost("timed out"))
    desk.wait(5)
    look = next(request for request in desk.tray if request.body == Look(A))
    assert desk.kernel.actor.is_current(look.id)
    desk.answer(second, Refused(429, retry_after=20.0))
    assert not desk.kernel.actor.is_current(look.id)


def test_k13_a_shorter_word_does_not_end_a_longer_pause() -> None:
    script = Script()
    desk = desk_with(script)
    desk.wants(script, A, together(Label(A, "x", "1"), Label(B, "x", "1")))
    desk.answer(desk.tray[0], Refused(429, retry_after=20.0))
    desk.answer(desk.tray[0], Refused(429, retry_after=1.0))
    desk.wait(19.9)
    assert not desk.tray


def test_k13_no_word_of_a_server_stops_all_work_for_good() -> None:
    script = Script()
    desk = desk_with(script)
    desk.wants(script, A, steps(IN))
    desk.answer(desk.only(), Refused(429, retry_after=1e15))
    desk.wait(300)
    assert targets(desk.tray) == [A]


def test_k13_a_budget_that_refuses_pauses_nobody_else() -> None:
    script = Script()
    desk = desk_with(script)
    desk.wants(script, A, steps(IN))
    desk.meet(desk.only(), "429-budget")
    desk.wants(script, B, steps(Label(B, "x", "1")))
    assert targets(desk.tray) == [B]
    desk.wait(5)
    assert targets(desk.tray) == [B, A]


def test_k13_a_back_off_that_is_over_is_forgotten_with_its_key() -> None:
    script = Script()
    desk = desk_with(script)
    desk.wants(script, A, steps(IN))
    desk.meet(desk.only(), "422")
    script.wishes.clear()
    desk.world.delete(A)
    desk.watch()
    assert desk.kernel.actor.size() == 0


def test_k13_every_refusal_is_reported() -> None:
    script, reports = Script(), Refusals()
    desk = Desk(script.decider, world=Cluster(node("a")), reports=reports).begin()
    desk.wants(script, A, steps(IN))
    for fate in ("409", "422", "429", "500"):
        desk.meet(next(request for request in desk.tray if isinstance(request.body, Change)), fate)
        desk.wait(60)
        for look in [request for request in desk.tray if isinstance(request.body, Look)]:
            desk.meet(look)
    assert reports.codes == [409, 422, 429, 500]
