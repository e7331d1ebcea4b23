"""The trace of a maintenance as data: its spans, which follow from its record alone.

All ids are digests of the UID of the record. So an export that is repeated after a crash has the ids of the first one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from itertools import pairwise

import msgspec

from haulout.core.logbook.account import VALIDATING, WORKING
from haulout.core.logbook.wire import MaintenanceRecord, Outcome, Phase, Waited

# A text, a number, a truth value, or a list of texts, as OpenTelemetry has them.
Attribute = str | int | bool | tuple[str, ...]
ROOT, WAIT, CORDON, DRAIN, WORK, VALIDATION, RETURN = (
    *("maintenance", "wait", "cordon", "drain", "work", "validation", "return"),
)
# The span that begins with each phase. It goes on until a phase begins another one.
SPANS = {
    "requested": WAIT,
    "begun": CORDON,
    "cordoned": DRAIN,
    "drained": WORK,
    WORKING: WORK,
    "done": RETURN,
    VALIDATING: VALIDATION,
}
ERRORS = (Outcome.FAILED, Outcome.LOST)
# The most slow evictions of a maintenance that get spans.
MOST_REMOVALS = 64


class Span(msgspec.Struct, frozen=True):
    """A span of a trace. Ids are hexadecimal; `parent` is empty for the root. `error`: why it failed; empty: it did not."""

    trace: str
    id: str
    parent: str
    name: str
    begun_at: datetime
    ended_at: datetime
    attributes: tuple[tuple[str, Attribute], ...] = ()
    error: str = ""


class Removal(msgspec.Struct, frozen=True):
    """The eviction or deletion of a pod by a drain, from the first request until the pod was gone.

    `gone_at`: None: the pod is still there. `requests`: how many requests were sent. `blocked`: how many of them a
    PodDisruptionBudget refused.
    """

    namespace: str
    name: str
    uid: str
    verb: str
    asked_at: datetime
    gone_at: datetime | None = None
    requests: int = 1
    blocked: int = 0


def trace_id(uid: str) -> str:
    """Return the id of the trace of a maintenance. `uid`: that of its record."""
    return _digest(uid, "trace")[:32]


def is_sampled(uid: str, percent: int) -> bool:
    """Whether the trace of a record belongs to the share of traces that is exported. Every replica says the same."""
    return int(_digest(uid, "sample")[:8], 16) % 100 < percent


def spans_of(record: MaintenanceRecord, removals: Iterable[Removal] = ()) -> tuple[Span, ...]:
    """Return the spans of an ended maintenance, the root first; none for a record that is open or has no instants."""
    ended_at, uid = record.status.ended_at, record.metadata.uid
    if record.is_open or ended_at is None or not uid:
        return ()
    stages = tuple(_stages(record, ended_at))
    if not stages:
        return ()
    children = [_span(uid, name, "", begun, end) for name, begun, end in _joined(stages)]
    root = _span(uid, ROOT, None, stages[0][1], ended_at, _attributes(record), _error(record))
    waits = [_wait(uid, wait, children, ended_at) for wait in record.status.waited_for if wait.since_at is not None]
    slow = [_removal(uid, each, children, ended_at) for each in removals]
    return (root, *children, *waits, *slow)


def return_span(record: MaintenanceRecord, given_back_at: datetime) -> Span | None:
    """Return the span from the end of the record until the node was given back; None if that took no time."""
    ended_at = record.status.ended_at
    if ended_at is None or given_back_at <= ended_at:
        return None
    return _span(record.metadata.uid, RETURN, "", ended_at, given_back_at, of="given-back")


def _stages(record: MaintenanceRecord, ended_at: datetime) -> Iterator[tuple[str, datetime, datetime]]:
    """Yield the name and the instants of the span that each phase begins or continues."""
    known = (each for each in record.status.phases if each.name in SPANS)
    # A record may have been written by any client, and no span ends after the maintenance.
    phases = sorted((Phase(each.name, min(each.at, ended_at)) for each in known), key=lambda each: each.at)
    if not phases and record.spec.begun_at is not None:
        phases = [Phase("begun", min(record.spec.begun_at, ended_at))]
    names = {each.name for each in phases}
    begun_at = next((each.at for each in phases if each.name != "requested"), ended_at)
    earlier = [
        wait.since_at for wait in record.status.waited_for if wait.since_at is not None and wait.since_at < begun_at
    ]
    if earlier and "requested" not in names:
        phases = [Phase("requested", min(earlier)), *phases]
    drains = "drained" in names or record.status.drain is not None
    for phase, following in pairwise((*phases, Phase("ended", ended_at))):
        yield _stage(phase.name, names, drains=drains), phase.at, max(following.at, phase.at)


def _stage(phase: str, names: set[str], *, drains: bool) -> str:
    """Return the name of the span that a phase begins. Without a cordon or a drain, the work begins at once."""
    if phase == "cordoned" or (phase == "begun" and "cordoned" not in names):
        return DRAIN if drains else WORK
    return SPANS[phase]


def _joined(stages: Iterable[tuple[str, datetime, datetime]]) -> Iterator[tuple[str, datetime, datetime]]:
    """Yield one span for each name, from its first beginning to its last end. One that takes no time is left out."""
    spans: dict[str, tuple[datetime, datetime]] = {}
    for name, begun, end in stages:
        if end > begun:
            spans[name] = (spans[name][0] if name in spans else begun, end)
    for name, (begun, end) in spans.items():
        yield name, begun, end


def _wait(uid: str, wait: Waited, stages: list[Span], ended_at: datetime) -> Span:
    """Return the span of one cause of a wait. It begins when the cause was first seen, and is as long as it lasted in all."""
    begun = min(wait.since_at or ended_at, ended_at)
    parent = next((each for each in stages if each.begun_at <= begun < each.ended_at), None)
    attributes = (("haulout.reason", wait.code), ("haulout.subject", wait.subject))
    until = min(begun + timedelta(seconds=wait.seconds), ended_at)
    name, of = f"{WAIT} {wait.code}", f"{wait.code}/{wait.subject}"
    return _span(uid, name, parent.name if parent is not None else "", begun, until, attributes, of=of)


def _removal(uid: str, removal: Removal, stages: list[Span], ended_at: datetime) -> Span:
    until = min(removal.gone_at or ended_at, ended_at)
    begun = min(removal.asked_at, until)
    parent = DRAIN if any(each.name == DRAIN for each in stages) else ""
    attributes: tuple[tuple[str, Attribute], ...] = (
        ("k8s.namespace.name", removal.namespace),
        ("k8s.pod.name", removal.name),
        ("k8s.pod.uid", removal.uid),
        ("haulout.requests", removal.requests),
        ("haulout.blocked", removal.blocked),
    )
    error = "" if removal.gone_at is not None else "the pod was still there when the maintenance ended"
    return _span(uid, removal.verb, parent, begun, until, attributes, error, of=f"{removal.verb}/{removal.uid}")


def _attributes(record: MaintenanceRecord) -> tuple[tuple[str, Attribute], ...]:
    spec, status = record.spec, record.status
    drain = status.drain
    counts = (drain.evicted, drain.deleted, drain.ignored) if drain is not None else ()
    waits = tuple(f"{each.code} {each.subject} {each.seconds}s" for each in status.waited_for)
    acts = tuple(" ".join(filter(None, (each.act, each.by, each.reason))) for each in status.acts)
    found: tuple[tuple[str, Attribute], ...] = (
        ("haulout.record", record.metadata.name),
        ("haulout.surface", spec.surface),
        ("haulout.outcome", status.outcome.value if status.outcome is not None else ""),
        ("haulout.owner", "/".join(filter(None, (spec.owner.kind, spec.owner.namespace, spec.owner.name)))),
        ("haulout.reason", spec.reason),
        ("haulout.requested_by", spec.requested_by.name),
        ("k8s.node.name", spec.node.name),
        ("k8s.node.uid", spec.node.uid),
        *zip((f"haulout.pods.{name}" for name in ("evicted", "deleted", "ignored")), counts, strict=False),
        ("haulout.waited_for", waits),
        ("haulout.limits", status.limits),
        ("haulout.acts", acts),
        ("haulout.observed", tuple(each.name for each in status.phases if each.certainty == "observed")),
    )
    return tuple((name, value) for name, value in found if value not in ("", ()))


def _error(record: MaintenanceRecord) -> str:
    outcome = record.status.outcome
    if outcome is None or outcome not in ERRORS:
        return ""
    return record.status.error or f"the maintenance ended as {outcome.value}"


def _span(
    uid: str,
    name: str,
    parent: str | None,
    begun_at: datetime,
    ended_at: datetime,
    attributes: tuple[tuple[str, Attribute], ...] = (),
    error: str = "",
    *,
    of: str = "",
) -> Span:
    """Return a span of a record. `parent`: the name of the stage that it belongs to; empty: the root; None: it is the root."""
    above = "" if parent is None else _digest(uid, parent or ROOT)[:16]
    return Span(trace_id(uid), _digest(uid, of or name)[:16], above, name, begun_at, ended_at, attributes, error)


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(("haulout.dev", *parts)).encode()).hexdigest()
