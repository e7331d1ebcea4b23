"""The simulated Job controller: it runs pods until enough succeed or too many fail, and counts each of them."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta
from typing import NamedTuple

from haulout.base.bounds import span
from haulout.embedded.controllers.claims import Claims
from haulout.embedded.controllers.generated_names import Names
from haulout.embedded.controllers.object_fields import (
    Key,
    condition,
    instant,
    is_active,
    is_ready,
    is_terminating,
    key_of,
    phase_of,
    timestamp,
    with_condition,
)
from haulout.embedded.controllers.tables import Pods, Table
from haulout.embedded.controllers.work_queue import WorkQueue
from haulout.embedded.interfaces import Json, Objects, Timers
from haulout.embedded.resources import JOBS, PODS
from haulout.kube.errors import Conflict, NotFound

TRACKING = "batch.kubernetes.io/job-tracking"
_FIRST_BACKOFF, _LAST_BACKOFF = timedelta(seconds=10), timedelta(minutes=10)


class _Count(NamedTuple):
    succeeded: int
    failed: int
    active: list[Json]
    leaving: int


class Jobs:
    """The simulated controller of Jobs: it runs pods until enough of them have succeeded.

    Indexed completion is not simulated. Of pod failure policies only rules are that ignore pods with a condition.
    """

    def __init__(self, objects: Objects, timers: Timers, names: Names, pods: Pods, jobs: Table) -> None:
        self._objects = objects
        self._timers = timers
        self._pods = pods
        self._jobs = jobs
        # How many pods in a row have failed, and when the last one did: new pods wait.
        self._failures: dict[Key, tuple[int, datetime]] = {}
        self._work: WorkQueue[Key] = WorkQueue(timers, self._sync)
        self._claims = Claims(objects, names, pods, jobs, "batch/v1", "Job", self._work.add)

    def _sync(self, key: Key) -> None:
        job = self._jobs.get(key)
        if job is None:
            self._work.forget(key)
            self._failures.pop(key, None)
            return
        if _has(job, "Complete") or _has(job, "Failed"):
            self._let_go(self._finished(job))
            self._expire(key, job)
            return
        self._claims.settle(job)
        finished = self._finished(job)
        self._note_failures(key, finished)
        count = self._count(job, finished)
        verdict = self._verdict(key, job, count)
        if verdict:
            self._claims.delete(count.active)
        elif not is_terminating(job):
            self._manage(key, job, count)
        self._write_status(key, job, self._count(job, finished), verdict)
        self._let_go(finished)

    def _expire(self, key: Key, job: Json) -> None:
        """Delete a Job that has ended once its time to live is over."""
        lives_for = job["spec"].get("ttlSecondsAfterFinished")
        times = (one.get("lastTransitionTime") for one in _ends(job))
        ended_at = max((instant(at) for at in times if at), default=None)
        if lives_for is None or ended_at is None or is_terminating(job):
            return
        expires_at = ended_at + span(int(lives_for))
        if self._timers.now() < expires_at:
            self._work.add_at(key, expires_at)
            return
        with suppress(NotFound, Conflict):
            self._objects.delete(JOBS, *key, uid=job["metadata"]["uid"], propagation="Background")

    def _finished(self, job: Json) -> list[Json]:
        """Return the pods that have ended and are not counted yet, which still have the tracking finalizer."""
        return [pod for pod in self._claims.pods(job) if _is_tracked(pod) and phase_of(pod) in {"Succeeded", "Failed"}]

    def _count(self, job: Json, finished: list[Json]) -> _Count:
        old = job.get("status") or {}
        pods = self._claims.pods(job)
        won = sum(phase_of(pod) == "Succeeded" for pod in finished)
        return _Count(
            int(old.get("succeeded", 0)) + won,
            int(old.get("failed", 0)) + sum(_counts_as_failed(job, pod) for pod in finished),
            [pod for pod in pods if is_active(pod)],
            sum(is_terminating(pod) and phase_of(pod) not in {"Succeeded", "Failed"} for pod in pods),
        )

    def _note_failures(self, key: Key, finished: list[Json]) -> None:
        for pod in finished:
            if phase_of(pod) == "Succeeded":
                self._failures.pop(key, None)
            elif _counts_as_failed(self._jobs.get(key) or {}, pod):
                self._failures[key] = (self._failures.get(key, (0, None))[0] + 1, self._timers.now())

    def _verdict(self, key: Key, job: Json, count: _Count) -> tuple[str, str, str] | None:
        """Return the type, reason and message of the Job's end, or None while it goes on."""
        spec = job["spec"]
        for kind in ("SuccessCriteriaMet", "FailureTarget"):
            if _has(job, kind) and (found := condition(job, kind)):
                return kind, found.get("reason", ""), found.get("message", "")
        limit = 6 if spec.get("backoffLimit") is None else int(spec["backoffLimit"])
        restarts = sum(map(_restarts, count.active)) if _restarts_in_place(job) else 0
        if count.failed > limit or restarts >= max(limit, 1):
            return "FailureTarget", "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        started = (job.get("status") or {}).get("startTime")
        if spec.get("activeDeadlineSeconds") is not None and started and not spec.get("suspend"):
            late_at = instant(started) + span(int(spec["activeDeadlineSeconds"]))
            if self._timers.now() >= late_at:
                return "FailureTarget", "DeadlineExceeded", "Job was active longer than specified deadline"
            self._work.add_at(key, late_at)
        wanted = spec.get("completions")
        enough = count.succeeded >= int(wanted) if wanted is not None else count.succeeded > 0
        if enough and not count.active:
            return "SuccessCriteriaMet", "CompletionsReached", "Reached expected number of succeeded pods"
        return None

    def _manage(self, key: Key, job: Json, count: _Count) -> None:
        if job["spec"].get("suspend"):
            self._claims.delete(count.active)
            return
        missing = _wanted_active(job, count) - len(count.active)
        if job["spec"].get("podReplacementPolicy") == "Failed":
            missing -= count.leaving
        if missing < 0:
            order = sorted(count.active, key=lambda pod: (is_ready(pod), pod["metadata"]["name"]))
            self._claims.delete(order[:-missing])
        elif missing > 0 and (wait_until := self._backoff(key)):
            self._work.add_at(key, wait_until)
        else:
            template = job["spec"]["template"]
            for _ in range(missing):
                self._claims.create(job, template, base=f"{key[1]}-", finalizers=[TRACKING])

    def _backoff(self, key: Key) -> datetime | None:
        failures, since = self._failures.get(key, (0, self._timers.now()))
        if not failures:
            return None
        until = since + min(_FIRST_BACKOFF * 2 ** min(failures - 1, 10), _LAST_BACKOFF)
        return until if until > self._timers.now() else None

    def _write_status(self, key: Key, job: Json, count: _Count, verdict: tuple[str, str, str] | None) -> None:
        now, old = self._timers.now(), job.get("status") or {}
        status: Json = {
            "active": len(count.active),
            "ready": sum(map(is_ready, count.active)),
            "succeeded": count.succeeded,
            "failed": count.failed,
            "terminating": count.leaving,
            "uncountedTerminatedPods": {},
        }
        if not old.get("startTime") and not job["spec"].get("suspend"):
            status["startTime"] = timestamp(now)
        elif old.get("startTime") and job["spec"].get("suspend") and not verdict:
            status["startTime"] = None
        conditions = old.get("conditions") or []
        if verdict:
            conditions = _concluded(conditions, verdict, now, over=not count.active and not count.leaving)
            if _true(conditions, "Complete"):
                status["completionTime"] = timestamp(now)
        elif job["spec"].get("suspend") or _has(job, "Suspended"):
            conditions = _suspended(conditions, bool(job["spec"].get("suspend")), now)
        if conditions != (old.get("conditions") or []):
            status["conditions"] = conditions
        if any(old.get(name, 0 if isinstance(value, int) else None) != value for name, value in status.items()):
            self._jobs.put(self._objects.patch(JOBS, *key, {"status": status}, subresource="status"))

    def _let_go(self, finished: list[Json]) -> None:
        for pod in finished:
            kept = [name for name in pod["metadata"].get("finalizers") or () if name != TRACKING]
            with suppress(NotFound):
                self._objects.patch(PODS, *key_of(pod), {"metadata": {"finalizers": kept or None}})
            self._pods.refresh(key_of(pod))


def _wanted_active(job: Json, count: _Count) -> int:
    parallel = job["spec"].get("parallelism")
    most = 1 if parallel is None else int(parallel)
    completions = job["spec"].get("completions")
    if completions is None:
        return len(count.active) if count.succeeded else most
    return min(most, max(int(completions) - count.succeeded, 0))


def _concluded(conditions: list[Json], verdict: tuple[str, str, str], now: datetime, *, over: bool) -> list[Json]:
    """Return the conditions with the one that announces the Job's end; if `over`, also the end itself."""
    kind, reason, message = verdict
    if not _true(conditions, kind):
        conditions = with_condition(conditions, _condition(kind, reason, message, now), now)
    if over:
        end = "Complete" if kind == "SuccessCriteriaMet" else "Failed"
        conditions = with_condition(conditions, _condition(end, reason, message, now), now)
    return conditions


def _condition(kind: str, reason: str, message: str, now: datetime, status: str = "True") -> Json:
    return {"type": kind, "status": status, "lastProbeTime": timestamp(now), "reason": reason, "message": message}


def _suspended(conditions: list[Json], suspend: bool, now: datetime) -> list[Json]:
    if _true(conditions, "Suspended") == suspend:
        return conditions
    reason, message = ("JobSuspended", "Job suspended") if suspend else ("JobResumed", "Job resumed")
    return with_condition(conditions, _condition("Suspended", reason, message, now, str(suspend)), now)


def _counts_as_failed(job: Json, pod: Json) -> bool:
    """Whether a pod that has ended counts as a failed attempt."""
    if phase_of(pod) != "Failed":
        return False
    rules = ((job.get("spec") or {}).get("podFailurePolicy") or {}).get("rules") or ()
    ignored = [each for rule in rules if rule.get("action") == "Ignore" for each in rule.get("onPodConditions") or ()]
    found = {(one["type"], one["status"]) for one in (pod.get("status") or {}).get("conditions") or ()}
    return not any((each["type"], each.get("status", "True")) in found for each in ignored)


def _ends(job: Json) -> list[Json]:
    """Return the conditions that say that a Job has ended."""
    conditions = (job.get("status") or {}).get("conditions") or []
    return [one for one in conditions if one["type"] in {"Complete", "Failed"} and one["status"] == "True"]


def _true(conditions: list[Json], kind: str) -> bool:
    return any(one["type"] == kind and one["status"] == "True" for one in conditions)


def _has(job: Json, kind: str) -> bool:
    return _true((job.get("status") or {}).get("conditions") or [], kind)


def _is_tracked(pod: Json) -> bool:
    return TRACKING in (pod["metadata"].get("finalizers") or ())


def _restarts_in_place(job: Json) -> bool:
    return bool(job["spec"]["template"]["spec"].get("restartPolicy") == "OnFailure")


def _restarts(pod: Json) -> int:
    status = pod.get("status") or {}
    listed = (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))
    return sum(int(one.get("restartCount", 0)) for one in listed)
