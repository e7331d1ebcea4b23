"""The unit of a name: which of its objects leads, and from which of them its state is read.

Host state and the names of pods and ConfigMaps depend on the name alone, so that a Skyhook and a NodeWright of one name
are one unit. One of them leads: its spec is in force. The other one follows: it shows the leader's status.

Where the lead comes from is noted on the leader, in the annotation `haulout.dev/leads`. Until that is there, the state
may still be that of the other object: of the Skyhook that a NodeWright joins, or of the object that another operator
wrote last. The unit is then *unsettled*: its nodes get the keys of both groups, the leader takes over the status, and
only then the annotation is written. A kill at any point leads to the same end.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from haulout.base import bounds
from haulout.base.number import digits
from haulout.cluster.view import View
from haulout.model.meta import wire_time
from haulout.surfaces.packages.groups import SKYHOOK, Group
from haulout.surfaces.packages.specs.equality import are_equal
from haulout.surfaces.packages.units.translation import translate_status
from haulout.surfaces.packages.wire import (
    LEADS,
    MIRRORED_FROM,
    MIRRORED_GENERATION,
    SkyhookRow,
    objects_of,
    readable_groups,
)

replace = msgspec.structs.replace
MOST_DIGITS = 18


class Lead(msgspec.Struct, frozen=True):
    """What a leader notes of the other object of its name.

    `uid`, `generation`: those of the other object. `number`: the greater one counts if both objects have a note.
    `seen_at`: the newest status of another operator that the leader has taken over, as text; empty if there was none.
    """

    uid: str
    generation: int
    number: int
    seen_at: str = ""

    @property
    def text(self) -> str:
        return f"{self.uid}/{self.generation}/{self.number}/{self.seen_at}"


class Unit(msgspec.Struct, frozen=True):
    """The objects of one name.

    `leader`: the object whose spec is in force, with the status that is in force.
    `stored`: the same object as it is stored.
    `other`: the object that follows; None if there is only one.
    `source`: the group whose keys on nodes are the newest.
    `is_settled`: the leader has taken over everything that it leads.
    `is_blind`: NodeWrights may not be read, so that their keys on nodes are left alone.
    """

    leader: SkyhookRow
    stored: SkyhookRow
    other: SkyhookRow | None = None
    source: Group = SKYHOOK
    is_settled: bool = True
    is_blind: bool = False

    @property
    def writes(self) -> tuple[Group, ...]:
        """The groups under whose prefixes the unit writes on nodes, that of the leader first."""
        if self.other is None or self.other.deleting_at is not None:
            return (self.stored.group,)
        return self.stored.group, self.other.group

    @property
    def lead(self) -> Lead | None:
        """The note that the leader should have; None if it leads no other object."""
        if self.other is None:
            return None
        own, theirs = lead_of(self.stored), lead_of(self.other)
        number = max((each.number for each in (own, theirs) if each is not None), default=0)
        is_newest = own is not None and own.uid == self.other.uid and own.number == number and own != theirs
        seen_at = _newest(self.stored, self.other)
        text = wire_time(seen_at) if seen_at is not None else ""
        return Lead(self.other.uid, self.other.generation, number if is_newest else number + 1, text)


def unit_of(view: View, name: str) -> Unit | None:
    """Return the unit of a name; None if it has no object, or only one whose finalizer is gone."""
    rows = [row for row in objects_of(view, name) if row.deleting_at is None or row.group.finalizer in row.finalizers]
    if not rows:
        return None
    if len(rows) == 1:
        return Unit(rows[0], rows[0], source=rows[0].group, is_blind=len(readable_groups(view)) == 1)
    stored, other = leader_and_other(*rows)
    is_settled = _is_settled(stored, other)
    source = stored if is_settled else _source(stored, other)
    status = source.status if source is stored else translate_status(source, stored)
    leader = replace(
        stored,
        status=status,
        shares_pause=other.is_paused and other.deleting_at is None,
        shares_disable=other.is_disabled and other.deleting_at is None,
    )
    return Unit(leader, stored, other, source.group, is_settled)


def leader_and_other(skyhook: SkyhookRow, nodewright: SkyhookRow) -> tuple[SkyhookRow, SkyhookRow]:
    """Return the object that leads, and the other. An object that is being deleted leads only if both are."""
    if (skyhook.deleting_at is None) != (nodewright.deleting_at is None):
        is_first = skyhook.deleting_at is None
    else:
        is_first = _mirrors(nodewright, skyhook)
    return (skyhook, nodewright) if is_first else (nodewright, skyhook)


def _mirrors(nodewright: SkyhookRow, skyhook: SkyhookRow) -> bool:
    """Whether a NodeWright is an unedited copy of the Skyhook. Such a copy follows its Skyhook.

    Only while the mirror is up to date its spec can be compared. After an edit of the Skyhook the leader's note tells that
    no client has edited the mirror since it was last equal.
    """
    if nodewright.annotations.get(MIRRORED_FROM) != skyhook.name:
        return False
    generation = digits(nodewright.annotations.get(MIRRORED_GENERATION, ""), MOST_DIGITS)
    if generation == skyhook.generation and has_equal_spec(nodewright, skyhook):
        return True
    noted = lead_of(skyhook)
    return noted is not None and (noted.uid, noted.generation) == (nodewright.uid, nodewright.generation)


def has_equal_spec(one: SkyhookRow, other: SkyhookRow) -> bool:
    return not (one.problem or other.problem) and are_equal(one.spec, other.spec)


def superseded_text(leader: SkyhookRow) -> str:
    """Return what people read about an object whose spec differs from that of the leader."""
    return (
        f"the spec of {leader.group.kind} {leader.name} ({leader.group.name}) is in force, which differs from this one"
    )


def lead_of(row: SkyhookRow) -> Lead | None:
    parts = row.annotations.get(LEADS, "").split("/")
    if len(parts) != 4:
        return None
    uid, generation, number = parts[0], digits(parts[1], MOST_DIGITS), digits(parts[2], MOST_DIGITS)
    if generation is None or number is None:
        return None
    return Lead(uid, generation, number, parts[3])


def _is_settled(leader: SkyhookRow, other: SkyhookRow) -> bool:
    own, theirs = lead_of(leader), lead_of(other)
    if own is None or own.uid != other.uid:
        return False
    if theirs is not None and theirs.uid == leader.uid and theirs.number > own.number:
        return False
    newest = _newest(leader, other)
    return newest is None or wire_time(newest) <= own.seen_at


def _newest(one: SkyhookRow, other: SkyhookRow) -> datetime | None:
    return max((each.written_at for each in (one, other) if each.written_at is not None), default=None)


def _source(leader: SkyhookRow, other: SkyhookRow) -> SkyhookRow:
    """Return the object whose state is the newest: that which another operator wrote last, else the last leader.

    If nothing tells, it is the one with a status, and the leader if both have one.
    """
    written = [(each.written_at or bounds.EARLIEST, each is leader, each) for each in (leader, other)]
    if any(each.written_at is not None for each in (leader, other)):
        return max(written, key=lambda found: found[:2])[2]
    numbers = {
        each.key: noted.number if (noted := lead_of(each)) is not None and noted.uid == against.uid else 0
        for each, against in ((leader, other), (other, leader))
    }
    if numbers[leader.key] != numbers[other.key]:
        return leader if numbers[leader.key] > numbers[other.key] else other
    return other if other.status.status and not leader.status.status else leader
