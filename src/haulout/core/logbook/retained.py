"""Which closed records are expired: by their age, and the oldest of those that are more than the most."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import msgspec

from haulout.base.bounds import instant
from haulout.core.logbook.chronic import CHRONIC_FOR, returning
from haulout.core.logbook.options import LogbookOptions
from haulout.core.logbook.retention import Expired
from haulout.core.logbook.wire import OPEN_LABEL
from haulout.model.meta import ObjectMeta


class _Node(msgspec.Struct, frozen=True):
    name: str = ""


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    node: _Node = _Node()
    begun_at: str = ""


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    ended_at: str = ""


class RecordEnd(msgspec.Struct, frozen=True):
    """A record, in part: its node, and when it began and ended."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _Spec = _Spec()
    status: _Status = _Status()

    @property
    def ended_at(self) -> datetime | None:
        """When the maintenance ended; None while it goes on. A record without a valid instant counts from its creation."""
        if self.metadata.labels.get(OPEN_LABEL) == "true":
            return None
        return _instant(self.status.ended_at) or instant(self.metadata.creation_timestamp)

    @property
    def begun_at(self) -> datetime | None:
        return _instant(self.spec.begun_at) or instant(self.metadata.creation_timestamp)


def _instant(text: str) -> datetime | None:
    try:
        return instant(datetime.fromisoformat(text))
    except ValueError:
        return None


def chronic_nodes(records: Iterable[RecordEnd], now: datetime) -> int:
    """Return how many nodes have come back for maintenance again and again."""
    begun = ((each.spec.node.name, at) for each in records if (at := each.begun_at) is not None)
    return len(returning(begun, now - CHRONIC_FOR))


def expired_records(records: Iterable[RecordEnd], options: LogbookOptions, now: datetime) -> list[Expired]:
    """Return the closed records to remove, the oldest first. Open ones are never removed."""
    ends = [(each.ended_at, each.metadata.name, each.metadata.uid) for each in records]
    closed = sorted((at, name, uid) for at, name, uid in ends if at is not None)
    surplus = max(len(closed) - options.most, 0)
    return [
        Expired(name, uid)
        for number, (at, name, uid) in enumerate(closed)
        if number < surplus or at + options.keeps_for <= now
    ]
