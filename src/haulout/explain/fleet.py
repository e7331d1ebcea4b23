"""A whole fleet as data: nodes by group and state, the surfaces that hold them, budgets, and waits by root cause."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Annotated

import msgspec

from haulout.base.bounds import text as cut_text
from haulout.cluster.key import Key
from haulout.cluster.limits import Limit
from haulout.cluster.rows import NodeRow, Row, Value
from haulout.cluster.store import Listing
from haulout.cluster.view import MARK, NotListed, View
from haulout.core.arbiter import NAME as ARBITER
from haulout.core.budgets.budget import Nodes
from haulout.core.budgets.counts import Ruling, Unavailable, closed_key
from haulout.core.budgets.cover import UNAVAILABLE
from haulout.core.cordon import CORDON_REASON
from haulout.core.cordon_remains import CODE as LEFT_BEHIND
from haulout.core.declaration import Declaration, NodeObjects, Rollout
from haulout.core.drain.options import DRAINS_OF_NODE, DrainRow
from haulout.core.drain.progress import progress
from haulout.core.drain.progress import reasons as drain_reasons
from haulout.core.holds import HOLDS_OF_NODE, LONG_AGO, Grant, Hold, grant_key
from haulout.core.reason import NOT_WANTED, Course, Reason, best_act, roots
from haulout.explain.codes import course_of, is_failure
from haulout.explain.cordons import act_of, has_foreign_cordon
from haulout.explain.deletions import HELD, deletion_of, is_deleting
from haulout.explain.overrides import OverrideState, overrides_in
from haulout.explain.pauses import PauseState, pauses_in
from haulout.explain.unread_text import with_own_rights, without_blame
from haulout.kernel.kernel import Kernel
from haulout.kernel.rooms import Subject
from haulout.surfaces.registry import surfaces

# The states of a node. In this order, the states in which work goes on come first.
DRAINING, RETURNING, OUT, WAITING, NOT_READY, CORDONED, IN_SERVICE = (
    "draining",
    "returning",
    "in maintenance",
    "waiting",
    "not ready",
    "cordoned",
    "in service",
)
STATES = (IN_SERVICE, WAITING, DRAINING, OUT, RETURNING, CORDONED, NOT_READY)
State = Annotated[str, msgspec.Meta(examples=list(STATES))]
# Longer chains of nodes that wait for each other are cut, because people cannot follow them.
LONGEST_CHAIN = 8
# The longest reason of a cordon that is shown.
LONGEST_CORDON = 200
# The most causes that are named behind a failure.
MOST_BLOCKERS = 2
NO_ROOM = "no-room"
TURN_TAKEN = "turn-taken"


class Work(msgspec.Struct, frozen=True, rename="camel"):
    """One maintenance of one node by any surface.

    `object`: kind and name of the object that asks for it. `state`: the state that this maintenance gives to the node.
    `pods_left`: the pods that its drain still waits for. `ends_at`: when the last of their grace periods ends.
    `waits_for`: the root causes that block it, in the order of the decision's reasons.
    """

    surface: str
    object: str
    node: str
    state: State
    since: datetime | None = None
    pods_left: int = 0
    ends_at: datetime | None = None
    waits_for: tuple[str, ...] = ()


class NodeState(msgspec.Struct, frozen=True):
    """One node of the fleet. `group`: the value of the label that groups nodes. `holders`: the surfaces that hold it."""

    name: str
    group: str
    state: State
    holders: tuple[str, ...] = ()


class BudgetState(msgspec.Struct, frozen=True, rename="camel"):
    """The state of a NodeDisruptionBudget, or of etcd's quorum.

    `used`: how many nodes are out of service. `allowed`: how many may be. `left`: how many more may be. `allowed` and
    `left` are null if any number may be. `next_opening`: when its window opens next. `problems`: what is wrong with it.
    """

    name: str
    used: int
    allowed: int | None = None
    places_left: int | None = msgspec.field(default=None, name="left")
    next_opening: datetime | None = None
    problems: tuple[str, ...] = ()


class Cause(msgspec.Struct, frozen=True):
    """A root cause for which nodes wait.

    `nodes`: all nodes that wait because of it. `at`: those that wait for it directly; the others wait for these nodes.
    `act`: the one act that would help. `until`: the first instant at which time alone lets one of the nodes go on.
    """

    code: str
    text: str
    nodes: tuple[str, ...]
    act: str = ""
    until: datetime | None = None
    at: tuple[str, ...] = ()


class Failure(msgspec.Struct, frozen=True):
    """Something that has failed or expired: a maintenance, a package, a rollout.

    `object`: kind and name of what has failed. `node`: its node; empty if it is about several. `act`: what would help.
    """

    code: str
    object: str
    node: str
    text: str
    act: str = ""


class HandCordon(msgspec.Struct, frozen=True):
    """A node that a person cordoned, with the reason that `haulout cordon --reason` noted; empty: none is noted.

    `by`: the client that wrote the cordon. `at`: when it did.
    """

    node: str
    reason: str
    by: str = ""
    at: datetime | None = None


class Fleet(msgspec.Struct, frozen=True, rename="camel"):
    """The state of a fleet at one instant.

    `incomplete`: what could not be read, and is therefore missing. `not_served`: the kinds that the cluster does not
    serve, by the names of their definitions.
    """

    at: datetime
    nodes: tuple[NodeState, ...]
    works: tuple[Work, ...]
    budgets: tuple[BudgetState, ...]
    causes: tuple[Cause, ...]
    incomplete: tuple[str, ...] = ()
    not_served: tuple[str, ...] = ()
    rollouts: tuple[Rollout, ...] = ()
    failures: tuple[Failure, ...] = ()
    pauses: tuple[PauseState, ...] = ()
    overrides: tuple[OverrideState, ...] = ()
    cordons: tuple[HandCordon, ...] = ()

    @property
    def is_blocked(self) -> bool:
        """Whether a node waits for something that does not happen by itself."""
        return bool(self.causes)


def fleet_of(
    kernel: Kernel, declarations: Sequence[Declaration], wanted: Iterable[str], group_by: str, now: datetime
) -> Fleet:
    """Return the state of the fleet, from a kernel whose decisions have settled.

    `declarations`: the surfaces of the kernel. `wanted`: the kinds that they need. `group_by`: the label that groups nodes.
    """
    found = _Gathering(kernel, declarations, now)
    rows = [row for row in kernel.store.rows("", "Node") if isinstance(row, NodeRow)]
    works = tuple(found.works(rows))
    nodes = tuple(found.node(row, group_by) for row in rows)
    tables = [kernel.store.table("", kind) for kind in sorted({*wanted})]
    unread = [
        f"{table.name.kind}: {without_blame(table.why) or 'no answer'}"
        for table in tables
        if table.listing is Listing.UNREADABLE
    ]
    rollouts = tuple(_rollouts(kernel, declarations))
    return Fleet(
        now,
        nodes,
        works,
        tuple(_budgets(kernel)),
        found.causes(),
        tuple(unread),
        rollouts=rollouts,
        cordons=tuple(found.cordons(rows)),
        failures=found.failures(),
        pauses=pauses_in(kernel.store, declarations),
        overrides=overrides_in(kernel.store, now),
    )


class _Gathering:
    """Collects the reasons why nodes wait, so that chains of nodes that wait for each other can be followed.

    `works` has to be consumed before `causes` and `node` are called: it fills what they read.
    """

    def __init__(self, kernel: Kernel, declarations: Sequence[Declaration], now: datetime) -> None:
        self._kernel = kernel
        self._declared = {each.name: each for each in declarations}
        # The names of the deciders that decide about nodes.
        self._asked = [each.explains["Node"] for each in declarations if "Node" in each.explains]
        self._now = now
        self._view = View(kernel.store, explaining=True)
        # The root reasons of each node that waits for something.
        self._ends: dict[str, list[Reason]] = {}
        # The root reasons of decisions that wait for a full limit, by decider and refusals.
        self._takers: dict[tuple[str, tuple[str, ...]], list[Reason]] = {}
        # The nodes that an object is about.
        self._wanted: set[str] = set()
        # The objects whose deletion a finalizer of another program holds, with their nodes.
        self._held: dict[Key, Cause] = {}
        # What has failed, by object and node.
        self._failures: dict[tuple[Key, str], Failure] = {}
        # For each node out of service, the objects that wait only for the end of the work on it.
        self._holders: dict[str, list[str]] = {}
        self._waiting = {each.name: each.node_label.waiting for each in surfaces() if each.node_label is not None}
        self._waiting_labels = {each.name: each.waiting_labels for each in surfaces() if each.waiting_labels[0]}

    def works(self, rows: Sequence[NodeRow]) -> Iterator[Work]:
        self._look_at_objects({row.key.name for row in rows})
        self._look_at_rollouts()
        for row in rows:
            holds = self._holds(row.key)
            seen = dict[tuple[str, Key], Work]()
            for hold in holds:
                # An object may have several claims on a node, such as the drain and its turn. They are one maintenance,
                # shown by the claim that waits.
                owner, work = (hold.surface, hold.claim.owner), self._work(row, hold)
                if owner not in seen or (work.waits_for and not seen[owner].waits_for):
                    seen[owner] = work
            self._holders.setdefault(row.key.name, []).extend(
                work.object for work in seen.values() if work.state == OUT and not work.waits_for
            )
            yield from seen.values()
            yield from self._objects_without_claim(row, seen.keys())
            if row.unschedulable and not holds:
                yield from self._remains(row)
            for surface, (label, value) in self._waiting.items():
                # The label asks for maintenance, but the surface's checks may still keep it from claiming the node.
                if not holds and row.labels.get(label) == value:
                    ends = [end for name in self._asked for end in self._stuck(Subject(name, row.key), row.key.name)]
                    self._keep(row.key.name, ends)
                    yield Work(surface, f"node/{row.key.name}", row.key.name, WAITING, waits_for=_texts(ends))
            for surface, (start, values) in self._waiting_labels.items():
                if not holds and any(name.startswith(start) and row.labels[name] in values for name in row.labels):
                    ends = [end for name in self._asked for end in self._stuck(Subject(name, row.key), row.key.name)]
                    if ends:
                        self._keep(row.key.name, ends)
                        yield Work(surface, f"node/{row.key.name}", row.key.name, WAITING, waits_for=_texts(ends))

    def _remains(self, row: NodeRow) -> Iterator[Work]:
        """Yield a node that is cordoned for an object that no longer exists."""
        ends = [end for name in (*self._asked, ARBITER) for end in self._stuck(Subject(name, row.key), row.key.name)]
        if left := [end for end in ends if end.code == LEFT_BEHIND]:
            self._keep(row.key.name, left)
            yield Work("haulout", f"node/{row.key.name}", row.key.name, CORDONED, waits_for=_texts(left))

    def _objects_without_claim(self, row: NodeRow, claimed: Collection[tuple[str, Key]]) -> Iterator[Work]:
        """Yield the objects about a node that do not claim it yet, because they wait for a window or for a person."""
        for name, declared in self._declared.items():
            if (objects := declared.node_objects) is None:
                continue
            for each in self._kernel.store.bucket(objects.index, row.key.cluster, row.key.name):
                self._wanted.add(row.key.name)
                if (name, each.key) in claimed:
                    continue
                deletion = self._deletion(declared, each, row.key.name)
                if deletion is not None and deletion.code == HELD:
                    continue
                ends = self._stuck(Subject(declared.explains[objects.kind], each.key), row.key.name)
                self._keep(row.key.name, ends)
                if deletion is not None:
                    yield Work(name, _named(each.key), row.key.name, RETURNING, waits_for=_texts(ends))
                    continue
                # Another controller or a person may have to act first. Then only the object's reason names an act.
                if ends or objects.reason(each, ()).act:
                    yield Work(name, _named(each.key), row.key.name, WAITING, waits_for=_texts(ends))

    def _look_at_objects(self, nodes: Collection[str]) -> None:
        """Note the objects about nodes that have failed, and what those wait for whose node does not exist."""
        for declared in self._declared.values():
            if (objects := declared.node_objects) is None:
                continue
            for row in self._kernel.store.rows("", objects.kind):
                name = objects.node(row)
                if self._deletion(declared, row, name) is None:
                    self._note(name, self._object_reason(declared, objects, row))
                if name not in nodes:
                    self._keep(name, self._stuck(Subject(declared.explains[objects.kind], row.key), name))

    def _object_reason(self, declared: Declaration, objects: NodeObjects, row: Row) -> Reason:
        """Return what an object about a node is doing. Only of one that has failed, its decision says why."""
        reason = objects.reason(row, ())
        if not is_failure(reason.code):
            return reason
        return objects.reason(row, self._reasons(Subject(declared.explains[objects.kind], row.key)))

    def _look_at_rollouts(self) -> None:
        """Note the rollouts that have failed as a whole."""
        for declared in self._declared.values():
            for kind in declared.rollouts:
                for row in self._kernel.store.rows("", kind):
                    self._deletion(declared, row, "")
                    for reason in self._reasons(Subject(declared.explains[kind], row.key)):
                        if reason.subject == row.key:
                            self._note("", msgspec.structs.replace(reason, because=()))

    def _deletion(self, declared: Declaration, row: Row, node: str) -> Reason | None:
        """Return what the deletion of an object waits for; None if it is not being deleted. One that is held is noted."""
        if not is_deleting(row):
            return None
        reason = deletion_of(declared, row, (), self._now)
        if reason is not None and reason.code == HELD:
            nodes = (node,) if node else ()
            self._held[row.key] = Cause(reason.code, reason.text, nodes, reason.act, at=nodes)
        return reason

    def _note(self, node: str, reason: Reason) -> None:
        """Note the failures in a tree of reasons, those that are nearest to its roots."""
        for failed in _failing(reason):
            blocked = dict.fromkeys(end.text for end in roots(failed) if end is not failed and end.text)
            text = "; ".join((failed.text or failed.code, *list(blocked)[:MOST_BLOCKERS]))
            self._failures.setdefault(
                (failed.subject, node), Failure(failed.code, _named(failed.subject), node, text, failed.act)
            )

    def failures(self) -> tuple[Failure, ...]:
        """Return what has failed, sorted by node."""
        return tuple(sorted(self._failures.values(), key=lambda each: (each.node, each.object)))

    def node(self, row: NodeRow, group_by: str) -> NodeState:
        holds = self._holds(row.key)
        holders = tuple(dict.fromkeys(hold.surface for hold in holds if hold.claim.begun))
        return NodeState(row.key.name, row.labels.get(group_by, ""), self._state(row, holds), holders)

    def cordons(self, rows: Iterable[NodeRow]) -> Iterator[HandCordon]:
        """Yield the nodes that a person cordoned, with the reason if it is noted."""
        for row in rows:
            reason = " ".join(row.annotations.get(CORDON_REASON, "").split())
            if row.unschedulable and (reason or self._has_foreign_cordon(row)):
                yield HandCordon(
                    row.key.name, cut_text(reason, LONGEST_CORDON), ", ".join(row.cordon_managers), row.cordoned_at
                )

    def _has_foreign_cordon(self, row: NodeRow) -> bool:
        return has_foreign_cordon(row) and row.key.name not in self._wanted and not self._holds(row.key)

    def causes(self) -> tuple[Cause, ...]:
        """Return the root causes. The one for which most nodes wait comes first."""
        groups: dict[tuple[str, str], tuple[list[str], list[str], list[Reason]]] = {}
        for node in self._ends:
            for place, end in self._followed(node):
                nodes, places, ends = groups.setdefault((end.code, end.text), ([], [], []))
                nodes.append(node)
                places.append(place)
                ends.append(end)
        found = [
            Cause(
                code,
                text,
                tuple(dict.fromkeys(nodes)),
                best_act(ends),
                min((end.until for end in ends if end.until is not None), default=None),
                tuple(dict.fromkeys(places)),
            )
            for (code, text), (nodes, places, ends) in groups.items()
        ]
        found += self._held.values()
        return tuple(sorted(found, key=lambda cause: (-len(cause.nodes), cause.code, cause.text)))

    def _followed(self, node: str) -> Iterator[tuple[str, Reason]]:
        """Follow a node that waits for other nodes to the root causes. Yield each with the node that waits for it directly."""
        seen, queue = {node}, [(node, end) for end in self._ends[node]]
        while queue:
            waiting_node, end = queue.pop(0)
            next_node = end.subject.name if end.subject.kind == "Node" else ""
            if end.code == UNAVAILABLE and not next_node:
                # This reason only counts further nodes that take places. The first of them are named, and followed.
                continue
            holders = self._holders.get(next_node) if next_node != waiting_node or end.code == TURN_TAKEN else None
            if holders:
                act = f"end {', '.join(holders)} when the work on {next_node} is done"
                text = f"{end.text} for {', '.join(holders)}"
                yield next_node, msgspec.structs.replace(end, text=text, act=end.act or act)
            elif end.code == UNAVAILABLE and self._is_cordoned_by_hand(end.subject):
                text = f"{end.text} by hand" if end.text.endswith("cordoned") else end.text
                yield next_node, msgspec.structs.replace(end, text=text, act=end.act or act_of(end.subject))
            elif next_node in self._ends and next_node not in (waiting_node, node) and len(seen) < LONGEST_CHAIN:
                if next_node not in seen:
                    seen.add(next_node)
                    queue += [(next_node, each) for each in self._ends[next_node]]
            else:
                yield waiting_node, end

    def _is_cordoned_by_hand(self, node: Key) -> bool:
        row = self._kernel.store.row(node)
        return isinstance(row, NodeRow) and self._has_foreign_cordon(row)

    def _work(self, row: NodeRow, hold: Hold) -> Work:
        claim = hold.claim
        state, pods, ends_at = WAITING, 0, None
        # A grant in this kernel only says that the operator may begin. The objects say whether it has.
        if claim.begun:
            drains = [drain for drain in self._drains(row.key) if drain.surface == hold.surface]
            pods, ends_at = self._progress(drains)
            state = DRAINING if pods else self._empty_state([hold])
        grant = self._kernel.store.row(grant_key(hold.key))
        refused = grant.reasons if isinstance(grant, Grant) and not grant.granted else ()
        refusals = tuple(map(with_own_rights, refused))
        ends = [end for reason in refusals for end in _named_roots(reason)]
        if not ends or any(end.code == NO_ROOM for end in ends):
            takers = (self._room_takers(subject, _texts(ends), row) for subject in self._subjects(row, hold))
            ends = [end for found in takers for end in found] or ends
        if state == DRAINING:
            ends = ends or self._drain_ends(row.key)
        self._keep(row.key.name, ends)
        since = None if claim.since == LONG_AGO else claim.since
        return Work(hold.surface, _named(claim.owner), row.key.name, state, since, pods, ends_at, _texts(ends))

    def _subjects(self, row: NodeRow, hold: Hold) -> list[Subject]:
        """Return the subjects whose decisions know what a claim waits for.

        That is the decision about the node if the surface has one, because an object may claim many nodes. A node that
        claims itself does so because its object has vanished, which other decisions of the surface about nodes know.
        """
        declared, owner = self._declared.get(hold.surface), hold.claim.owner
        if declared is None:
            return [Subject(hold.surface, owner)]
        if about_node := declared.explains.get("Node"):
            return [Subject(about_node, row.key)]
        if owner != row.key:
            return [Subject(hold.surface, owner)]
        return [Subject(decider.name, owner) for decider in declared.deciders if decider.kind == "Node"]

    def _keep(self, node: str, ends: list[Reason]) -> None:
        if ends:
            self._ends.setdefault(node, []).extend(ends)

    def _room_takers(self, subject: Subject, refusals: tuple[str, ...], node: NodeRow) -> list[Reason]:
        """Return the decision's own root reasons, which name the nodes that take the places of a full limit.

        The answer is kept for all subjects with the same refusals, because thousands may wait for one limit.
        """
        if not refusals:
            return self._stuck(subject, node.key.name)
        place = (subject.decider, refusals)
        if place not in self._takers:
            self._takers[place] = self._stuck(subject, node.key.name)
        return self._takers[place]

    def _reasons(self, subject: Subject) -> tuple[Reason, ...]:
        try:
            return tuple(map(with_own_rights, self._kernel.loop.explain(subject, self._now).reasons))
        except Exception as error:  # noqa: BLE001 - one bad object never hides the others
            return (Reason("unreadable", subject.key, f"it cannot be decided: {str(error) or type(error).__name__}"),)

    def _stuck(self, subject: Subject, node: str) -> list[Reason]:
        """Return the root reasons of a decision about a node, without those trees in which work goes on by itself.

        What has failed is noted.
        """
        found: list[Reason] = []
        for reason in self._reasons(subject):
            self._note(node, reason)
            ends = roots(reason)
            if reason.code != NOT_WANTED and all(course_of(end.code) is Course.BLOCKED for end in ends):
                found += ends
        return found

    def _drain_ends(self, node: Key) -> list[Reason]:
        try:
            trees = [drain_reasons(self._view, drain, self._now) for drain in self._drains(node)]
        except NotListed:
            return []
        return [end for tree in trees for reason in tree for end in roots(reason)]

    def _progress(self, drains: list[DrainRow]) -> tuple[int, datetime | None]:
        """Return how many pods drains wait for, and when the last grace period ends.

        The instant is None while a drain waits for anything else than grace periods.
        """
        try:
            states = [progress(self._view, drain, self._now) for drain in drains]
        except NotListed:
            return 0, None
        ends = [state.ends_at for state in states if not state.cleared]
        known = [end for end in ends if end is not None]
        pods = sum(len(state.pods) for state in states)
        return pods, max(known, default=None) if len(known) == len(ends) else None

    def _state(self, row: NodeRow, holds: list[Hold]) -> str:
        if any(hold.claim.begun for hold in holds):
            return DRAINING if self._progress(self._drains(row.key))[0] else self._empty_state(holds)
        if not row.ready:
            return NOT_READY
        if row.unschedulable:
            return CORDONED
        return WAITING if holds or row.key.name in self._ends else IN_SERVICE

    def _empty_state(self, holds: Iterable[Hold]) -> str:
        """Return the state of a held node that is not drained: it is returned once nothing but deleted objects hold it."""
        begun = [hold.claim for hold in holds if hold.claim.begun]
        owners = [self._kernel.store.row(claim.owner) for claim in begun if claim.owner.kind != "Node"]
        return RETURNING if len(owners) == len(begun) and all(map(is_deleting, owners)) else OUT

    def _holds(self, node: Key) -> list[Hold]:
        rows = self._kernel.store.bucket(HOLDS_OF_NODE, node.cluster, node)
        holds = [row for row in rows if isinstance(row, Hold)]
        return sorted(holds, key=lambda hold: (not hold.claim.begun, hold.rank))

    def _drains(self, node: Key) -> list[DrainRow]:
        rows = self._kernel.store.bucket(DRAINS_OF_NODE, node.cluster, node)
        return [row for row in rows if isinstance(row, DrainRow)]


def _budgets(kernel: Kernel) -> Iterator[BudgetState]:
    view = View(kernel.store, explaining=True)
    for row in kernel.store.rows("", MARK):
        if not isinstance(row, Value) or not isinstance(row.value, Ruling):
            continue
        budget, allowed = row.value.budget, row.value.allowed
        used = sum(_is_out(kernel, count, node) for count, node in _takers(view, budget.selector))
        closed = kernel.store.row(closed_key(budget.name))
        opening = closed.value if isinstance(closed, Value) and isinstance(closed.value, datetime) else None
        places_left = None if allowed is None else max(allowed - used, 0)
        yield BudgetState(budget.name, used, allowed, places_left, opening, budget.problems)


def _takers(view: View, selector: Nodes | None) -> Iterator[tuple[Unavailable, Key]]:
    """Yield the nodes that take a place of a budget, or will once the operator acts on its grant."""
    if selector is not None:
        count = Unavailable(selector)
        view.count(count, ())
        yield from ((count, node) for node in view.takers(Limit(count, (), 0)))


def _is_out(kernel: Kernel, count: Unavailable, node: Key) -> bool:
    """Whether a node takes a place of the budget already: it is unavailable, or a maintenance of it has begun."""
    row = kernel.store.row(node)
    holds = kernel.store.bucket(HOLDS_OF_NODE, node.cluster, node)
    has_begun = any(isinstance(hold, Hold) and hold.claim.begun and hold.claim.disrupts for hold in holds)
    return has_begun or (row is not None and any(True for _ in count.groups(row)))


def _rollouts(kernel: Kernel, declarations: Iterable[Declaration]) -> Iterator[Rollout]:
    for declared in declarations:
        for kind, rollout in declared.rollouts.items():
            for row in kernel.store.rows("", kind):
                found = rollout(row, kernel.store)
                if found is not None:
                    deleted = {"state": f"{found.state}, being deleted"} if is_deleting(row) else {}
                    yield msgspec.structs.replace(found, **deleted)


def _named_roots(reason: Reason) -> Iterator[Reason]:
    """Yield the root reasons of a refusal, with the name of the budget that refuses in their texts."""
    for end in roots(reason):
        is_named = end is reason or reason.subject.kind == "Node"
        yield end if is_named else msgspec.structs.replace(end, text=f"budget {reason.subject.name}: {end.text}")


def _failing(reason: Reason) -> list[Reason]:
    """Return the failures in a tree of reasons, without those that other failures explain."""
    deeper = [failed for cause in reason.because for failed in _failing(cause)]
    return deeper or ([reason] if is_failure(reason.code) else [])


def _texts(ends: Iterable[Reason]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(end.text or end.code for end in ends))


def _named(owner: Key) -> str:
    return f"{owner.kind.lower()}/{f'{owner.namespace}/' if owner.namespace else ''}{owner.name}"
