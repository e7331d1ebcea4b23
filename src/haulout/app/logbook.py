"""The part of the process for the logbook: its options, the probe that finds expired records, and what it cannot record."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from haulout.app.parts import Part, Surroundings
from haulout.cluster.key import Key
from haulout.cluster.rows import Value
from haulout.cluster.store import Listing
from haulout.cluster.view import CONFIG
from haulout.core.admission import Webhook
from haulout.core.declaration import Context, Declaration
from haulout.core.logbook.admit import webhooks
from haulout.core.logbook.notes import REFUSED_RECORDS, RefusedNote
from haulout.core.logbook.options import KEY_NAME, NAME, LogbookOptions, People
from haulout.core.logbook.retained import RecordEnd, chronic_nodes, expired_records
from haulout.core.logbook.retention import AT_ONCE, PROBE, Expired
from haulout.core.logbook.wire import KIND, RECORDS
from haulout.kube.errors import KubeError
from haulout.kube.listing import read_list
from haulout.kube.transport import Transport
from haulout.runtime.metrics import Sample
from haulout.runtime.probes import Probe, ProbeFailed
from haulout.surfaces.registry import enabled_surfaces

log = logging.getLogger(__name__)

UNRECORDED, REFUSED, RECORDED = "RecordsUnreadable", "RecordsRefused", "RecordsWritten"
# All records are listed so often, in seconds. Between the lists, those that were found are removed.
LIST_EVERY = 600.0
# The API server keeps events for an hour. What keeps records from being kept is reported again so often, in seconds.
REPORT_EVERY = 1800.0


class Logbook(Part):
    """The logbook as a part of the process. Nothing waits for it."""

    def __init__(self, around: Surroundings, declaration: Declaration) -> None:
        self._unkept = ""
        self._report_at = 0.0
        self._finder: _Finder | None = None
        super().__init__(around, declaration)

    def complete(self, options: object, context: Context) -> LogbookOptions:
        given = self.settings.logbook
        return LogbookOptions(People(given.people), given.keeps_for, given.most, self.settings.traces.percent)

    def probes(self, transport: Transport) -> Mapping[str, Probe]:
        self._finder = _Finder(transport, self.around)
        return {PROBE: self._finder.find}

    def samples(self) -> Iterable[Sample]:
        """Return how many nodes came back again and again, as of the last list of all records."""
        chronic = self._finder.chronic if self._finder is not None else None
        return () if chronic is None else (("haulout_chronic_nodes", (), chronic + 0.0),)

    def webhooks(self) -> tuple[Webhook, ...]:
        # A process whose surfaces have no webhooks needs no certificate, and has no right to make one.
        if not any(each.webhooks for each in enabled_surfaces(self.settings.blocks)):
            return ()
        return webhooks(self.around.clock.now)

    def take_key(self, key: bytes) -> None:
        """Derive the key of the proofs of admission from that of the webhooks' certificate, which all replicas share."""
        proof = hmac.digest(key, b"haulout.dev/requested-by", "sha256")
        self.around.store.write(Value(key=Key("", CONFIG, "", KEY_NAME), value=proof))
        self.around.poke()

    def lacks(self) -> str:
        """Return nothing: the process is ready without the logbook."""
        return ""

    def look(self, *, closely: bool = False) -> None:
        """Report when records cannot be kept, again while that lasts, and when they can again."""
        super().look(closely=closely)
        why, reason, note = self._trouble()
        clock = self.around.clock.monotonic()
        is_over, is_due = not why, clock >= self._report_at
        if why == self._unkept and (is_over or not is_due):
            return
        self._unkept, self._report_at = why, clock + REPORT_EVERY
        if why:
            log.warning("maintenances are not recorded", extra={"kind": KIND, "error": why})
            # Status names a missing definition by itself.
            if "not served" not in why:
                self.around.troubles.invalid(NAME, f"{note}: {why}", reason, again=True)
        else:
            log.info("no record is refused or unreadable any more", extra={"kind": KIND})
            self.around.troubles.valid(NAME, "No MaintenanceRecord is refused or unreadable any more", RECORDED)

    def _trouble(self) -> tuple[str, str, str]:
        """Return the error that keeps records from being kept, empty if there is none, with what to report about it."""
        table = self.around.store.table("", KIND)
        if table.listing is Listing.UNREADABLE:
            note = "MaintenanceRecords cannot be read, and maintenances are not recorded"
            return table.why or "no answer", UNRECORDED, note
        refused = self.around.store.bucket(REFUSED_RECORDS, "", True)
        errors = sorted({each.why for each in refused if isinstance(each, RefusedNote)})
        note = "MaintenanceRecords are refused by the API server; maintenances go on without them"
        return (errors[0], REFUSED, note) if errors else ("", "", "")


class _Finder:
    """Finds expired records: all are listed now and then, and what was found is handed out a few at a time."""

    def __init__(self, transport: Transport, around: Surroundings) -> None:
        self._transport = transport
        self._around = around
        self._found: list[Expired] = []
        self._options: LogbookOptions | None = None
        self._list_at = 0.0
        self.chronic: int | None = None

    async def find(self, options: Any) -> tuple[Expired, ...]:
        """Return the next few records to remove."""
        if not self._around.leads():
            return ()
        clock = self._around.clock
        if options != self._options or (not self._found and clock.monotonic() >= self._list_at):
            self._options, self._list_at = options, clock.monotonic() + LIST_EVERY
            self._found = await self._list(options, clock.now())
        batch, self._found = tuple(self._found[:AT_ONCE]), self._found[AT_ONCE:]
        return batch

    async def _list(self, options: LogbookOptions, now: datetime) -> list[Expired]:
        try:
            records = await read_list(self._transport, RECORDS.path, RecordEnd)
        except KubeError as error:
            raise ProbeFailed(f"records cannot be listed: {error}") from None
        self.chronic = chronic_nodes(records, now)
        return expired_records(records, options, now)
