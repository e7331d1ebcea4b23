"""The decisions of the notify surface, and their sources."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from haulout.cluster.key import Key, node_key
from haulout.cluster.project import Keep
from haulout.cluster.rows import Value
from haulout.cluster.store import Store
from haulout.cluster.view import CONFIG, View
from haulout.core.action import Delete, Step, Tell
from haulout.core.cordon import ANNOTATION as CORDON_ANNOTATION
from haulout.core.decision import Decider, Source
from haulout.core.declaration import Context, Declaration, NodeObjects, OptionsProblem
from haulout.core.drain.options import POD_ANNOTATION
from haulout.core.expiry import EXPIRES, expiring
from haulout.core.reason import Reason
from haulout.plugins.file_lint import line_of
from haulout.surfaces.notify.declare import ORIGINAL
from haulout.surfaces.notify.drainer import decide as drainer
from haulout.surfaces.notify.drainer import volumes
from haulout.surfaces.notify.load import load
from haulout.surfaces.notify.logbook import LOGBOOK
from haulout.surfaces.notify.notice.decide import decide
from haulout.surfaces.notify.options import Operators, Options
from haulout.surfaces.notify.planned import (
    PLANNED_OBJECTS,
    planned_object,
    planned_options,
    planned_pods,
    planned_schedules,
)
from haulout.surfaces.notify.recipes import jobs
from haulout.surfaces.notify.returner import decide as returner
from haulout.surfaces.notify.runner import decide as runner
from haulout.surfaces.notify.scheduler import decide as scheduler
from haulout.surfaces.notify.scheduler import recording, rounds
from haulout.surfaces.notify.scheduler.estimate import POD_ANNOTATIONS
from haulout.surfaces.notify.settings import NotifySettings
from haulout.surfaces.notify.situation import REPORTER
from haulout.surfaces.notify.validator import decide as validator
from haulout.surfaces.notify.wire import (
    ANNOTATIONS,
    KIND,
    NODE_ANNOTATIONS,
    NOTICES_OF_NODE,
    RESOURCE,
    SURFACE,
    NoticeRow,
)


def _nodes(key: Key, store: Store) -> tuple[Key, ...]:
    row = store.row(key)
    return (node_key(row.node),) if isinstance(row, NoticeRow) and row.node else ()


def _none(key: Key, store: Store) -> tuple[Key, ...]:
    """Return no node, so that a failure of this decision keeps no surface from any node."""
    return ()


def _is_served_with_others(view: View) -> bool:
    setting = view.config(SURFACE)
    return setting is not None and isinstance(setting.value, Options) and not setting.value.alone


def _end(row: NoticeRow, text: str) -> Step:
    """Return the step that deletes an expired NotifyMaintenance."""
    return Delete(row.key, row.uid), Tell(row.key, "Expired", "Expired", text, REPORTER, core=True)


DECIDERS = (
    Decider(SURFACE, KIND, expiring(decide, _end, _is_served_with_others), nodes=_nodes),
    Decider(scheduler.DECIDER, KIND, scheduler.decide, nodes=_none, within=SURFACE),
    Decider("notify-choice", CONFIG, rounds.decide, rank=rounds.rank, nodes=_none, within=SURFACE),
    Decider("notify-runs", "Node", recording.decide_node, nodes=_none, within=SURFACE),
    Decider("notify-history", CONFIG, recording.decide_history, nodes=_none, within=SURFACE),
    Decider("notify-samples", CONFIG, recording.decide_samples, nodes=_none, within=SURFACE),
    Decider("notify-drainer", KIND, drainer.decide, nodes=_none, within=SURFACE),
    Decider("notify-runner", KIND, runner.decide, nodes=_none, within=SURFACE),
    Decider("notify-validator", KIND, validator.decide, nodes=_none, within=SURFACE),
    Decider("notify-returner", KIND, returner.decide, nodes=_none, within=SURFACE),
    Decider("notify-returner-nodes", "Node", returner.decide_node, nodes=_none, within=SURFACE),
    Decider("notify-jobs", jobs.JOB_KIND, runner.decide_orphan, nodes=_none, within=SURFACE),
)
OWN_KINDS = (RESOURCE, jobs.RESOURCE, volumes.RESOURCE)
CONFIG_KEY = Key("", CONFIG, "", SURFACE)
CONTROLLER = "notifymaintenance"


def sources(options: Options | None) -> frozenset[Source]:
    """Return the sources that these options need; without options, those of the original."""
    operators = options.operators if options is not None else Operators()
    executes = operators.runner.enabled or operators.validator.enabled
    node = Keep(NODE_ANNOTATIONS | {CORDON_ANNOTATION}, details=executes)
    found = {Source("", KIND, Keep(ANNOTATIONS | {EXPIRES})), Source("", "Node", node)}
    if executes:
        found.add(Source("", jobs.JOB_KIND, Keep(frozenset({jobs.NOTICE}))))
    pods = Keep(POD_ANNOTATIONS | {POD_ANNOTATION}, details=True)
    checks = [recipe.checks for recipe in operators.validator.recipes if recipe.checks is not None]
    if operators.validator.enabled and any(each.daemon_sets_ready for each in checks):
        found.add(Source("", "Pod"))
    if operators.drainer.enabled:
        kinds = ("PodDisruptionBudget", "DaemonSet")
        found |= {Source("", "Pod", pods), *(Source("", kind) for kind in kinds)}
    if operators.scheduler.enabled:
        found |= {Source("", "Pod", pods), Source("", "PodDisruptionBudget")}
    if operators.drainer.enabled and operators.drainer.wait_for_volume_detach:
        found.add(Source("", volumes.VOLUME_KIND))
    return frozenset(found)


def served(settings: NotifySettings, context: Context) -> Options:
    """Return the options from the configuration file, with the pod rules of the process."""
    return in_context(read_options(context.files[settings.config], settings.config), context)


def read_options(content: bytes, source: str) -> Options:
    """Return the options in a configuration file. Raises OptionsProblem."""
    options = load(content)
    if not isinstance(options, Options):
        raise OptionsProblem([str(line_of(problem, source, is_error=True)) for problem in options])
    return options


def in_context(options: Options, context: Context) -> Options:
    """Return the options with what the process knows beside the configuration file."""
    return msgspec.structs.replace(options, rules=context.rules, alone=context.alone, namespace=context.namespace)


def _reason(row: NoticeRow, causes: tuple[Reason, ...]) -> Reason:
    text = f"NotifyMaintenance {row.place} is {row.state or 'new'}"
    act = "" if causes else f"see what it waits for: haulout explain notifymaintenance {row.place}"
    return Reason("maintenance", row.key, text, because=causes, act=act)


def _rows(options: Options) -> Iterator[Value]:
    yield Value(key=CONFIG_KEY, value=options)


NOTIFY = Declaration(
    name=SURFACE,
    deciders=DECIDERS,
    logbook=LOGBOOK,
    sources=sources,
    rows=_rows,
    kinds=OWN_KINDS,
    drains=True,
    working_pods=jobs.ROLE,
    controllers=dict.fromkeys((decider.name for decider in DECIDERS), CONTROLLER),
    lease=ORIGINAL.lease,
    explains={KIND: SURFACE},
    options=served,
    files=lambda settings: (settings.config,),
    needs_files=True,
    keeps_last_options=True,
    node_objects=NodeObjects(kind=KIND, index=NOTICES_OF_NODE, node=lambda row: str(row.node), reason=_reason),
    planned_objects=PLANNED_OBJECTS,
    planned_options=planned_options,
    planned_pods=planned_pods,
    planned_object=planned_object,
    planned_schedules=planned_schedules,
)
