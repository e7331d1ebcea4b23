"""Reports problems of the operator itself as events about its own pod, or outside of a pod about its Lease."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta

import msgspec

from haulout.base.clock import Clock, SystemClock
from haulout.cluster.key import Key
from haulout.cluster.store import Store
from haulout.kube.recorder import Recorder, Reporter
from haulout.model.event import ObjectReference
from haulout.model.meta import wire_time
from haulout.runtime.outages import Outage

INVALID = "ConfigurationInvalid"
RESTORED = "ConfigurationRestored"
OUTAGES = {"unauthorized": "CredentialsRefused", "unreadable": "AccessForbidden"}
UNAVAILABLE = "ApiServerUnavailable"
OVERSIZED = "ObjectTooLarge"
# The most troubles that a replica keeps while it does not lead. There are only so many files and clusters.
MOST = 32
# A new leader reports outages that ended at most this long ago: an outage may have cost the last leader its Lease.
NEWS_FOR = timedelta(minutes=5)
# The most oversized objects that are reported in an hour. A tenant who may create pods may create any number of them.
MOST_OVERSIZED = 32


class TroubleEvent(msgspec.Struct, frozen=True):
    """The content of an event about a trouble of the process.

    `over_at`: when the trouble ended; None while it lasts.
    """

    reason: str
    note: str
    warning: bool = True
    over_at: datetime | None = None


class Troubles:
    """The troubles of the process that are reported as Kubernetes events, such as an invalid file.

    Every replica sees the same troubles, but only the leader reports them. The others keep the last one about each thing
    and report it when they become the leader.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._say: Callable[[TroubleEvent], None] | None = None
        self._waiting: dict[str, TroubleEvent] = {}
        self._wrong: dict[str, str] = {}
        self._outage_told_at: dict[str, datetime] = {}
        self._oversized_told_at: deque[float] = deque(maxlen=MOST_OVERSIZED)

    def lead(self, say: Callable[[TroubleEvent], None]) -> None:
        self._say = say
        since = self._clock.now() - NEWS_FOR
        for statement in self._waiting.values():
            if statement.over_at is None or statement.over_at >= since:
                say(statement)
        self._waiting.clear()

    def invalid(self, what: str, note: str, reason: str = INVALID, *, again: bool = False) -> None:
        """Report that `what`, such as a configuration file, cannot be used. The same note about it is reported once.

        `again`: report it in any case.
        """
        if again or self._wrong.get(what) != note:
            self._wrong[what] = note
            self._tell(what, TroubleEvent(reason, note))

    def valid(self, what: str, note: str, reason: str = RESTORED) -> None:
        """Report that `what` can be used again, if `invalid` was called for it before."""
        if self._wrong.pop(what, None) is not None and self._waiting.pop(what, None) is None:
            self._tell(what, TroubleEvent(reason, note, warning=False))

    def outage(self, outage: Outage) -> None:
        """Report an outage.

        All watches of a cluster break off together, each with an outage of its own. One that began before the end of a
        reported outage is not reported again.
        """
        reason, ended_at = OUTAGES.get(outage.code, UNAVAILABLE), outage.began_at + outage.lasted_for
        what = f"{reason} {outage.cluster}"
        told_at = self._outage_told_at.get(what)
        if told_at is None or outage.began_at > told_at:
            self._outage_told_at[what] = ended_at
            self._tell(what, TroubleEvent(reason, _note(outage), over_at=ended_at))

    def report_oversized(self, what: str, why: str) -> None:
        """Report an object that is too large to be read whole. Those above the limit are only logged and counted."""
        told_at, now = self._oversized_told_at, self._clock.monotonic()
        if len(told_at) == MOST_OVERSIZED and now - told_at[0] < 3600:
            return
        told_at.append(now)
        note = f"{what} is too large and is read in part: {why}"
        self._tell(what, TroubleEvent(OVERSIZED, note))

    def _tell(self, what: str, statement: TroubleEvent) -> None:
        if self._say is not None:
            self._say(statement)
            return
        self._waiting.pop(what, None)
        self._waiting[what] = statement
        if len(self._waiting) > MOST:
            del self._waiting[next(iter(self._waiting))]


def by_events(
    recorder: Recorder, reporter: Reporter, regarding: Callable[[], ObjectReference]
) -> Callable[[TroubleEvent], None]:
    def say(statement: TroubleEvent) -> None:
        recorder.record(
            reporter,
            regarding(),
            statement.reason,
            statement.note,
            type="Warning" if statement.warning else "Normal",
            by_note=True,
        )

    return say


def itself(namespace: str, name: str, lease: tuple[str, str] | None, store: Store) -> ObjectReference:
    """Return the object that events about the process name: our pod, else our Lease, else the namespace `default`.

    `namespace` and `name` are those of the pod; the namespace is empty outside of a pod.
    """
    if not namespace and lease is not None:
        version = "coordination.k8s.io/v1"
        return ObjectReference(kind="Lease", api_version=version, namespace=lease[0], name=lease[1])
    if not namespace:
        return ObjectReference(kind="Namespace", api_version="v1", name="default")
    # The pod's UID is known only if pods are watched. kubectl finds the event by name, too.
    row = store.row(Key("", "Pod", namespace, name))
    return ObjectReference(kind="Pod", api_version="v1", namespace=namespace, name=name, uid=row.uid if row else "")


def _note(outage: Outage) -> str:
    where = f" of cluster {outage.cluster}" if outage.cluster else ""
    seconds = max(1, round(outage.lasted_for.total_seconds()))
    return f"no steady watch of {outage.kind}{where} for {seconds} s, since {wire_time(outage.began_at)}: {outage.why}"
