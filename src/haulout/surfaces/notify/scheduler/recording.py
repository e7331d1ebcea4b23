"""The recording of run times of finite pods: for each node its pods, for the fleet the history in a ConfigMap.

There are three decisions, so that the end of a pod only concerns the decision about its node. Every few minutes the
history takes in the ended pods and is stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

import msgspec

from haulout.cluster.indexes import PODS_OF_NODE
from haulout.cluster.key import Key
from haulout.cluster.rows import PodRow, Row, Value
from haulout.cluster.store import Index, Store
from haulout.cluster.view import CONFIG, MARK, OUTCOME, FactDemand, View
from haulout.core.action import Say, Send, Step
from haulout.core.decision import NOTHING, Decision
from haulout.surfaces.notify.drainer.pod_classes import is_finite
from haulout.surfaces.notify.options import Options
from haulout.surfaces.notify.recipes.jobs import ROLE
from haulout.surfaces.notify.scheduler.history import (
    Samples,
    decode_history,
    encode_history,
    samples_key,
    with_samples,
    workload_of,
)
from haulout.surfaces.notify.wire import SURFACE

PROBE, CHANNEL = "notify-history", "notify-history"
STORED_EVERY_FOR = timedelta(minutes=5)
READ_EVERY_FOR = timedelta(minutes=1)
RUNS = "notify-runs"
HISTORY_KEY = Key("", MARK, "notify-history", "")


class PodRunTime(msgspec.Struct, frozen=True):
    """One run of a finite pod. `ended_at`: None while it runs."""

    uid: str
    workload: str
    started_at: datetime
    ended_at: datetime | None = None


class NodeRunTimes(Row, frozen=True, kw_only=True):
    """The finite pods of one node.

    `running`: those that run. `ended`: those that the history has not taken in yet.
    """

    running: tuple[PodRunTime, ...] = ()
    ended: tuple[PodRunTime, ...] = ()


class HistoryRow(Row, frozen=True, kw_only=True):
    """The history of the fleet.

    `taken_at`: runs that ended before are included. `changed`: it is not stored yet.
    """

    history: Mapping[str, Samples]
    taken_at: datetime
    changed: bool = False


class StoredHistory(msgspec.Struct, frozen=True):
    """The history to store: the text, and the namespace of its ConfigMap."""

    namespace: str
    text: str


def _with_ended(row: Row) -> tuple[str, ...]:
    return (RUNS,) if isinstance(row, NodeRunTimes) and row.ended else ()


ENDED_RUNS = Index("notify-ended-runs", MARK, _with_ended)


def _options(view: View) -> Options | None:
    setting = view.config(SURFACE)
    if setting is None or not isinstance(setting.value, Options):
        return None
    scheduler = setting.value.operators.scheduler
    return setting.value if scheduler.enabled and scheduler.history.enabled else None


def decide_node(key: Key, view: View, now: datetime) -> Decision:
    """Record which finite pods run on a node, and how long those ran that have ended or are gone."""
    if _options(view) is None:
        return NOTHING
    mark = Key("", MARK, RUNS, key.name)
    known = view.recall(mark, NodeRunTimes)
    pods = [pod for pod in view.rows(PODS_OF_NODE, key.name, PodRow) if _is_remembered(pod)]
    running = tuple(_run(pod, now) for pod in pods if not pod.ended and pod.phase == "Running")
    kept = {run.uid for run in running}
    before = known.running if known is not None else ()
    ended = (
        *(known.ended if known is not None else ()),
        *(msgspec.structs.replace(run, ended_at=now) for run in before if run.uid not in kept),
    )
    if ended:
        taken = view.get(HISTORY_KEY, HistoryRow)
        ended = tuple(run for run in ended if taken is None or (run.ended_at or now) > taken.taken_at)
    return Decision(marks=(NodeRunTimes(key=mark, running=running, ended=ended),)) if running or ended else NOTHING


def _is_remembered(pod: PodRow) -> bool:
    return is_finite(pod) and not pod.spec.mirror and ROLE not in pod.labels


def _run(pod: PodRow, now: datetime) -> PodRunTime:
    started_at = pod.details.started_at if pod.details is not None else None
    return PodRunTime(pod.uid, workload_of(pod), started_at or pod.created_at or now)


def decide_history(key: Key, view: View, now: datetime) -> Decision:
    """Add the runs that have ended since the last time to the history, and store it."""
    options = _options(view)
    if options is None or key.name != SURFACE:
        return NOTHING
    rows = view.rows(ENDED_RUNS, RUNS, NodeRunTimes)
    known = view.recall(HISTORY_KEY, HistoryRow)
    if known is None:
        return _loaded(options, view, now)
    due_at = known.taken_at + STORED_EVERY_FOR
    if rows and now >= due_at:
        known = _with_ended_runs(known, rows, now)
        due_at = now + STORED_EVERY_FOR
    steps, again_at = _storing(known, options, view, now)
    until = again_at if again_at is not None else due_at if rows else None
    return Decision(actions=steps, marks=(known,), until=until)


def _with_ended_runs(known: HistoryRow, rows: Iterable[NodeRunTimes], now: datetime) -> HistoryRow:
    ended = sorted((run for row in rows for run in row.ended), key=lambda run: (run.ended_at or now, run.uid))
    samples = [(run.workload, ((run.ended_at or now) - run.started_at).total_seconds()) for run in ended]
    return HistoryRow(key=HISTORY_KEY, history=with_samples(known.history, samples), taken_at=now, changed=True)


def unstored_history(store: Store, now: datetime) -> StoredHistory | None:
    """Return the history with all runs that are not stored yet, for a process that ends; None if there are none."""
    known, setting = store.row(HISTORY_KEY), store.row(Key("", CONFIG, "", SURFACE))
    if not isinstance(known, HistoryRow) or not isinstance(setting, Value) or not isinstance(setting.value, Options):
        return None
    found = store.bucket(ENDED_RUNS, "", RUNS)
    rows = [row for row in found if isinstance(row, NodeRunTimes)]
    outcome = store.row(Key("", OUTCOME, "", _storing_name(known)))
    is_stored = not known.changed or (isinstance(outcome, Value) and outcome.state == "done")
    if not rows and is_stored:
        return None
    return StoredHistory(setting.value.namespace, encode_history(_with_ended_runs(known, rows, now).history))


def _loaded(options: Options, view: View, now: datetime) -> Decision:
    """Begin with the stored history, or with an empty one if it cannot be read."""
    fact = view.fact(FactDemand(PROBE, options.namespace, READ_EVERY_FOR))
    if fact.state != "fresh":
        return NOTHING
    text = fact.value if isinstance(fact.value, str) else ""
    read = decode_history(text) if text else {}
    begun = HistoryRow(key=HISTORY_KEY, history=read or {}, taken_at=now)
    warning: Step = (Say("the history of run times cannot be read, and begins anew", level="warning"),)
    return Decision(actions=(warning,) if read is None else (), marks=(begun,))


def _storing_name(known: HistoryRow) -> str:
    return f"notify-history/{known.taken_at.isoformat()}"


def _storing(
    known: HistoryRow, options: Options, view: View, now: datetime
) -> tuple[tuple[Step, ...], datetime | None]:
    if not known.changed:
        return (), None
    name = _storing_name(known)
    outcome = view.outcome(name)
    if outcome is not None and outcome.state in ("done", "pending"):
        return (), None
    if outcome is not None and isinstance(outcome.value, datetime) and now < outcome.value + READ_EVERY_FOR:
        return (), outcome.value + READ_EVERY_FOR
    content = StoredHistory(options.namespace, encode_history(known.history))
    return ((Send(name, CHANNEL, content, disrupts=False),),), None


def decide_samples(key: Key, view: View, now: datetime) -> Decision:
    """Publish the samples of each workload as a row of its own, for estimates."""
    if key.name != SURFACE or _options(view) is None:
        return NOTHING
    known = view.get(HISTORY_KEY, HistoryRow)
    if known is None or not known.history:
        return NOTHING
    return Decision(marks=tuple(Value(key=samples_key(name), value=samples) for name, samples in known.history.items()))
