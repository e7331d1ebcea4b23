"""The decision about one node: from its labels, its data annotation and the configuration to one patch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import partial

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.rows import NodeRow, Row, Value
from haulout.cluster.view import View
from haulout.core import cordon
from haulout.core.action import (
    Action,
    Annotate,
    Cordon,
    Evict,
    Finalize,
    Label,
    NodeEdit,
    Say,
    SetTaint,
    Statement,
    Step,
    Tell,
    Write,
)
from haulout.core.cordon import ANNOTATION as CORDON_ANNOTATION
from haulout.core.cordon import ledger
from haulout.core.decision import Decision, earliest
from haulout.core.drain.start_times import ANNOTATION as STARTED_ANNOTATION
from haulout.core.drain.start_times import start_times, with_start_times
from haulout.core.holds import PRIORITY_ANNOTATION, Claim, is_granted, read_priority
from haulout.core.reason import Reason
from haulout.surfaces.profiles.deleted_nodes import farewell
from haulout.surfaces.profiles.engine import Pass
from haulout.surfaces.profiles.failures import failing_marks
from haulout.surfaces.profiles.load import Configuration
from haulout.surfaces.profiles.manual_uncordon import NOTE as LIFTED
from haulout.surfaces.profiles.manual_uncordon import is_lifted, uncordon_statements, without_empty_entry
from haulout.surfaces.profiles.moved_pods import measures
from haulout.surfaces.profiles.passes.claims import standing_claim
from haulout.surfaces.profiles.passes.result import Config, Mode, Result
from haulout.surfaces.profiles.passes.statements import REPORTER, failure_statements, stored_statements
from haulout.surfaces.profiles.present import reasons
from haulout.surfaces.profiles.refusals import (
    Refused,
    Wish,
    name_of,
    refusal_statements,
    refused_write,
    with_outcome,
    withheld,
)
from haulout.surfaces.profiles.verbose_log import details
from haulout.surfaces.profiles.wire import (
    DATA_ANNOTATION,
    NEVER,
    PROFILE_LABEL,
    STATE_LABEL,
    SURFACE,
    DataError,
    Entry,
    MaintenanceData,
    State,
    attached_profiles,
    is_canonical,
    parse_data,
    stamp,
    write_data,
)

replace = msgspec.structs.replace

# The name of the configuration row with the `Mode` of the surface.
MODE = "profiles-mode"
KERNEL_REPORTER = "haulout"
MOST_SHOWN = 60
KNOWN_STATES = frozenset(state.value for state in State)


def decide(key: Key, view: View, now: datetime) -> Decision:
    node = view.get(key, NodeRow)
    if node is None:
        return farewell(key, view)
    setting = view.config(SURFACE)
    if setting is None or setting.value is None:
        return Decision(claims=_held(node), reasons=(_invalid(key, setting),))
    try:
        stored = parse_data(node.annotations.get(DATA_ANNOTATION))
    except DataError as error:
        return _unreadable(node, error)
    assert isinstance(setting.value, Configuration)
    config: Config = setting.value
    names = attached_profiles(node.labels.get(PROFILE_LABEL))
    attached = attach(stored, names, config, now)
    mode = mode_of(view)
    (draft, data, results), claims = _pass(config, view, now, node, attached, names, mode, granted=lambda claim: False)
    granted = {claim for claim in claims if not claim.begun and is_granted(view, SURFACE, claim)}
    # The first pass runs without grants, because claims must not depend on grants. With grants, a second pass follows.
    if granted:
        (draft, data, results), _ = _pass(config, view, now, node, attached, names, mode, granted=granted.__contains__)
    wishes = _wishes(results)
    held = withheld(view, key, wishes, now)
    if held.profiles:
        again = Pass(config, view, now, granted.__contains__, mode, held.profiles)
        draft, data, results = again.run(node, attached, names)
        wishes = _wishes(results)
    shuffles = _shuffles(view, node, results, mode)
    more: tuple[Statement, ...] = details(node, results, view)
    odd: tuple[Reason, ...] = ()
    if not mode.alone:
        draft = without_empty_entry(draft, view, claims)
        if is_lifted(node, claims):
            more, odd = (*more, *uncordon_statements(key)), (Reason("uncordoned", key, LIFTED),)
    edits = _edits(node, stored, draft, data, results, config)
    stored_as = name_of(key, wishes) if edits else ""
    rest = refused_write(view, stored_as, now) if edits else None
    refusals = [each for each in (*held.profiles.values(), rest) if each is not None]
    more = (*more, *_odd_ones(node, names, config))
    until = earliest(held.until, rest.until if rest is not None else None)
    marks: list[Row] = []
    for result in results:
        until = earliest(until, result.until)
        marks += result.marks
    return Decision(
        actions=_actions(key, with_outcome(edits, stored_as), results, shuffles, more, refusals),
        claims=claims,
        until=until,
        marks=(*marks, *failing_marks(view, key, results, now)),
        reasons=(*_reasons(node, results, names, config, view), *odd) if view.explaining else (),
    )


def pass_over(key: Key, view: View, now: datetime) -> tuple[NodeRow, Config, list[Result]] | None:
    """Return the results of a pass over a node at this instant, without acting on them."""
    node, setting = view.get(key, NodeRow), view.config(SURFACE)
    if node is None or setting is None or setting.value is None:
        return None
    assert isinstance(setting.value, Configuration)
    config: Config = setting.value
    names = attached_profiles(node.labels.get(PROFILE_LABEL))
    try:
        attached = attach(parse_data(node.annotations.get(DATA_ANNOTATION)), names, config, now)
    except DataError:
        return node, config, []
    # A profile that waits for a grant stays in its state.
    granted = partial(is_granted, view, SURFACE)
    (_, _, results), _ = _pass(config, view, now, node, attached, names, mode_of(view), granted=granted)
    held = withheld(view, key, _wishes(results), now)
    if held.profiles:
        _, _, results = Pass(config, view, now, granted, mode_of(view), held.profiles).run(node, attached, names)
    rest = refused_write(view, name_of(key, _wishes(results)), now)
    return node, config, results if rest is None else [_stayed(result, rest) for result in results]


def _stayed(result: Result, refused: Refused) -> Result:
    """Return the result of a profile that would move, changed to staying in its state with the refusal as its error."""
    return msgspec.structs.replace(result, next=result.state, error=refused.error) if result.moved else result


def _wishes(results: list[Result]) -> list[Wish]:
    return [Wish(result.profile, result.changes) for result in results if result.changes]


def mode_of(view: View) -> Mode:
    """Return the mode in which the process serves the surface; by default that of the original."""
    setting = view.config(MODE)
    return setting.value if setting is not None and isinstance(setting.value, Mode) else Mode()


def attach(data: MaintenanceData, names: tuple[str, ...], config: Config, now: datetime) -> MaintenanceData:
    """Return the entries of attached profiles.

    A new profile starts as operational. An entry of an unknown profile stays. Entries of detached profiles are removed.
    """
    entries = {name: entry for name, entry in data.profiles.items() if name in names}
    for name in names:
        if name not in entries and name in config.profiles:
            entries[name] = Entry(stamp(now), State.OPERATIONAL, State.OPERATIONAL)
    return MaintenanceData(entries, data.notifications)


def state_label(entries: Mapping[str, Entry], names: tuple[str, ...], config: Config) -> State | None:
    """Return the most serious state of the configured profiles; None if one of them is in an unknown state."""
    states = {entries[name].current for name in names if name in config.profiles and name in entries}
    if State.IN_MAINTENANCE in states:
        return State.IN_MAINTENANCE
    if State.REQUIRED in states:
        return State.REQUIRED
    return State.OPERATIONAL if states <= KNOWN_STATES else None


Passed = tuple[NodeRow, MaintenanceData, list[Result]]


def _pass(
    config: Config,
    view: View,
    now: datetime,
    node: NodeRow,
    data: MaintenanceData,
    names: tuple[str, ...],
    mode: Mode,
    granted: Callable[[Claim], bool],
) -> tuple[Passed, tuple[Claim, ...]]:
    outcome = Pass(config, view, now, granted, mode).run(node, data, names)
    claims: list[Claim] = []
    for name, entry in data.profiles.items():
        if entry.current == State.IN_MAINTENANCE and name in config.profiles:
            enter = config.profiles[name].stages[State.IN_MAINTENANCE].enter
            claims.append(standing_claim(node, name, entry, enter))
    for result in outcome[2]:
        claims += result.claims
    return outcome, tuple(claims)


def _edits(
    node: NodeRow,
    stored: MaintenanceData,
    draft: NodeRow,
    data: MaintenanceData,
    results: list[Result],
    config: Config,
) -> tuple[NodeEdit, ...]:
    """Return all edits of the node. `stored`: the data in its annotation. `data`: those after the pass."""
    # A trigger may have changed the profile label. A newly attached profile gets its entry in the next pass.
    names = attached_profiles(draft.labels.get(PROFILE_LABEL))
    state = state_label(data.profiles, names, config)
    # Most decisions change nothing. Then the text of the annotation need not be written to be compared.
    if (
        draft is node
        and data == stored
        and (state is None or node.labels.get(STATE_LABEL) == state)
        and STARTED_ANNOTATION not in node.annotations
        and is_canonical(node.annotations.get(DATA_ANNOTATION))
    ):
        return ()
    draft = msgspec.structs.replace(
        draft,
        labels={**draft.labels, STATE_LABEL: state.value} if state is not None else draft.labels,
        annotations={**draft.annotations, DATA_ANNOTATION: write_data(data)},
    )
    edits = cordon.wishes_between(node, _without_ended_drains(draft, results, names), SURFACE)
    if not all(map(_is_returning, results)):
        return edits
    return tuple(replace(edit, disrupts=False) if isinstance(edit, Label | Annotate) else edit for edit in edits)


def _is_returning(result: Result) -> bool:
    """Whether a profile only gives the node back, which a pause does not hold back."""
    return result.next == State.OPERATIONAL or not (result.changes or result.writes)


def _writes(result: Result) -> Iterator[Write]:
    for write in result.writes:
        is_marked = isinstance(write, Evict | Finalize | Cordon | SetTaint) or not _is_returning(result)
        yield write if is_marked else replace(write, disrupts=False)


def _actions(
    key: Key,
    edits: tuple[NodeEdit, ...],
    results: list[Result],
    shuffles: tuple[Statement, ...],
    more: tuple[Statement, ...],
    refusals: list[Refused],
) -> tuple[Step, ...]:
    """Return the steps: writes to other objects, one patch of the node, then other statements and messages.

    Other objects are written first: if the patch of the node then fails, the node is decided about again with what is
    stored. Only refusals are reported before, because the next patch may be refused as well.
    """
    writes: list[Action] = []
    stored: list[Action] = []
    blamed: list[Action] = []
    failures: list[Action] = []
    says: list[Action] = []
    sends: list[Action] = []
    for result in results:
        if result.writes:
            writes += _writes(result)
        says += result.says
        sends += result.sends
        if result.moved or result.pulled:
            stored += stored_statements(result)
        if result.failure:
            (failures if result.refused is None else blamed).extend(failure_statements(result))
    steps: list[Step] = []
    if refusals:
        steps.append((*refusal_statements(key, refusals), *blamed))
    if writes:
        steps.append(tuple(writes))
    if edits:
        steps.append((*edits, *stored, *shuffles))
    if failures or says or more:
        steps.append((*failures, *says, *more))
    if prepared := _prepared(results):
        steps.append(prepared)
    # Messages are sent after the state is stored. Otherwise they would be sent again if the patch failed.
    if sends:
        steps.append(tuple(sends))
    return tuple(steps)


def _odd_ones(node: NodeRow, names: tuple[str, ...], config: Config) -> tuple[Statement, ...]:
    """Return statements about unknown profiles in the label and annotations that cannot be read."""
    found: list[Statement] = []
    for name in names:
        # Two separators in a row give an empty name, which needs no event.
        if name and name not in config.profiles:
            found.append(_unknown(node.key, name))
    for annotation, note in misread(node).items():
        found += _odd(node.key, annotation, note)
    return tuple(found)


def _shuffles(view: View, node: NodeRow, results: list[Result], mode: Mode) -> tuple[Statement, ...]:
    """Return the counts of the node's pods for each profile that enters maintenance now, before a drain."""
    if not mode.counts:
        return ()
    entered = [result.profile for result in results if result.moved and result.next == State.IN_MAINTENANCE]
    return tuple(each for name in entered for each in measures(view, node, name))


def _without_ended_drains(draft: NodeRow, results: list[Result], names: tuple[str, ...]) -> NodeRow:
    """Return the node without the start times of drains of profiles that have moved on or are detached."""
    moved = {result.profile for result in results if result.moved}
    since = start_times(draft)
    kept = {name: at for name, at in since.items() if name in names and name not in moved}
    return draft if kept == since else with_start_times(draft, kept)


def _prepared(results: list[Result]) -> tuple[Write, ...]:
    """Return the writes that checks prepare: one for each object, and none for an object that is written anyway."""
    prepared: list[Write] = []
    for result in results:
        for judged in result.judged:
            for verdict in judged.verdicts.values():
                prepared += verdict.prepare
    if not prepared:
        return ()
    written = {write.target for result in results for write in result.writes}
    first: dict[Key, Write] = {}
    for write in prepared:
        if write.target not in written:
            first.setdefault(write.target, write)
    return tuple(first.values())


def _unknown(key: Key, name: str) -> Statement:
    note = f"The node asks for profile {name}, which is not configured"
    return Tell(key, "UnknownMaintenanceProfile", "AttachProfile", note, REPORTER, warning=True)


def misread(node: NodeRow) -> dict[str, str]:
    """Return the problems of annotations that people write, by name. Such an annotation counts as absent."""
    odd: dict[str, str] = {}
    if read_priority(node.annotations) is None:
        odd[PRIORITY_ANNOTATION] = "it counts as 0 (a whole number would be right)"
    if CORDON_ANNOTATION in node.annotations and ledger(node) is None:
        odd[CORDON_ANNOTATION] = 'it counts as absent ({"before":false,"by":[]} would be right)'
    if not odd:
        return odd
    texts = {name: node.annotations[name] for name in odd}
    texts = {name: text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..." for name, text in texts.items()}
    return {name: f'The annotation {name} is "{texts[name]}": {consequence}' for name, consequence in odd.items()}


def _odd(key: Key, annotation: str, note: str) -> tuple[Statement, ...]:
    fields = (("node", key.name), ("annotation", annotation), ("error", note))
    return (
        Tell(key, "AnnotationInvalid", "ReadAnnotation", note, KERNEL_REPORTER, warning=True),
        Say("annotation cannot be read", fields, "warning"),
    )


def _reasons(
    node: NodeRow, results: list[Result], names: tuple[str, ...], config: Config, view: View
) -> tuple[Reason, ...]:
    odd = (Reason("annotation-invalid", node.key, note) for note in misread(node).values())
    return (*reasons(node, results, names, config, view), *odd)


def _invalid(key: Key, setting: Value | None) -> Reason:
    problem = setting.error if setting is not None else "it has not been read yet"
    return Reason("config-invalid", key, f"nothing is done while the configuration is invalid: {problem}")


def _held(node: NodeRow) -> tuple[Claim, ...]:
    """Return the claims of a node in maintenance when nothing can be decided, so that no other surface takes the node.

    If the data annotation cannot be read, the state label is used.
    """
    names = attached_profiles(node.labels.get(PROFILE_LABEL))
    try:
        entries = parse_data(node.annotations.get(DATA_ANNOTATION)).profiles
    except DataError:
        state = node.labels.get(STATE_LABEL, "")
        entries = {name: Entry(NEVER, state, state) for name in names[:1]}
    return tuple(
        standing_claim(node, name, entry, ())
        for name, entry in entries.items()
        if entry.current == State.IN_MAINTENANCE and name in names
    )


def _unreadable(node: NodeRow, error: DataError) -> Decision:
    key = node.key
    note = f"{error}; the node is left alone until {DATA_ANNOTATION} is repaired or removed"
    event = Tell(key, "MaintenanceDataInvalid", "ParseMaintenanceData", note, REPORTER, warning=True)
    line = Say("Failed to reconcile. Skipping node patching.", (("node", key.name), ("error", str(error))), "error")
    return Decision(actions=((event, line),), claims=_held(node), reasons=(Reason("data-invalid", key, note),))
