"""The attempts of a step: which one is current, its state, and when the next one begins."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

import msgspec

from haulout.surfaces.notify.match import is_owned
from haulout.surfaces.notify.notice.status import with_condition
from haulout.surfaces.notify.recipes.jobs import ROLE, JobRow, jobs_of_notice
from haulout.surfaces.notify.recipes.recipe import Recipe
from haulout.surfaces.notify.recipes.roles import StepRole
from haulout.surfaces.notify.situation import NoticeSituation
from haulout.surfaces.notify.wire import Status

# The reason of the condition while built-in checks run.
CHECKING = "Checking"
# The reason of the condition while the Job of an attempt cannot be created.
CREATE_FAILED = "CreateFailed"
RUNNING, SUCCEEDED, FAILED = "running", "succeeded", "failed"
LONGEST_BACKOFF_FOR = timedelta(minutes=30)
_MESSAGE = re.compile(r"attempt (\d{1,6})/(\d{1,6})(?:: (.*))?", re.DOTALL)


class StepAttempt(msgspec.Struct, frozen=True):
    """The current attempt of a step.

    `number`: its number; 0 before the first. `total`: the number of the last attempt that is allowed.
    `state`: running, succeeded, failed or, before the first attempt, empty. `since`: when that state began.
    `job`: its Job, if it has one.
    """

    number: int = 0
    total: int = 0
    state: str = ""
    since: datetime | None = None
    job: JobRow | None = None

    @property
    def is_last(self) -> bool:
        return self.number >= self.total


def jobs_of(situation: NoticeSituation, role: StepRole) -> list[JobRow]:
    found = jobs_of_notice(situation.view, situation.row, situation.options)
    return sorted((job for job in found if job.labels.get(ROLE) == role.name), key=lambda job: job.attempt)


def current(situation: NoticeSituation, role: StepRole, recipe: Recipe) -> StepAttempt:
    """Return the current attempt, from the owner's mark, the condition and the Jobs.

    After a retry of the whole step, the numbers of earlier attempts are continued.
    """
    jobs = jobs_of(situation, role)
    last_job = jobs[-1] if jobs else None
    number, total, state, since = _last_attempt(situation.status, role)
    newest = max(number, last_job.attempt if last_job else 0)
    has_new_job = last_job is not None and last_job.attempt > number
    if not is_owned(situation.row, role.name) and not has_new_job:
        # No attempt of this series has begun. The condition and the Jobs are of an earlier one.
        return StepAttempt(newest, newest + 1 + recipe.retries)
    job = last_job if last_job is not None and last_job.attempt == newest else None
    if has_new_job or not number:
        first = newest if not is_owned(situation.row, role.name) or not number else total - recipe.retries
        begun = job.created_at if job is not None else situation.now
        return StepAttempt(newest or 1, max(first, 1) + recipe.retries, RUNNING, begun, job)
    return StepAttempt(number, max(total, number), state or RUNNING, since, job)


def _last_attempt(status: Status, role: StepRole) -> tuple[int, int, str, datetime | None]:
    stood = status.condition(role.condition)
    found = _MESSAGE.fullmatch(stood.message) if stood is not None else None
    if stood is None or found is None:
        return 0, 0, "", None
    if stood.reason == CREATE_FAILED:
        # The Job of this attempt was never created, so the current attempt is the one before it, which has failed.
        number = int(found[1]) - 1
        return number, int(found[2]), FAILED if number else "", stood.last_transition_time
    return int(found[1]), int(found[2]), stood.status, stood.last_transition_time


def with_attempt(
    situation: NoticeSituation, role: StepRole, attempt: StepAttempt, state: str, reason: str, why: str = ""
) -> Status:
    """Return the status with the condition that reports an attempt."""
    text = f"attempt {attempt.number}/{attempt.total}"
    message = f"{text}: {why}" if why else text
    return with_condition(situation.status, role.condition, state, situation.now, reason, message)


def retry_at(attempt: StepAttempt, recipe: Recipe) -> datetime | None:
    """Return when the attempt after a failed one begins. The delay doubles each time."""
    if attempt.since is None:
        return None
    failures = attempt.number - (attempt.total - 1 - recipe.retries)
    return attempt.since + min(recipe.retry_backoff * 2.0 ** min(max(failures, 1) - 1, 20), LONGEST_BACKOFF_FOR)
