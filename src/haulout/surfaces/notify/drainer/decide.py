"""The drainer: it empties the node of a started maintenance, after the SLA by force, and reports it as drained."""

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
from haulout.surfaces.notify.drainer.pod_classes import PodClasses
from haulout.surfaces.notify.drainer.report import report
from haulout.surfaces.notify.drainer.volumes import VOLUMES_OF_NODE, VolumeRow
from haulout.surfaces.notify.match import is_external, may_act, owner_mark
from haulout.surfaces.notify.notice.states import DRAINING, has_finalizer, is_final, is_terminal
from haulout.surfaces.notify.recipes.jobs import ROLE
from haulout.surfaces.notify.situation import NoticeSituation, events_of, situation_of
from haulout.surfaces.notify.wire import IN_BOX, READY, SLA_EXPIRED, STARTED, SURFACE, NoticeRow

OWN_PODS = parse(ROLE)
NAME = "drainer"
STUCK_EVERY_FOR = timedelta(hours=1)


def decide(key: Key, view: View, now: datetime) -> Decision:
    situation = situation_of(key, view, now)
    if situation is None or not situation.options.operators.drainer.enabled or situation.node is None:
        return NOTHING
    if (
        not situation.node.unschedulable
        or READY in situation.row.annotations
        or not is_drained_by_us(situation, situation.row)
    ):
        return NOTHING
    drain = drain_of(situation, situation.node)
    state = progress(view, drain, now)
    volumes = _volumes(situation)
    if not state.cleared or volumes:
        return _draining(situation, drain, state, volumes)
    return _settling(situation, situation.node, drain)


def is_drained_by_us(situation: NoticeSituation, row: NoticeRow) -> bool:
    """Whether the in-box drainer has to empty the node for this maintenance."""
    in_step = row.state in DRAINING and not is_final(row) and not is_terminal(row) and has_finalizer(row)
    return in_step and may_act(situation.options, NAME, row, situation.node) and not is_external(row, NAME, READY)


def drain_of(situation: NoticeSituation, node: NodeRow) -> DrainRow:
    settings, since = situation.options.operators.drainer, forced_since(situation)
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
        situation.key,
        node.key,
        options=options,
        rules=situation.options.rules,
        since=situation.status.entered_at(STARTED) or situation.now,
        retry_for=settings.retry_interval.total_seconds(),
        most_at_once=settings.max_concurrent_evictions,
    )


def forced_since(situation: NoticeSituation) -> datetime | None:
    """Return since when pods of the node are removed by force; None if they are not.

    One expired SLA among the maintenances of the node is enough.
    """
    if situation.options.operators.drainer.after_sla != "Force":
        return None
    rows = [situation.row, *(row for row in situation.siblings() if is_drained_by_us(situation, row))]
    expired = [row.status.entered_at(SLA_EXPIRED) or situation.now for row in rows if row.state == SLA_EXPIRED]
    return min(expired, default=None)


def _volumes(situation: NoticeSituation) -> int:
    """Return how many volumes are attached to the node; 0 if the drain does not wait for them."""
    if not situation.options.operators.drainer.wait_for_volume_detach:
        return 0
    return len(situation.view.rows(VOLUMES_OF_NODE, situation.row.node, VolumeRow))


def _draining(situation: NoticeSituation, drain: DrainRow, state: Progress, volumes: int) -> Decision:
    progress_report = report(situation, state, volumes)
    stuck, stuck_at = _stuck(situation)
    steps = tuple(step for step in (progress_report.step, stuck) if step)
    return Decision(
        actions=steps,
        marks=(drain, *progress_report.marks),
        until=earliest(state.changes_at, progress_report.until, stuck_at),
        reasons=drain_reasons(situation.view, drain, state, situation.now) if situation.view.explaining else (),
    )


def _stuck(situation: NoticeSituation) -> tuple[tuple[Tell, ...], datetime | None]:
    """Return an hourly warning about a drain that has taken more than twice the SLA, and when the next one is due."""
    started_at = situation.status.entered_at(STARTED)
    if started_at is None:
        return (), None
    late_at = started_at + 2 * situation.options.sla_for
    if situation.now < late_at:
        return (), late_at
    hours = (situation.now - late_at) // STUCK_EVERY_FOR
    note = f"node {situation.row.node} is still not drained, {hours} h after twice its SLA"
    return events_of(situation, "DrainStuck", note, warning=True), late_at + (hours + 1) * STUCK_EVERY_FOR


def _settling(situation: NoticeSituation, node: NodeRow, drain: DrainRow) -> Decision:
    """Wait until the node has looked empty for a while. Then one list of its pods has to prove it."""
    key = Key("", MARK, "notify-cleared", f"{situation.row.place}/{node.uid}")
    known = situation.view.recall(key, Value)
    since = known.value if known is not None and isinstance(known.value, datetime) else situation.now
    mark = Value(key=key, value=since)
    settled_at = since + situation.options.operators.drainer.settle
    if situation.now < settled_at:
        return Decision(marks=(drain, mark), until=settled_at)
    state = conclusion(situation.view, drain, situation.now)
    if not state.done:
        return Decision(marks=(drain, mark), until=state.changes_at)
    return Decision(actions=_reported(situation), marks=(drain, mark))


def _reported(situation: NoticeSituation) -> tuple[Step, ...]:
    """Return the step that reports the node as drained. Its condition is written together with the transition."""
    row = situation.row
    phase = "forced" if forced_since(situation) is not None else "graceful"
    labels = (("phase", phase),)
    took = Measure("nm_drain_duration_seconds", labels, since=situation.status.entered_at(STARTED) or situation.now)
    # Others may work on the node as soon as they see it.
    return ((Annotate(row.key, READY, "true", disrupts=True), Annotate(row.key, owner_mark(NAME), IN_BOX), took),)
