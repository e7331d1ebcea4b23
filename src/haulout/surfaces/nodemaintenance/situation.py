"""The inputs of a decision about a NodeMaintenance, and values that follow from them."""

from __future__ import annotations

from datetime import datetime

import msgspec

from haulout.cluster.key import Key, node_key
from haulout.cluster.rows import LeaseRow, NodeRow
from haulout.cluster.view import View
from haulout.core.action import Tell
from haulout.core.drain.options import DrainRow, drain_row
from haulout.core.drain.progress import progress
from haulout.surfaces.nodemaintenance.options import DrainWish, Options, wish
from haulout.surfaces.nodemaintenance.status import with_pods
from haulout.surfaces.nodemaintenance.wire import FAILED, REPORTER, RUNNING, SEEN_ANNOTATION, MaintenanceRow, Status

SURFACE = "nodemaintenance"
# A maintenance fails after more lease errors in a row than this.
MOST_LEASE_ERRORS = 3
FAILED_EVENT = ("FailedMaintenance", "Failed a node maintenance")


class Situation(msgspec.Struct, frozen=True):
    """The inputs of one decision about a NodeMaintenance."""

    row: MaintenanceRow
    view: View
    now: datetime
    options: Options
    node: NodeRow | None
    lease: LeaseRow | None

    @property
    def status(self) -> Status:
        return self.row.status

    @property
    def key(self) -> Key:
        return self.row.key

    @property
    def kicked(self) -> bool:
        """Whether the object has been edited since its lease was last renewed."""
        return self.lease is not None and self.lease.annotations.get(SEEN_ANNOTATION) != self.row.seen

    @property
    def node_key(self) -> Key:
        return node_key(self.row.node)


def event(regarding: Key, reason: str, note: str, *, warning: bool = False) -> Tell:
    """Return an event under the original's reporter name."""
    return Tell(regarding, reason, reason, note, REPORTER, warning=warning, core=True)


def drain_of(situation: Situation, wanted: DrainWish) -> DrainRow:
    deadline_at = deadline_of(situation.status, wanted)
    return drain_row(
        SURFACE,
        situation.key,
        situation.node_key,
        options=wanted.options,
        rules=situation.options.rules,
        since=situation.row.created_at or situation.now,
        deadline_at=deadline_at,
        force_after=wanted.force_after and deadline_at is not None,
        retry_for=wanted.retry_for,
    )


def deadline_of(status: Status, wanted: DrainWish) -> datetime | None:
    if wanted.deadline_for is None:
        return None
    cordoned = next((each for each in status.conditions if each.type == "Cordoned" and each.status == "True"), None)
    if cordoned is None or cordoned.last_transition_time is None:
        return None
    return cordoned.last_transition_time + wanted.deadline_for


def is_expired(situation: Situation, wanted: DrainWish) -> bool:
    deadline_at = deadline_of(situation.status, wanted)
    return deadline_at is not None and situation.now >= deadline_at and not wanted.force_after


def pending(situation: Situation, phase: str | None = None) -> Status:
    """Return the status in this phase, with the pods that are still on the node, if they can be read."""
    status = situation.status if phase is None else msgspec.structs.replace(situation.status, phase=phase)
    if not situation.row.node:
        return status
    wanted = wish(situation.row.drain, situation.options)
    if wanted.problem:
        return status
    state = progress(situation.view, drain_of(situation, wanted), situation.now)
    return with_pods(status, [each.pod for each in state.pods])


def phase_at_work(status: Status) -> str:
    """Return the phase of a maintenance at work. One that has failed and tries again is Running."""
    return RUNNING if status.phase == FAILED else status.phase
