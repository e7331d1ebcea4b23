"""The drainer: empties the node of a started maintenance, by force once its SLA has expired, and reports it drained."""

from __future__ import annotations

from datetime import datetime, timedelta

from haulout.base.selector import parse
from haulout.cluster.key import Key
from haulout.cluster.rows import NodeRow, Value
from haulout.cluster.view import MARK, View
from haulout.core.action import Annotate, Measure, Step, Tell
from haulout.core.decision import NOTHING, Decision, earliest
from haulout.core.drain.options import DrainOptions, DrainRow, drain_row
from haulout.core.drain.progress import Progress, conclusion, drain_reasons, progress
from haulout.surfaces.notify.drain_report import report
from haulout.surfaces.notify.jobs import ROLE
from haulout.surfaces.notify.match import is_external, may_act, owner_mark
from haulout.surfaces.notify.pod_classes import PodClasses
from haulout.surfaces.notify.situation import Situation, events_of, situation_of
from haulout.surfaces.notify.states import DRAINING, has_finalizer, is_final, is_terminal
from haulout.surfaces.notify.volumes import VOLUMES_OF_NODE, VolumeRow
from haulout.surfaces.notify.wire import IN_BOX, READY, SLA_EXPIRED, STARTED, SURFACE, NoticeRow

OWN_PODS = parse(ROLE)
NAME = "drainer"
STUCK_EVERY_FOR = timedelta(hours=1)


def decide(key: Key, view: View, now: datetime) -> Decision:
    given = situation_of(key, view, now)
    if given is None or not given.options.operators.drainer.enabled or given.node is None:
        return NOTHING
    if not given.node.unschedulable or READY in given.row.annotations or not is_drained_by_us(given, given.row):
        return NOTHING
    drain = drain_of(given, given.node)
    state = progress(view, drain, now)
    volumes = _volumes(given)
    if not state.cleared or volumes:
        return _draining(given, drain, state, volumes)
    return _settling(given, given.node, drain)


def is_drained_by_us(given: Situation, row: NoticeRow) -> bool:
    """Whether the drainer has to empty the node for this maintenance."""
    in_step = row.state in DRAINING and not is_final(row) and not is_terminal(row) and has_finalizer(row)
    return in_step and may_act(given.options, NAME, row, given.node) and not is_external(row, NAME, READY)


def drain_of(given: Situation, node: NodeRow) -> DrainRow:
    settings, since = given.options.operators.drainer, forced_since(given)
    grace = settings.grace_period_seconds if since is None else settings.forced_grace_period_seconds
    stuck = settings.force_delete_stuck and since is not None
    options = DrainOptions(
        classes=PodClasses(settings, since),
        ignored=OWN_PODS,
        grace_for=grace if grace >= 0 else None,
        force_stuck_for=int(settings.stuck_after.total_seconds()) if stuck else None,
    )
    return drain_row(
        SURFACE,
        given.key,
        node.key,
        options=options,
        rules=given.options.rules,
        since=given.status.entered_at(STARTED) or given.now,
        retry_for=settings.retry_interval.total_seconds(),
        most_at_once=settings.max_concurrent_evictions,
    )


def forced_since(given: Situation) -> datetime | None:
    """Return since when pods of the node are forced: one expired SLA of the node is enough."""
    if given.options.operators.drainer.after_sla != "Force":
        return None
    rows = [given.row, *(row for row in given.siblings() if is_drained_by_us(given, row))]
    expired = [row.status.entered_at(SLA_EXPIRED) or given.now for row in rows if row.state == SLA_EXPIRED]
    return min(expired, default=None)


def _volumes(given: Situation) -> int:
    """Return how many volumes are attached to the node, if they are waited for."""
    if not given.options.operators.drainer.wait_for_volume_detach:
        return 0
    return len(given.view.rows(VOLUMES_OF_NODE, given.row.node, VolumeRow))


def _draining(given: Situation, drain: DrainRow, state: Progress, volumes: int) -> Decision:
    progress_report = report(given, state, volumes)
    stuck, stuck_at = _stuck(given)
    steps = tuple(step for step in (progress_report.step, stuck) if step)
    return Decision(
        actions=steps,
        marks=(drain, *progress_report.marks),
        until=earliest(state.changes_at, progress_report.until, stuck_at),
        reasons=drain_reasons(given.view, drain, state, given.now) if given.view.explaining else (),
    )


def _stuck(given: Situation) -> tuple[tuple[Tell, ...], datetime | None]:
    """Warn every hour of a drain that has taken twice the SLA."""
    started_at = given.status.entered_at(STARTED)
    if started_at is None:
        return (), None
    late_at = started_at + 2 * given.options.sla_for
    if given.now < late_at:
        return (), late_at
    hours = (given.now - late_at) // STUCK_EVERY_FOR
    note = f"node {given.row.node} is still not drained, {hours} h after twice its SLA"
    return events_of(given, "DrainStuck", note, warning=True), late_at + (hours + 1) * STUCK_EVERY_FOR


def _settling(given: Situation, node: NodeRow, drain: DrainRow) -> Decision:
    """Wait until the node has looked empty for a while; then one list of its pods proves it."""
    key = Key("", MARK, "notify-cleared", f"{given.row.place}/{node.uid}")
    known = given.view.recall(key, Value)
    since = known.value if known is not None and isinstance(known.value, datetime) else given.now
    mark = Value(key=key, value=since)
    settled_at = since + given.options.operators.drainer.settle
    if given.now < settled_at:
        return Decision(marks=(drain, mark), until=settled_at)
    state = conclusion(given.view, drain, given.now)
    if not state.done:
        return Decision(marks=(drain, mark), until=state.changes_at)
    return Decision(actions=_reported(given), marks=(drain, mark))


def _reported(given: Situation) -> tuple[Step, ...]:
    """Report the node as drained. The condition follows with the transition, in the same write."""
    row = given.row
    phase = "forced" if forced_since(given) is not None else "graceful"
    labels = (("phase", phase),)
    took = Measure("nm_drain_duration_seconds", labels, since=given.status.entered_at(STARTED) or given.now)
    return ((Annotate(row.key, READY, "true"), Annotate(row.key, owner_mark(NAME), IN_BOX), took),)
