"""What is written to the Jobs of a node beside their creation: suspension, results, the ends of logs.

Of one stage of a package only one pod or Job may run on a node, because they share a directory on the host. The original
may have made a suspended Job beside a pod that runs.
"""

from __future__ import annotations

from collections.abc import Iterator

from haulout.cluster.view import FactDemand, View
from haulout.core.action import Patch, Tell
from haulout.surfaces.packages.entries.entry import COMPLETE, NodeState, entry_key
from haulout.surfaces.packages.events import event
from haulout.surfaces.packages.groups import NODEWRIGHT
from haulout.surfaces.packages.node.failure_log import PACE_FOR, PROBE
from haulout.surfaces.packages.node.situation import VisitSituation
from haulout.surfaces.packages.node.work import VisitWork
from haulout.surfaces.packages.pods.bodies import About
from haulout.surfaces.packages.pods.jobs import (
    PackageJobRow,
    given_up_job,
    has_exceeded_restarts,
    recorded_job,
    switched_job,
    with_logs,
)
from haulout.surfaces.packages.pods.rows import PackagePodRow
from haulout.surfaces.packages.pods.verdict import PodResult
from haulout.surfaces.packages.wire import PAUSED


def job_patches(situation: VisitSituation, work: VisitWork, view: View) -> Iterator[Patch]:
    """Yield the patches of the Jobs that stay."""
    for job in _jobs(situation):
        if job in work.old_pods:
            continue
        if (switched := _switched(job, situation)) is not None:
            yield switched
        elif has_exceeded_restarts(job, situation.options):
            yield given_up_job(job)
        elif job.has_ended and job.verdict.result is PodResult.FAILED:
            yield from _failed(job, situation, view)


def _jobs(situation: VisitSituation) -> Iterator[PackageJobRow]:
    return (job for job in situation.pods if isinstance(job, PackageJobRow) and job.deleting_at is None)


def _switched(job: PackageJobRow, situation: VisitSituation) -> Patch | None:
    """Return the patch that suspends the Job of a paused NodeWright, or resumes one of a unit that may act.

    A disabled unit lets what runs go on, and begins nothing. A Job waits until a pod of the same stage is gone.
    """
    intent = situation.intent
    if job.has_ended:
        return None
    if intent.shows == PAUSED and intent.group is NODEWRIGHT and not job.is_suspended:
        return switched_job(job, is_suspended=True)
    may_resume = job.is_suspended and intent.acts and not any(_rivals(job, situation))
    return switched_job(job, is_suspended=False) if may_resume else None


def needless_jobs(situation: VisitSituation, state: NodeState, over: list[PackagePodRow]) -> Iterator[PackageJobRow]:
    """Yield the suspended Jobs that must never run: a pod or Job runs their stage, or has completed it."""
    for job in _jobs(situation):
        if job.has_ended or not job.is_suspended or job in over or job.about is None:
            continue
        entry = state.get(entry_key(job.about.name, job.about.version))
        is_done = entry is not None and (entry.stage, entry.state) == (job.about.stage, COMPLETE)
        if is_done or any(each.deleting_at is None for each in _rivals(job, situation)):
            yield job


def _rivals(job: PackageJobRow, situation: VisitSituation) -> Iterator[PackagePodRow]:
    """Yield what else may run the stage of a Job on the node. Of two suspended Jobs the first one does."""
    for other in situation.pods:
        if other.key == job.key or other.about is None or job.about is None or other.has_ended or other.has_failed:
            continue
        is_after = other.is_suspended and other.key > job.key
        if _stage_of(other.about) == _stage_of(job.about) and not is_after:
            yield other


def _stage_of(about: About) -> tuple[str, str, str]:
    return about.name, about.version, about.stage


def _failed(job: PackageJobRow, situation: VisitSituation, view: View) -> Iterator[Patch]:
    """Yield the writes to a Job that has failed for good: that this is recorded, then the end of its log.

    The drop-in always keeps it, as the original does. It may hold secrets, so that otherwise the settings have to ask for it.
    """
    if not job.is_recorded:
        yield recorded_job(job, situation.options)
        return
    container = job.verdict.container
    is_kept = situation.options.alone or situation.options.keep_failure_logs
    if job.has_log or not is_kept or not job.worker or container.exit_code is None:
        return
    question = (job.key.namespace, job.worker, container.name, container.restarts)
    answer = view.fact(FactDemand(PROBE, question, PACE_FOR)).value
    if isinstance(answer, str) and answer:
        yield with_logs(job, answer)


def given_up(situation: VisitSituation) -> Iterator[Tell]:
    """Yield an event for each interrupt that has failed too often."""
    for job in _jobs(situation):
        if not has_exceeded_restarts(job, situation.options) or job.about is None:
            continue
        limit, about = situation.options.job_backoff_limit, job.about
        note = (
            f"the interrupt of package [{about.name}:{about.version}] from [skyhook:{situation.intent.skyhook}]"
            f" has failed {limit} times"
        )
        for regarding in (situation.node.key, situation.intent.owner):
            yield event(regarding, "Interrupt", note, action="RestartLimitExceeded", warning=True)
