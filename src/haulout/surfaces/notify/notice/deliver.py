"""The delivery of messages: which to send now, their outcomes, and retries in the background."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.rows import Value
from haulout.cluster.view import OUTCOME
from haulout.core.action import Annotate, Say, Send, Step
from haulout.core.decision import earliest
from haulout.surfaces.notify.notice import messages
from haulout.surfaces.notify.options import Options
from haulout.surfaces.notify.situation import NoticeSituation
from haulout.surfaces.notify.wire import INCOMPLETE, OBJECTS_DRAINED, SCHEDULED, UNDELIVERED, VALIDATING, NoticeRow

CHANNEL = "notify-messages"
# For messages of a maintenance whose object is about to be removed. This channel itself retries them, one after the
# other.
PATIENT_CHANNEL = "notify-messages-patient"
SNS, WEBHOOK, SLACK, MAIL = "sns", "webhook", "slack", "mail"
FIRST_FOR, LONGEST_FOR = timedelta(seconds=1), timedelta(minutes=5)
TRIED_FOR = timedelta(hours=24)
CONTINUE = "Continue"
# Messages that are sent after their transition. All others are sent before it.
AFTER = {SCHEDULED: messages.SCHEDULED, VALIDATING: messages.VALIDATING, INCOMPLETE: messages.INCOMPLETE}


class Announcement(msgspec.Struct, frozen=True):
    """One message for one notifier. The process adds credentials when it sends it."""

    notifier: str
    event: str
    body: bytes
    text: str
    place: str
    key: str
    topic: str = ""
    group: str = ""
    deduplication: str = ""
    client: str = ""


class Delivery(msgspec.Struct, frozen=True):
    """How far one event is delivered to all its notifiers.

    `failed`: every notifier that does not have it yet has failed at least once.
    `sends`: the messages to send now. `until`: when a failed one is sent again. `errors`: why notifiers failed.
    """

    done: bool = True
    failed: bool = False
    sends: tuple[Send, ...] = ()
    until: datetime | None = None
    errors: tuple[str, ...] = ()


def notifiers(row: NoticeRow, options: Options, event: str) -> Iterator[str]:
    """Yield the notifiers that are configured for the event."""
    settings = options.notifications
    if options.sns and row.topic and event in settings.sns.events:
        yield SNS
    for name, block, is_set in (
        (WEBHOOK, settings.webhook, bool(settings.webhook.url)),
        (SLACK, settings.slack, bool(settings.slack.url)),
        (MAIL, settings.mail, bool(settings.mail.address)),
    ):
        if is_set and event in block.events:
            yield name


def announcement(row: NoticeRow, notifier: str, event: str) -> Announcement:
    made = Announcement(
        notifier,
        event,
        messages.payload(row, event),
        messages.text_of(row, event),
        row.place,
        messages.idempotency_key(row, event),
    )
    if notifier != SNS:
        return made
    is_fifo = row.topic.endswith(".fifo")
    return msgspec.structs.replace(
        made,
        topic=row.topic,
        group=messages.group_id(row) if is_fifo else "",
        deduplication=messages.deduplication_id(row, event) if is_fifo else "",
        client=messages.client_of(row),
    )


def delivery(situation: NoticeSituation, event: str) -> Delivery:
    """Return how far an event is delivered, and the messages to send now.

    A notifier gets the events of a maintenance in order, so an earlier event that it lacks goes first. Reading the
    outcomes keeps them in the store.
    """
    earlier = _earlier(situation.row, event)
    done, failed = True, True
    sends: list[Send] = []
    untils: list[datetime] = []
    errors: list[str] = []
    for notifier in notifiers(situation.row, situation.options, event):
        name = outcome_name(situation.row, event, notifier)
        outcome = situation.view.outcome(name)
        if outcome is not None and outcome.state == "done":
            continue
        first = next(_missing(situation, earlier, notifier), None)
        if first is not None:
            done, failed = False, failed and first.failures > 0
            errors += [f"{notifier}: {first.error}"] if first.error else []
            continue
        done, failed = False, failed and outcome is not None and bool(outcome.failures)
        again_at = _again_at(outcome, situation.options.notifications)
        if outcome is not None and outcome.error:
            errors.append(f"{notifier}: {outcome.error}")
        if outcome is not None and outcome.state == "pending":
            continue
        if again_at is not None and situation.now < again_at:
            untils.append(again_at)
            continue
        content = announcement(situation.row, notifier, event)
        sends.append(Send(name, CHANNEL, content, situation.options.notifications, disrupts=False))
    return Delivery(done, not done and failed, tuple(sends), min(untils, default=None), tuple(errors))


def _earlier(row: NoticeRow, event: str) -> tuple[str, ...]:
    """Return the undelivered events before this one."""
    standing = events_to_deliver(row)
    before = standing[: standing.index(event)] if event in standing else standing
    return tuple(each for each in before if _has_happened(row, each))


def _missing(situation: NoticeSituation, events: Iterable[str], notifier: str) -> Iterator[Value]:
    """Yield the outcomes of those events that are for this notifier and not delivered to it yet."""
    for event in events:
        if notifier in notifiers(situation.row, situation.options, event):
            name = outcome_name(situation.row, event, notifier)
            outcome = situation.view.outcome(name)
            if outcome is None or outcome.state != "done":
                yield outcome or Value(key=Key("", OUTCOME, "", name))


def is_sending(situation: NoticeSituation) -> bool:
    """Whether an undelivered event is being sent to a notifier.

    Reading the outcome wakes the decision when that ends.
    """
    outcomes = [
        situation.view.outcome(outcome_name(situation.row, event, notifier))
        for event in events_to_deliver(situation.row)
        for notifier in notifiers(situation.row, situation.options, event)
    ]
    return any(outcome is not None and outcome.state == "pending" for outcome in outcomes)


def handed_over(situation: NoticeSituation, *events: str) -> tuple[Send, ...]:
    """Return the messages that the patient channel takes over, because the object that remembers them is removed.

    They are the undelivered events and then `events`, in order for each notifier.
    """
    row, options = situation.row, situation.options
    happened = [event for event in events_to_deliver(row) if _has_happened(row, event)]
    messages_by_notifier: dict[str, list[Announcement]] = {}
    for event in dict.fromkeys((*happened, *events)):
        for notifier in notifiers(row, options, event):
            outcome = situation.view.outcome(outcome_name(row, event, notifier))
            if outcome is None or outcome.state != "done":
                messages_by_notifier.setdefault(notifier, []).append(announcement(row, notifier, event))
    return tuple(
        Send(f"patient/{row.uid}/{notifier}", PATIENT_CHANNEL, tuple(made), disrupts=False)
        for notifier, made in messages_by_notifier.items()
    )


def outcome_name(row: NoticeRow, event: str, notifier: str) -> str:
    return f"notify/{row.uid}/{event}/{notifier}/{messages.retries(row, event)}"


def _again_at(outcome: Value | None, settings: object) -> datetime | None:
    """Return when a failed message is sent again. After a change of the settings it is sent at once."""
    if outcome is None or outcome.state != "failed" or not isinstance(outcome.value, datetime):
        return None
    if outcome.settings != settings:
        return None
    return outcome.value + min(FIRST_FOR * 2.0 ** min(outcome.failures - 1, 20), LONGEST_FOR)


class Background(msgspec.Struct, frozen=True):
    """The steps for messages that no transition waits for."""

    steps: tuple[Step, ...] = ()
    until: datetime | None = None


def events_to_deliver(row: NoticeRow) -> tuple[str, ...]:
    """Return the undelivered events that the annotation lists."""
    words = (word.strip() for word in row.annotations.get(UNDELIVERED, "").split(","))
    return tuple(dict.fromkeys(word for word in words if word in messages.VERBS))


def note_if_configured(row: NoticeRow, options: Options, event: str) -> tuple[Annotate, ...]:
    """Return the edit that records an event as undelivered before its transition, if any notifier is configured for it.

    An operator that is killed between the transition and the message finds the annotation and sends the message.
    """
    return note_events(row, event) if any(notifiers(row, options, event)) else ()


def note_events(row: NoticeRow, *events: str) -> tuple[Annotate, ...]:
    """Return the edit that records events as undelivered, if the annotation does not list them yet."""
    known = events_to_deliver(row)
    wanted = tuple(dict.fromkeys((*known, *events)))
    return () if wanted == known else (Annotate(row.key, UNDELIVERED, ",".join(wanted)),)


def background(situation: NoticeSituation) -> Background:
    """Send the events that the annotation lists as undelivered, for up to a day, and remove delivered ones from it."""
    row = situation.row
    standing, undelivered_events = events_to_deliver(row), []
    sends: list[Send] = []
    untils: list[datetime | None] = []
    given_up: list[str] = []
    for event in standing:
        if not _has_happened(row, event):
            undelivered_events.append(event)
            continue
        state = delivery(situation, event)
        if state.done:
            continue
        ends_at = _since(row, event, situation.now) + TRIED_FOR
        if situation.now >= ends_at:
            given_up.append(event)
            continue
        undelivered_events.append(event)
        sends += state.sends
        untils += [state.until, ends_at]
    steps: list[Step] = []
    if tuple(undelivered_events) != standing or (UNDELIVERED in row.annotations and not undelivered_events):
        edit = Annotate(row.key, UNDELIVERED, ",".join(undelivered_events) or None)
        steps.append((edit, *_given_up(row, given_up)))
    if sends:
        steps.append(tuple(sends))
    return Background(tuple(steps), earliest(*untils))


def _has_happened(row: NoticeRow, event: str) -> bool:
    """Whether the transition that an event follows is stored.

    Other events are sent before their transition, and are listed only after they failed.
    """
    if event not in AFTER.values():
        return True
    states = [AFTER.get(each.maintenance_status, each.maintenance_status) for each in row.status.transition_timestamps]
    if event == messages.SCHEDULED:
        return event in states
    # Only transitions after the last retry count. Earlier ones were announced at their time.
    begun = max((number for number, state in enumerate(states) if state == OBJECTS_DRAINED), default=-1)
    return event in states[begun + 1 :]


def _since(row: NoticeRow, event: str, now: datetime) -> datetime:
    """Return since when an event was to be delivered, as far as the object shows."""
    if event in (messages.CANCELLED, messages.ENDED, messages.COMPLETE):
        return row.deleting_at or row.status.last_at or now
    state = {messages.SLA_STARTED: "MaintenanceStarted", messages.SCHEDULED: "MaintenanceScheduled"}.get(event, event)
    return row.status.entered_at(state) or now


def _given_up(row: NoticeRow, events: Iterable[str]) -> tuple[Say, ...]:
    return tuple(
        Say("message was not delivered within a day", (("object", row.place), ("event", event)), "warning")
        for event in events
    )
