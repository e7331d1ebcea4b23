"""The SLA of a maintenance: until when workloads may leave its node by themselves."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from haulout.base import duration
from haulout.surfaces.notify.notice.states import has_finalizer, is_final
from haulout.surfaces.notify.notice.status import second
from haulout.surfaces.notify.situation import NoticeSituation
from haulout.surfaces.notify.wire import SLA_PERIOD, STARTED, NoticeRow, Status


def deadline(situation: NoticeSituation) -> tuple[datetime, str]:
    """Return when the SLA of a maintenance that starts now expires, and the problem with its own period, if any.

    Maintenances of one node expire together: a maintenance that starts while another counts down gets the same
    deadline.
    """
    own, problem = own_period(situation.row)
    if own is not None:
        return second(situation.now + own), ""
    running = [at for at in map(_counts_down, situation.siblings()) if at is not None and at > situation.now]
    return min(running, default=second(situation.now + situation.options.sla_for)), problem


def own_period(row: NoticeRow) -> tuple[timedelta | None, str]:
    """Return the SLA period in the maintenance's annotation, or the problem with it."""
    text = row.annotations.get(SLA_PERIOD)
    if text is None:
        return None, ""
    try:
        period = duration.parse(text)
    except duration.DurationError as error:
        return None, f"the annotation {SLA_PERIOD} counts as absent: {error}"
    if period <= timedelta():
        return None, f"the annotation {SLA_PERIOD} counts as absent: {text} is not above 0"
    return period, ""


def _counts_down(row: NoticeRow) -> datetime | None:
    runs = row.state == STARTED and has_finalizer(row) and not is_final(row)
    return row.status.sla_expires if runs and own_period(row)[0] is None else None


def is_expired(situation: NoticeSituation) -> bool:
    expires_at = situation.status.sla_expires
    return expires_at is not None and expires_at < situation.now


def repair_deadline(situation: NoticeSituation) -> Status:
    """Return the status with an SLA deadline, which the original may have failed to store."""
    own, _ = own_period(situation.row)
    since = situation.status.entered_at(STARTED) or situation.now
    expires_at = second(since + (own or situation.options.sla_for))
    return msgspec.structs.replace(situation.status, sla_expires=expires_at)
