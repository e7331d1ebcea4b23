"""The runner: it does the maintenance of a drained node by the recipe that the maintenance asks for."""

from __future__ import annotations

from datetime import datetime

from haulout.cluster.key import Key
from haulout.cluster.view import View
from haulout.core.action import Delete
from haulout.core.decision import NOTHING, Decision
from haulout.surfaces.notify.match import may_act
from haulout.surfaces.notify.notice.states import is_final
from haulout.surfaces.notify.options import Options
from haulout.surfaces.notify.recipes.attempts import current, jobs_of
from haulout.surfaces.notify.recipes.execute import execute, record_report
from haulout.surfaces.notify.recipes.jobs import RECIPE, JobRow, is_trusted
from haulout.surfaces.notify.recipes.recipe import DELETE_JOB, Recipe
from haulout.surfaces.notify.recipes.roles import RUNNER, StepRole
from haulout.surfaces.notify.recipes.turns import is_due, recipe_of
from haulout.surfaces.notify.situation import NoticeSituation, situation_of
from haulout.surfaces.notify.wire import SURFACE, NoticeRow


def decide(key: Key, view: View, now: datetime) -> Decision:
    situation = situation_of(key, view, now)
    if situation is None or not situation.options.operators.runner.enabled:
        return NOTHING
    if is_final(situation.row):
        return cancel_jobs(situation, RUNNER, situation.options.operators.runner.recipes)
    recipe = recipe_of(situation.row, RUNNER, situation.options)
    if recipe is None or situation.node is None:
        return NOTHING
    if not is_due(situation.row, RUNNER, situation.options, situation.node):
        return record_report(situation, RUNNER, recipe)
    return execute(situation, RUNNER, recipe, current(situation, RUNNER, recipe))


def cancel_jobs(situation: NoticeSituation, role: StepRole, recipes: tuple[Recipe, ...]) -> Decision:
    """Delete the Jobs that still run for a deleted maintenance, if their recipes say so."""
    if not may_act(situation.options, role.name, situation.row, situation.node):
        return NOTHING
    known = {recipe.name: recipe for recipe in recipes}
    running = [job for job in jobs_of(situation, role) if job.is_running]
    ending = [job for job in running if _is_deleted(known.get(job.labels.get(RECIPE, "")))]
    return Decision(actions=(tuple(Delete(job.key, job.uid, disrupts=False) for job in ending),)) if ending else NOTHING


def _is_deleted(recipe: Recipe | None) -> bool:
    return recipe is None or recipe.on_cancel == DELETE_JOB


def decide_orphan(key: Key, view: View, now: datetime) -> Decision:
    """Delete a Job in another namespace than its maintenance once the maintenance is gone.

    It cannot have an owner reference.
    """
    job = view.get(key, JobRow)
    setting = view.config(SURFACE)
    if setting is None or not isinstance(setting.value, Options):
        return NOTHING
    if job is None or job.owned or job.deleting_at is not None or not job.notice.name:
        return NOTHING
    if not is_trusted(job, job.notice.namespace, setting.value):
        return NOTHING
    notice = view.get(job.notice, NoticeRow)
    if notice is not None and notice.uid == job.labels.get("haulout.dev/nm-uid"):
        return NOTHING
    return Decision(actions=((Delete(job.key, job.uid, disrupts=False),),))
