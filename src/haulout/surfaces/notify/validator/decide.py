"""The validator: it checks a node after its maintenance, by built-in checks and by the maintenance's recipe."""

from __future__ import annotations

from datetime import datetime

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.view import View
from haulout.core.action import Annotate
from haulout.core.decision import NOTHING, Decision, earliest
from haulout.surfaces.notify.match import may_act, owner_mark
from haulout.surfaces.notify.notice.states import has_finalizer, is_final, is_terminal
from haulout.surfaces.notify.recipes.attempts import CHECKING, FAILED, RUNNING, StepAttempt, current, retry_at
from haulout.surfaces.notify.recipes.execute import AttemptResult, begin, execute, fail, record_report, succeed, take
from haulout.surfaces.notify.recipes.recipe import BUILTIN, Checks, Recipe
from haulout.surfaces.notify.recipes.roles import VALIDATOR
from haulout.surfaces.notify.recipes.turns import is_due, is_next, recipe_of
from haulout.surfaces.notify.runner.decide import cancel_jobs
from haulout.surfaces.notify.situation import NoticeSituation, situation_of
from haulout.surfaces.notify.validator.checks import CheckFinding, findings
from haulout.surfaces.notify.wire import IN_BOX, VALIDATING


def decide(key: Key, view: View, now: datetime) -> Decision:
    situation = situation_of(key, view, now)
    if situation is None or not situation.options.operators.validator.enabled:
        return NOTHING
    if is_final(situation.row):
        return cancel_jobs(situation, VALIDATOR, situation.options.operators.validator.recipes)
    recipe = recipe_of(situation.row, VALIDATOR, situation.options)
    if recipe is None:
        return _without_recipe(situation)
    if situation.node is None:
        return NOTHING
    if not is_due(situation.row, VALIDATOR, situation.options, situation.node):
        return record_report(situation, VALIDATOR, recipe)
    return _validate(situation, recipe)


def _without_recipe(situation: NoticeSituation) -> Decision:
    """Pass a maintenance for which there is no recipe, if the settings say so.

    A validation that has begun is not passed, whichever client began it: its recipe may have been removed from the settings
    while it ran.
    """
    row = situation.row
    if situation.options.operators.validator.on_missing_recipe != "Pass":
        return NOTHING
    ours = row.state == VALIDATING and not is_terminal(row) and has_finalizer(row)
    if not ours or not may_act(situation.options, VALIDATOR.name, row, situation.node):
        return NOTHING
    if VALIDATOR.annotation in row.annotations:
        return NOTHING
    mark = Annotate(row.key, owner_mark(VALIDATOR.name), IN_BOX)
    return Decision(actions=((Annotate(row.key, VALIDATOR.annotation, VALIDATOR.success), mark),))


def _validate(situation: NoticeSituation, recipe: Recipe) -> Decision:
    """Run the built-in checks first, if there are any, and then the recipe."""
    attempt = current(situation, VALIDATOR, recipe)
    checks = recipe.checks if recipe.checks is not None else Checks() if recipe.type == BUILTIN else None
    if checks is None:
        return execute(situation, VALIDATOR, recipe, attempt)
    if not attempt.state:
        if attempt.job is not None or not is_next(situation):
            return NOTHING
        return _checking(situation, attempt.number + 1, attempt)
    if attempt.state == FAILED and recipe.type == BUILTIN and not attempt.is_last:
        at = retry_at(attempt, recipe)
        is_early = at is not None and situation.now < at
        return Decision(until=at) if is_early else _checking(situation, attempt.number + 1, attempt)
    stood = situation.status.condition(VALIDATOR.condition)
    if attempt.state == RUNNING and stood is None and attempt.job is None:
        # The process ended after it had taken the step and before it reported what it does.
        return _checking(situation, max(1, attempt.number), attempt)
    if attempt.state != RUNNING or stood is None or stood.reason != CHECKING:
        return execute(situation, VALIDATOR, recipe, attempt)
    return _checked(situation, recipe, checks, attempt)


def _checking(situation: NoticeSituation, number: int, attempt: StepAttempt) -> Decision:
    begun = msgspec.structs.replace(attempt, number=number)
    return Decision(actions=take(situation, VALIDATOR, begun, CHECKING))


def _checked(situation: NoticeSituation, recipe: Recipe, checks: Checks, attempt: StepAttempt) -> Decision:
    failing, until = _failing(situation, checks, attempt.since or situation.now)
    if not failing and recipe.type == BUILTIN:
        return succeed(situation, VALIDATOR, recipe, attempt)
    if not failing:
        return begin(situation, VALIDATOR, recipe, attempt)
    ends_at = attempt.since + checks.checks_timeout if attempt.since is not None else None
    if ends_at is not None and situation.now >= ends_at:
        return fail(situation, VALIDATOR, recipe, attempt, AttemptResult("failed", f"CheckFailed: {failing[0].name}"))
    return Decision(until=earliest(until, ends_at))


def _failing(situation: NoticeSituation, checks: Checks, since: datetime) -> tuple[list[CheckFinding], datetime | None]:
    assert situation.node is not None
    found = [each for each in findings(situation, situation.node, checks, since) if not each.holds]
    return found, earliest(*(each.until for each in found))
