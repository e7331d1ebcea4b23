"""K18: a node is called empty only after a list of its pods that began after the cordon was stored."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec
from hypothesis import given, settings

from haulout.cluster.key import Key, node_key
from haulout.cluster.rows import NodeRow, ObjectRow, Owner, PodRow
from haulout.cluster.view import PROOF, View
from haulout.core.action import KeepCordoned
from haulout.core.decision import NOTHING, Decider, Decision
from haulout.core.drain.options import DrainOptions, DrainRow, drain_row
from haulout.core.drain.progress import conclusion
from haulout.kernel.kernel import Kernel
from haulout.kernel.requests import Answer, ListPods, Request, Telling
from tests.build.desk import Cluster, Desk, pod, pod_key
from tests.build.examples import examples
from tests.build.rows import START, node
from tests.build.walk import Move, Walk, tapes
from tests.build.world import copy

N = node_key("n")
PODS = ("p0", "p1", "p2")
DAEMON = msgspec.structs.replace(pod("daemon"), owners=(Owner("DaemonSet", "d", "u", controller=True),))
OPTIONS = DrainOptions(force=True, delete_local_data=True, any_daemonset=True)


def drain() -> DrainRow:
    return drain_row("toy", N, N, options=OPTIONS)


class Drained:
    """A surface that cordons a node and remembers each asking in which it found it drained."""

    def __init__(self) -> None:
        self.conclusions: list[NodeRow] = []
        self.decider = Decider("toy", "Node", self.decide)

    def decide(self, key: Key, view: View, now: datetime) -> Decision:
        row = view.get(key, NodeRow)
        if row is None:
            return NOTHING
        if not row.unschedulable:
            return Decision(actions=((KeepCordoned(key, "toy"),),))
        state = conclusion(view, drain(), now)
        if state.done:
            self.conclusions.append(copy_of(row))
        return Decision(until=state.changes_at)


def copy_of(row: NodeRow) -> NodeRow:
    """Return a copy of a row, because the version of a row changes in place."""
    return msgspec.structs.replace(row)


class Drains(Walk):
    """A walk in which the watches of Nodes and of Pods lag behind each other, and answers arrive in any order.

    Pods are bound only while the node is not cordoned, before or after our cordon is sent.
    """

    def __init__(self, tape: bytes) -> None:
        super().__init__(tape)
        self.world = Cluster(node("n"), DAEMON, pod("p0"))
        self.surface = Drained()
        self.kernel = Kernel((self.surface.decider,), keeps_ledger=False)
        self.now = START
        self.position = {"Node": 0, "Pod": 0}
        self.sent: list[Request] = []
        self.served: list[tuple[Request, Answer]] = []
        self.lists: list[int] = []
        for kind in self.position:
            self.relist(kind)

    def moves(self) -> Sequence[Move]:
        serving = [self.server_serves, self.server_serves] * bool(self.sent)
        answering = [self.answer_arrives, self.answer_arrives] * bool(self.served)
        telling = [self.node_watch_tells, self.node_watch_catches_up, self.pod_watch_tells]
        others = [self.pod_ends, self.pod_is_bound, self.somebody_cordons, self.somebody_uncordons, self.heartbeat]
        others += [self.node_is_lent, self.all_pods_end, self.all_pods_end]
        rare = [self.node_is_made_anew, self.nodes_are_listed, self.pods_are_listed, self.leadership_changes]
        calm = [self.all_is_answered] * 4
        return [*calm, *telling, *serving, *answering, *others, self.time_passes, *rare]

    def run(self) -> None:
        self.kernel.run(self.now)
        self.sent += [each for each in self.kernel.take_requests() if not isinstance(each.body, Telling)]

    # The world

    @property
    def truth(self) -> NodeRow:
        row = self.world.objects[N]
        assert isinstance(row, NodeRow)
        return row

    def awaited(self) -> list[str]:
        return [key.name for key in self.world.objects if key.kind == "Pod" and key.name != "daemon"]

    def pod_is_bound(self) -> None:
        name = self.tape.pick(PODS)
        if not self.truth.unschedulable and pod_key(name) not in self.world.objects:
            self.world.put(pod(name))

    def pod_ends(self) -> None:
        self.world.delete(pod_key(self.tape.pick(PODS)))

    def all_pods_end(self) -> None:
        for name in PODS:
            self.world.delete(pod_key(name))

    def somebody_cordons(self) -> None:
        self.world.put(msgspec.structs.replace(self.truth, unschedulable=True))

    def somebody_uncordons(self) -> None:
        self.world.put(msgspec.structs.replace(self.truth, unschedulable=False))

    def node_is_lent(self) -> None:
        """Uncordon a node, use it and cordon it again before the watch brings any of it."""
        self.somebody_uncordons()
        self.pod_is_bound()
        self.somebody_cordons()

    def heartbeat(self) -> None:
        self.world.heartbeat(N)

    def node_is_made_anew(self) -> None:
        self.world.delete(N)
        self.world.put(node("n"))

    # What is told, and what is answered

    def tell(self, kind: str) -> None:
        news = [entry for entry in self.world.log if entry[1].kind == kind and entry[0] > self.position[kind]]
        for version, key, row in news[:1]:
            self.position[kind] = version
            if row is None:
                self.kernel.store.remove(key, version)
            else:
                self.kernel.store.put(copy(row))
        # Several changes may come in before a subject is asked.
        if self.tape.pick((True, False)):
            self.run()

    def node_watch_tells(self) -> None:
        self.tell("Node")

    def node_watch_catches_up(self) -> None:
        """Deliver everything that has happened to the node at once."""
        for version, key, row in self.world.log:
            if key == N and version > self.position["Node"]:
                self.position["Node"] = version
                if row is None:
                    self.kernel.store.remove(key, version)
                else:
                    self.kernel.store.put(copy(row))
        self.run()

    def pod_watch_tells(self) -> None:
        self.tell("Pod")

    def relist(self, kind: str) -> None:
        rows: list[ObjectRow] = [row for key, row in self.world.objects.items() if key.kind == kind]
        self.kernel.store.begin_list("", kind)
        for row in rows:
            self.kernel.store.put(copy(row))
        self.kernel.store.end_list("", kind, self.world.version)
        self.position[kind] = self.world.version
        self.run()

    def nodes_are_listed(self) -> None:
        self.relist("Node")

    def pods_are_listed(self) -> None:
        self.relist("Pod")

    def server_serves(self) -> None:
        request = self.tape.pick(self.sent)
        self.sent.remove(request)
        fates = ("200", "200", "200", "500", "lost") if isinstance(request.body, ListPods) else ("200", "200", "409")
        fate = self.tape.pick(fates)
        if isinstance(request.body, ListPods) and fate == "200":
            self.lists.append(self.world.version)
        self.served.append((request, self.world.meet(request.body, fate)))

    def answer_arrives(self) -> None:
        request, answer = self.tape.pick(self.served)
        self.served.remove((request, answer))
        self.kernel.on_answer(request.id, answer, self.now)
        self.run()

    def all_is_answered(self) -> None:
        """Answer all requests and deliver everything that has happened, except for later changes of pods."""
        while any(entry[0] > self.position[entry[1].kind] for entry in self.world.log):
            self.node_watch_tells()
            self.pod_watch_tells()
        self.run()
        for _ in range(20):
            if self.sent or self.served:
                (self.answer_arrives if self.served else self.server_serves)()

    def time_passes(self) -> None:
        self.now = max(self.now, self.kernel.next_instant() or self.now)
        self.run()

    def leadership_changes(self) -> None:
        self.kernel.follow()
        self.kernel.lead()
        self.run()

    # What must hold

    def cordoned_at(self, row: NodeRow) -> int:
        """Return the version at which the cordon came that this row shows."""
        since = -1
        for version, key, each in self.world.log:
            if key == N and version <= row.version:
                cordoned = isinstance(each, NodeRow) and each.uid == row.uid and each.unschedulable
                since = (version if since < 0 else since) if cordoned else -1
        return since

    def stands(self, since: int) -> bool:
        """Whether the cordon of this version has never been undone."""
        later = [row for version, key, row in self.world.log if key == N and version >= since]
        return all(isinstance(row, NodeRow) and row.unschedulable for row in later)

    def check(self) -> None:
        """Assert that a node that is called empty has no pod for as long as that cordon lasts."""
        for row in self.surface.conclusions:
            since = self.cordoned_at(row)
            assert since >= 0, "it was not cordoned"
            assert any(version >= since for version in self.lists), "no list began after the cordon was stored"
            assert not self.stands(since) or not self.awaited(), "a pod is there"
        self.surface.conclusions.clear()

    def finish(self) -> None:
        """Once the pods have ended and all is told and answered, the node is found drained, and nothing is left over."""
        self.all_pods_end()
        for _ in range(50):
            self.all_is_answered()
            self.check()
            self.time_passes()
        state = conclusion(View(self.kernel.store), drain(), self.now)
        assert state.done, "it is empty, and that is not known"
        assert {row.key for row in self.kernel.store.rows("", "Pod")} == {DAEMON.key}, "no ghosts"
        assert [row.key.namespace for row in self.kernel.store.rows("", PROOF)] == ["n"]
        assert self.kernel.store.size() == 0


@settings(max_examples=examples(400), deadline=None, derandomize=True)
@given(tapes(80, 200))
def test_a_node_that_is_called_empty_is_empty(tape: bytes) -> None:
    Drains(tape).go()


class TestLists:
    """How many lists a conclusion costs."""

    def desk(self, *pods: str) -> tuple[Desk, Drained]:
        surface = Drained()
        world = Cluster(node("n"), DAEMON, *map(pod, pods))
        return Desk(surface.decider, world=world, kinds=("Node", "Pod")).begin(), surface

    def lists(self, desk: Desk) -> int:
        return sum(isinstance(body, ListPods) for _, body in desk.handed_out)

    def test_one_after_the_answer_to_the_cordon_whatever_else_happens(self) -> None:
        desk, surface = self.desk("p0", "p1")
        assert self.lists(desk) == 0
        desk.meet(desk.only())
        desk.watch()
        assert self.lists(desk) == 0, "two pods are waited for"
        for name in ("p0", "p1"):
            desk.world.delete(pod_key(name))
            desk.watch()
        request = desk.only()
        assert request.body == ListPods(N, request.body.proof)  # type: ignore[union-attr]
        desk.world.label(DAEMON.key, x="1")
        desk.world.heartbeat(N)
        desk.watch()
        assert not surface.conclusions
        desk.meet(request)
        assert len(surface.conclusions) == 1
        for value in ("2", "3", "4"):
            desk.world.label(DAEMON.key, x=value)
            desk.watch()
        assert self.lists(desk) == 1
        assert len(surface.conclusions) == 4, "what it asks again it knows already"

    def test_an_answer_that_comes_after_an_uncordon_proves_nothing(self) -> None:
        desk, surface = self.desk()
        desk.meet(desk.only())
        late = desk.only()
        for cordoned in (False, True):
            row = desk.world.objects[N]
            desk.world.put(msgspec.structs.replace(row, unschedulable=cordoned))
        desk.watch()
        desk.meet(late)
        assert not surface.conclusions
        desk.meet(desk.only())
        assert (len(surface.conclusions), self.lists(desk)) == (1, 2)

    def test_a_list_of_all_nodes_may_hide_an_uncordon(self) -> None:
        desk, surface = self.desk()
        desk.meet(desk.only())
        desk.meet(desk.only())
        assert len(surface.conclusions) == 1
        for cordoned in (False, True):
            row = desk.world.objects[N]
            desk.world.put(msgspec.structs.replace(row, unschedulable=cordoned))
        desk.store.begin_list("", "Node")
        desk.store.put(copy(desk.world.objects[N]))
        desk.store.end_list("", "Node", desk.world.version)
        desk.run()
        assert len(surface.conclusions) == 1
        desk.meet(desk.only())
        assert (len(surface.conclusions), self.lists(desk)) == (2, 2)

    def test_a_pod_that_the_list_shows_enters_the_table_and_needs_a_list_of_its_own(self) -> None:
        desk, surface = self.desk()
        desk.meet(desk.only())
        desk.world.put(pod("p0"))
        desk.meet(desk.only())
        assert isinstance(desk.store.row(pod_key("p0")), PodRow)
        desk.world.delete(pod_key("p0"))
        desk.watch()
        assert not surface.conclusions
        desk.meet(desk.only())
        assert (len(surface.conclusions), self.lists(desk)) == (1, 2)

    def test_one_that_fails_is_repeated_ever_later(self) -> None:
        desk, surface = self.desk()
        desk.meet(desk.only())
        for _ in range(4):
            desk.meet(desk.only(), "500")
            desk.world.label(DAEMON.key, x=str(desk.world.version))
            desk.watch()
            assert not desk.tray, "nothing that happens makes it sooner"
            desk.wait(60)
        seconds = [(instant - START).total_seconds() for instant in desk.sent(ListPods)]  # type: ignore[arg-type]
        assert seconds == [0, 1, 62, 124, 188]
        desk.meet(desk.only())
        assert len(surface.conclusions) == 1

    def test_everything_about_it_is_forgotten_with_its_node(self) -> None:
        desk, _ = self.desk()
        desk.meet(desk.only())
        request = desk.only()
        desk.world.delete(N)
        desk.watch()
        desk.meet(request)
        assert desk.store.rows("", PROOF) == []
        assert (desk.kernel.size(), desk.store.size()) == (Desk().begin().kernel.size(), 0)
