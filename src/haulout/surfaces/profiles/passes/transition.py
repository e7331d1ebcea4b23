"""The stage of a pass that makes a transition into another state (decision 0005)."""

from __future__ import annotations

from datetime import datetime

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.rows import Row
from haulout.core.action import Write
from haulout.core.decision import earliest
from haulout.core.holds import Claim
from haulout.plugins.api import Check, Retry, Trigger
from haulout.surfaces.profiles.load import Transition
from haulout.surfaces.profiles.notifications import needs_entering
from haulout.surfaces.profiles.passes.claims import claim_of
from haulout.surfaces.profiles.passes.result import Judged, ProfilePass, Result, fail, put_off, retry
from haulout.surfaces.profiles.passes.triggers import Pulling, names_of, pull
from haulout.surfaces.profiles.passes.turns import turns_mark
from haulout.surfaces.profiles.refusals import author_of
from haulout.surfaces.profiles.wire import Entry, stamp

FAILED = "At least one trigger plugin failed"


class _Choice(msgspec.Struct, frozen=True):
    """The transition to make. `turns`: the rows that remember the objects that were taken for it."""

    transition: Transition[Check, Trigger]
    turns: tuple[Row, ...]


def move(around: ProfilePass, result: Result) -> Result:
    """Make the first transition that passes, is allowed and has its claim granted."""
    result, choice = _choose(around, result)
    if choice is None or choice.transition.next == result.state:
        return result
    pulled = pull(choice.transition.trigger, around, result)
    if pulled.trouble is None:
        return _moved(around, result, choice, pulled)
    result = msgspec.structs.replace(result, writes=(*result.writes, *pulled.writes))
    if isinstance(pulled.trouble, Retry):
        result = retry(result, pulled.trouble)
        if pulled.trouble.only_stores:
            return msgspec.structs.replace(result, marks=(*choice.turns, *result.marks))
    return fail(put_off(result, pulled.refused), FAILED, pulled.trouble.reason)


def _choose(around: ProfilePass, result: Result) -> tuple[Result, _Choice | None]:
    """Return the result with the claims of all transitions that pass, and the first transition that may be made."""
    claims: list[Claim] = []
    choice: _Choice | None = None
    for each in result.judged:
        if not each.passed or not each.allowed:
            continue
        claim = claim_of(result, each, around.profile.stages[each.transition.next].enter)
        if claim is not None:
            claims.append(claim)
        if claim is not None and not claim.begun and not around.granted(claim):
            continue
        taken = _taken(result, each, around.spent)
        if isinstance(taken, tuple):
            turns = {**each.turns, **{write.target: around.now for write in taken}}
            choice = _Choice(each.transition, turns_mark(result, each.number, turns))
            if taken:
                result = msgspec.structs.replace(result, writes=(*result.writes, *taken))
            break
        result = msgspec.structs.replace(result, until=earliest(result.until, taken))
    return (msgspec.structs.replace(result, claims=tuple(claims)) if claims else result), choice


def _moved(around: ProfilePass, result: Result, choice: _Choice, pulled: Pulling) -> Result:
    chosen = choice.transition
    target = around.profile.stages[chosen.next]
    # A state without triggers and notifications counts as entered with the same patch.
    previous = result.state if target.enter or needs_entering(target.notify) else chosen.next
    return msgspec.structs.replace(
        result,
        node=pulled.node,
        writes=(*result.writes, *pulled.writes),
        entry=Entry(stamp(around.now), chosen.next, previous),
        next=chosen.next,
        moved=True,
        pulled=(*result.pulled, *names_of(chosen.trigger)),
        marks=choice.turns,
    )


def _taken(result: Result, judged: Judged, spent: frozenset[Key]) -> tuple[Write, ...] | datetime | None:
    """Return the writes by which checks take objects for a transition, such as Leases.

    If they cannot be taken now, return when they can, or None if this pass has to be stored first.
    """
    writes: list[Write] = []
    for instance in {each.name: each for each in judged.transition.checks}.values():
        take = judged.verdicts[instance.name].take
        if take is None:
            continue
        taken = take()
        if isinstance(taken, datetime):
            return taken
        if any(write.target in spent for write in taken):
            return None
        writes += author_of(result.node, result.profile, instance).with_outcomes(taken)
    return tuple(writes)
