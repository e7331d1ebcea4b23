"""Finds out which client cordoned a node without a ledger, and when, from the managed fields of the Node."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from haulout.base.spans import span_text
from haulout.cluster.key import Key
from haulout.cluster.rows import NodeRow
from haulout.core.cordon import ANNOTATION, CORDON_REASON
from haulout.core.logbook.wire import LONGEST_REASON
from haulout.core.reason import Reason
from haulout.model.meta import FIELD_MANAGER

CODE = "cordoned-by-hand"

UNKNOWN = "cordoned by hand: no surface of Haulout did it, and its managedFields do not say who did"


def has_foreign_cordon(node: NodeRow) -> bool:
    """Whether a node that no surface claims was cordoned by a person or another program: no ledger remembers a surface."""
    # An operator that serves one surface alone keeps no ledger.
    is_ours = node.cordon_managers == (FIELD_MANAGER,)
    return node.unschedulable and ANNOTATION not in node.annotations and not is_ours


def act_of(node: Key) -> str:
    """Return what a person can do about a node that was cordoned by hand."""
    return f"kubectl uncordon {node.name} (once the work on it is done)"


def cordon_reason(node: NodeRow) -> Reason:
    """Return why a node is out of service that a person or another program cordoned."""
    by = f" (with {', '.join(node.cordon_managers)})" if node.cordon_managers else ""
    return Reason(CODE, node.key, f"it was cordoned by hand{by}: no maintenance holds it", act=act_of(node.key))


def cordon_text(node: Mapping[str, Any], now: datetime) -> str:
    """Say which client cordoned a node, as the API server notes it, and why, if that is noted. `node`: the object whole, as JSON."""
    text = _author(node, now)
    reason = ((node.get("metadata") or {}).get("annotations") or {}).get(CORDON_REASON)
    return f"{text}: {' '.join(str(reason)[:LONGEST_REASON].split())}" if reason else text


def _author(node: Mapping[str, Any], now: datetime) -> str:
    noted = (node.get("metadata") or {}).get("managedFields") or ()
    owners = [each for each in noted if isinstance(each, Mapping) and _owns_cordon(each)]
    if not owners:
        return UNKNOWN
    newest = max(owners, key=lambda each: str(each.get("time") or ""))
    manager = newest.get("manager")
    # An operator that serves one surface alone keeps no ledger.
    is_ours = manager == FIELD_MANAGER
    text = (
        "cordoned by an operator of Haulout"
        if is_ours
        else f"cordoned by hand, with {manager or 'a client without a name'}"
    )
    try:
        at = datetime.fromisoformat(str(newest.get("time"))).astimezone(UTC)
    except ValueError:
        return text
    # The managed-fields entry says when this client changed the node last, which may be after the cordon.
    return f"{text}, by {at:%Y-%m-%d %H:%M:%S} UTC ({span_text(now - at)} ago)"


def _owns_cordon(noted: Mapping[str, Any]) -> bool:
    fields = noted.get("fieldsV1")
    spec = fields.get("f:spec") if isinstance(fields, Mapping) else None
    return isinstance(spec, Mapping) and "f:unschedulable" in spec
