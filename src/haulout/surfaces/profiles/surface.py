"""The decisions of the profiles surface, and their sources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from haulout.cluster.key import Key
from haulout.cluster.project import Keep
from haulout.cluster.rows import NodeRow, Value
from haulout.cluster.view import CONFIG, View
from haulout.core.action import Release, Step, Tell
from haulout.core.cordon import ANNOTATION as CORDON_ANNOTATION
from haulout.core.decision import Decider, Source
from haulout.core.declaration import Declaration
from haulout.core.drain.options import POD_ANNOTATION
from haulout.core.drain.start_times import ANNOTATION as STARTED_ANNOTATION
from haulout.core.expiry import EXPIRES, expiring, withdrawal
from haulout.core.holds import PRIORITY_ANNOTATION
from haulout.core.planned import Json, Schedule
from haulout.plugins.checks.time_window import TimeWindow, window_of
from haulout.plugins.hypervisors import HYPERVISORS
from haulout.surfaces.profiles.decide import MODE, decide
from haulout.surfaces.profiles.decide import mode_of as mode_in
from haulout.surfaces.profiles.declare import ORIGINAL
from haulout.surfaces.profiles.logbook import LOGBOOK
from haulout.surfaces.profiles.marks import mark
from haulout.surfaces.profiles.moved_pods import KINDS as SHUFFLED
from haulout.surfaces.profiles.options import Options, make_options, mode_of
from haulout.surfaces.profiles.passes.claims import is_cordoned_by_us
from haulout.surfaces.profiles.passes.result import Config, Mode
from haulout.surfaces.profiles.passes.statements import REPORTER
from haulout.surfaces.profiles.wire import DATA_ANNOTATION, PROFILE_LABEL, STATE_LABEL, SURFACE, State


def _is_served_with_others(view: View) -> bool:
    return not mode_in(view).alone


def _end(node: NodeRow, text: str) -> Step:
    """Return the step that detaches the profiles of an expired Node, and gives the node back."""
    if PROFILE_LABEL not in node.labels:
        return ()
    release = (Release(node.key, SURFACE),) if is_cordoned_by_us(node) else ()
    return (*withdrawal(node, PROFILE_LABEL), *release, Tell(node.key, "Expired", "Expired", text, REPORTER))


DECIDER = Decider(SURFACE, "Node", expiring(decide, _end, _is_served_with_others))
# This runs first, so that the decisions count current marks.
MARKER = Decider(f"{SURFACE}-marks", "Node", mark, phase=DECIDER.phase - 1)
DECIDERS = (MARKER, DECIDER)
OWN_KINDS = (HYPERVISORS,)
CONFIG_KEY = Key("", CONFIG, "", SURFACE)

BASIC = Keep(frozenset({DATA_ANNOTATION, PRIORITY_ANNOTATION, CORDON_ANNOTATION, EXPIRES}))


# Drains read this annotation of pods.
OTHERS = {"Pod": Keep(frozenset({POD_ANNOTATION}))}


def keeps(config: Config | None) -> Keep:
    """Return what has to be kept of Nodes for this configuration."""
    kept = BASIC
    if config is not None:
        for check in config.checks.values():
            kept |= check.plugin.keeps(check.config)
        for trigger in config.triggers.values():
            kept |= trigger.plugin.keeps(trigger.config)
    return kept


def sources(config: Config | None) -> frozenset[Source]:
    """Return the sources for this configuration: what decisions read, and what is counted about moved pods."""
    return decided_upon(config) | _sources(SHUFFLED)


def decided_upon(config: Config | None) -> frozenset[Source]:
    """Return the sources that decisions read: Nodes always, other kinds if a plugin needs them."""
    needs: set[str] = set()
    if config is not None:
        needs.update(*(check.plugin.needs(check.config) for check in config.checks.values()))
        needs.update(*(trigger.plugin.needs(trigger.config) for trigger in config.triggers.values()))
    return frozenset({Source("", "Node", keeps(config))}) | _sources(needs)


def _sources(kinds: Iterable[str]) -> frozenset[Source]:
    return frozenset(Source("", kind, OTHERS.get(kind, Keep())) for kind in kinds)


def _mode_row(mode: Mode) -> Value:
    return Value(key=Key("", CONFIG, "", MODE), value=mode)


def _rows(options: Options) -> Iterator[Value]:
    yield Value(key=CONFIG_KEY, value=options.config)
    yield _mode_row(options.mode)


def _schedules(options: Options, objects: Iterable[Json]) -> Iterator[Schedule]:
    """Yield when each `timeWindow` check of the configuration passes."""
    for instance in options.config.checks.values():
        if isinstance(instance.config, TimeWindow):
            window = window_of(instance.config)
            zone = instance.config.timezone
            yield Schedule(f"check {instance.name}", window.is_open, window.changes_at, zone)


PROFILES = Declaration(
    name=SURFACE,
    deciders=DECIDERS,
    logbook=LOGBOOK,
    sources=lambda options: decided_upon(options.config if options else None),
    options=make_options,
    files=lambda settings: (settings.config,),
    rows=_rows,
    context_rows=lambda context: (_mode_row(mode_of(context)),),
    kinds=OWN_KINDS,
    drains=True,
    records=(
        DATA_ANNOTATION,
        STARTED_ANNOTATION,
        *(f"{STATE_LABEL}={state}" for state in (State.OPERATIONAL, State.REQUIRED)),
    ),
    controllers=dict.fromkeys((decider.name for decider in DECIDERS), SURFACE),
    lease=ORIGINAL.lease,
    explains={"Node": SURFACE},
    planned_schedules=_schedules,
    node_state=lambda node: str((node.get("metadata", {}).get("labels") or {}).get(STATE_LABEL, "")),
)
