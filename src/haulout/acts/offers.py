"""Offers: for each act, whether it can be done to an object, by this person, now; and what it would write."""

from __future__ import annotations

from collections.abc import Iterable

from haulout.acts.answers import Offer, Offers, Permission, Problem, missing, offered_arguments, personal_change
from haulout.acts.caller import Caller
from haulout.acts.declared import DeclaredAct, act_names, acts_for, declared_acts
from haulout.acts.guard import guard_warnings
from haulout.acts.impact import impact_warnings
from haulout.acts.prepare import NOTHING, FoundObject, Target, find_object, needs_of, plan_of
from haulout.core.act import Act, ActPlan, Need, NotPossible

# Stands for a reason that the person has not given yet, to show what an act would do.
PLACEHOLDER = "…"


async def offers_for(caller: Caller, target: Target = NOTHING) -> Offers | Problem:
    """Return each act for an object, with whether it can be done. Nothing is written."""
    subject = await find_object(caller, target)
    if isinstance(subject, Problem):
        return subject
    kind = subject.endpoint.kind if subject.endpoint is not None else ""
    acts = [each.act for each in acts_for(kind)]
    await caller.learn_served(kind for act in acts for kind in (*act.reads, *(need.endpoint for need in act.needs)))
    return Offers(tuple([await _offer(caller, each, subject) for each in acts_for(kind)]))


async def _offer(caller: Caller, declared: DeclaredAct, subject: FoundObject) -> Offer:
    act = declared.act
    args = {each.name: each.example or next(iter(each.choices), "") for each in act.arguments if each.required}
    plan = await plan_of(caller, act, subject, args, PLACEHOLDER if act.needs_reason else "")
    possible = plan if isinstance(plan, ActPlan) else ActPlan(())
    needs = needs_of(possible) if possible.writes else _for_namespace(act, subject)
    permission = await _permission(caller, needs)
    warnings = possible.warnings
    if possible.writes:
        guards = await guard_warnings(caller, possible)
        warnings = (*warnings, *guards, *await impact_warnings(caller, act, subject))
    return Offer(
        act=act.name,
        allowed=permission.allowed,
        missing=permission.missing,
        why=plan.why if isinstance(plan, NotPossible) else "",
        warnings=warnings,
        writes=tuple(personal_change(write) for write in possible.writes),
        undo=possible.undo,
        with_=act.way,
        help=act.help,
        kinds=tuple(each.kind for each in act.targets),
        arguments=offered_arguments(act),
        needs_reason=act.needs_reason,
        disturbs=act.disturbs,
    )


def _for_namespace(act: Act, subject: FoundObject) -> tuple[Need, ...]:
    """Return the rights that an act usually needs, in the namespace of the object."""
    namespace = str((subject.body.get("metadata") or {}).get("namespace", ""))
    return tuple(
        Need(each.verb, each.endpoint, namespace if each.endpoint.is_namespaced else "", "", each.subresource)
        for each in act.needs
    )


async def _permission(caller: Caller, needs: Iterable[Need]) -> Permission:
    """Return whether the person has all of these rights. A missing right counts more than one that is not known."""
    answers = await caller.rights(needs)
    for need, answer in answers.items():
        if answer is False:
            return Permission(False, missing(need))
    return Permission(None if None in answers.values() else True)


async def permissions(caller: Caller) -> dict[str, Permission]:
    """Return for each act whether the person may do it, for objects in general.

    Of several acts of one name, one that the person may do is enough. Otherwise the answer is that of the usual one: for
    an object, and without arguments.
    """
    await caller.rights(need for each in declared_acts() for need in each.act.needs)
    found: dict[str, Permission] = {}
    for name in act_names():
        ways = [each.act for each in declared_acts() if each.act.name == name]
        ways.sort(key=lambda act: (not act.targets, act.needs_arguments))
        answers = [await _permission(caller, act.needs) for act in ways]
        unknown = Permission(None) if any(each.allowed is None for each in answers) else answers[0]
        found[name] = next((each for each in answers if each.allowed), unknown)
    return found


async def missing_need(caller: Caller, needs: Iterable[Need]) -> Need | None:
    """Return the first right that the person is known to lack."""
    for need in needs:
        if await caller.may(need) is False:
            return need
    return None
