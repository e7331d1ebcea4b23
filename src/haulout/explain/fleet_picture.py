"""Draws a fleet as text for a terminal: nodes as rows of marks, budgets, maintenances and causes, cut to its size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from textwrap import wrap

from haulout.base.spans import span_text
from haulout.core.declaration import Rollout
from haulout.explain.codes import is_failure
from haulout.explain.fleet import (
    CORDONED,
    DRAINING,
    IN_SERVICE,
    NOT_READY,
    OUT,
    RETURNING,
    STATES,
    WAITING,
    BudgetState,
    Cause,
    Failure,
    Fleet,
    HandCordon,
    NodeState,
    Work,
)
from haulout.explain.installation import Installation, Webhook
from haulout.explain.kinds import not_served_text
from haulout.explain.operators import UNKNOWN, OperatorState, operator_lines
from haulout.explain.overrides import override_lines
from haulout.explain.pauses import pause_lines
from haulout.explain.until_text import until_text
from haulout.model.meta import wire_time

# One letter each, so that no two states differ by colour alone.
MARKS = {IN_SERVICE: ".", WAITING: "w", DRAINING: "d", OUT: "M", RETURNING: "r", CORDONED: "c", NOT_READY: "!"}
NO_GROUP = "(no group)"
HELP = "    what would help"
CAUSES, FAILED = "what waits, by cause", "failed"
# One line, a maintenance that is printed as one line, or several lines that are shown or left out together.
Item = str | Work | list[str]


def fleet_lines(fleet: Fleet, width: int, height: int | None = None, operator: OperatorState = UNKNOWN) -> list[str]:
    """Return the lines that show a fleet.

    `operator`: whether an operator leads. If none does, that comes first, and maintenances are shown as standing still.
    `height`: the number of lines of the terminal. Items that do not fit are counted instead, and long lines are cut.
    Without it everything is shown, and long lines are wrapped.
    """
    firsts = (
        *operator_lines(operator, fleet.at),
        *pause_lines(fleet.pauses, fleet.at),
        *override_lines(fleet.overrides, fleet.at),
    )
    leads = [part for line in firsts for part in _wrapped(line, width, indent="    ")]
    whole = [*leads, *_not_served(fleet, width), *_incomplete(fleet, width), *_heading(fleet)]
    # There may be thousands of maintenances, so only those that are shown become text.
    sections: list[tuple[str, Sequence[Item]]] = [
        ("", list(_groups(fleet.nodes, width))),
        (FAILED, [list(_failure(each, width)) for each in fleet.failures]),
        (CAUSES, [list(_cause(each, fleet.at, width)) for each in fleet.causes if not is_failure(each.code)]),
        ("budgets", [_budget(each, fleet.at) for each in fleet.budgets]),
        ("rollouts", [_rollout(each) for each in fleet.rollouts]),
        ("maintenances", fleet.works),
        ("cordoned by hand", [_cordon(each) for each in fleet.cordons]),
    ]
    kept = [(title, items) for title, items in sections if items]
    room = None if height is None else height - len(whole) - sum(bool(title) + 1 for title, _ in kept)
    lengths = [sum(map(_length, items)) for _, items in kept]
    # Failures and causes name the actions that help. They get more lines than other sections.
    weights = [3 if title in (CAUSES, FAILED) else 1 for title, _ in kept]
    for (title, items), most in zip(kept, _shares(lengths, weights, room), strict=True):
        texts = (line for item in _folded(items, most) for line in _lines(item, fleet.at, operator))
        whole += ["", *([f"{title}:"] if title else []), *texts]
    return [cut(line, width) for line in whole] if height is not None else wrapped_lines(whole, width)


def wrapped_lines(lines: Iterable[str], width: int) -> list[str]:
    """Return the lines, with long ones wrapped and their continuations indented."""
    return [part for line in lines for part in ([line] if len(line) <= width else _wrapped(line, width, indent="    "))]


def installation_summary(found: Installation) -> list[str]:
    """Return one line about the installation: version, surfaces, leader, replicas and the last error."""
    lines = [f"haulout {found.version}; surfaces: {', '.join(found.surfaces) or 'none'}"]
    # That no operator runs is said first, with what to do.
    leader = "no leader" if found.operator.stands_still and not found.leader else f"leader: {found.leader or 'unknown'}"
    lines.append(f"{leader}; {_replicas(found)}")
    return [*lines, f"last error: {found.last_error}"] if found.last_error else lines


def _replicas(found: Installation) -> str:
    if found.replicas:
        return f"replicas: {sum(replica.ready for replica in found.replicas)} of {len(found.replicas)} ready"
    # A right that is missing is named in the lines about what could not be read.
    return "replicas: unknown" if any(" pods" in text for text in found.unread) else "no pods in this cluster"


def installation_lines(found: Installation, now: datetime) -> list[str]:
    """Return the lines about the installation, one fact each."""
    lines = installation_summary(found)
    if found.settings:
        lines.append(f"settings: {found.settings}")
    if found.missing_definitions:
        lines.append(not_served_text(found.missing_definitions))
    lines += [f"webhook {each.name}: {_trust(each, now)}" for each in found.webhooks]
    if found.roles:
        lines.append(f"roles: {', '.join(found.roles)}")
    return [*lines, *(f"not read: {each}" for each in found.unread)]


def _trust(webhook: Webhook, now: datetime) -> str:
    """Say whether the API server can trust a webhook's certificate, and for how long."""
    if not webhook.has_authority:
        return "trusts no certificate yet"
    parts = [f"its certificate {_end(webhook.certificate_ends_at, now)}"] if webhook.certificate_ends_at else []
    known = webhook.authority_ends_at
    return ", ".join([*parts, f"its authority {_end(known, now)}" if known else "its authority cannot be read"])


def _end(ends_at: datetime, now: datetime) -> str:
    return "has ended" if ends_at <= now else f"ends in {span_text(ends_at - now)}"


def _heading(fleet: Fleet) -> Iterator[str]:
    counts = Counter(node.state for node in fleet.nodes)
    parts = [f"{counts[state]} {state} ({MARKS[state]})" for state in STATES if counts[state]]
    yield f"{len(fleet.nodes)} nodes: {', '.join(parts) or 'none'}"


def _cordon(cordon: HandCordon) -> str:
    by = f" (by {cordon.by}{f', {wire_time(cordon.at)}' if cordon.at is not None else ''})" if cordon.by else ""
    return f"{cordon.node}: {cordon.reason or 'no reason is noted'}{by}"


def _not_served(fleet: Fleet, width: int) -> Iterator[str]:
    if fleet.not_served:
        yield from _wrapped(not_served_text(fleet.not_served), width, indent="    ")


def _incomplete(fleet: Fleet, width: int) -> Iterator[str]:
    if fleet.incomplete:
        yield "INCOMPLETE, this could not be read:"
        for text in fleet.incomplete:
            yield from wrap(text, width, initial_indent="  ", subsequent_indent="    ")


def _groups(nodes: Iterable[NodeState], width: int) -> Iterator[str]:
    groups: dict[str, list[NodeState]] = {}
    for node in nodes:
        groups.setdefault(node.group or NO_GROUP, []).append(node)
    wide = max((len(name) for name in groups), default=0)
    for name, members in sorted(groups.items()):
        marks = "".join(MARKS[node.state] for node in members)
        out = sum(node.state not in (IN_SERVICE, WAITING) for node in members)
        head = f"{name:<{wide}}  {out}/{len(members)} out  "
        room = max(width - len(head), 8)
        yield head + (marks if len(marks) <= room else _summary(members))


def _summary(members: Sequence[NodeState]) -> str:
    counts = Counter(node.state for node in members)
    return " ".join(f"{MARKS[state]}x{counts[state]}" for state in STATES if counts[state])


def _budget(budget: BudgetState, now: datetime) -> str:
    if budget.problems:
        return f"{budget.name}: invalid: {'; '.join(budget.problems)}"
    most = (
        "any number may be out"
        if budget.allowed is None
        else f"{budget.used} of {budget.allowed} out, {budget.places_left} left"
    )
    opening = until_text("window-closed", budget.next_opening, now)
    return f"{budget.name}: {most}{opening}"


def _rollout(rollout: Rollout) -> str:
    return f"{rollout.object}: {rollout.state}, {rollout.done} of {rollout.total} nodes done, {rollout.at_work} at work"


def _work(work: Work, now: datetime, still: str) -> str:
    """Return a maintenance as one line. `still`: in words, that it stands still; empty if it does not."""
    parts = [f"{work.node}: {work.state} for {work.surface} {work.object}", *([still] if still else [])]
    if work.since is not None:
        parts.append(f"for {span_text(now - work.since)}")
    if work.pods_left:
        parts.append(f"{work.pods_left} pod{'s' if work.pods_left > 1 else ''} to go")
    if work.ends_at is not None:
        parts.append(f"last grace period ends in {span_text(work.ends_at - now)}")
    if work.waits_for:
        parts.append(
            f"waits: {work.waits_for[0]}" + (f" (and {len(work.waits_for) - 1} more)" if work.waits_for[1:] else "")
        )
    return ", ".join(parts)


def _failure(failure: Failure, width: int) -> Iterator[str]:
    """Yield the lines about something that has failed: where, why, and the action that helps."""
    where = failure.node or failure.object
    yield from _wrapped(f"{where}: {failure.text}", width, indent="    ")
    if failure.act:
        yield from _wrapped(f"{HELP}: {failure.act}", width, indent="        ")


def _cause(cause: Cause, now: datetime, width: int) -> Iterator[str]:
    until = until_text(cause.code, cause.until, now)
    text = f"{cause.text or cause.code}{until}"
    # What has no node is about an object as a whole.
    text = f"{len(cause.nodes)} x {text}: {_names(cause.nodes)}" if cause.nodes else text
    yield from _wrapped(text, width, indent="    ")
    if cause.act:
        # If all others wait for one node, the words "the node" in the act mean that one.
        is_named = {*cause.at} >= {*cause.nodes} or not {*cause.at}.isdisjoint(cause.act.split())
        where = f" on {_names(cause.at)}" if cause.at and not is_named else ""
        yield from _wrapped(f"{HELP}{where}: {cause.act}", width, indent="        ")


def _names(nodes: Sequence[str]) -> str:
    return ", ".join(nodes[:3]) + (f" and {len(nodes) - 3} more" if len(nodes) > 3 else "")


def _wrapped(text: str, width: int, indent: str) -> list[str]:
    return wrap(text, width, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False)


def _length(item: Item) -> int:
    return len(item) if isinstance(item, list) else 1


def _lines(item: Item, now: datetime, operator: OperatorState) -> list[str]:
    match item:
        case Work():
            is_served = item.surface not in operator.not_served
            return [_work(item, now, operator.still_text or ("" if is_served else "standing still"))]
        case list():
            return item
        case _:
            return [item]


def _shares(lengths: Sequence[int], weights: Sequence[int], room: int | None) -> list[int]:
    """Return how many lines each section gets: as many as it has, or a share of `room` by its weight, at least one."""
    if room is None or sum(lengths) <= room:
        return list(lengths)
    shares = [1] * len(lengths)
    spare = max(room - len(lengths), 0)
    while spare > 0 and any(share < length for share, length in zip(shares, lengths, strict=True)):
        for index, (length, weight) in enumerate(zip(lengths, weights, strict=True)):
            more = min(weight, length - shares[index], spare)
            shares[index] += more
            spare -= more
    return shares


def _folded(items: Sequence[Item], most: int) -> list[Item]:
    """Return the items that fit into `most` lines, and a line that counts the others. The first may be shown in part."""
    if len(items) <= most and sum(map(_length, items)) <= most:
        return list(items)
    kept: list[Item] = []
    room = most - 1
    for item in items[: max(room, 0)]:
        if _length(item) > room:
            break
        kept.append(item)
        room -= _length(item)
    rest = f"{len(items) - len(kept)} more"
    if not kept and room > 0 and isinstance(items[0], list):
        # The action that helps is worth more than the end of a long text.
        first = items[0]
        act = [line for line in first if line.startswith(HELP)][:1]
        kept.append([*first[: max(room - len(act), 1)], *act] if room > 1 else first[:room])
        rest = f"the rest of it and {len(items) - 1} more" if len(items) > 1 else "the rest of it"
    return [*kept, f"... and {rest} (-o json has all)"]


def cut(line: str, width: int) -> str:
    """Cut a line to the width of the terminal, with dots at its end."""
    return line if len(line) <= width else f"{line[: width - 3]}..."
