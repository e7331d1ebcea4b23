"""Carries out an act that a person ordered, or tries it without storing anything."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from haulout.acts.answers import Code, Done, Problem, Written, missing_right, personal_change
from haulout.acts.caller import Caller, is_about_rights
from haulout.acts.declared import act_names, acts_named
from haulout.acts.guard import guard_warnings
from haulout.acts.impact import impact_warnings
from haulout.acts.offers import missing_need
from haulout.acts.prepare import NOTHING, WITH, Target, choose, find_object, needs_of, plan_of, read_arguments
from haulout.core.act import Need, NotPossible, PersonalWrite, Verb, WrongArgument
from haulout.kube.errors import ApiError, Conflict, ConnectionFailed, KubeError, NotFound, RequestTimeout


class Order(msgspec.Struct, frozen=True):
    """An act that a person orders.

    `args`: the arguments by name; `with` chooses among acts of one name. `dry_run`: the API server checks the writes and
    stores nothing.
    """

    act: str
    target: Target = NOTHING
    args: Mapping[str, str] = {}
    reason: str = ""
    dry_run: bool = False


async def perform(caller: Caller, order: Order) -> Done | Problem:
    """Carry out an act. The answer says what was written, or why the act was refused."""
    found = await find_object(caller, order.target)
    if isinstance(found, Problem):
        return found
    kind = found.endpoint.kind if found.endpoint is not None else ""
    acts = acts_named(order.act, kind)
    if not acts:
        return Problem(Code.INVALID, _no_act(order.act, kind))
    args = _arguments(order.args)
    chosen = await choose(caller, acts, args)
    if isinstance(chosen, Problem):
        return chosen
    act = chosen.act
    checked = read_arguments(act, args, order.reason)
    if isinstance(checked, Problem):
        return checked
    plan = await plan_of(caller, act, found, checked, order.reason)
    if isinstance(plan, NotPossible):
        return Problem(Code.INVALID if isinstance(plan, WrongArgument) else Code.NOT_POSSIBLE, plan.why)
    if (need := await missing_need(caller, needs_of(plan))) is not None:
        return missing_right(need)
    warnings = (*plan.warnings, *await guard_warnings(caller, plan), *await impact_warnings(caller, act, found))
    done: list[Written] = []
    for write in plan.writes:
        try:
            await caller.send(write, dry_run=order.dry_run)
        except KubeError as error:
            return _refusal(write, error, () if order.dry_run else tuple(done))
        done.append(personal_change(write))
    return Done(tuple(done), warnings, plan.undo)


def _arguments(args: Mapping[str, str]) -> Mapping[str, str]:
    """Return the arguments with `with: profile NAME` as two of them, as the command line spells it."""
    way, space, name = args.get(WITH, "").strip().partition(" ")
    return {**args, WITH: way, way: name.strip()} if space else args


def _no_act(name: str, kind: str) -> str:
    if name not in act_names():
        return f"there is no act {name!r} (there are: {', '.join(act_names())})"
    return f"the act {name} is not for {f'objects of the kind {kind}' if kind else 'the whole cluster'}"


def _refusal(write: PersonalWrite, error: KubeError, done: tuple[Written, ...]) -> Problem:
    what = f"{write.verb} {write.endpoint.resource} {write.name}"
    after = f"; {len(done)} earlier writes of the act are stored" if done else ""
    match error:
        case ApiError() if is_about_rights(error):
            need = Need(write.verb, write.endpoint, write.namespace, write.name, write.subresource)
            return missing_right(need, *done)
        case NotFound():
            return Problem(Code.NOT_FOUND, f"{what}: {error}{after}", done=done)
        case Conflict() if write.verb is Verb.CREATE:
            return Problem(Code.NOT_POSSIBLE, f"{what}: {error}{after}", done=done)
        case Conflict():
            return Problem(Code.CHANGED, f"{what}: the object has changed meanwhile: {error}{after}", done=done)
        case ApiError():
            return Problem(Code.REFUSED, f"{what}: {error}{after}", done=done)
        case RequestTimeout() | ConnectionFailed(sent=True):
            return Problem(Code.NO_ANSWER, f"{what}: it is not known whether it was written: {error}{after}", done=done)
        case _:
            return Problem(Code.NO_ANSWER, f"{what}: {error}{after}", done=done)
