"""Explains what a node or another object waits for, from a kernel whose decisions have settled, as text or as data."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial

import msgspec

from haulout.base.spans import span_text
from haulout.base.visible import page
from haulout.cluster.key import Key, node_key
from haulout.cluster.rows import NodeRow, Row
from haulout.cluster.store import Listing
from haulout.cluster.view import OWN_KINDS, NotListed, View
from haulout.core.arbiter import NAME as ARBITER
from haulout.core.budgets.wire import KIND as BUDGET
from haulout.core.cordon import ANNOTATION, ledger
from haulout.core.declaration import Declaration, Enabled
from haulout.core.drain.options import DRAINS_OF_NODE, DrainRow
from haulout.core.drain.progress import progress
from haulout.core.drain.progress import reasons as drain_reasons
from haulout.core.holds import HOLDS_OF_NODE, LONG_AGO, Grant, Hold, grant_key
from haulout.core.pause import CODE as PAUSED
from haulout.core.pause import pause_of_node, reason_of
from haulout.core.reason import NOT_WANTED, Course, Reason, best_act, roots
from haulout.core.surface import Explained
from haulout.explain.codes import course_of, is_failure
from haulout.explain.cordons import cordon_reason, has_foreign_cordon
from haulout.explain.deletions import deletion_of
from haulout.explain.operators import OperatorState, operator_lines
from haulout.explain.overrides import override_reasons
from haulout.explain.unread_text import VIEWER, with_own_rights, without_blame
from haulout.explain.until_text import until_text
from haulout.kernel.kernel import Kernel
from haulout.kernel.rooms import Subject

GOES, MAINTENANCE, TURN_TAKEN = "goes", "maintenance", "turn-taken"
NOTHING_WANTED = "nothing is wanted of it"
NO_SURFACE = "no surface that is configured here concerns it (--config names a configuration)"
MOST_ALIKE = 10


class Holding(msgspec.Struct, frozen=True):
    """A claim on a node, as `explain` shows it.

    `slot`: the part of the surface that claims, such as a profile. `wants`: what it wants to do to the node.
    `begun`: whether the maintenance has begun. `granted`: whether the arbiter grants the claim.
    """

    surface: str
    slot: str
    since: datetime
    wants: tuple[str, ...]
    begun: bool
    granted: bool


class Explanation(msgspec.Struct, frozen=True):
    """The explanation of one object: a node, or another object and its node.

    `about`: the word for the object's kind, and its name; empty if the object is the node itself.
    `is_of_node`: whether objects of this kind are about one node each.
    `has_own_flags`: whether `flags` are those of the object, not of the node.
    `cordon`: in words, which surface or client cordoned the node. `act`: the one act that would help.
    `settings`: where the operator's settings were found. `incomplete`: what could not be read.
    `queue`: what other nodes that block this one wait for, or which surface works on them, by node.
    `last_grace_ends_at`: when the last grace period ends, if the node's drains wait for nothing else.
    `operator`: whether an operator leads.
    """

    node: str
    flags: tuple[str, ...]
    cordon: str
    holds: tuple[Holding, ...]
    reasons: tuple[Reason, ...]
    act: str = ""
    about: tuple[str, str] = ("", "")
    has_own_flags: bool = False
    is_of_node: bool = True
    last_grace_ends_at: datetime | None = None
    settings: str = ""
    incomplete: tuple[str, ...] = ()
    queue: Mapping[str, str] = {}
    operator: OperatorState = OperatorState()


def explain(kernel: Kernel, surfaces: Iterable[Enabled], key: Key, now: datetime) -> Explanation | None:
    """Explain what a node waits for, by the decisions of `surfaces`. Return None if there is no such node."""
    asked = tuple(surfaces)
    found = _explained_node(kernel, asked, key, now)
    if found is None:
        return None
    return _with_queue(kernel, asked, found, key, now)


def _with_queue(
    kernel: Kernel, surfaces: tuple[Enabled, ...], found: Explanation, own: Key, now: datetime
) -> Explanation:
    """Add what other nodes wait for that block the object, and the act that would help there.

    `own`: the object's own node, or the object itself if it has none.
    """
    # The node that blocks it for the most reasons comes first, and with it the act that helps most.
    others = Counter(root.subject for root in _keeping(found) if _is_other_node(root, own))
    queue, acts = dict[str, str](), list[str]()
    for other, _ in others.most_common(MOST_ALIKE):
        text, act = _standing(kernel, surfaces, other, now)
        queue |= {other.name: text} if text else {}
        acts += [f"for {other.name}: {act}"] if act else []
    return msgspec.structs.replace(found, queue=queue, act=found.act or next(iter(acts), ""))


def _is_other_node(root: Reason, key: Key) -> bool:
    return root.subject.kind == "Node" and root.subject != key


def _standing(kernel: Kernel, surfaces: tuple[Enabled, ...], key: Key, now: datetime) -> tuple[str, str]:
    """Return what another node waits for or which surface works on it, in a few words, and the act that would help."""
    found = _explained_node(kernel, surfaces, key, now)
    if found is None:
        return "", ""
    # A maintenance that waits for its turn does not keep that node out of service.
    ends = [root for root in _keeping(found) if root.code != TURN_TAKEN and course_of(root.code) is not Course.QUEUED]
    if texts := [root.text for root in ends if not _is_other_node(root, key)]:
        return texts[0], found.act
    working = [f"{hold.surface} ({hold.slot})" if hold.slot else hold.surface for hold in found.holds if hold.begun]
    if working:
        return f"held by {', '.join(working)}", found.act
    return next((root.text for root in ends), ""), found.act


def _explained_node(kernel: Kernel, surfaces: tuple[Enabled, ...], key: Key, now: datetime) -> Explanation | None:
    row = kernel.store.row(key)
    if not isinstance(row, NodeRow):
        return None
    declared = [each.declaration for each in surfaces]
    asked = [each.explains["Node"] for each in declared if "Node" in each.explains]
    own = [_asked(kernel, Subject(name, key), now) for name in asked]
    remains = _asked(kernel, Subject(ARBITER, key), now) if ANNOTATION in row.annotations else ()
    beside = tuple(reason for each in declared for reason in _objects(kernel, each, row, now))
    drained = _drains(kernel, {each.name for each in declared if each.tells_of_drains}, key, now)
    reasons = (*(reason for reasons in own for reason in reasons), *drained, *beside, *remains)
    reasons = (*reasons, *_claims(kernel, key, {each.surface: each for each in declared}, now))
    reasons = (*_pause(kernel, key, reasons), *reasons)
    if not beside and has_foreign_cordon(row) and not _holds(kernel, key):
        reasons = (*reasons, cordon_reason(row))
    reasons = (*reasons, *_overrides(kernel, key, (reason.subject for reason in beside), now))
    if not reasons:
        reasons = (Reason("at-rest", key, NOTHING_WANTED) if own else Reason("no-surface", key, NO_SURFACE),)
    return _explanation(kernel, row, reasons, now)


def _pause(kernel: Kernel, node: Key, reasons: tuple[Reason, ...]) -> tuple[Reason, ...]:
    """Return the pause of a node, unless one of the reasons says it."""
    if not kernel.obeys_pauses or any(root.code == PAUSED for reason in reasons for root in roots(reason)):
        return ()
    pause = pause_of_node(node, View(kernel.store))
    return (reason_of(pause, node),) if pause is not None else ()


def _overrides(kernel: Kernel, node: Key, objects: Iterable[Key], now: datetime) -> Iterator[Reason]:
    """Yield the overrides of the node, of the objects that claim it and of these objects."""
    owners = (node, *(hold.claim.owner for hold in _holds(kernel, node)), *objects)
    return override_reasons(kernel.store, node, owners, now)


def _claims(kernel: Kernel, node: Key, declared: Mapping[str, Declaration], now: datetime) -> Iterator[Reason]:
    """Yield a reason for each claim on the node that no decision about the node and no object shown beside it explains."""
    for hold in _holds(kernel, node):
        owner, declaration = hold.claim.owner, declared.get(hold.surface)
        explains = declaration.explains if declaration is not None else {}
        objects = declaration.node_objects if declaration is not None else None
        if (owner.kind == "Node" and "Node" in explains) or (objects is not None and objects.kind == owner.kind):
            continue
        grant = kernel.store.row(grant_key(hold.key))
        if isinstance(grant, Grant) and not grant.granted:
            yield Reason("waits-for-grant", node, f"{hold.surface} waits for its turn on it", because=grant.reasons)
        elif "Node" not in explains:
            causes = _asked(kernel, Subject(explains[owner.kind], owner), now) if owner.kind in explains else ()
            claimer = hold.surface if owner == node else f"{owner.kind} {owner.name} of {hold.surface}"
            yield Reason(MAINTENANCE, owner, f"{claimer} claims it", because=causes)


def _holds(kernel: Kernel, node: Key) -> list[Hold]:
    rows = kernel.store.bucket(HOLDS_OF_NODE, node.cluster, node)
    holds = (hold for hold in rows if isinstance(hold, Hold))
    return sorted(holds, key=lambda hold: (not hold.claim.begun, hold.rank))


def _objects(kernel: Kernel, declaration: Declaration, node: NodeRow, now: datetime) -> Iterator[Reason]:
    """Yield a reason for each object of a surface that is about the node: what it waits for."""
    objects = declaration.node_objects
    if objects is None:
        return
    table = kernel.store.table("", objects.kind)
    if table.listing is Listing.UNREADABLE:
        plural = next(kind.plural for kind in declaration.kinds if kind.kind == objects.kind)
        text = f"{objects.kind}s cannot be read, and one may be about this node: {without_blame(table.why)}"
        yield Reason("unreadable", node.key, text, act=f"get the right to list {plural}: {VIEWER}")
        return
    rows = kernel.store.bucket(objects.index, node.key.cluster, node.key.name)
    if rows:
        yield from (_about(kernel, declaration, row, now) for row in rows)
    elif (left_behind := objects.left_behind(node)) is not None:
        yield left_behind


def _about(kernel: Kernel, declaration: Declaration, row: Row, now: datetime) -> Reason:
    causes = _asked(kernel, Subject(declaration.explains[row.key.kind], row.key), now)
    if (deletion := deletion_of(declaration, row, causes, now)) is not None:
        return deletion
    objects = declaration.node_objects
    if objects is not None and objects.kind == row.key.kind:
        return objects.reason(row, causes)
    name = f"{row.key.kind} {row.key.name}"
    return (
        Reason("object", row.key, name, because=causes)
        if causes
        else Reason("at-rest", row.key, f"{name} waits for nothing")
    )


def explain_listed(
    kernel: Kernel, declaration: Declaration, kind: Explained, key: Key, now: datetime, surfaces: Iterable[Enabled] = ()
) -> Explanation | None:
    """Explain what an object of a surface waits for. Return None if there is no such object.

    `surfaces`: those whose decisions explain other nodes that block it.
    """
    row = kernel.store.row(key)
    if row is None:
        return None
    objects = declaration.node_objects
    name = objects.node(row) if objects is not None and objects.kind == key.kind else ""
    reasons = (_about(kernel, declaration, row, now),)
    about = (kind.words[0], f"{key.namespace}/{key.name}" if key.namespace else key.name)
    node = kernel.store.row(node_key(name)) if name else None
    if not isinstance(node, NodeRow):
        flags = ("not there",) if name else ()
        is_of_node = objects is not None and objects.kind == key.kind
        found = Explanation(
            name, flags, "", (), reasons, own_act(reasons), about, is_of_node=is_of_node, incomplete=unread(kernel)
        )
        return _with_queue(kernel, tuple(surfaces), found, key, now)
    own = override_reasons(kernel.store, node.key, (key,), now)
    found = msgspec.structs.replace(_explanation(kernel, node, (*reasons, *own), now), about=about)
    return _with_queue(kernel, tuple(surfaces), found, node.key, now)


def _drains(kernel: Kernel, telling: Collection[str], node: Key, now: datetime) -> tuple[Reason, ...]:
    """Return a reason for each drain of the node, except drains of the surfaces in `telling`, which explain their own."""
    drains = [drain for drain in _drain_rows(kernel, node) if drain.surface not in telling]
    view = View(kernel.store, explaining=True)
    trees = [(drain, _readable(kernel, node, partial(drain_reasons, view, drain, now))) for drain in drains]
    return tuple(
        Reason("drain", node, f"it is drained for {drain.surface}", because=causes) for drain, causes in trees if causes
    )


def _drain_rows(kernel: Kernel, node: Key) -> list[DrainRow]:
    return [row for row in kernel.store.bucket(DRAINS_OF_NODE, node.cluster, node) if isinstance(row, DrainRow)]


def _last_grace_ends_at(kernel: Kernel, node: Key, now: datetime) -> datetime | None:
    """Return when the last grace period in the drains of the node ends; None while a drain waits for anything else."""
    view = View(kernel.store, explaining=True)
    try:
        states = [progress(view, drain, now) for drain in _drain_rows(kernel, node)]
    except NotListed:
        return None
    ends = [state.ends_at for state in states if not state.cleared]
    known = [end for end in ends if end is not None]
    return max(known, default=None) if len(known) == len(ends) else None


def _asked(kernel: Kernel, subject: Subject, now: datetime) -> tuple[Reason, ...]:
    return _readable(kernel, subject.key, lambda: kernel.loop.explain(subject, now).reasons)


def _readable(kernel: Kernel, subject: Key, ask: Callable[[], tuple[Reason, ...]]) -> tuple[Reason, ...]:
    try:
        return tuple(map(with_own_rights, ask()))
    except NotListed as error:
        table = kernel.store.table(error.table.cluster, error.table.kind)
        return (
            Reason(
                "unreadable", subject, f"{table.name.kind} cannot be read: {without_blame(table.why) or 'not listed'}"
            ),
        )
    except Exception as error:  # noqa: BLE001 - what fails for one surface never hides the others
        return (Reason("unreadable", subject, f"it cannot be decided: {str(error) or type(error).__name__}"),)


def own_act(reasons: tuple[Reason, ...]) -> str:
    """Return the one act that clears most causes of the reasons, such as the budget that blocks most pods."""
    return best_act(child for reason in reasons for child in (reason.because or (reason,)))


def _explanation(kernel: Kernel, row: NodeRow, reasons: tuple[Reason, ...], now: datetime) -> Explanation:
    key = row.key
    flags = (("cordoned", row.unschedulable), ("not ready", not row.ready), ("being deleted", bool(row.deleting_at)))
    return Explanation(
        node=key.name,
        flags=tuple(word for word, applies in flags if applies),
        cordon=_cordon(row),
        holds=tuple(_holding(kernel, hold) for hold in _holds(kernel, key)),
        reasons=reasons,
        act=own_act(reasons),
        last_grace_ends_at=_last_grace_ends_at(kernel, key, now),
        incomplete=unread(kernel),
    )


def unread(kernel: Kernel) -> tuple[str, ...]:
    """Return the kinds that decisions need and that cannot be read, each with the cause."""
    tables = (table for table in kernel.store.unreadable("") if table.name.kind.partition("/")[0] not in OWN_KINDS)
    return tuple(f"{table.name.kind}: {without_blame(table.why) or 'no answer'}" for table in tables)


def as_text(found: Explanation, now: datetime) -> str:
    flags = f" ({', '.join(found.flags)})" if found.flags else ""
    node = f"node {found.node}" if found.node else "no node"
    word, name = found.about
    if not word:
        lines = [f"{node}{flags}"]
    elif not found.is_of_node:
        lines = [f"{word} {name}{flags}"]
    elif found.has_own_flags:
        lines = [f"{word} {name}{flags} of {node}"]
    else:
        lines = [f"{word} {name} of {node}{flags}"]
    if found.settings:
        lines.append(f"  settings: {found.settings}")
    if found.cordon:
        lines.append(f"  {found.cordon}")
    still = found.operator.still_text
    lines += [f"  {_held(hold, still)}" for hold in found.holds]
    lines += _forest(found.reasons, now, "  ", still)
    if found.last_grace_ends_at is not None:
        lines.append(f"  {_last_grace(found.last_grace_ends_at, now)}")
    if keeping := _keeping(found):
        lines += ["blocked by:", *_blockers(keeping, found, now)]
    if found.act:
        lines += ["what would help:", f"  {found.act}"]
    if keeping:
        lines.append(f"look up: haulout help CODE [{', '.join(dict.fromkeys(root.code for root in keeping))}]")
    return page([*operator_lines(found.operator, now), *(f"INCOMPLETE: {text}" for text in found.incomplete), *lines])


def _keeping(found: Explanation) -> list[Reason]:
    """Return the root reasons that block the object, with the names of refusing budgets. Trees with progress are left out.

    A condition of a maintenance that is not wanted yet counts only while no surface holds the node.
    """
    wanted = [reason for reason in found.reasons if not (found.holds and reason.code == NOT_WANTED)]
    blocking = [reason for reason in wanted if course_of(reason.code) is not Course.IDLE and not _is_bare(reason)]
    ends = [list(_named_roots(reason)) for reason in blocking]
    stuck = [found for found in ends if not any(root.code == GOES for root in found)]
    roots = list(dict.fromkeys(root for found in stuck for root in found if course_of(root.code) is not Course.IDLE))
    # Where something blocks, what goes on by itself beside it is no answer.
    return [root for root in roots if course_of(root.code) is not Course.MOVING] or roots


def _blockers(roots: Iterable[Reason], found: Explanation, now: datetime) -> Iterator[str]:
    """Yield a line for each cause. A failure that several nodes share is one cause, with their names."""
    groups: dict[tuple[str, str], list[Reason]] = {}
    for root in roots:
        shared = is_failure(root.code) and root.subject.kind == "Node"
        groups.setdefault((_line(root, now), "" if shared else str(root.subject)), []).append(root)
    for (line, _), members in groups.items():
        if len(members) == 1:
            # What fails is said already.
            yield f"  {line}{'' if is_failure(members[0].code) else _queued(members[0], found)}"
        else:
            yield f"  {line}, on {len(members)} nodes: {', '.join(member.subject.name for member in members)}"


def _is_bare(reason: Reason) -> bool:
    """Whether a reason only names an object of a surface, which waits for nothing and of which nothing is asked."""
    return reason.code == MAINTENANCE and not reason.because and not reason.act


def _named_roots(reason: Reason) -> Iterator[Reason]:
    """Yield the root reasons of a tree. Below a NodeDisruptionBudget their texts get the name of the budget."""
    for cause in reason.because:
        yield from (
            msgspec.structs.replace(end, text=f"budget {reason.subject.name}: {end.text}")
            if end is cause and reason.subject.kind == BUDGET
            else end
            for end in _named_roots(cause)
        )
    if not reason.because:
        yield reason


def _queued(root: Reason, found: Explanation) -> str:
    standing = found.queue.get(root.subject.name, "") if root.subject.kind == "Node" else ""
    return f"; there: {standing}" if standing else ""


def _holding(kernel: Kernel, hold: Hold) -> Holding:
    claim, grant = hold.claim, kernel.store.row(grant_key(hold.key))
    return Holding(
        surface=hold.surface,
        slot=claim.slot,
        since=claim.since,
        wants=tuple(sorted(want.value for want in claim.wants)),
        begun=claim.begun,
        granted=isinstance(grant, Grant) and grant.granted,
    )


def _cordon(row: NodeRow) -> str:
    entry = ledger(row)
    if entry is None:
        return ""
    by = ", ".join(entry.by) or "the surfaces that hold it"
    if not row.unschedulable:
        return f"uncordoned by hand; it had been cordoned by {by}"
    return f"cordoned by {by}; it was {'cordoned' if entry.before else 'schedulable'} before"


def _held(hold: Holding, still: str = "") -> str:
    """Return a claim as a line. `still`: in words, that nothing moves; empty if an operator leads."""
    holder = f"{hold.surface}, {hold.slot}" if hold.slot else hold.surface
    if hold.begun:
        # Some claims do not know when they began.
        since = "" if hold.since == LONG_AGO else f", since {_instant(hold.since)}"
        return f"held by {holder}{since}{still and f', {still}'}"
    return f"wanted by {holder}: {(still or 'granted') if hold.granted else 'waits'}"


def _forest(reasons: Iterable[Reason], now: datetime, indent: str, still: str = "") -> list[str]:
    """Return trees of reasons as indented lines. Neighbours with the same causes share them, so a budget is printed once."""
    lines: list[str] = []
    for because, group in itertools.groupby(reasons, key=lambda reason: reason.because):
        members = list(group)
        branches = members[:MOST_ALIKE] if because else members
        lines += [f"{indent}{_line(reason, now)}{_standing_still(reason, still)}" for reason in branches]
        if len(branches) < len(members):
            lines.append(f"{indent}and {len(members) - len(branches)} more")
        lines += _forest(because, now, f"{indent}  ", still)
    return lines


def _standing_still(reason: Reason, still: str) -> str:
    """Say of a reason that would end by itself that it does not, because no operator leads."""
    moves = course_of(reason.code) in (Course.MOVING, Course.QUEUED)
    return f" ({still})" if still and moves and not reason.because else ""


def _line(reason: Reason, now: datetime) -> str:
    text = reason.text or reason.code
    return f"{text}{until_text(reason.code, reason.until, now)}"


def _last_grace(ends_at: datetime, now: datetime) -> str:
    if ends_at < now:
        return f"the last grace period ended {_instant(ends_at)} ({span_text(now - ends_at)} ago)"
    return f"the last grace period ends {_instant(ends_at)} (in {span_text(ends_at - now)})"


def _instant(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
