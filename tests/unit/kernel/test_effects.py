"""Effects (K12), without the rest of the kernel: what is expected until it is seen, and which subjects wait for it."""

from __future__ import annotations

from haulout.cluster.key import Key
from haulout.cluster.rows import NodeRow, ObjectRow, PodRow
from haulout.cluster.store import Store
from haulout.core.action import Cordon, Evict, Say
from haulout.kernel.effects import LOOK_AFTER_FOR, Effects
from haulout.kernel.jobs import Job, request_body
from haulout.kernel.outbox import Outbox
from haulout.kernel.statements import Statements
from haulout.kernel.timers import Timers
from tests.build.rows import at, node
from tests.unit.kernel.wakes import A, NotedWakes, subject

POD = Key("", "Pod", "n", "p")
EVICTION = Job(POD, other=Evict(POD, "u"))
CORDON = Job(A, (Cordon(A, True),))


class Scene:
    """Effects on a store with a node and a pod."""

    def __init__(self) -> None:
        self.store, self.timers, self.outbox, self.loop = Store(), Timers(), Outbox(), NotedWakes()
        self.store.put(node("a"))
        self.store.put(PodRow(key=POD, uid="u", version=1, node="a"))
        self.busy: set[Key] = set()
        statements = Statements(self.store, self.outbox)
        self.effects = Effects(self.store, self.timers, statements, self.loop, self.busy.__contains__)

    def await_seen(self, job: Job, *statements: Say, name: str = "a") -> bool:
        body = request_body(job, self.store.row(job.target))
        return self.effects.await_seen(subject(name), job, body, at(0), statements)

    def see(self, row: ObjectRow) -> None:
        self.store.put(row)
        self.effects.version_changed(row.key)


def test_an_eviction_is_awaited_until_the_pod_is_on_its_way_out() -> None:
    scene = Scene()
    assert scene.await_seen(EVICTION)
    assert scene.effects.awaits(subject())
    scene.see(PodRow(key=POD, uid="u", version=2, node="a"))
    assert scene.effects.awaits(subject())
    scene.see(PodRow(key=POD, uid="u", version=3, node="a", deleting_at=at(0)))
    assert not scene.effects.awaits(subject())
    assert scene.loop.woken == [subject()]
    assert scene.effects.size() == 0


def test_what_has_been_seen_already_is_not_awaited() -> None:
    scene = Scene()
    scene.store.put(PodRow(key=POD, uid="another", version=2, node="a"))
    assert not scene.await_seen(EVICTION)
    assert scene.effects.size() == 0


def test_a_subject_that_wants_the_same_write_shares_the_wait() -> None:
    scene = Scene()
    assert not scene.effects.share(subject("b"), EVICTION)
    scene.await_seen(EVICTION)
    assert scene.effects.share(subject("b"), EVICTION)
    assert scene.effects.share(subject("b"), EVICTION)
    scene.effects.settle(POD)
    assert sorted(scene.loop.woken) == [subject("a"), subject("b")]
    assert not scene.effects.awaits(subject("b"))


def test_a_look_is_due_after_five_seconds_and_repeated() -> None:
    scene = Scene()
    scene.await_seen(EVICTION)
    assert scene.timers.next_instant() == at(0) + LOOK_AFTER_FOR
    assert (scene.effects.is_look_due(POD, at(4.9)), scene.effects.is_look_due(POD, at(5))) == (False, True)
    scene.effects.look_later(POD, at(5))
    assert (scene.effects.is_look_due(POD, at(9.9)), scene.effects.is_look_due(POD, at(10))) == (False, True)


def test_a_lost_edit_stays_expected_until_its_object_moves() -> None:
    scene = Scene()
    scene.effects.expect(CORDON, scene.store.row(A))
    scene.await_seen(CORDON)
    scene.effects.unexpect(A)
    expected = scene.store.expects(A)
    assert isinstance(expected, NodeRow)
    assert expected.unschedulable
    scene.see(node("a", version=2))
    assert scene.store.expects(A) is None


def test_an_expectation_outlives_the_effect_while_another_write_is_under_way() -> None:
    scene = Scene()
    scene.effects.expect(CORDON, scene.store.row(A))
    scene.await_seen(CORDON)
    scene.busy.add(A)
    scene.effects.settle(A)
    assert scene.store.expects(A) is not None


def test_a_lost_write_is_told_only_if_the_object_shows_it() -> None:
    said = [Say("cordoned")]
    for is_cordoned, expected in ((True, said), (False, [])):
        scene = Scene()
        scene.await_seen(CORDON, Say("cordoned"))
        scene.store.put(node("a", version=2, cordoned=is_cordoned))
        scene.effects.settle(A)
        assert [request.body for request in scene.outbox.take()] == expected


def test_a_new_term_of_leadership_awaits_nothing() -> None:
    scene = Scene()
    scene.effects.expect(CORDON, scene.store.row(A))
    scene.await_seen(CORDON)
    scene.effects.clear()
    assert scene.effects.size() == 0
    assert scene.store.expects(A) is None
