"""Runs the decision of each key when a topic that it has read changes or its `until` has come, and never otherwise."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import Protocol

from haulout.base.clock import after
from haulout.cluster.key import Key
from haulout.cluster.rows import Row
from haulout.cluster.store import Listing, Store
from haulout.cluster.topics import Bucket, CountOf, TableName, Topic
from haulout.cluster.view import CONFIG, GRANT, HOLD, OUTCOME, PROOF, FactDemand, NotListed, Record, View
from haulout.core.decision import ALIKE, NOTHING, Decider, Decision, Source, earliest, ensure_hashable
from haulout.core.holds import GRANTED, Blocked, Hold, grant_key, granted_topic
from haulout.kernel.askings import Asked, Askings
from haulout.kernel.cordons import Cordons
from haulout.kernel.demands import FactDemands, SourceDemands
from haulout.kernel.due import DueSubjects
from haulout.kernel.hold_rows import HoldRows
from haulout.kernel.newcomers import Newcomers
from haulout.kernel.pauses import Pauses
from haulout.kernel.rests import Rests
from haulout.kernel.rooms import Order, Rooms, Subject

TICK_FOR = timedelta(milliseconds=1)
AFTER_FAILURE_FOR = timedelta(minutes=1)
# So many rows of closed tables are announced as gone before the next decision runs, which takes about a millisecond.
DEPARTING_AT_ONCE = 50
LONG_AGO = datetime.min.replace(tzinfo=UTC)
# One shared object: most subjects make no row, and an empty set of its own would take 216 bytes each.
NONE_MADE: frozenset[Key] = frozenset()


class Actions(Protocol):
    """The part of the actor that the loop calls: it carries decisions out."""

    def submit(self, subject: Subject, decision: Decision, now: datetime) -> bool:
        """Begin to carry a decision out.

        Return True if something of it is under way. The subject is then not asked again until `Loop.on_end`.
        """
        ...

    def rest(self, subject: Subject, now: datetime) -> None:
        """Note that the subject was asked and wants nothing done."""
        ...

    def forget(self, subject: Subject) -> None: ...

    def awaits(self, subject: Subject) -> bool:
        """Whether the effect of a write that the subject wants, or a proof that it reads, is not known yet."""
        ...

    def prove(self, proof: Key, subject: Subject) -> None:
        """Begin the list for a proof that the subject has read and that does not exist yet."""
        ...

    def forget_proof(self, proof: Key) -> None:
        """Forget a proof that no subject reads any more."""
        ...


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
        cordons: Cordons | None = None,
        pauses: Pauses | None = None,
    ) -> None:
        self._store = store
        self._pauses = pauses or Pauses()
        self._cordons = cordons or Cordons(keeps_ledger=True)
        # A grant wakes its subject whether or not a decision has read it, so the index must exist from the start.
        store.keep_index(GRANTED)
        self._deciders = {decider.name: decider for decider in deciders}
        self._deciders_of: dict[str, list[Decider]] = {}
        for decider in self._deciders.values():
            self._deciders_of.setdefault(decider.kind, []).append(decider)
        # The decision functions whose subjects have an order within their phase.
        self._ranks = {decider.name: decider.rank for decider in deciders if decider.is_ranked}
        self._ranked = [decider.name for decider in self._deciders_of.get("Node", ()) if decider.name in self._ranks]
        self._actions = actions
        self._on_failure = on_failure
        self._askings = Askings(self._unread)
        self._newcomers = Newcomers(store, tuple(self._deciders.values()))
        self._due = DueSubjects()
        # The workload cluster whose row has made a subject due.
        self._woken_by: dict[Subject, str] = {}
        self._under_way: set[Subject] = set()
        self._again: set[Subject] = set()
        surfaces = {decider.name: decider.surface for decider in deciders}
        self._holds = HoldRows(store, self._askings, surfaces)
        self._rests = Rests()
        self._now = LONG_AGO
        self._facts = FactDemands()
        self._sources = SourceDemands()
        self._rooms = Rooms(store)
        self._reconfigured = False
        self.askings = 0
        # How often a configuration has changed. The sources of surfaces may change with it.
        self.configurations = 0
        # Called with each subject that becomes due, so that a caller with a clock can measure how long it waits.
        self.on_due: Callable[[Subject], None] = lambda subject: None
        # Called before each asking with the workload cluster that caused it, or an empty text, so that a caller with a
        # clock can measure how much time each cluster takes.
        self.on_ask: Callable[[str], None] = lambda cluster: None

    def wake(self, subject: Subject) -> None:
        """Make a subject due, and let it use its grants again if it had declined them.

        If something of it is under way, it becomes due once that has ended.
        """
        if self._holds.declined:
            self._holds.reconsider(subject)
        self._call(subject)

    def _call(self, subject: Subject) -> None:
        if subject in self._under_way:
            self._again.add(subject)
        elif (subject in self._askings.asked or subject in self._newcomers) and self._due.add(self._order(subject)):
            self.on_due(subject)

    def _wake_readers(self, topic: Topic, readers: Collection[Subject]) -> None:
        """Make the subjects due that have read a topic. Those that rest become due when the rest is over."""
        if _is_about_grants(topic):
            # A subject that has declined its grants is asked, but does not get them back: a renewed grant alone is no
            # reason to use it.
            for subject in readers:
                self._call(subject)
            return
        cluster = getattr(topic, "cluster", "")
        for subject in readers:
            if cluster:
                self._woken_by.setdefault(subject, cluster)
            if (
                subject in self._rests.resting
                and subject not in self._under_way
                and self._rests.delay(subject, topic, self._now)
            ):
                self._holds.reconsider(subject)
            else:
                self.wake(subject)

    def on_end(self, subject: Subject) -> None:
        """Note that all requests of the subject's last decision have been answered, refused or dropped."""
        self._under_way.discard(subject)
        if subject in self._again:
            self._again.discard(subject)
            self.wake(subject)

    def pause(self, subject: Subject, until: datetime) -> None:
        """Note that the subject's write was refused. Until this instant its grants pass on to others."""
        self._holds.pause(subject, until)

    def restart(self) -> None:
        """Begin as a new leader: forget all earlier decisions and make every subject due."""
        self._under_way.clear()
        self._again.clear()
        self._holds.clear()
        self._rests.clear()
        self._woken_by.clear()
        subjects = {*self._askings.asked, *self._newcomers}
        for subject in subjects:
            self._leave(subject)
        self._newcomers.restart(subjects)
        for subject in subjects:
            self.wake(subject)

    def follow(self) -> bool:
        """Track new and removed subjects while another replica leads, without running decisions.

        Return False while rows of closed tables have not been announced as gone.
        """
        self._store.depart(DEPARTING_AT_ONCE)
        changed, _, arrived = self._store.take_changes()
        self._greet(arrived)
        for topic in changed:
            if isinstance(topic, Key):
                if topic.kind == CONFIG:
                    self._note_configuration()
                if self._store.row(topic) is None:
                    self._newcomers.discard(self.subjects(topic))
        return not self._store.has_departing

    @property
    def has_due(self) -> bool:
        return bool(self._due or self._store.changed or self._store.freed) or self._store.has_departing

    def due(self, decider: str) -> int:
        """Return how many subjects of a decision function are due."""
        return self._due.count(decider)

    def next_instant(self) -> datetime | None:
        return earliest(self._askings.next_instant(), self._rests.next_instant())

    def run(self, now: datetime, enough: Callable[[], bool] | None = None) -> bool:
        """Run the due subjects in order. Return True when none is left, False when `enough()` stopped it early."""
        self._store.pass_time(now)
        self._now = now
        while (rested := self._rests.take_rested(now)) is not None:
            self._call(rested)
        while (subject := self._askings.take_due(now)) is not None:
            self.wake(subject)
        store = self._store
        while True:
            if store.has_departing:
                store.depart(DEPARTING_AT_ONCE)
            # Whether claims are listed follows from other tables, so taking in changes may make further changes.
            while store.changed or store.freed:
                self._take(*store.take_changes())
            due = self._next()
            if due is not None:
                self._ask(due, now)
            elif not store.has_departing:
                if self._reconfigured or store.has_idle_counts:
                    self._reconfigured = False
                    self.forget_counts()
                return True
            if enough is not None and enough():
                return False

    def explain(self, subject: Subject, now: datetime, view: View | None = None) -> Decision:
        """Run a decision without recording or doing anything.

        This finds the current reasons: the loop does not update those of a subject that is not due. `view`: what the
        decision reads; None: the store.
        """
        view = view or View(self._store, explaining=True)
        decision = self._cordons.resolve(self._deciders[subject.decider].decide(subject.key, view, now), view)
        return self._pauses.explain(decision, subject, view, self._store)

    def subjects(self, key: Key) -> list[Subject]:
        return [
            Subject(decider.name, key)
            for decider in self._deciders_of.get(key.kind, ())
            if decider.cluster is None or decider.cluster == key.cluster
        ]

    def demands(self) -> dict[Key, FactDemand]:
        """Return the facts that decisions read, each at the fastest pace asked for."""
        return self._facts.all()

    def is_demanded(self, fact: Key) -> bool:
        return fact in self._facts

    def sources(self) -> frozenset[Source]:
        """Return what decisions want watched: the same object for as long as that does not change."""
        return self._sources.all()

    def forget_counts(self) -> None:
        """Stop updating counts that no decision reads any more, as after a change of the configuration."""
        read = {(topic.cluster, topic.of) for topic in self._askings.readers if isinstance(topic, CountOf)}
        self._store.forget_counts(read | self._rooms.counts())

    def size(self) -> int:
        """Return how many entries are remembered for subjects; tests compare it before and after churn."""
        parts = (
            self._askings,
            self._newcomers,
            self._due,
            self._woken_by,
            self._under_way,
            self._again,
            self._holds,
            self._rests,
            self._facts,
            self._sources,
        )
        return sum(len(part) for part in parts) + self._rooms.size()

    def _take(self, changed: set[Topic], freed: set[CountOf], arrived: list[Key]) -> None:
        if arrived:
            # Most rows are pods, about which there is no decision.
            arrived = [key for key in arrived if key.kind in self._deciders_of]
            self._greet(arrived)
            for key in arrived:
                for subject in self.subjects(key):
                    self.wake(subject)
        all_readers = self._askings.readers
        for topic in changed:
            # Most topics have no reader. At a start no topic has one.
            if readers := all_readers.get(topic):
                self._wake_readers(topic, readers)
            if isinstance(topic, Key):
                if topic.kind == CONFIG:
                    self._note_configuration()
                if topic.kind in self._deciders_of and self._store.row(topic) is None:
                    for subject in self.subjects(topic):
                        self.wake(subject)
            elif isinstance(topic, TableName):
                self._newcomers.table_changed(topic)
        for place in freed:
            self._rooms.free(place)

    def _greet(self, arrived: list[Key]) -> None:
        """Note the subjects of new rows as newcomers, which have not been asked yet."""
        for key in arrived:
            for subject in self.subjects(key):
                if subject not in self._askings.asked:
                    self._newcomers.add(subject)

    def _note_configuration(self) -> None:
        self._reconfigured = True
        self.configurations += 1

    def _next(self) -> Subject | None:
        while True:
            first = self._due.first()
            offered = self._rooms.offer(before=first) if self._rooms.opened else None
            if offered is None:
                return first.subject if first else None
            self._holds.reconsider(offered)
            if offered not in self._under_way:
                return offered
            self._again.add(offered)

    def _ask(self, subject: Subject, now: datetime) -> None:
        self._due.remove(subject)
        self.on_ask(self._woken_by.pop(subject, subject.key.cluster))
        self.askings += 1
        record = Record()
        known = self._askings.asked.get(subject)
        standing = known.made if known else NONE_MADE
        decider = self._deciders[subject.decider]
        is_paused = False
        try:
            view = View(self._store, record)
            decision = decider.decide(subject.key, view, now)
            if decision is not NOTHING:
                ensure_hashable(decision)
                decision = self._cordons.resolve(decision, view)
                allowed = self._pauses.resolve(decision, subject, view, self._store)
                is_paused, decision = allowed is not decision, allowed
            until = after(max(decision.until, now), TICK_FOR) if decision.until is not None else None
        except NotListed as off:
            self._keep_outcomes(known, record)
            if off.listing is Listing.WAITING:
                holds = any(key.kind == HOLD for key in standing)
                if self._store.row(subject.key) is None and not holds and subject not in self._sources:
                    # The table of the object was closed. If the object comes back, it is a new subject.
                    self._forget(subject)
                    self._newcomers.on_decision(subject, decider)
                    return
                self._remember(subject, record, standing, None)
                return
            self._failed(subject, record, standing, off, now)
        except Exception as error:  # noqa: BLE001 - one bad object never stalls the others
            self._keep_outcomes(known, record)
            self._failed(subject, record, standing, error, now)
        else:
            self._decided(subject, record, standing, decision, until, now, is_paused=is_paused)
        if self._newcomers.subjects:
            self._newcomers.on_decision(subject, decider)

    def _keep_outcomes(self, known: Asked | None, record: Record) -> None:
        """Keep the outcomes of a subject whose decision stopped before it read them.

        Otherwise they would be forgotten, and the decision would send its messages again.
        """
        topics = known.topics if known else ()
        record.topics.update(topic for topic in topics if isinstance(topic, Key) and topic.kind == OUTCOME)

    def _failed(
        self, subject: Subject, record: Record, standing: frozenset[Key], error: Exception, now: datetime
    ) -> None:
        """Note a decision that failed. Its claims stay; if it has none, nothing new is granted on its nodes.

        A surface that cannot read its own objects blocks no other surface: its claims show on the Nodes themselves.
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
        *,
        is_paused: bool,
    ) -> None:
        # Most decisions make no row.
        has_rows = decision.claims or decision.grants or decision.marks or subject in self._holds.paused
        rows = self._rows(subject, decision, now) if has_rows else ()
        made = frozenset([row.key for row in rows]) if rows else NONE_MADE
        if decision.sources or self._sources.wanted:
            self._sources.want(subject, decision.sources)
        if standing:
            for key in standing - made:
                self._store.erase(key)
        holds: list[Key] = []
        for row in rows:
            is_new = self._store.write(row)
            if isinstance(row, Hold):
                if is_new:
                    self._reorder(row.claim.node)
                if not row.claim.begun:
                    holds.append(row.key)
        # A subject with claims is woken by the arbiter's answers even if its decision has not read them, so that it
        # uses the grant or declines it. With several claims, which may be of use only together, refusals wake it, too.
        # A claim that has begun is never refused, so its answer tells nothing new.
        if holds:
            record.topics.update(map(grant_key, holds) if len(holds) > 1 else map(granted_topic, holds))
        self._remember(subject, record, made, until)
        if record.proofs:
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
            if not (made or decision.sources) and until is None and self._store.row(subject.key) is None:
                self._forget(subject)
                return
        # A grant that a pause keeps from being used stays. If it was declined here, a decision that reads the holds of the
        # node would run again because of that, get the grant back, and so on without end.
        if decision.claims and not is_paused:
            self._decline_if_unused(subject)

    def _reorder(self, node: Key) -> None:
        """Update the places of the due subjects of a node, whose ranks may have changed with its claims."""
        for decider in self._ranked:
            subject = Subject(decider, node)
            if subject in self._due:
                self._call(subject)

    def _rows(self, subject: Subject, decision: Decision, now: datetime) -> Sequence[Row]:
        return (*self._holds.of_claims(subject, decision.claims, now), *decision.grants, *decision.marks)

    def _decline_if_unused(self, subject: Subject) -> None:
        asked = self._askings.asked.get(subject)
        if asked is not None and asked.made:
            self._holds.decline(subject, asked, self._actions.awaits)

    def _remember(self, subject: Subject, record: Record, made: frozenset[Key], until: datetime | None) -> None:
        if record.large_buckets or subject in self._rests.resting:
            self._rests.on_decision(subject, record, self._now)
        declined = self._holds.declined.get(subject) if self._holds.declined else None
        if declined is not None:
            # What kept the subject from using its grant may be in rows that it reads only with the grant. So a change
            # of those has to wake it, too.
            record.add(declined.topics, declined.rooms, declined.facts)
            until = earliest(until, declined.until)
        if record.rooms or subject in self._rooms.waits:
            self._rooms.wait(self._order(subject), record.rooms)
        old = self._askings.remember(subject, record, made, until)
        if record.facts or (old is not None and old.facts):
            self._facts.want(subject, old.facts if old else {}, record.facts)

    def _unread(self, topic: Topic) -> None:
        """Forget the outcome or proof that a topic stands for, now that no decision reads it."""
        if isinstance(topic, Key) and topic.kind == OUTCOME:
            # The state that the message was sent for is stored, so that no decision reads the message's outcome any
            # more.
            self._store.erase(topic)
        elif isinstance(topic, Key) and topic.kind == PROOF:
            # The surface has either declared the node empty, or found that it is not. The next such declaration needs a
            # new list.
            self._actions.forget_proof(topic)

    def _forget(self, subject: Subject) -> None:
        self._leave(subject)
        self._due.remove(subject)
        self._woken_by.pop(subject, None)
        self._holds.forget(subject)
        self._rests.forget(subject)
        self._actions.forget(subject)

    def _leave(self, subject: Subject) -> None:
        asked = self._askings.forget(subject)
        if asked is None:
            return
        self._rooms.wait(self._order(subject), set())
        self._facts.want(subject, asked.facts, {})
        self._sources.want(subject, ())
        for key in asked.made:
            self._store.erase(key)

    def _order(self, subject: Subject) -> Order:
        rank = self._ranks.get(subject.decider)
        return Order(self._deciders[subject.decider].phase, rank(subject.key, self._store) if rank else ALIKE, subject)


def _is_about_grants(topic: Topic) -> bool:
    return topic.name == GRANTED.name if isinstance(topic, Bucket) else isinstance(topic, Key) and topic.kind == GRANT
