"""The notifications of a state: which are due, which are being sent, and which were delivered (decision 0015)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from haulout.base.clock import after
from haulout.cluster.rows import NodeRow, Value
from haulout.cluster.view import View
from haulout.core.action import Send
from haulout.core.decision import earliest
from haulout.core.edit import between, merge_patch
from haulout.plugins.api import Notifier
from haulout.surfaces.profiles.load import Notification
from haulout.surfaces.profiles.messages import CHANNEL, Notice
from haulout.surfaces.profiles.schedules import Due, Occasion, Periodic
from haulout.surfaces.profiles.wire import LOG_DETAILS_LABEL, NEVER, Entry, Stamp, stamp

# Without a shortest interval, the outcome of each message would lead to the next message.
SHORTEST_FOR = timedelta(seconds=1)

Chain = tuple[Notification[Notifier], ...]
Skipped = tuple[str, tuple[str, ...]]


class Progress(msgspec.Struct, frozen=True):
    """The progress of a chain of notifications.

    `sent`: delivery times to store. `sends`: messages to send now.
    `instance`: the notification that is not delivered yet. `waiting`: why, as text for people.
    `error`: the error of the last attempt. `failures`: how many attempts failed.
    `skipped`: the notifications that were not due, with the reasons of their schedules.
    """

    sent: Mapping[str, Stamp] = {}
    sends: tuple[Send, ...] = ()
    instance: str = ""
    waiting: str = ""
    error: str = ""
    failures: int = 0
    until: datetime | None = None
    skipped: tuple[Skipped, ...] = ()


class Situation(msgspec.Struct, frozen=True):
    """The inputs for sending a chain of notifications.

    `stored`: the node as stored. `node`: the node with the changes of this pass.
    `others`: returns whether another profile of the node uses an instance, too.
    `under_way`: the instances through which other profiles of the node are sending now.
    `pace_for`: how long to wait after a failure.
    """

    view: View
    now: datetime
    stored: NodeRow
    node: NodeRow
    profile: str
    entry: Entry
    last: str
    sent: Mapping[str, Stamp]
    in_maintenance: bool
    pace_for: timedelta
    others: Callable[[str], bool]
    under_way: frozenset[str] = frozenset()

    @property
    def entering(self) -> bool:
        return self.entry.current != self.entry.previous


def needs_entering(chain: tuple[Notification[Any], ...]) -> bool:
    """Whether one of the notifications is about the change of state itself."""
    return any(isinstance(each.schedule, Periodic) for each in chain)


def recall(chain: Chain, situation: Situation) -> None:
    """Read the outcomes for this change of state even if the chain is not processed, so that they are not forgotten."""
    if situation.entering:
        for each in chain:
            situation.view.outcome(_name(each, situation, NEVER))


def tell(chain: Chain, situation: Situation) -> Progress:
    """Send the chain up to the first message that is not delivered yet."""
    sent: dict[str, Stamp] = {}
    untils: list[datetime | None] = []
    skipped: list[Skipped] = []
    for each in chain:
        last = sent.get(each.name) or situation.sent.get(each.name, NEVER)
        due = _due(each, situation, last)
        if due.is_due:
            progress = _deliver(each, situation, last)
            if isinstance(progress, Progress):
                until = earliest(progress.until, due.until, *untils)
                # Notifications that were delivered before one that fails are recorded, so that they are not sent again.
                kept = sent if progress.error else {}
                return msgspec.structs.replace(progress, sent=kept, until=until, skipped=tuple(skipped))
            # Another profile may have sent a message through the same instance since then.
            last = progress if progress.at > last.at else last
            sent[each.name], due = last, _due(each, situation, last, entered=True)
        else:
            skipped.append((each.name, due.reasons))
        sent.setdefault(each.name, last)
        untils.append(due.until)
    return Progress(sent=sent, until=earliest(*untils), skipped=tuple(skipped))


def _due(each: Notification[Notifier], situation: Situation, last: Stamp, *, entered: bool = False) -> Due:
    entry = situation.entry
    previous = entry.current if entered else entry.previous
    due = each.schedule.due(Occasion(entry.current, previous, last.at, entry.transition.at), situation.now)
    if due.is_due and previous == entry.current and situation.now - last.at < SHORTEST_FOR:
        return Due(False, after(last.at, SHORTEST_FOR))
    return due


def _deliver(each: Notification[Notifier], situation: Situation, last: Stamp) -> Stamp | Progress:
    """Return when the notification was delivered, or the progress of its delivery."""
    name = _name(each, situation, last)
    outcome = situation.view.outcome(name)
    match outcome:
        case None if _was_delivered(each, situation, last):
            return last
        case Value(state="done", value=datetime() as at):
            return stamp(at)
        # A failure with other settings does not count: after a change of the settings the message is sent at once.
        case Value(state="failed", value=datetime() as at, settings=each.config) if (
            situation.now - at < situation.pace_for
        ):
            return Progress(
                instance=each.name, error=outcome.error, failures=outcome.failures, until=at + situation.pace_for
            )
        case Value(state="pending"):
            return _waiting(each, outcome, "is being delivered")
    if each.name in situation.under_way:
        return _waiting(each, None, "is being delivered for another profile")
    send = Send(name, CHANNEL, _notice(each, situation), each.config, disrupts=False)
    return msgspec.structs.replace(
        _waiting(each, outcome, "is due (while it fails, events of the node say so)"), sends=(send,)
    )


def _waiting(each: Notification[Notifier], outcome: Value | None, how: str) -> Progress:
    """Return the progress of a message that is being sent.

    After a failed attempt it counts as failing until it succeeds.
    """
    progress = Progress(instance=each.name, waiting=f"notification {each.name} {how}")
    if outcome is None:
        return progress
    return msgspec.structs.replace(progress, error=outcome.error, failures=outcome.failures)


def _was_delivered(each: Notification[Notifier], situation: Situation, last: Stamp) -> bool:
    """Whether an earlier process delivered the notification of this change of state.

    That is certain only if no other profile uses the instance.
    """
    tells_of_change = situation.entering and isinstance(each.schedule, Periodic)
    return tells_of_change and last.at > situation.entry.transition.at and not situation.others(each.name)


def _name(each: Notification[Notifier], situation: Situation, last: Stamp) -> str:
    """Return the name of a message's outcome: by profile for a change of state, by node for one due by the clock."""
    node = f"{CHANNEL}/{situation.stored.key.name}/{situation.stored.uid}"
    if situation.entering and isinstance(each.schedule, Periodic):
        return f"{node}/{each.name}/{situation.profile} since {situation.entry.transition.text}"
    return f"{node}/{each.name}/after {last.text}"


def _notice(each: Notification[Notifier], situation: Situation) -> Notice:
    return Notice(
        notifier=each.plugin,
        config=each.config,
        instance=each.name,
        node=situation.stored.key,
        changes=merge_patch(situation.stored, between(situation.stored, situation.node)),
        state=situation.entry.current,
        profile=situation.profile,
        last=situation.last,
        transition=situation.entry.transition,
        in_maintenance=situation.in_maintenance,
        log_details=situation.node.labels.get(LOG_DETAILS_LABEL) == "true",
    )
