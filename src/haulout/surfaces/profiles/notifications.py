"""The notifications of a state: which of its chain are due, which are under way, and what has been delivered."""

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

# Without a least interval, every outcome of a message would lead to the next message.
SHORTEST_FOR = timedelta(seconds=1)

Chain = tuple[Notification[Notifier], ...]
Skipped = tuple[str, tuple[str, ...]]


class Progress(msgspec.Struct, frozen=True):
    """The progress of a chain of notifications. `sent` has to be written; `waiting` says for people what is under way.

    `error` is the last attempt's, `failures` how many there were; nothing of both: the chain is through or under way.
    `skipped`: which were not due, with the reasons of their schedules.
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
    """The situation in which a chain of notifications is sent.

    `stored` is the node as it stands, `node` what the pass has made of it.

    `others`: whether another profile of the node notifies by an instance, too; `under_way`: those by which it just
    does. `pace_for`: how long to wait after a failure.
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
    """Whether one of them is about the change of state itself."""
    return any(isinstance(each.schedule, Periodic) for each in chain)


def recall(chain: Chain, situation: Situation) -> None:
    """Remember what was delivered for this change of state, also where the chain is not looked at."""
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
                # Notifications that went out before one that fails are not sent again.
                kept = sent if progress.error else {}
                return msgspec.structs.replace(progress, sent=kept, until=until, skipped=tuple(skipped))
            # Another profile may have sent a message by the same instance since then.
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
    """Return when it was delivered, or what keeps it."""
    name = _name(each, situation, last)
    outcome = situation.view.outcome(name)
    match outcome:
        case None if _was_delivered(each, situation, last):
            return last
        case Value(state="done", value=datetime() as at):
            return stamp(at)
        # After a change of its settings it is sent again at once.
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
    send = Send(name, CHANNEL, _notice(each, situation), each.config)
    return msgspec.structs.replace(
        _waiting(each, outcome, "is due (while it fails, events of the node say so)"), sends=(send,)
    )


def _waiting(each: Notification[Notifier], outcome: Value | None, how: str) -> Progress:
    """Return the state of a message under way. An attempt after a failed one is a failure until it succeeds."""
    progress = Progress(instance=each.name, waiting=f"notification {each.name} {how}")
    if outcome is None:
        return progress
    return msgspec.structs.replace(progress, error=outcome.error, failures=outcome.failures)


def _was_delivered(each: Notification[Notifier], situation: Situation, last: Stamp) -> bool:
    """Whether an earlier process delivered it: only this profile can have sent it since the change of state."""
    tells_of_change = situation.entering and isinstance(each.schedule, Periodic)
    return tells_of_change and last.at > situation.entry.transition.at and not situation.others(each.name)


def _name(each: Notification[Notifier], situation: Situation, last: Stamp) -> str:
    """Return the name of a message: by profile for a change of state, by node for what is due by the clock."""
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
