"""Reads the records of maintenances from a cluster, for history and report."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from haulout.base.bounds import EARLIEST
from haulout.core.budgets.declare import GROUP
from haulout.core.logbook.wire import PLURAL, RECORDS, MaintenanceRecord, read_record
from haulout.explain.kinds import not_served_text
from haulout.explain.unread_text import unread_text
from haulout.kube.errors import ApiError, NotFound
from haulout.kube.listing import read_list
from haulout.kube.transport import Transport


async def read_records(transport: Transport, incomplete: list[str]) -> list[MaintenanceRecord]:
    """Return all records, the oldest first. `incomplete`: takes in what could not be read."""
    kept: Any = dict[str, Any]
    try:
        found: list[dict[str, Any]] = await read_list(transport, RECORDS.path, kept)
    except NotFound:
        incomplete.append(f"there is no logbook: {not_served_text([f'{PLURAL}.{GROUP}'])}")
        return []
    except ApiError as error:
        incomplete.append(unread_text(f"{PLURAL}.{GROUP}", error))
        return []
    records = [record for each in found if (record := read_record(each)) is not None]
    if len(records) < len(found):
        incomplete.append(f"{len(found) - len(records)} MaintenanceRecords are not valid")
    return sorted(records, key=lambda each: (started_at(each), each.metadata.name))


def started_at(record: MaintenanceRecord) -> datetime:
    """Return when a maintenance began, as far as the record says."""
    return record.spec.begun_at or record.metadata.creation_timestamp or EARLIEST
