"""The execution of a step by its recipe: starting attempts, judging them, retrying, and reporting the result."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

import msgspec

from haulout.cluster.rows import Row
from haulout.core.action import Annotate, Create, Delete, Measure, Patch, Refusal, Step
from haulout.core.decision import NOTHING, Decision, earliest
from haulout.core.refusals import find_refusal
from haulout.surfaces.notify.match import is_owned, owner_mark
from haulout.surfaces.notify.notice import baseline
from haulout.surfaces.notify.notice.deliver import note_if_configured
from haulout.surfaces.notify.notice.status import condition_of, patch, with_condition
from haulout.surfaces.notify.recipes.addresses import address_of, address_problem
from haulout.surfaces.notify.recipes.attempts import (
    CHECKING,
    CREATE_FAILED,
    FAILED,
    RUNNING,
    SUCCEEDED,
    StepAttempt,
    retry_at,
    with_attempt,
)
from haulout.surfaces.notify.recipes.hooks import call, hook_outcome
from haulout.surfaces.notify.recipes.jobs import COMPLETE, NOTICE_UID, JobRow, job_body, job_key
from haulout.surfaces.notify.recipes.jobs import FAILED as JOB_FAILED
from haulout.surfaces.notify.recipes.recipe import ANSIBLE, WEBHOOK, Recipe
from haulout.surfaces.notify.recipes.roles import IN_PROGRESS, RUNNER, StepRole
from haulout.surfaces.notify.recipes.turns import beginning_mark, has_room, is_next
from haulout.surfaces.notify.situation import NoticeSituation, events_of
from haulout.surfaces.notify.wire import BASELINE, IN_BOX

replace = msgspec.structs.replace
# How long it takes until objects show that a recipe has begun.
BEGIN_WITHIN_FOR = timedelta(seconds=1)
# How long it takes at most until the watch shows a Job of ours that the API server says exists.
SEEN_WITHIN_FOR = timedelta(seconds=5)
# The part of a failure that becomes the condition's reason: one word, or `CheckFailed` with the name of the check.
_REASON = re.compile(r"CheckFailed: \w+|[A-Za-z0-9]+(?=:|$)")


class AttemptResult(msgspec.Struct, frozen=True):
    """The outcome of an attempt so far.

    `state`: running, succeeded or failed. `until`: when time alone may change it.
    `steps`: the writes that have to happen before the outcome counts.
    """

    state: str
    reason: str = ""
    until: datetime | None = None
    steps: tuple[Step, ...] = ()


def execute(situation: NoticeSituation, role: StepRole, recipe: Recipe, attempt: StepAttempt) -> Decision:
    """Return the next actions for a step that an in-box operator carries out."""
    if not attempt.state:
        return _queued(situation, role, recipe, replace(attempt, number=attempt.number + 1))
    if attempt.state == SUCCEEDED:
        return succeed(situation, role, recipe, attempt)
    if attempt.state == FAILED:
        return _after_failure(situation, role, recipe, attempt)
    outcome = _judged(situation, role, recipe, attempt)
    if outcome.state == SUCCEEDED:
        return succeed(situation, role, recipe, attempt)
    if outcome.state == FAILED:
        return fail(situation, role, recipe, attempt, outcome)
    taken = take(situation, role, attempt)
    return Decision(actions=(*taken, *outcome.steps), until=outcome.until)


def _queued(situation: NoticeSituation, role: StepRole, recipe: Recipe, attempt: StepAttempt) -> Decision:
    if not is_next(situation):
        return NOTHING
    if role is RUNNER:
        room = has_room(situation)
        if not room:
            return NOTHING if room is False else Decision(until=situation.now + BEGIN_WITHIN_FOR)
    return begin(situation, role, recipe, attempt)


def begin(situation: NoticeSituation, role: StepRole, recipe: Recipe, attempt: StepAttempt) -> Decision:
    """Begin an attempt: record the node's baseline, start the work, then report it as in progress, in this order."""
    node = situation.node
    assert node is not None
    # The baseline is recorded when the node is drained. A maintenance that an earlier version drained has none.
    is_compared = role is RUNNER or recipe.success.rebooted
    status = baseline.with_baseline(situation.status, node, situation.now) if is_compared else situation.status
    remember = patch(situation.row, status)
    before: tuple[Step, ...] = (remember,) if remember else ()
    # The later writes are made to the object as the baseline leaves it.
    row = replace(situation.row, status=status)
    situation = replace(situation, row=row)
    marks: tuple[Row, ...] = (beginning_mark(row, role),)
    if recipe.type == WEBHOOK:
        sends, until = call(situation, role, recipe, attempt.number)
        outcome = hook_outcome(situation, role, recipe, attempt.number)
        if outcome is None:
            return Decision(actions=(*before, *((sends,) if sends else ())), until=until, marks=marks)
        return Decision(actions=(*before, *take(situation, role, attempt)), marks=marks)
    key = job_key(row, recipe, role.name, attempt.number, situation.options)
    problem = _create_problem(situation, key.name)
    known = situation.view.get(key, JobRow)
    refusal = find_refusal(situation.view, _create_name(key.name))
    exists_at = refusal.at + SEEN_WITHIN_FOR if known is None and refusal is not None and refusal.code == 409 else None
    if exists_at is not None and situation.now < exists_at:
        # Another process may have created the Job. The watch will show it if it has our labels. If not, the name is
        # taken by a foreign Job.
        return Decision(actions=before, until=exists_at, marks=marks)
    if exists_at is not None or (known is not None and known.labels.get(NOTICE_UID) != row.uid):
        failed = fail(situation, role, recipe, attempt, AttemptResult(FAILED, "NameConflict"))
        return replace(failed, actions=(*_taken(situation, role), *failed.actions))
    if known is not None:
        # The Job exists, but the process ended before it reported the step as in progress.
        return Decision(actions=take(situation, role, attempt), marks=marks)
    stood = situation.status.condition(role.condition)
    reason = CHECKING if stood is not None and stood.reason == CHECKING else CREATE_FAILED
    doubt = address_problem(situation.view, node)
    if recipe.type == ANSIBLE and doubt:
        # The playbook could reach another host. It waits until the addresses are put right, and says so.
        waits = patch(row, with_attempt(situation, role, attempt, RUNNING, reason, doubt))
        return Decision(actions=(*before, *((waits,) if waits else ())))
    address = "" if doubt else address_of(node)
    body = job_body(row, node, recipe, role.name, attempt.number, situation.options, address=address)
    create: Step = (
        Create(key, body, _create_name(key.name), disrupts=role is RUNNER),
        *events_of(situation, "JobStarted", f"Job {key.namespace}/{key.name} was created for attempt {attempt.number}"),
    )
    condition_step: Step = (
        patch(row, with_attempt(situation, role, attempt, RUNNING, reason, problem)) if problem else ()
    )
    return Decision(
        actions=(
            *before,
            *((condition_step,) if condition_step else ()),
            create,
            *(() if problem else take(situation, role, attempt)),
        ),
        marks=marks,
    )


def _create_name(name: str) -> str:
    return f"notify-job/{name}"


def _create_problem(situation: NoticeSituation, name: str) -> str:
    refusal: Refusal | None = find_refusal(situation.view, _create_name(name))
    return refusal.message if refusal is not None else ""


def take(situation: NoticeSituation, role: StepRole, attempt: StepAttempt, reason: str = "Running") -> tuple[Step, ...]:
    """Return the writes that mark the step as ours and in progress, with its current attempt.

    The condition that mirrors the annotation is included, which saves a write.
    """
    status = with_attempt(situation, role, attempt, RUNNING, reason)
    status = with_condition(status, condition_of(role.annotation), IN_PROGRESS, situation.now)
    progress: tuple[Patch, ...] = patch(situation.row, status)
    return (*_taken(situation, role), *((progress,) if progress else ()))


def _taken(situation: NoticeSituation, role: StepRole) -> tuple[Step, ...]:
    row = situation.row
    if is_owned(row, role.name) and role.annotation in row.annotations:
        return ()
    known = baseline.recorded_baseline(row.status)
    shown = (Annotate(row.key, BASELINE, known),) if known and row.annotations.get(BASELINE) != known else ()
    return (
        (Annotate(row.key, role.annotation, IN_PROGRESS), Annotate(row.key, owner_mark(role.name), IN_BOX), *shown),
    )


def _judged(situation: NoticeSituation, role: StepRole, recipe: Recipe, attempt: StepAttempt) -> AttemptResult:
    """Return the outcome of the running attempt, including its timeout."""
    ends_at = attempt.since + recipe.timeout if attempt.since is not None else None
    judged = _hook(situation, role, recipe, attempt) if recipe.type == WEBHOOK else _job(situation, recipe, attempt)
    if judged.state != RUNNING:
        return judged
    if ends_at is not None and situation.now >= ends_at:
        job = attempt.job
        removal: tuple[Step, ...] = (
            ((Delete(job.key, job.uid, disrupts=False),),) if job is not None and job.is_running else ()
        )
        return AttemptResult(FAILED, "Timeout", steps=removal)
    return replace(judged, until=earliest(judged.until, ends_at))


def _job(situation: NoticeSituation, recipe: Recipe, attempt: StepAttempt) -> AttemptResult:
    wanted, job, node = recipe.success, attempt.job, situation.node
    if wanted.rebooted:
        # The Job dies in the reboot that it causes, so its own result says nothing.
        if node is None or not baseline.has_rebooted(situation.row, node):
            return AttemptResult(RUNNING)
        return _when_ready(situation, recipe)
    if job is None:
        return AttemptResult(FAILED, "JobDeleted")
    if job.outcome == JOB_FAILED:
        return AttemptResult(FAILED, job.reason or "JobFailed")
    if job.outcome != COMPLETE:
        return AttemptResult(RUNNING)
    return _when_ready(situation, recipe)


def _when_ready(situation: NoticeSituation, recipe: Recipe) -> AttemptResult:
    wanted, node = recipe.success, situation.node
    if not wanted.node_ready:
        return AttemptResult(SUCCEEDED)
    at = baseline.ready_at(node, wanted.ready_for) if node is not None else None
    if at is None:
        return AttemptResult(RUNNING)
    return AttemptResult(SUCCEEDED) if situation.now >= at else AttemptResult(RUNNING, until=at)


def _hook(situation: NoticeSituation, role: StepRole, recipe: Recipe, attempt: StepAttempt) -> AttemptResult:
    outcome = hook_outcome(situation, role, recipe, attempt.number)
    if outcome is None:
        sends, until = call(situation, role, recipe, attempt.number)
        return AttemptResult(RUNNING, until=until, steps=(sends,) if sends else ())
    if outcome.result == "success":
        return _when_ready(situation, recipe)
    if outcome.result == "failure":
        return AttemptResult(FAILED, outcome.message or "HookFailed")
    return AttemptResult(RUNNING)


def succeed(situation: NoticeSituation, role: StepRole, recipe: Recipe, attempt: StepAttempt) -> Decision:
    row = situation.row
    condition_step = patch(row, with_attempt(situation, role, attempt, SUCCEEDED, "Succeeded"))
    end: Step = (
        Annotate(row.key, role.annotation, role.success),
        Annotate(row.key, owner_mark(role.name), IN_BOX),
        *_owed(situation, role, role.success),
        *_measured(role, recipe, attempt, SUCCEEDED),
    )
    return Decision(actions=(*((condition_step,) if condition_step else ()), end))


def record_report(situation: NoticeSituation, role: StepRole, recipe: Recipe) -> Decision:
    """Record the result of an attempt that a web server or a person has reported through the annotation."""
    stood, value = situation.status.condition(role.condition), situation.row.annotations.get(role.annotation)
    if stood is None or stood.status != RUNNING or not is_owned(situation.row, role.name):
        return NOTHING
    if value not in (role.success, role.failure):
        return NOTHING
    state = SUCCEEDED if value == role.success else FAILED
    status = with_condition(situation.status, role.condition, state, situation.now, "Reported", stood.message)
    ended = StepAttempt(since=stood.last_transition_time)
    return Decision(actions=((*patch(situation.row, status), *_measured(role, recipe, ended, state)),))


def fail(
    situation: NoticeSituation, role: StepRole, recipe: Recipe, attempt: StepAttempt, outcome: AttemptResult
) -> Decision:
    row = situation.row
    named = _REASON.match(outcome.reason)
    reason = named[0] if named else "Failed"
    event = "JobFailed" if role is RUNNER else "ValidationFailed"
    note = f"attempt {attempt.number}/{attempt.total} failed: {outcome.reason}"
    condition_step: Step = (
        *patch(row, with_attempt(situation, role, attempt, FAILED, reason, outcome.reason)),
        *events_of(situation, event, note, warning=True),
        *_measured(role, recipe, attempt, FAILED),
    )
    return Decision(actions=(*outcome.steps, condition_step))


def _after_failure(situation: NoticeSituation, role: StepRole, recipe: Recipe, attempt: StepAttempt) -> Decision:
    row = situation.row
    if attempt.is_last:
        names = (role.annotation, role.failure), (owner_mark(role.name), IN_BOX)
        end: Step = tuple(Annotate(row.key, name, value) for name, value in names)
        return Decision(actions=((*end, *_owed(situation, role, role.failure)),))
    at = retry_at(attempt, recipe)
    if at is not None and situation.now < at:
        return Decision(until=at)
    return begin(situation, role, recipe, replace(attempt, number=attempt.number + 1))


def _owed(situation: NoticeSituation, role: StepRole, value: str) -> tuple[Annotate, ...]:
    """Return the edit that records the message after this step as undelivered.

    In the same write as the result it costs nothing.
    """
    event = role.announces.get(value)
    return note_if_configured(situation.row, situation.options, event) if event is not None else ()


def _measured(role: StepRole, recipe: Recipe, attempt: StepAttempt, result: str) -> tuple[Measure, ...]:
    labels = (("recipe", recipe.name), ("role", role.name))
    counted = Measure("nm_run_total", (*labels, ("result", result)))
    if attempt.since is None:
        return (counted,)
    return counted, Measure("nm_run_duration_seconds", labels, since=attempt.since)
