"""What `haulout explain` says of a node, gathered from a kernel at rest and written for people or for programs."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from haulout.base.duration import to_text
from haulout.cluster.key import Key
from haulout.cluster.rows import NodeRow
from haulout.core.cordon import ledger
from haulout.core.holds import HOLDS_OF_NODE, Grant, Hold, grant_key
from haulout.core.reason import Reason, roots
from haulout.runtime.kernel import Kernel
from haulout.runtime.rooms import Subject

# What goes needs nothing more, and an annotation that is not understood keeps nothing.
GOES, ODD = "goes", "annotation-invalid"


class Holding(msgspec.Struct, frozen=True):
    """Who wants something of the node, since when, and whether it has it."""

    surface: str
    slot: str
    since: datetime
    wants: tuple[str, ...]
    begun: bool
    granted: bool


class Explanation(msgspec.Struct, frozen=True):
    node: str
    flags: tuple[str, ...]
    cordon: str
    holds: tuple[Holding, ...]
    reasons: tuple[Reason, ...]


def explain(kernel: Kernel, surface: str, key: Key, now: datetime) -> Explanation | None:
    """None: there is no such node."""
    row = kernel.store.row(key)
    if not isinstance(row, NodeRow):
        return None
    flags = (("cordoned", row.unschedulable), ("not ready", not row.ready), ("being deleted", bool(row.deleting_at)))
    rows = kernel.store.bucket(HOLDS_OF_NODE, key.cluster, key)
    holds = sorted(
        (hold for hold in rows if isinstance(hold, Hold)), key=lambda hold: (not hold.claim.begun, hold.rank)
    )
    return Explanation(
        node=key.name,
        flags=tuple(word for word, applies in flags if applies),
        cordon=_cordon(row),
        holds=tuple(_holding(kernel, hold) for hold in holds),
        reasons=kernel.loop.explain(Subject(surface, key), now).reasons,
    )


def as_text(found: Explanation, now: datetime) -> str:
    lines = [f"node {found.node}" + (f" ({', '.join(found.flags)})" if found.flags else "")]
    if found.cordon:
        lines.append(f"  {found.cordon}")
    lines += [f"  {_held(hold)}" for hold in found.holds]
    for reason in found.reasons:
        lines += _tree(reason, now, "  ")
    if keeping := _keeping(found.reasons):
        lines += ["what keeps it:", *(f"  {_line(root, now)}" for root in keeping)]
    return "\n".join(lines)


def as_json(found: Explanation) -> str:
    body = {
        "node": found.node,
        "flags": found.flags,
        "cordon": found.cordon,
        "holds": found.holds,
        "reasons": [_plain(reason) for reason in found.reasons],
    }
    return msgspec.json.format(msgspec.json.encode(body), indent=2).decode()


def _keeping(reasons: Iterable[Reason]) -> list[Reason]:
    """The ends of all chains of those trees in which nothing goes."""
    ends = [roots(reason) for reason in reasons if reason.code != ODD]
    stuck = [found for found in ends if not any(root.code == GOES for root in found)]
    return list(dict.fromkeys(root for found in stuck for root in found))


def _holding(kernel: Kernel, hold: Hold) -> Holding:
    claim, grant = hold.claim, kernel.store.row(grant_key(hold.key))
    return Holding(
        surface=hold.surface,
        slot=claim.slot,
        since=claim.since,
        wants=tuple(sorted(want.value for want in claim.wants)),
        begun=claim.begun,
        granted=isinstance(grant, Grant) and grant.granted,
    )


def _cordon(row: NodeRow) -> str:
    entry = ledger(row)
    if entry is None:
        return ""
    by = ", ".join(entry.by) or "those who hold it"
    return f"cordoned by {by}; it was {'cordoned' if entry.before else 'schedulable'} before"


def _held(hold: Holding) -> str:
    who = f"{hold.surface}, {hold.slot}" if hold.slot else hold.surface
    if hold.begun:
        return f"held by {who}, since {_instant(hold.since)}"
    return f"wanted by {who}: {'granted' if hold.granted else 'waits'}"


def _tree(reason: Reason, now: datetime, indent: str) -> list[str]:
    lines = [f"{indent}{_line(reason, now)}"]
    for cause in reason.because:
        lines += _tree(cause, now, f"{indent}  ")
    return lines


def _line(reason: Reason, now: datetime) -> str:
    text = reason.text or reason.code
    if reason.until is None:
        return text
    left = max(reason.until - now, timedelta(0))
    return f"{text}, until {_instant(reason.until)} (in {to_text(timedelta(seconds=round(left.total_seconds())))})"


def _instant(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def _plain(reason: Reason) -> dict[str, Any]:
    plain: dict[str, Any] = {"code": reason.code, "text": reason.text}
    if reason.until is not None:
        plain["until"] = reason.until
    if reason.because:
        plain["because"] = [_plain(cause) for cause in reason.because]
    return plain
