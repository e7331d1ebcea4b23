"""A fleet for a terminal: groups of nodes as rows of marks, budgets, works, causes; folded where it does not fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from textwrap import wrap

from haulout.base.spans import span_text
from haulout.core.declaration import Rollout
from haulout.explain.fleet import (
    CORDONED,
    DRAINING,
    IN_SERVICE,
    NOT_READY,
    OUT,
    STATES,
    WAITING,
    BudgetState,
    Cause,
    Fleet,
    NodeState,
    Work,
)
from haulout.explain.installation import Installation, Webhook
from haulout.explain.kinds import not_served_text

# One letter each, so that no two states differ by colour alone.
MARKS = {IN_SERVICE: ".", WAITING: "w", DRAINING: "d", OUT: "M", CORDONED: "c", NOT_READY: "!"}
NO_GROUP = "(no group)"


def fleet_lines(fleet: Fleet, width: int, height: int | None = None) -> list[str]:
    """Return the picture of a fleet. `height`: how many lines there are; what does not fit is folded and counted."""
    whole = [*_not_served(fleet, width), *_incomplete(fleet, width), *_heading(fleet)]
    # Maintenances, of which there may be thousands, become text only where they are shown.
    sections: list[tuple[str, Sequence[str | Work]]] = [
        ("", list(_groups(fleet.nodes, width))),
        ("budgets", [_budget(each, fleet.at) for each in fleet.budgets]),
        ("rollouts", [_rollout(each) for each in fleet.rollouts]),
        ("maintenances", fleet.works),
        ("what waits, by cause", [line for cause in fleet.causes for line in _cause(cause, fleet.at, width)]),
    ]
    kept = [(title, lines) for title, lines in sections if lines]
    room = None if height is None else height - len(whole) - sum(bool(title) + 1 for title, _ in kept)
    for (title, lines), most in zip(kept, _shares([len(lines) for _, lines in kept], room), strict=True):
        texts = (_work(line, fleet.at) if isinstance(line, Work) else line for line in _folded(lines, most))
        whole += ["", *([f"{title}:"] if title else []), *texts]
    return [_cut(line, width) for line in whole]


def installation_lines(found: Installation, now: datetime) -> list[str]:
    """Return what is installed, one fact a line."""
    ready = sum(replica.ready for replica in found.replicas)
    lines = [f"haulout {found.version}; surfaces: {', '.join(found.surfaces) or 'none'}"]
    replicas = (
        f"replicas: {ready} of {len(found.replicas)} ready" if found.replicas else "it has no pods in this cluster"
    )
    lines.append(f"leader: {found.leader or 'none'}; {replicas}")
    if found.settings:
        lines.append(f"settings: {found.settings}")
    if found.missing_definitions:
        lines.append(f"definitions that are missing: {', '.join(found.missing_definitions)} (haulout crds prints them)")
    lines += [f"webhook {each.name}: {_trust(each, now)}" for each in found.webhooks]
    if found.roles:
        lines.append(f"roles: {', '.join(found.roles)}")
    if found.last_error:
        lines.append(f"last error: {found.last_error}")
    return [*lines, *(f"not read: {each}" for each in found.unread)]


def _trust(webhook: Webhook, now: datetime) -> str:
    """Return whether the API server can trust a webhook, and for how long."""
    if not webhook.has_authority:
        return "it trusts no certificate yet"
    parts = [f"its certificate {_end(webhook.certificate_ends_at, now)}"] if webhook.certificate_ends_at else []
    known = webhook.authority_ends_at
    return ", ".join([*parts, f"its authority {_end(known, now)}" if known else "its authority cannot be read"])


def _end(ends_at: datetime, now: datetime) -> str:
    return "has ended" if ends_at <= now else f"ends in {span_text(ends_at - now)}"


def _heading(fleet: Fleet) -> Iterator[str]:
    counts = Counter(node.state for node in fleet.nodes)
    parts = [f"{counts[state]} {state} ({MARKS[state]})" for state in STATES if counts[state]]
    yield f"{len(fleet.nodes)} nodes: {', '.join(parts) or 'none'}"


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
        else f"{budget.used} of {budget.allowed} out, {budget.left} left"
    )
    opening = f", closed, opens in {span_text(budget.next_opening - now)}" if budget.next_opening else ""
    return f"{budget.name}: {most}{opening}"


def _rollout(rollout: Rollout) -> str:
    return f"{rollout.object}: {rollout.state}, {rollout.done} of {rollout.total} nodes done, {rollout.at_work} at work"


def _work(work: Work, now: datetime) -> str:
    parts = [f"{work.node}: {work.state} for {work.surface} {work.object}"]
    if work.since is not None:
        parts.append(f"since {span_text(now - work.since)}")
    if work.pods_left:
        parts.append(f"{work.pods_left} pod{'s' if work.pods_left > 1 else ''} to go")
    if work.ends_at is not None:
        parts.append(f"last grace period ends in {span_text(work.ends_at - now)}")
    if work.waits_for:
        parts.append(
            f"waits: {work.waits_for[0]}" + (f" (and {len(work.waits_for) - 1} more)" if work.waits_for[1:] else "")
        )
    return ", ".join(parts)


def _cause(cause: Cause, now: datetime, width: int) -> Iterator[str]:
    names = ", ".join(cause.nodes[:3]) + (f" and {len(cause.nodes) - 3} more" if len(cause.nodes) > 3 else "")
    until = f", for another {span_text(cause.until - now)}" if cause.until is not None and cause.until > now else ""
    yield from _wrapped(f"{len(cause.nodes)} x {cause.text or cause.code}{until}: {names}", width, indent="    ")
    if cause.act:
        yield from _wrapped(f"    what would help: {cause.act}", width, indent="        ")


def _wrapped(text: str, width: int, indent: str) -> list[str]:
    return wrap(text, width, subsequent_indent=indent, break_on_hyphens=False)


def _shares(lengths: Sequence[int], room: int | None) -> list[int]:
    """Return how many lines each section gets: all of them, or a fair share of what there is, at least one."""
    if room is None or sum(lengths) <= room:
        return list(lengths)
    shares = [1] * len(lengths)
    spare = max(room - len(lengths), 0)
    while spare > 0 and any(share < length for share, length in zip(shares, lengths, strict=True)):
        for index, length in enumerate(lengths):
            if shares[index] < length and spare > 0:
                shares[index] += 1
                spare -= 1
    return shares


def _folded(lines: Sequence[str | Work], most: int) -> list[str | Work]:
    if len(lines) <= most:
        return list(lines)
    kept = max(most - 1, 0)
    return [*lines[:kept], f"... and {len(lines) - kept} more lines (-o json has all)"]


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else f"{line[: width - 3]}..."
