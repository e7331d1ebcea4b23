"""The stage of a pass that runs the checks of all transitions out of a state."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec

from haulout.base.expression import Expression, evaluate
from haulout.base.url import without_secrets
from haulout.cluster.key import Key
from haulout.cluster.limits import Limit
from haulout.cluster.store import Listing
from haulout.cluster.view import NotListed
from haulout.core.decision import earliest
from haulout.plugins.api import Check, CheckInput, Trigger, Verdict
from haulout.surfaces.profiles.counts import FLEET, InMaintenance, unreadable
from haulout.surfaces.profiles.load import Instance, Transition
from haulout.surfaces.profiles.passes.result import Judged, ProfilePass, Result, fail
from haulout.surfaces.profiles.passes.turns import kept_turns, turns_of
from haulout.surfaces.profiles.refusals import author_of
from haulout.surfaces.profiles.wire import State

FAILED = "At least one check plugin failed"
# A negative or tiny interval in the configuration must not lead to probes without a pause.
SHORTEST_PACE_FOR = timedelta(milliseconds=100)


def judge(around: ProfilePass, result: Result) -> Result:
    """Judge every transition. The pass ends if a check fails or has no answer yet."""
    judged: list[Judged] = []
    errors: list[str] = []
    until, is_known = result.until, True
    for number, transition in enumerate(around.stage.transitions):
        each = _judged(around, result, number, transition)
        judged.append(each)
        is_known = is_known and each.known
        if each.error:
            errors.append(each.error)
        for verdict in each.verdicts.values():
            if verdict.until is not None:
                until = earliest(until, verdict.until)
    marks = kept_turns(result, judged)
    result = msgspec.structs.replace(result, judged=tuple(judged), until=until, marks=marks, ended=not is_known)
    return fail(result, FAILED, f"had failed transition checks: {'; '.join(errors)}") if errors else result


def _judged(around: ProfilePass, result: Result, number: int, transition: Transition[Check, Trigger]) -> Judged:
    turns = turns_of(around.view, result, number)
    verdicts: dict[str, Verdict] = {}
    values: dict[str, bool] = {}
    wrong: list[str] = []
    known, has_limits = True, False
    check_input: CheckInput | None = None
    for instance in transition.checks:
        may_wait, probe = instance.name in transition.waitable, instance.plugin.probe
        # Most checks of a transition get equal inputs, so the inputs of the check before are used again.
        if check_input is None or check_input.may_wait != may_wait or check_input.probe != probe:
            check_input = _input(around, result, turns, may_wait=may_wait, probe=probe)
        verdict = _verdict(instance, check_input)
        if verdict.prepare or verdict.take is not None:
            verdict = _unless_refused(around, verdict, instance, result)
        verdicts[instance.name], values[instance.name] = verdict, verdict.passed
        known = known and verdict.known
        has_limits = has_limits or bool(verdict.limits)
        if verdict.error:
            wrong.append(instance.name)
    allowed = not (around.busy and transition.next == State.IN_MAINTENANCE)
    if wrong:
        error = f"failed check instances: {', '.join(wrong)}"
        return Judged(number, transition, verdicts, False, allowed, error, known)
    if not known:
        return Judged(number, transition, verdicts, False, allowed, known=False)
    passed = evaluate(transition.check, values)
    limits = _needed(transition.check, verdicts, values) if passed and has_limits else ()
    return Judged(number, transition, verdicts, passed, allowed, limits=limits, turns=turns)


def _input(
    around: ProfilePass, result: Result, turns: Mapping[Key, datetime], *, may_wait: bool, probe: str
) -> CheckInput:
    return CheckInput(
        node=result.node,
        profile=result.profile,
        state=result.state,
        last_transition=result.entry.transition.at,
        now=around.now,
        view=around.view,
        in_maintenance=InMaintenance,
        unreadable=unreadable,
        may_wait=may_wait,
        pace_for=max(around.config.requeue, SHORTEST_PACE_FOR),
        fleet=FLEET,
        turns=turns,
        probe=probe,
    )


def _unless_refused(around: ProfilePass, verdict: Verdict, instance: Instance[Check], result: Result) -> Verdict:
    """Return the verdict of a check that writes, or a failed one if the API server refuses its writes."""
    author = author_of(result.node, result.profile, instance)
    if refused := author.refusal(around.view, around.now):
        return Verdict(passed=False, until=refused.until, error=refused.refusal.message, times=refused.times)
    return msgspec.structs.replace(verdict, prepare=author.with_outcomes(verdict.prepare))


def _verdict(instance: Instance[Check], check_input: CheckInput) -> Verdict:
    """Return the verdict of a check, with secrets removed from the texts that people will read."""
    verdict = _answer(instance, check_input)
    if not _has_address(verdict):
        return verdict
    info = {name: without_secrets(str(value)) if "://" in str(value) else value for name, value in verdict.info.items()}
    error, finding, act = map(without_secrets, (verdict.error, verdict.finding, verdict.act))
    return msgspec.structs.replace(verdict, info=info, error=error, finding=finding, act=act)


def _has_address(verdict: Verdict) -> bool:
    """Whether a text of the verdict contains a URL, which may contain a secret."""
    if "://" in verdict.finding or "://" in verdict.error or "://" in verdict.act:
        return True
    for value in verdict.info.values():  # noqa: SIM110 - most verdicts have none or one
        if "://" in (value if isinstance(value, str) else str(value)):
            return True
    return False


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


def _needed(check: Expression, verdicts: Mapping[str, Verdict], values: Mapping[str, bool]) -> tuple[Limit, ...]:
    """Return the limits of the checks that must pass for the expression to be true; of two alternatives, the first.

    Many nodes may see the same free place at the same time, so a place has to be claimed.
    """
    needed: set[str] = set()
    for name in reversed([name for name, verdict in verdicts.items() if verdict.limits and verdict.passed]):
        without = {**values, name: False}
        if evaluate(check, without):
            values = without
        else:
            needed.add(name)
    return tuple(limit for name, verdict in verdicts.items() if name in needed for limit in verdict.limits)
