"""Asks each key when something that it read has changed or its time has come, and never otherwise."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Protocol

import msgspec

from haulout.base.clock import after
from haulout.cluster.key import Key
from haulout.cluster.limits import RoomSet
from haulout.cluster.rows import Row
from haulout.cluster.store import CountOf, Listing, Store, TableName, Topic
from haulout.cluster.view import (
    CONFIG,
    GRANT,
    HOLD,
    OUTCOME,
    OWN_KINDS,
    PROOF,
    FactDemand,
    NotListed,
    Record,
    View,
    holds_table,
)
from haulout.core.decision import NOTHING, Decider, Decision, Source, earliest, ensure_hashable
from haulout.core.holds import Blocked, Grant, Hold, grant_key, hold_key
from haulout.kernel.rooms import Order, Rooms, Subject

TICK_FOR = timedelta(milliseconds=1)
AFTER_FAILURE_FOR = timedelta(minutes=1)
# A decision that went through more rows than this rests for a while that grows with them before it is asked again.
# Without the rest, each of 10,000 pods that leave a node would make all that remain be gone through.
MANY_ROWS = 1000
REST_FOR_EACH_ROW = timedelta(microseconds=100)
LONGEST_REST_FOR = timedelta(seconds=1)
LONG_AGO = datetime.min.replace(tzinfo=UTC)
# Most subjects make no row: one of its own each would be 216 bytes.
NONE_MADE: frozenset[Key] = frozenset()


class Actions(Protocol):
    """Where decisions go to be carried out."""

    def submit(self, subject: Subject, decision: Decision, now: datetime) -> bool:
        """True: under way, and the subject is not asked again until `Loop.ended`."""
        ...

    def rest(self, subject: Subject, now: datetime) -> None:
        """The subject was asked and wants nothing."""
        ...

    def forget(self, subject: Subject) -> None: ...

    def awaits(self, subject: Subject) -> bool:
        """Whether the effect of something that it wanted, or a proof that it reads, is not known yet."""
        ...

    def prove(self, proof: Key, subject: Subject) -> None:
        """The subject has read a proof that is not there."""
        ...

    def forget_proof(self, proof: Key) -> None:
        """No subject reads the proof any more."""
        ...


class Asked(NamedTuple):
    """What remains of an asking: what it read, the rows that it made (holds, grants, marks), when to ask again.

    There is one for each of a hundred thousand rows: a tuple takes a fifth of what a set takes.
    """

    topics: tuple[Topic, ...]
    rooms: Set[RoomSet]
    facts: Mapping[Key, FactDemand]
    made: frozenset[Key]
    until: datetime | None


class Loop:
    """Runs decisions: it knows which topics each subject has read, and which subjects are due.

    A subject is due when a topic that it has read changes, when its `until` has come, or when a room is offered to it.
    """

    def __init__(
        self,
        store: Store,
        deciders: Sequence[Decider],
        actions: Actions,
        on_failure: Callable[[Subject, Exception], None] = lambda subject, error: None,
    ) -> None:
        self._store = store
        self._deciders = {decider.name: decider for decider in deciders}
        self._deciders_of: dict[str, list[Decider]] = {}
        for decider in self._deciders.values():
            self._deciders_of.setdefault(decider.kind, []).append(decider)
        self._actions = actions
        self._on_failure = on_failure
        self._asked: dict[Subject, Asked] = {}
        self._readers: dict[Topic, set[Subject]] = {}
        self._unasked: set[Subject] = set()
        self._silent: Counter[tuple[str, str]] = Counter()
        self._due: dict[Subject, Order] = {}
        self._heap: list[Order] = []
        self._timers: list[tuple[datetime, Subject]] = []
        self._under_way: set[Subject] = set()
        self._again: set[Subject] = set()
        self._paused: dict[Subject, datetime] = {}
        # Those who did not use what they were granted, with the asking that shows what kept them.
        self._declined: dict[Subject, Asked] = {}
        # Until when those rest that went through many rows, and which of them are to be asked then.
        self._rests: dict[Subject, datetime] = {}
        self._resting: set[Subject] = set()
        self._rest_ends: list[tuple[datetime, Subject]] = []
        self._now = LONG_AGO
        self._facts: dict[Key, dict[Subject, FactDemand]] = {}
        self._sources: dict[Subject, tuple[Source, ...]] = {}
        self._sources_wanted: Counter[Source] = Counter()
        self._sources_known: frozenset[Source] | None = None
        self._rooms = Rooms(store)
        self._reconfigured = False
        self.askings = 0
        # For whoever has a clock, and wants to know how long they wait.
        self.on_due: Callable[[Subject], None] = lambda subject: None
        for kind in OWN_KINDS:
            self._judge_listing(TableName("", kind))

    # Waking

    def wake(self, subject: Subject) -> None:
        """Due now; while under way, remembered for when that has ended. It may well use a grant now."""
        self._declined.pop(subject, None)
        self._call(subject)

    def _call(self, subject: Subject) -> None:
        if subject in self._under_way:
            self._again.add(subject)
        elif self._rests and self._rests.get(subject, LONG_AGO) > self._now:
            if subject not in self._resting:
                self._resting.add(subject)
                heapq.heappush(self._rest_ends, (self._rests[subject], subject))
        elif subject in self._asked or subject in self._unasked:
            order, known = self._order(subject), self._due.get(subject)
            if known is None:
                self.on_due(subject)
            if known != order:
                self._due[subject] = order
                heapq.heappush(self._heap, order)

    def ended(self, subject: Subject) -> None:
        """What the subject had under way has been answered, refused or dropped."""
        self._under_way.discard(subject)
        if subject in self._again:
            self._again.discard(subject)
            self.wake(subject)

    def pause(self, subject: Subject, until: datetime) -> None:
        """The subject's wish was refused: what it was granted for it passes on until then."""
        self._paused[subject] = until
        for hold in self._waiting_holds(subject):
            self._store.write(msgspec.structs.replace(hold, paused_until=until))

    def _decline_if_unused(self, subject: Subject) -> None:
        """What it was granted and did not use passes on, until something changes that it read meanwhile."""
        if not self._asked[subject].made:
            return
        holds = self._waiting_holds(subject)
        if subject in self._paused or not any(map(self._is_granted, holds)) or self._actions.awaits(subject):
            return
        self._declined[subject] = self._asked[subject]
        for hold in holds:
            self._store.write(msgspec.structs.replace(hold, declined=True))

    def _is_granted(self, hold: Hold) -> bool:
        grant = self._store.row(grant_key(hold.key))
        return isinstance(grant, Grant) and grant.granted

    def _waiting_holds(self, subject: Subject) -> list[Hold]:
        asked = self._asked.get(subject)
        rows = [self._store.row(key) for key in (asked.made if asked else ())]
        return [row for row in rows if isinstance(row, Hold) and not row.claim.begun]

    def restart(self) -> None:
        """Leadership gained is a start: nothing that was concluded earlier is relied upon."""
        self._under_way.clear()
        self._again.clear()
        self._paused.clear()
        self._declined.clear()
        self._rests.clear()
        self._resting.clear()
        self._rest_ends.clear()
        subjects = {*self._asked, *self._unasked}
        for subject in subjects:
            self._leave(subject)
        self._unasked = subjects
        self._silent = Counter((subject.decider, subject.key.cluster) for subject in subjects)
        for cluster in self._store.clusters():
            for decider in self._deciders.values():
                self._store.set_listing(cluster, holds_table(decider.name), Listing.WAITING)
                if decider.cluster in (None, cluster):
                    self._judge_holds(decider, cluster)
        for subject in subjects:
            self.wake(subject)

    def follow(self) -> None:
        """Somebody else leads: nobody is asked, but whom there is to ask is known when leadership is gained."""
        changed, _, arrived = self._store.take_changes()
        for key in arrived:
            self._unasked.update(subject for subject in self.subjects(key) if subject not in self._asked)
        for topic in changed:
            if isinstance(topic, Key) and self._store.row(topic) is None:
                self._unasked.difference_update(self.subjects(topic))

    @property
    def has_due(self) -> bool:
        return bool(self._due) or self._store.has_changes

    def due(self, decider: str) -> int:
        """How many wait to be asked."""
        return sum(subject.decider == decider for subject in self._due)

    def next_instant(self) -> datetime | None:
        while self._timers and not self._stands(*self._timers[0]):
            heapq.heappop(self._timers)
        timer = self._timers[0][0] if self._timers else None
        return earliest(timer, self._rest_ends[0][0]) if self._rest_ends else timer

    # Running

    def run(self, now: datetime, enough: Callable[[], bool] = lambda: False) -> bool:
        """Asks whoever is due, in order, until nobody is (then True) or it is `enough` for now."""
        self._store.pass_time(now)
        self._now = now
        while self._rest_ends and self._rest_ends[0][0] <= now:
            _, subject = heapq.heappop(self._rest_ends)
            if subject in self._resting:
                self._resting.discard(subject)
                self._call(subject)
        while self._timers and self._timers[0][0] <= now:
            instant, subject = heapq.heappop(self._timers)
            if self._stands(instant, subject):
                self.wake(subject)
        while True:
            self._take_in()
            due = self._next()
            if due is None:
                if self._reconfigured or self._store.has_idle_counts:
                    self._reconfigured = False
                    self.forget_counts()
                return True
            self._ask(due, now)
            if enough():
                return False

    def explain(self, subject: Subject, now: datetime) -> Decision:
        """Asks afresh, recording nothing and doing nothing: what a sleeper waits for need not be kept current."""
        return self._deciders[subject.decider].decide(subject.key, View(self._store, explaining=True), now)

    def subjects(self, key: Key) -> list[Subject]:
        return [
            Subject(decider.name, key)
            for decider in self._deciders_of.get(key.kind, ())
            if decider.cluster is None or decider.cluster == key.cluster
        ]

    def demands(self) -> dict[Key, FactDemand]:
        """The questions to the outside world that somebody reads, each at the fastest pace asked for."""
        return {key: min(readers.values(), key=lambda demand: demand.pace_for) for key, readers in self._facts.items()}

    def is_demanded(self, fact: Key) -> bool:
        return fact in self._facts

    def sources(self) -> frozenset[Source]:
        """What decisions want watched. The same object for as long as that does not change."""
        if self._sources_known is None:
            self._sources_known = frozenset(self._sources_wanted)
        return self._sources_known

    def forget_counts(self) -> None:
        """Stops keeping up counts that nobody reads any more: another configuration asks about others."""
        read = {(topic.cluster, topic.of) for topic in self._readers if isinstance(topic, CountOf)}
        self._store.forget_counts(read | self._rooms.counts())

    def size(self) -> int:
        """Everything remembered per subject: after any churn as much as before."""
        parts = (
            self._asked,
            self._readers,
            self._unasked,
            self._due,
            self._under_way,
            self._again,
            self._paused,
            self._declined,
            self._rests,
            self._resting,
            self._facts,
            self._sources,
        )
        return sum(len(part) for part in parts) + self._rooms.size()

    # Taking in what happened

    def _take_in(self) -> None:
        # Whether claims are listed follows from other tables, so that taking in may change something itself.
        while self._store.has_changes:
            self._take(*self._store.take_changes())

    def _take(self, changed: set[Topic], freed: set[CountOf], arrived: list[Key]) -> None:
        for key in arrived:
            for subject in self.subjects(key):
                if subject not in self._asked and subject not in self._unasked:
                    self._unasked.add(subject)
                    self._silent[subject.decider, key.cluster] += 1
                self.wake(subject)
        for topic in changed:
            readers = self._readers.get(topic, ())
            if isinstance(topic, Key):
                # Being granted the same again is no reason to use it this time.
                wake = self._call if topic.kind == GRANT else self.wake
                for subject in readers:
                    wake(subject)
                if topic.kind == CONFIG:
                    self._reconfigured = True
                if self._store.row(topic) is None:
                    for subject in self.subjects(topic):
                        self.wake(subject)
                continue
            for subject in readers:
                self.wake(subject)
            if isinstance(topic, TableName):
                self._judge_listing(topic)
        for place in freed:
            self._rooms.free(place)

    def _judge_listing(self, table: TableName) -> None:
        for decider in self._deciders.values():
            if decider.kind == table.kind and decider.cluster in (None, table.cluster):
                self._judge_holds(decider, table.cluster)

    def _judge_holds(self, decider: Decider, cluster: str) -> None:
        """Publish whether the claims of a decision are known: once each of its keys has been asked."""
        table = self._store.table(cluster, decider.kind)
        # Rows of our own are never listed by a server: they are known as soon as they are written.
        listing = Listing.LISTED if decider.kind in OWN_KINDS else table.listing
        if listing is not Listing.LISTED or not self._silent[decider.name, cluster]:
            self._store.set_listing(cluster, holds_table(decider.name), listing, table.why)

    # Asking

    def _next(self) -> Subject | None:
        while True:
            while self._heap and self._due.get(self._heap[0].subject) != self._heap[0]:
                heapq.heappop(self._heap)
            first = self._heap[0] if self._heap else None
            offered = self._rooms.offer(before=first)
            if offered is None:
                return first.subject if first else None
            self._declined.pop(offered, None)
            if offered not in self._under_way:
                return offered
            self._again.add(offered)

    def _ask(self, subject: Subject, now: datetime) -> None:
        self._due.pop(subject, None)
        self.askings += 1
        record = Record()
        known = self._asked.get(subject)
        standing = known.made if known else NONE_MADE
        decider = self._deciders[subject.decider]
        try:
            decision = decider.decide(subject.key, View(self._store, record), now)
            if decision is not NOTHING:
                ensure_hashable(decision)
            until = after(max(decision.until, now), TICK_FOR) if decision.until is not None else None
        except NotListed as off:
            self._keep_outcomes(known, record)
            if off.listing is Listing.WAITING:
                holds = any(key.kind == HOLD for key in standing)
                if self._store.row(subject.key) is None and not holds and subject not in self._sources:
                    # Its table was closed: if the object comes back, it comes as a new one.
                    self._forget(subject)
                    self._heard(subject, decider)
                    return
                self._remember(subject, record, standing, None)
                return
            self._failed(subject, record, standing, off, now)
        except Exception as error:  # noqa: BLE001 - one bad object never stalls the others
            self._keep_outcomes(known, record)
            self._failed(subject, record, standing, error, now)
        else:
            self._decided(subject, record, standing, decision, until, now)
        self._heard(subject, decider)

    def _keep_outcomes(self, known: Asked | None, record: Record) -> None:
        """Who did not get as far as asking what became of its messages would otherwise send them again."""
        topics = known.topics if known else ()
        record.topics.update(topic for topic in topics if isinstance(topic, Key) and topic.kind == OUTCOME)

    def _failed(
        self, subject: Subject, record: Record, standing: frozenset[Key], error: Exception, now: datetime
    ) -> None:
        """It keeps what it claimed; if it never claimed anything, nothing new is granted on its nodes.

        A surface that cannot read its own objects blocks no other: its claims are known from the marks on Nodes.
        """
        self._on_failure(subject, error)
        decider = self._deciders[subject.decider]
        is_blind = isinstance(error, NotListed) and error.table == (subject.key.cluster, decider.kind)
        if not is_blind and not any(key.kind == HOLD for key in standing):
            for node in decider.nodes(subject.key, self._store):
                blocked = Key(node.cluster, HOLD, subject.decider, f"{node.name}//blocked by {subject.key}")
                self._store.write(Blocked(key=blocked, surface=subject.decider, node=node))
                standing |= {blocked}
        self._remember(subject, record, standing, now + AFTER_FAILURE_FOR)
        self._decline_if_unused(subject)

    def _decided(
        self,
        subject: Subject,
        record: Record,
        standing: frozenset[Key],
        decision: Decision,
        until: datetime | None,
        now: datetime,
    ) -> None:
        rows = list(self._rows(subject, decision, now))
        made = frozenset(row.key for row in rows) if rows else NONE_MADE
        self._want(subject, decision.sources)
        for key in standing - made:
            self._store.erase(key)
        for row in rows:
            self._store.write(row)
            if isinstance(row, Hold):
                self._reorder(row.claim.node)
        # Who claims is told of its grants, also where it did not ask for them: it uses them or they pass on.
        record.topics.update(grant_key(key) for key in made if key.kind == HOLD)
        self._remember(subject, record, made, until)
        for proof in sorted(record.proofs):
            self._actions.prove(proof, subject)
        if decision.actions:
            try:
                is_under_way = self._actions.submit(subject, decision, now)
            except Exception as error:  # noqa: BLE001 - what a plugin wants may be nothing that can be sent
                self._failed(subject, record, made, error, now)
                return
            if is_under_way:
                self._under_way.add(subject)
                return
        else:
            self._actions.rest(subject, now)
            if self._store.row(subject.key) is None and not (made or decision.sources) and until is None:
                self._forget(subject)
                return
        self._decline_if_unused(subject)

    def _reorder(self, node: Key) -> None:
        """Who waits to be asked about a node may rank differently now that more is claimed of it."""
        for subject in self.subjects(node):
            if subject in self._due:
                self._call(subject)

    def _rows(self, subject: Subject, decision: Decision, now: datetime) -> Iterator[Row]:
        paused = self._paused.get(subject)
        if paused is not None and paused <= now:
            del self._paused[subject]
            paused = None
        declined = subject in self._declined
        for claim in decision.claims:
            surface = self._deciders[subject.decider].surface
            hold = Hold(key=hold_key(subject.decider, claim), surface=surface, claim=claim)
            yield hold if claim.begun else msgspec.structs.replace(hold, paused_until=paused, declined=declined)
        yield from decision.grants
        yield from decision.marks

    def _want(self, subject: Subject, sources: tuple[Source, ...]) -> None:
        """Thousands may want the same to be watched, so that they are counted where others are rows."""
        before = self._sources.get(subject, ())
        if before == sources:
            return
        if sources:
            self._sources[subject] = sources
        else:
            del self._sources[subject]
        for source in sources:
            self._sources_wanted[source] += 1
            if self._sources_wanted[source] == 1:
                self._sources_known = None
        for source in before:
            self._sources_wanted[source] -= 1
            if not self._sources_wanted[source]:
                del self._sources_wanted[source]
                self._sources_known = None

    def _heard(self, subject: Subject, decider: Decider) -> None:
        if subject in self._unasked:
            self._unasked.discard(subject)
            place = (subject.decider, subject.key.cluster)
            self._silent[place] -= 1
            if not self._silent[place]:
                del self._silent[place]
            self._judge_holds(decider, subject.key.cluster)

    def _remember(self, subject: Subject, record: Record, made: frozenset[Key], until: datetime | None) -> None:
        if record.rows > MANY_ROWS:
            self._rests[subject] = self._now + min(record.rows * REST_FOR_EACH_ROW, LONGEST_REST_FOR)
        elif self._rests:
            self._rests.pop(subject, None)
        old = self._asked.get(subject)
        kept = self._declined.get(subject)
        if kept is not None:
            # What kept it was perhaps read only because of the grant, and has to wake it all the same.
            record.add(kept.topics, kept.rooms, kept.facts)
            until = earliest(until, kept.until)
        topics = old.topics if old else ()
        before = set(topics)
        if before != record.topics:
            topics = tuple(record.topics)
            for topic in before - record.topics:
                self._unread(topic, subject)
            for topic in record.topics - before:
                self._readers.setdefault(topic, set()).add(subject)
        if record.rooms or self._rooms.waits(subject):
            self._rooms.wait(self._order(subject), record.rooms)
        if record.facts or (old is not None and old.facts):
            self._demand(subject, old.facts if old else {}, record.facts)
        self._asked[subject] = Asked(topics, record.rooms, record.facts, made, until)
        if until is not None and (old is None or old.until != until):
            heapq.heappush(self._timers, (until, subject))
        self._trim_timers()

    def _trim_timers(self) -> None:
        """Timers of those who are gone or have another in mind would stand until their time comes."""
        if len(self._timers) > 2 * len(self._asked) + 8:
            self._timers = sorted(timer for timer in set(self._timers) if self._stands(*timer))

    def _demand(self, subject: Subject, before: Mapping[Key, FactDemand], after: Mapping[Key, FactDemand]) -> None:
        for key in before.keys() - after.keys():
            del self._facts[key][subject]
            if not self._facts[key]:
                del self._facts[key]
        for key, demand in after.items():
            self._facts.setdefault(key, {})[subject] = demand

    def _unread(self, topic: Topic, subject: Subject) -> None:
        readers = self._readers[topic]
        readers.discard(subject)
        if not readers:
            del self._readers[topic]
            if isinstance(topic, Key) and topic.kind == OUTCOME:
                # The state that the message belonged to is stored: nobody asks what became of it any more.
                self._store.erase(topic)
            elif isinstance(topic, Key) and topic.kind == PROOF:
                # The conclusion is drawn, or the node is not empty after all: the next one needs a list of its own.
                self._actions.forget_proof(topic)

    def _forget(self, subject: Subject) -> None:
        self._leave(subject)
        self._due.pop(subject, None)
        self._paused.pop(subject, None)
        self._declined.pop(subject, None)
        self._rests.pop(subject, None)
        self._resting.discard(subject)
        self._actions.forget(subject)

    def _leave(self, subject: Subject) -> None:
        asked = self._asked.pop(subject, None)
        if asked is None:
            return
        for topic in asked.topics:
            self._unread(topic, subject)
        self._rooms.wait(self._order(subject), set())
        self._demand(subject, asked.facts, {})
        self._want(subject, ())
        for key in asked.made:
            self._store.erase(key)
        self._trim_timers()

    def _stands(self, instant: datetime, subject: Subject) -> bool:
        asked = self._asked.get(subject)
        return asked is not None and asked.until == instant

    def _order(self, subject: Subject) -> Order:
        decider = self._deciders[subject.decider]
        return Order(decider.phase, decider.rank(subject.key, self._store), subject)
