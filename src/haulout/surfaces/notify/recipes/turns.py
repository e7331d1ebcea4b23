"""Which recipe may run on a node: one at a time, validations before maintenances, then by age."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.limits import Count, Group, Limit, Membership
from haulout.cluster.rows import NodeRow, Row, Value
from haulout.cluster.view import MARK
from haulout.surfaces.notify.match import is_external, is_owned, may_act
from haulout.surfaces.notify.notice.states import has_finalizer, is_final, is_terminal
from haulout.surfaces.notify.options import Options
from haulout.surfaces.notify.recipes.jobs import NOTICE_UID, RUNNING_JOBS, JobRow, is_trusted, jobs_of_notice
from haulout.surfaces.notify.recipes.recipe import Recipe
from haulout.surfaces.notify.recipes.roles import IN_PROGRESS, ROLES, RUNNER, VALIDATOR, StepRole
from haulout.surfaces.notify.situation import NoticeSituation
from haulout.surfaces.notify.wire import CLIENT_LABEL, KIND, OBJECTS_DRAINED, VALIDATION_LABEL, NoticeRow

replace = msgspec.structs.replace
BEGINNING = "notify-beginning"
_NEVER = datetime(9000, 1, 1, tzinfo=UTC)


class Running(Count, frozen=True):
    """The count of maintenances whose recipe runs, according to their objects."""

    @property
    def kind(self) -> str:
        return KIND

    def groups(self, row: Row) -> Iterable[Membership]:
        return (Membership(""),) if isinstance(row, NoticeRow) and is_executing(row, RUNNER) else ()

    def describe(self, group: Group) -> str:
        return "recipes of the runner"


class Beginning(Count, frozen=True):
    """The count of maintenances whose recipe is about to run, which their objects do not show yet."""

    @property
    def kind(self) -> str:
        return MARK

    def groups(self, row: Row) -> Iterable[Membership]:
        return (Membership(""),) if row.key.namespace == BEGINNING else ()


RUNNING, ABOUT_TO_RUN = Running(), Beginning()


def beginning_mark(row: NoticeRow, role: StepRole) -> Value:
    """Return the mark that a step is about to begin. Those of the runner count against its limit."""
    return Value(key=Key("", MARK, BEGINNING if role is RUNNER else f"{BEGINNING}-{role.name}", row.place))


def recipe_of(row: NoticeRow, role: StepRole, options: Options) -> Recipe | None:
    """Return the recipe that the maintenance asks for; None if an external client has to do the step."""
    operators = options.operators
    if role is RUNNER:
        name = row.labels.get(CLIENT_LABEL, operators.runner.default_client)
        recipes = operators.runner.recipes
    else:
        name = row.labels.get(VALIDATION_LABEL, operators.validator.default)
        recipes = operators.validator.recipes
    return next((recipe for recipe in recipes if recipe.name == name), None)


def _is_in_step(row: NoticeRow, role: StepRole) -> bool:
    return row.state == role.state and not is_final(row) and not is_terminal(row)


def is_executing(row: NoticeRow, role: StepRole) -> bool:
    is_taken = is_owned(row, role.name) and row.annotations.get(role.annotation) == IN_PROGRESS
    return is_taken and _is_in_step(row, role)


def is_due(row: NoticeRow, role: StepRole, options: Options, node: NodeRow | None) -> bool:
    """Whether an in-box operator has to do this step, and has not ended it."""
    if not _is_in_step(row, role) or not has_finalizer(row):
        return False
    if is_external(row, role.name, role.annotation) or not may_act(options, role.name, row, node):
        return False
    ended = row.annotations.get(role.annotation) in (role.success, role.failure)
    return not ended and recipe_of(row, role, options) is not None


def _awaits_validation(row: NoticeRow, options: Options, node: NodeRow | None) -> bool:
    """Whether an in-box validation will follow as soon as the end of the maintenance step is stored."""
    is_done = row.state == RUNNER.state and row.annotations.get(RUNNER.annotation) == RUNNER.success
    return is_done and is_due(
        replace(row, status=replace(row.status, maintenance_status=VALIDATOR.state)), VALIDATOR, options, node
    )


def _steps_of(row: NoticeRow, options: Options, node: NodeRow | None) -> Iterator[StepRole]:
    """Yield the steps that in-box operators have to do for a maintenance now or next."""
    yield from (role for role in ROLES if is_due(row, role, options, node))
    if _awaits_validation(row, options, node):
        yield VALIDATOR


def is_next(situation: NoticeSituation) -> bool:
    """Whether this maintenance is the next on its node: no other one runs a step or comes before it."""
    others = [(row, role) for row in situation.siblings() for role in _steps_of(row, situation.options, situation.node)]
    if any(is_executing(row, role) or _has_begun(situation, row) for row, role in others):
        return False
    own = next(role for role in ROLES if role.state == situation.row.state)
    return all(_order(situation.row, own) < _order(row, role) for row, role in others)


def _has_begun(situation: NoticeSituation, row: NoticeRow) -> bool:
    """Whether a step of another maintenance has begun, although its annotation does not show it yet."""
    marks = (situation.view.get(beginning_mark(row, role).key, Value) for role in ROLES)
    jobs = jobs_of_notice(situation.view, row, situation.options)
    return any(mark is not None for mark in marks) or any(job.is_running for job in jobs)


def _order(row: NoticeRow, role: StepRole) -> tuple[bool, datetime, str]:
    return role is not VALIDATOR, row.status.entered_at(OBJECTS_DRAINED) or _NEVER, row.place


def has_room(situation: NoticeSituation) -> bool | None:
    """Return whether one more recipe of the runner may begin; None if it depends on others that are just beginning.

    A recipe that is itself beginning keeps its place, because a call of a web server may take several tries.
    """
    most = situation.options.operators.runner.max_concurrent
    if situation.view.recall(beginning_mark(situation.row, RUNNER).key, Value) is not None:
        return True
    if situation.view.full([Limit(RUNNING, "", most)]):
        return False
    taken = situation.view.glance(RUNNING, "") + situation.view.glance(ABOUT_TO_RUN, "") + _interrupted(situation)
    return True if taken < most else None


def _interrupted(situation: NoticeSituation) -> int:
    """Return how many Jobs of the runner run although neither an annotation nor a mark shows it.

    The process ended between creating such a Job and annotating its maintenance. The maintenance will continue with it.
    """
    found = 0
    for job in situation.view.rows(RUNNING_JOBS, RUNNER.name, JobRow):
        row = situation.view.get(job.notice, NoticeRow)
        if row is None or row.uid != job.labels.get(NOTICE_UID) or not _is_in_step(row, RUNNER):
            continue
        is_shown = RUNNER.annotation in row.annotations or situation.view.get(beginning_mark(row, RUNNER).key, Value)
        found += not is_shown and is_trusted(job, row.key.namespace, situation.options)
    return found
