"""Campaigns: all maintenances with the same ID. A campaign with too many failures is halted."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from datetime import UTC, datetime

from haulout.cluster.limits import Count, Group, Membership
from haulout.cluster.rows import Row
from haulout.cluster.store import Index
from haulout.cluster.view import View
from haulout.core.action import Tell
from haulout.surfaces.notify.notice.states import has_finalizer, is_final
from haulout.surfaces.notify.options import Scheduler
from haulout.surfaces.notify.situation import REPORTER, NoticeSituation
from haulout.surfaces.notify.wire import INCOMPLETE, KIND, NoticeRow

_NEVER = datetime(1, 1, 1, tzinfo=UTC)


def has_failed(row: NoticeRow) -> bool:
    return row.state == INCOMPLETE and has_finalizer(row) and not is_final(row)


class FailedInCampaign(Count, frozen=True):
    """The count of failed maintenances, by ID."""

    @property
    def kind(self) -> str:
        return KIND

    def groups(self, row: Row) -> Iterable[Membership]:
        return (Membership(row.maintenance),) if isinstance(row, NoticeRow) and has_failed(row) else ()

    def describe(self, group: Group) -> str:
        return f"failed maintenances of {group}"


def _failed_id(row: Row) -> tuple[Hashable, ...]:
    return (row.maintenance,) if isinstance(row, NoticeRow) and has_failed(row) else ()


FAILED = FailedInCampaign()
FAILED_OF = Index("notify-failed", KIND, _failed_id)


def is_halted(maintenance: str, settings: Scheduler, view: View) -> bool:
    """Whether so many maintenances of an ID have failed that no more of them start."""
    most = settings.failure_threshold
    return most > 0 and view.at_least(FAILED, maintenance, most)


def halt_events(situation: NoticeSituation) -> tuple[Tell, ...]:
    """Return the event that a campaign is halted, if this maintenance is the last that has failed."""
    row, settings = situation.row, situation.options.operators.scheduler
    if not has_failed(row) or not is_halted(row.maintenance, settings, situation.view):
        return ()
    failed = situation.view.rows(FAILED_OF, row.maintenance, NoticeRow)
    if max(failed, key=_failed_at).key != row.key:
        return ()
    note = f"No more maintenances of {row.maintenance} are started: {len(failed)} of them have failed; delete or retry those"
    return (Tell(row.key, "CampaignHalted", "CampaignHalted", note, REPORTER, warning=True, core=True),)


def _failed_at(row: NoticeRow) -> tuple[datetime, str]:
    return row.status.entered_at(INCOMPLETE) or _NEVER, row.place
