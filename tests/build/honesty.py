"""Checks of the rules that every decision function has to keep (K6, K8, K9), for any surface."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable
from datetime import datetime, timedelta
from typing import Any

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.rows import ObjectRow, Row, Value
from haulout.cluster.store import Store
from haulout.cluster.view import CONFIG, OUTCOME, Record, View
from haulout.core.action import Annotate, Cordon, Create, Delete, Edit, Evict, Finalize, Label, Patch, Send, SetTaint
from haulout.core.decision import Decider, Decision, earliest
from haulout.core.edit import apply_edit
from haulout.core.holds import LONG_AGO, Claim, Grant, grant_key, hold_key
from haulout.kernel.cordons import Cordons
from haulout.kernel.jobs import plan, signature

TICK = timedelta(milliseconds=1)
MOMENT = timedelta(microseconds=1)
FAR = (timedelta(minutes=1), timedelta(hours=7), timedelta(days=1), timedelta(days=400))
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)?")
_EDITS = (Label, Annotate, Finalize, Cordon, SetTaint, Patch)


def ask(decider: Decider, store: Store, key: Key, now: datetime, record: Record | None = None) -> Decision:
    """Return what the kernel carries out of a decision. `record`: takes what it has read."""
    view = View(store, record)
    return Cordons(keeps_ledger=not _is_alone(store)).resolve(decider.decide(key, view, now), view)


def _is_alone(store: Store) -> bool:
    """Whether the surface is served as its original, according to its options, so that the kernel keeps no ledger."""
    values = (row.value for row in store.table("", CONFIG).rows.values() if isinstance(row, Value))
    return any(getattr(value, "alone", False) for value in values)


def essence(decision: Decision, asked_at: datetime) -> Hashable:
    """Return the actions and claims of a decision without texts that contain times, and without claims' begin at this moment."""
    batches = [
        (
            tuple(signature(job) for job in batch.jobs),
            batch.tells,
            tuple((send.outcome, send.channel) for send in batch.sends),
        )
        for batch in plan(decision.actions)
    ]
    return tuple(batches), tuple(_timeless(claim, asked_at) for claim in decision.claims)


def assert_until_is_honest(
    decider: Decider, store: Store, key: Key, now: datetime, samples: Iterable[datetime] = ()
) -> None:
    """Assert K6: on unchanged rows, every instant before `until` gives the same decision, and `until` always moves on.

    `samples` before `until` are tried, and the instants next to it. Counts that depend on time change by themselves and
    wake their readers, so that they bound the trial, too.
    """
    first = ask(decider, store, key, now)
    end = earliest(first.until, store.next_instant())
    near = (now + MOMENT, now + TICK, *((now + (end - now) / 2, end - MOMENT) if end else ()))
    for instant in sorted({*samples, *near, *(now + span for span in FAR)}):
        if now <= instant and (end is None or instant < end):
            later = ask(decider, store, key, instant)
            assert essence(later, instant) == essence(first, now), (
                f"{decider.name} on {key} wants something else at {instant} although it said at {now}: not before"
                f" {first.until}\nthen: {first}\nlater: {later}"
            )
    if first.until is not None:
        due = max(first.until, now) + TICK
        again = ask(decider, store, key, due)
        assert again.until is None or again.until > first.until, f"{decider.name} on {key} waits for {due} for ever"


def assert_claims_ignore_grants(decider: Decider, store: Store, key: Key, now: datetime) -> None:
    """Assert K8: the decision claims the same whichever of its claims are granted.

    The grants are restored afterwards.
    """
    claims = ask(decider, store, key, now).claims
    keys = [hold_key(decider.name, claim) for claim in claims]
    before = {hold: store.row(grant_key(hold)) for hold in keys}
    trials = [set(keys), set[Key](), *({hold} for hold in keys)]
    try:
        for granted in trials:
            for hold in keys:
                store.write(Grant(key=grant_key(hold), hold=hold, granted=hold in granted))
            found = ask(decider, store, key, now).claims
            assert found == claims, f"{decider.name} on {key} claims {found} where {granted} are granted, not {claims}"
    finally:
        for hold, row in before.items():
            if row is None:
                store.erase(grant_key(hold))
            else:
                store.write(row)


def assert_quiescent(
    decider: Decider,
    store: Store,
    key: Key,
    now: datetime,
    *,
    granted: bool = True,
    create: Callable[[Create], Row] | None = None,
    most: int = 40,
) -> Decision:
    """Assert K9: asked again on its own answers alone, a decision takes its contract's next step or wants nothing.

    No write may change only a time. Unless its contract goes in a circle, the decision comes to rest, at this instant
    and a moment later. The store keeps the final state. `granted`: whether the arbiter grants all claims.
    """
    seen, told, changes = {_picture(store)}, dict[str, int](), 0
    for _ in range(most):
        record = Record()
        decision = ask(decider, store, key, now, record)
        if granted:
            _grant(decider, store, decision.claims)
            record = Record()
            decision = ask(decider, store, key, now, record)
        delivered = _delivered(store, record)
        before = _picture(store)
        for send in (action for action in _writes(decision) if isinstance(action, Send)):
            name = _INSTANT.sub("*", send.outcome)
            assert told.get(name) != changes, f"{decider.name} on {key} sends again what it has sent: {name}"
            told[name] = changes
        if not _carry_out(decision, store, now, create):
            later = ask(decider, store, key, _moment_before(decision.until, now))
            assert not _writes(later), f"{decider.name} on {key} does not stay at rest: {later.actions}"
            return decision
        after = _picture(store)
        changes += after[0] != before[0]
        # Storing that a message has been delivered, and when, is a change of its own.
        assert after != before or delivered, f"{decider.name} on {key} writes what only says when: {decision.actions}"
        if after in seen and after != before:
            return decision
        seen.add(after)
        now += TICK
    raise AssertionError(f"{decider.name} on {key} does not come to rest")


def _delivered(store: Store, record: Record) -> bool:
    """Whether the decision has read a delivery. Outcomes of messages that it did not read are removed."""
    messages = [row for row in store.table("", OUTCOME).rows.values() if isinstance(row, Value)]
    for row in messages:
        if row.key not in record.topics:
            store.erase(row.key)
    return any(row.state == "done" for row in messages if row.key in record.topics)


def _timeless(claim: Claim, asked_at: datetime) -> Claim:
    return msgspec.structs.replace(claim, since=LONG_AGO) if claim.since == asked_at else claim


def _moment_before(until: datetime | None, now: datetime) -> datetime:
    return max(now, until - MOMENT) if until else now + FAR[0]


def _grant(decider: Decider, store: Store, claims: Iterable[Claim]) -> None:
    for claim in claims:
        hold = hold_key(decider.name, claim)
        store.write(Grant(key=grant_key(hold), hold=hold, granted=True))


def _writes(decision: Decision) -> list[Any]:
    writes = [action for step in decision.actions for action in step]
    return [action for action in writes if isinstance(action, (*_EDITS, Create, Evict, Delete, Send))]


def _carry_out(decision: Decision, store: Store, now: datetime, create: Callable[[Create], Row] | None) -> list[Any]:
    """Carry out the writes of a decision in the store, as a server would. Return those that were not needless."""
    done = [action for action in _writes(decision) if not _is_needless(action, store)]
    for action in done:
        match action:
            case Create():
                assert create is not None, f"the test does not say what becomes of {action}"
                store.put(create(action))
            case Evict() | Delete():
                store.remove(action.target, 2**60)
            case Send():
                store.write(Value(key=Key("", OUTCOME, "", action.outcome), state="done", value=now))
            case _:
                _edit(store, action)
    return done


def _is_needless(action: Any, store: Store) -> bool:
    if not isinstance(action, _EDITS) or isinstance(action, Patch):
        return False
    row = store.row(action.target)
    return row is not None and apply_edit(row, action) == row


def _edit(store: Store, edit: Edit) -> None:
    row = store.row(edit.target)
    changed = apply_edit(row, edit)
    assert row is not None, f"{edit.target} is edited and is not there"
    assert changed is not None
    store.put(msgspec.structs.replace(changed, version=row.version + 1))


def _picture(store: Store) -> tuple[Hashable, Hashable]:
    """Return all objects and messages without the times in them, for comparisons."""
    tables = [store.tables[name] for name in sorted(store.tables)]
    rows = [row for table in tables for row in table.rows.values() if isinstance(row, ObjectRow)]
    messages = [row for row in store.table("", OUTCOME).rows.values() if isinstance(row, Value)]
    return (
        tuple(sorted(_INSTANT.sub("*", repr(msgspec.structs.replace(row, version=0))) for row in rows)),
        frozenset((_INSTANT.sub("*", row.key.name), row.state) for row in messages),
    )
