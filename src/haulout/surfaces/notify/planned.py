"""How a forecast (`haulout plan`) simulates NotifyMaintenances: node states, pods, recipes, and the choice of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

import msgspec

from haulout.base.duration import DurationError, parse
from haulout.cluster.key import Key
from haulout.cluster.kinds import Kinds
from haulout.cluster.project import Keep
from haulout.cluster.rows import PodRow, Value
from haulout.cluster.store import Store
from haulout.cluster.view import CONFIG
from haulout.core.drain.options import POD_ANNOTATION, Act
from haulout.core.planned import DRAINING, IN_MAINTENANCE, REQUIRED, Json, Pick, PlannedObjects, Schedule, as_new
from haulout.model.meta import wire_time
from haulout.surfaces.notify.drainer.pod_classes import PodClasses
from haulout.surfaces.notify.notice.states import AFTER_START
from haulout.surfaces.notify.notice.states import DRAINING as DRAINING_STATES
from haulout.surfaces.notify.options import Options
from haulout.surfaces.notify.recipes import jobs
from haulout.surfaces.notify.recipes.recipe import BUILTIN, OF_THE_NOTICE, WEBHOOK, Checks, Recipe
from haulout.surfaces.notify.recipes.roles import RUNNER
from haulout.surfaces.notify.scheduler.estimate import EXPECTED_END, POD_ANNOTATIONS, PodContext, estimate
from haulout.surfaces.notify.scheduler.score import score
from haulout.surfaces.notify.scheduler.show import CONDITION, SELECTED
from haulout.surfaces.notify.scheduler.standing import CANDIDATE, STANDINGS, VERDICT, Candidate, RoundVerdict
from haulout.surfaces.notify.scheduler.windows import schedules
from haulout.surfaces.notify.wire import (
    API_VERSION,
    CLIENT,
    EXPECTED_MAINTENANCE,
    FINALIZER,
    KIND,
    OBJECTS_DRAINED,
    SURFACE,
    TERMINATED,
    VALIDATING,
    VALIDATION,
)

# No attempt may reach its timeout, because the user of a forecast says how long the work takes.
PATIENCE = timedelta(days=365)
# How many of the candidates that were passed over are reported.
MOST_RIVALS = 3
_KEEP = Keep(POD_ANNOTATIONS | {POD_ANNOTATION}, details=True)


def planned_options(options: Options) -> Options:
    """Return the options for a forecast: without Prometheus, web servers, reboots and changes of the kubelet."""
    operators = options.operators
    replace = msgspec.structs.replace
    runner = replace(
        operators.runner,
        # Without a webhook recipe, the maintenance is simulated as the work of another client, which takes as long as
        # the user says.
        recipes=tuple(_planned_recipe(each) for each in operators.runner.recipes if each.type != WEBHOOK),
    )
    validator = replace(operators.validator, recipes=tuple(map(_planned_recipe, operators.validator.recipes)))
    scheduler = replace(operators.scheduler, alert_gate=None)
    return replace(options, operators=replace(operators, runner=runner, validator=validator, scheduler=scheduler))


def _planned_recipe(recipe: Recipe) -> Recipe:
    replace = msgspec.structs.replace
    checks = replace(recipe.checks, kubelet="") if recipe.checks is not None else None
    kept = replace(
        recipe,
        timeout=PATIENCE,
        # The namespace of the maintenance is the only one that surely exists in a forecast.
        namespace=OF_THE_NOTICE,
        success=replace(recipe.success, rebooted=False) if recipe.success.rebooted else recipe.success,
        checks=checks,
    )
    return replace(kept, type=BUILTIN, checks=checks or Checks()) if recipe.type == WEBHOOK else kept


def planned_pods(options: Options, pods: Iterable[Json], now: datetime) -> Iterator[tuple[Json, timedelta]]:
    """Yield the running finite pods for a forecast: each without its owner, with the time that it still runs.

    In a forecast a pod ends when the scheduler expects it to.
    """
    projector = Kinds().keep("", "Pod", _KEEP)
    for body in pods:
        try:
            row = projector.row(msgspec.convert(body, projector.resource.model, strict=False))
        except msgspec.ValidationError:
            continue
        if not isinstance(row, PodRow) or row.spec.mirror or row.ended or not row.node or jobs.ROLE in row.labels:
            continue
        act = PodClasses(options.operators.drainer).act(row, lambda namespace, name: None, now)
        found = estimate((row,), lambda pod, act=act: PodContext(act), options, now)  # type: ignore[misc]
        remaining = msgspec.structs.replace(found, most=None).drain_seconds(now)
        yield _planned_pod(body, act, now + timedelta(seconds=remaining)), timedelta(seconds=remaining)


def _planned_pod(body: Json, act: Act, ends_at: datetime) -> Json:
    """Return the pod with annotations that make the drainer treat it as it would with its owner."""
    metadata = body.get("metadata") or {}
    notes = {name: value for name, value in (metadata.get("annotations") or {}).items() if name not in POD_ANNOTATIONS}
    words = {Act.WAIT: "wait", Act.IGNORE: "ignore", Act.EVICT: "evict", Act.DELETE: "evict"}
    if act is Act.WAIT:
        notes[EXPECTED_END] = wire_time(ends_at)
    if act in words:
        notes[POD_ANNOTATION] = words[act]
    return {**body, "metadata": {**metadata, "annotations": notes}}


def _state(obj: Json, cordoned: bool) -> str:
    state = _status(obj).get("maintenanceStatus", "")
    if state in AFTER_START:
        if FINALIZER not in (obj["metadata"].get("finalizers") or []) or (_is_terminal(obj) and not cordoned):
            return ""
        return DRAINING if state in DRAINING_STATES else IN_MAINTENANCE
    return REQUIRED


def _is_done(obj: Json) -> bool:
    """Whether the maintenance only waits for the work of another client, or for its owner to delete it."""
    notes, state = obj["metadata"].get("annotations") or {}, _status(obj).get("maintenanceStatus", "")
    if _is_terminal(obj) or "deletionTimestamp" in obj["metadata"]:
        return False
    return (state == OBJECTS_DRAINED and CLIENT not in notes) or (
        state == VALIDATING and notes.get(VALIDATION, "validated") == "validated"
    )


def _pick(obj: Json, store: Store, now: datetime) -> Pick | None:
    """Return why a maintenance was chosen, and which other candidates were passed over."""
    found = [each for each in _status(obj).get("conditions") or [] if each.get("type") == CONDITION]
    if not found or found[0].get("status") != SELECTED:
        return None
    setting = store.row(Key("", CONFIG, "", SURFACE))
    options = setting.value if isinstance(setting, Value) else None
    if not isinstance(options, Options):
        return None
    metadata = obj["metadata"]
    place = f"{metadata.get('namespace', '')}/{metadata['name']}"
    standing = {
        row.key.name for row in store.bucket(STANDINGS, "", VERDICT) if isinstance(row, RoundVerdict) and row.chosen
    }
    rows = [row for row in store.bucket(STANDINGS, "", CANDIDATE) if isinstance(row, Candidate)]
    scored = [
        (score(row.estimate, row.since, row.priority, options, now), row)
        for row in rows
        if row.place != place and row.place not in standing
    ]
    best = sorted(scored, key=lambda each: (-each[0].value, each[1].since, each[1].place))[:MOST_RIVALS]
    why = f"{found[0].get('reason', '')}: {found[0].get('message', '')}"
    return Pick(why, tuple((row.node, str(value)) for value, row in best), len(scored))


def _work_for(obj: Json) -> timedelta | None:
    try:
        return parse((obj["metadata"].get("annotations") or {})[EXPECTED_MAINTENANCE])
    except (KeyError, DurationError):
        return None


def _worker_of(pod: Json) -> str:
    metadata = pod["metadata"]
    is_runner = (metadata.get("labels") or {}).get(jobs.ROLE) == RUNNER.name
    return str((metadata.get("annotations") or {}).get(jobs.NOTICE, "")) if is_runner else ""


def _make(node: str) -> Json:
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": f"plan-{node}", "namespace": "default"},
        "spec": {"nodeObject": node, "maintenanceID": "plan", "maintenanceType": "planned"},
    }


def planned_object(kind: str, obj: Json) -> tuple[Json, str]:
    """Return a NotifyMaintenance unchanged, so that a forecast continues from its state."""
    return (obj, "") if kind == KIND else as_new(kind, obj)


def planned_schedules(options: Options, objects: Iterable[Json]) -> Iterator[Schedule]:
    """Yield when the scheduler may start planned maintenances; nothing if it is off."""
    if options.operators.scheduler.enabled:
        yield from schedules(options.operators.scheduler)


def _status(obj: Json) -> Json:
    return obj.get("status") or {}


def _is_terminal(obj: Json) -> bool:
    return TERMINATED in (obj["metadata"].get("annotations") or {})


PLANNED_OBJECTS = PlannedObjects(
    kind=KIND,
    node=lambda obj: str(obj.get("spec", {}).get("nodeObject", "")),
    state=_state,
    is_done=_is_done,
    make=_make,
    pick=_pick,
    work_for=_work_for,
    worker_of=_worker_of,
)
