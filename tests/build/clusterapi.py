"""The deciders of the clusterapi surface on a kernel, between worlds of rows that can go away and come back."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec

from haulout.cluster.key import Key, node_key
from haulout.cluster.rows import Connection, ObjectRow, Value
from haulout.core.action import Measure, Say
from haulout.core.decision import Source
from haulout.core.declaration import Enabled
from haulout.kernel.assemble import assemble
from haulout.kernel.requests import Answer, Body, Change, Refused, Request, Telling
from haulout.kernel.rooms import Subject
from haulout.surfaces.clusterapi.options import Options
from haulout.surfaces.clusterapi.surface import CLUSTERAPI
from tests.build.machines import short
from tests.build.rows import START
from tests.build.world import World, copy

Place = tuple[str, str]


class ClusterApiWorld:
    """The management cluster and its workload clusters as rows, and a kernel with the clusterapi surface.

    `away`: the workload clusters that do not answer. `denying`: those that refuse writes.
    `told`: the events so far, in short. `said`: the log. `changes`: the writes.
    `together`: as under `haulout run`, where pauses are obeyed.
    """

    def __init__(self, *rows: ObjectRow, options: Options | None = None, together: bool = False) -> None:
        self.world = World()
        self.options, self.together = options or Options(), together
        self.now: datetime = START
        self.away: set[str] = set()
        self.denying: set[str] = set()
        self.told: list[str] = []
        self.said: list[str] = []
        self.changes: list[Change] = []
        self.refusals = 0
        for row in rows:
            self.world.put(row)
        self.restart()

    def restart(self) -> None:
        """Start another process, which knows only what is stored."""
        self.flying: list[Request] = []
        given = [Enabled(CLUSTERAPI, self.options)]
        assembly = assemble(given, together=self.together, on_failure=_fail)
        self.kernel, self._sources = assembly.kernel, assembly.sources()
        self._open: dict[Place, int] = {}
        self._known: set[Source] = set()
        self.run()

    # What happens outside

    def change(self, key: Key, *, labels: Mapping[str, str | None] = {}, notes: Mapping[str, str | None] = {}) -> None:
        row = self.world.objects[key]
        changed = {
            part: {name: value for name, value in {**getattr(row, part), **given}.items() if value is not None}
            for part, given in (("labels", labels), ("annotations", notes))
        }
        self.world.put(msgspec.structs.replace(row, **changed))

    def leave(self, cluster: str) -> None:
        """Let a workload cluster stop answering."""
        self.away.add(cluster)
        self._connect(cluster, "unreachable")
        self.run()

    def come_back(self, cluster: str) -> None:
        self.away.discard(cluster)
        if (cluster, "Node") in self._open:
            self._list((cluster, "Node"))
            self._connect(cluster, Connection.FINE)
            self.kernel.actor.on_reconnect(cluster)
        self.run()

    # The shell

    def run(self) -> None:
        """Run the kernel until nothing is left to do at this instant. Requests are not answered."""
        while True:
            self.kernel.run(self.now)
            fresh = self.kernel.take_requests()
            for request in fresh:
                match request.body:
                    case Telling():
                        self.told.append(short(request.body.tell))
                    case Say(message, fields):
                        self.said.append(" ".join((message, *(value for _, value in fields))))
                    case Measure():
                        pass
                    case _:
                        self.flying.append(request)
            if not self._follow() and not self._look() and not fresh:
                return

    def watch(self) -> None:
        for place, position in self._open.items():
            if place[0] in self.away:
                continue
            for version, key, row in self.world.log[position:]:
                if key[:2] == place and row is None:
                    self.kernel.store.remove(key, version)
                elif key[:2] == place and row is not None:
                    self.kernel.store.put(copy(row))
            self._open[place] = len(self.world.log)
        self.run()

    def answer(self, request: Request, answer: Answer | None = None) -> None:
        self.flying.remove(request)
        self.kernel.on_answer(request.id, answer or self.carry_out(request.body), self.now)
        self.run()

    def carry_out(self, body: Body) -> Answer:
        assert not isinstance(body, Telling | Measure | Say)
        cluster = body.target.cluster if hasattr(body, "target") else ""
        if cluster in self.away:
            self.refusals += 1
            return Refused(0, "connection refused")
        if cluster in self.denying and isinstance(body, Change):
            return Refused(500, "a webhook cannot be reached")
        before = self.world.version
        answer = self.world.carry_out(body)
        if isinstance(body, Change) and not isinstance(answer, Refused):
            self.changes.append(body)
            assert self.world.version > before, f"it changes nothing: {body}"
        return answer

    def settle(self, within: timedelta = timedelta(hours=3)) -> None:
        """Deliver all changes, answer all requests and let time pass, until nothing is due within the next hours."""
        end = self.now + within
        for _ in range(5000):
            self.watch()
            if self.flying:
                self.answer(self.flying[0])
                continue
            instant = self.kernel.next_instant()
            if instant is None or instant > end:
                self.now = end
                return
            self.now = max(self.now, instant)
            self.run()
        raise AssertionError("it does not come to rest")

    def wait(self, seconds: float) -> None:
        """Let time pass. Requests are answered at once."""
        self.settle(timedelta(seconds=seconds))

    @property
    def connected(self) -> set[str]:
        return {cluster for cluster, kind in self._open if kind == "Node"}

    def written(self) -> list[tuple[str, dict[str, object]]]:
        """Return what was written since the last call: the object's name, and the body."""
        changes, self.changes = self.changes, []
        return [(change.target.name, dict(change.body)) for change in changes]

    def _follow(self) -> bool:
        """Open and close the watches that decisions ask for, as the real shell does.

        Return whether anything changed.
        """
        wanted = {*self._sources, *self.kernel.loop.sources()}
        if wanted == self._known:
            return False
        places = {(source.cluster, source.kind) for source in wanted}
        for place in [place for place in self._open if place not in places]:
            del self._open[place]
            self.kernel.store.close(*place)
            if place[0]:
                self.kernel.store.erase(Key(place[0], Connection.KIND, "", ""))
        for source in wanted - self._known:
            if source.cluster:
                self._connect(source.cluster, Connection.CONNECTING, source)
            self._list((source.cluster, source.kind))
        self._known = wanted
        return True

    def _list(self, place: Place) -> None:
        self._open[place] = len(self.world.log)
        if place[0] in self.away:
            return
        store = self.kernel.store
        store.begin_list(*place)
        for key, row in self.world.objects.items():
            if key[:2] == place:
                store.put(copy(row))
        store.end_list(*place, self.world.version)
        if place[0]:
            self._connect(place[0], Connection.FINE)

    def _connect(self, cluster: str, state: str, source: Source | None = None) -> None:
        key = Key(cluster, Connection.KIND, "", "")
        known = self.kernel.store.row(key)
        access = source.access if source else known.access if isinstance(known, Connection) else None
        if access is not None:
            self.kernel.store.write(Connection(key=key, state=state, since=self.now, error=state, access=access))

    def _look(self) -> bool:
        """Answer the facts that decisions ask for: whether a Node is there. Return whether any has changed."""
        changed = False
        for key, demand in self.kernel.loop.demands().items():
            assert isinstance(demand.argument, tuple)
            cluster, name = demand.argument
            there = "there" if node_key(name, cluster) in self.world.objects else "gone"
            fact = Value(key=key, state="stale" if cluster in self.away else "fresh", value=there)
            changed = changed or self.kernel.store.row(key) != fact
            self.kernel.store.write(fact)
        return changed


def _fail(subject: Subject, error: Exception) -> None:
    raise AssertionError(f"{subject} failed") from error
