"""The logbook as pages: the MaintenanceRecords that match, newest first."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec

from haulout.core.logbook.wire import PLURAL, PREFIX, MaintenanceRecord, read_record
from haulout.kube.errors import NotFound
from haulout.kube.listing import read_list
from haulout.kube.transport import Transport
from haulout.serve.single_flight import Flight

LONG_AGO = datetime(1, 1, 1, tzinfo=UTC)
OPEN = "open"
# What `continue` looks like: the beginning and the name of the last record of a page.
POSITION_FORM = r"^[0-9]{1,4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}~[a-z0-9.-]{1,253}$"


class Wanted(msgspec.Struct, frozen=True):
    """Which records are asked for; an empty field matches all.

    `outcome`: an outcome, or `open` for maintenances that have not ended. `since`, `until`: the maintenance was under way at
    some instant between them. `after`: the position of the last record of the page before.
    """

    node: str = ""
    surface: str = ""
    outcome: str = ""
    since: datetime | None = None
    until: datetime | None = None
    after: str = ""
    limit: int = 100


class Records:
    """Reads the records of the cluster, once for all callers that ask at the same time."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._flight = Flight(self._list)

    async def page(self, wanted: Wanted) -> tuple[tuple[MaintenanceRecord, ...], str]:
        """Return the records of a page, and where the next one continues; empty if this was the last."""
        return page_of(await self._flight.get(), wanted)

    async def _list(self) -> tuple[MaintenanceRecord, ...]:
        anything: Any = dict[str, Any]
        try:
            found = await read_list(self._transport, f"{PREFIX}/{PLURAL}", anything)
        except NotFound:
            # The definition is not installed, so that nothing is recorded.
            return ()
        records = (read_record(each) for each in found)
        return tuple(record for record in records if record is not None)


def page_of(records: Iterable[MaintenanceRecord], wanted: Wanted) -> tuple[tuple[MaintenanceRecord, ...], str]:
    """Return the records that match, newest first, and where the next page continues."""
    found = sorted((each for each in records if _matches(each, wanted)), key=_position, reverse=True)
    rest = [each for each in found if not wanted.after or _position(each) < wanted.after]
    shown = rest[: wanted.limit]
    return tuple(shown), _position(shown[-1]) if len(rest) > len(shown) else ""


def _position(record: MaintenanceRecord) -> str:
    """Return the place of a record in the order of the beginnings. New records come before all of them."""
    begun_at = record.spec.begun_at or record.metadata.creation_timestamp or LONG_AGO
    return f"{begun_at.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}~{record.metadata.name}"


def _matches(record: MaintenanceRecord, wanted: Wanted) -> bool:
    spec, status = record.spec, record.status
    outcome = OPEN if status.outcome is None else status.outcome.lower()
    begun_at, ended_at = spec.begun_at or LONG_AGO, status.ended_at
    return (
        wanted.node in ("", spec.node.name)
        and wanted.surface in ("", spec.surface)
        and wanted.outcome.lower() in ("", outcome)
        and (wanted.until is None or begun_at < wanted.until)
        and (wanted.since is None or ended_at is None or ended_at >= wanted.since)
    )
