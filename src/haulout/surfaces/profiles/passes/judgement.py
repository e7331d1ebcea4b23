"""The stage of a pass that runs the checks of all transitions out of a state."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import msgspec

from haulout.base.expression import Expression, conjuncts, evaluate
from haulout.base.url import without_secrets
from haulout.cluster.limits import Limit
from haulout.cluster.store import Listing
from haulout.cluster.view import NotListed
from haulout.core.decision import earliest
from haulout.plugins.api import Check, CheckInput, Trigger, Verdict
from haulout.surfaces.profiles.counts import FLEET, InMaintenance, unreadable
from haulout.surfaces.profiles.load import Instance, Transition
from haulout.surfaces.profiles.passes.result import Judged, ProfilePass, Result, failed
from haulout.surfaces.profiles.passes.turns import kept_turns, turns_of
from haulout.surfaces.profiles.refusals import author_of
from haulout.surfaces.profiles.wire import State

FAILED = "At least one check plugin failed"
# A negative or tiny interval in the configuration must not lead to probes without a pause.
SHORTEST_PACE_FOR = timedelta(milliseconds=100)


def judge(around: ProfilePass, result: Result) -> Result:
    """Judge every transition. The pass ends if a check fails or has no answer yet."""
    transitions = around.stage.transitions
    judged = tuple(_judged(around, result, number, each) for number, each in enumerate(transitions))
    until = earliest(result.until, *(verdict.until for each in judged for verdict in each.verdicts.values()))
    result = msgspec.structs.replace(result, judged=judged, until=until, marks=kept_turns(result, judged))
    errors = [each.error for each in judged if each.error]
    if errors:
        return failed(result, FAILED, f"had failed transition checks: {'; '.join(errors)}")
    return result if all(each.known for each in judged) else msgspec.structs.replace(result, ended=True)


def _judged(around: ProfilePass, result: Result, number: int, transition: Transition[Check, Trigger]) -> Judged:
    waitable = conjuncts(transition.check)
    turns = turns_of(around.view, result, number)
    verdicts: dict[str, Verdict] = {}
    for instance in transition.checks:
        check_input = CheckInput(
            node=result.node,
            profile=result.profile,
            state=result.state,
            last_transition=result.entry.transition.at,
            now=around.now,
            view=around.view,
            in_maintenance=InMaintenance,
            unreadable=unreadable,
            may_wait=instance.name in waitable,
            pace_for=max(around.config.requeue, SHORTEST_PACE_FOR),
            fleet=FLEET,
            turns=turns,
            probe=instance.plugin.probe,
        )
        verdicts[instance.name] = _unless_refused(around, _verdict(instance, check_input), instance, result)
    wrong = [name for instance in transition.checks if verdicts[name := instance.name].error]
    allowed = not (around.busy and transition.next == State.IN_MAINTENANCE)
    known = all(verdict.known for verdict in verdicts.values())
    if wrong:
        error = f"failed check instances: {', '.join(wrong)}"
        return Judged(number, transition, verdicts, False, allowed, error, known)
    if not known:
        return Judged(number, transition, verdicts, False, allowed, known=False)
    passed = evaluate(transition.check, {name: verdict.passed for name, verdict in verdicts.items()})
    limits = _needed(transition.check, verdicts) if passed else ()
    return Judged(number, transition, verdicts, passed, allowed, limits=limits, turns=turns)


def _unless_refused(around: ProfilePass, verdict: Verdict, instance: Instance[Check], result: Result) -> Verdict:
    """Return the verdict, or a failed one if the API server refuses the check's writes."""
    if not verdict.prepare and verdict.take is None:
        return verdict
    author = author_of(result.node, result.profile, instance)
    if refused := author.refusal(around.view, around.now):
        return Verdict(passed=False, until=refused.until, error=refused.refusal.message, times=refused.times)
    return msgspec.structs.replace(verdict, prepare=author.with_outcomes(verdict.prepare))


def _verdict(instance: Instance[Check], check_input: CheckInput) -> Verdict:
    """Return the verdict of a check, with secrets removed from the texts that people will read."""
    verdict = _answer(instance, check_input)
    texts = (verdict.error, verdict.finding, verdict.act, *map(str, verdict.info.values()))
    if not any("://" in text for text in texts):
        return verdict
    info = {name: without_secrets(str(value)) if "://" in str(value) else value for name, value in verdict.info.items()}
    error, finding, act = map(without_secrets, (verdict.error, verdict.finding, verdict.act))
    return msgspec.structs.replace(verdict, info=info, error=error, finding=finding, act=act)


def _answer(instance: Instance[Check], check_input: CheckInput) -> Verdict:
    try:
        return instance.plugin.judge(instance.config, check_input)
    except NotListed as off:
        if off.listing is Listing.WAITING:
            # The kind is not listed yet. Profiles whose checks do not read it continue.
            finding = f"{off.table.kind} has not been listed yet"
            return Verdict(passed=False, known=False, info={"reason": str(off)}, finding=finding)
        return Verdict(passed=False, error=str(off))
    except Exception as error:  # noqa: BLE001 - a plugin with a bug fails its own profile, and no other
        return Verdict(passed=False, error=f"{type(error).__name__}: {error}")


def _needed(check: Expression, verdicts: Mapping[str, Verdict]) -> tuple[Limit, ...]:
    """Return the limits of the checks that must pass for the expression to be true; of two alternatives, the first.

    Many nodes may see the same free place at the same time, so a place has to be claimed.
    """
    values = {name: verdict.passed for name, verdict in verdicts.items()}
    needed: set[str] = set()
    for name in reversed([name for name, verdict in verdicts.items() if verdict.limits and verdict.passed]):
        without = {**values, name: False}
        if evaluate(check, without):
            values = without
        else:
            needed.add(name)
    return tuple(limit for name, verdict in verdicts.items() if name in needed for limit in verdict.limits)
