"""What is said about an object that is being deleted: since when, which finalizer holds it, and what to do."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache

import msgspec

from haulout.base.spans import span_text
from haulout.cluster.rows import ObjectRow, Row
from haulout.core.declaration import Declaration
from haulout.core.reason import Course, Reason, roots
from haulout.core.remains import OWN_PREFIX
from haulout.explain.codes import course_of
from haulout.surfaces.registry import all_declarations

DELETING, HELD = "deleting", "deletion-held"
# The finalizers with which the API server waits for the objects that an object owns.
DEPENDENTS = {"foregroundDeletion": "deleted", "orphan": "released"}


def is_deleting(row: Row | None) -> bool:
    """Whether an object is being deleted."""
    return isinstance(row, ObjectRow) and row.deleting_at is not None


def deletion_of(declaration: Declaration, row: Row, causes: tuple[Reason, ...], now: datetime) -> Reason | None:
    """Return what the deletion of an object waits for; None if it is not being deleted.

    Objects of kinds that the surface only watches are left to its own reasons. `causes`: those of its decision.
    """
    if not isinstance(row, ObjectRow) or row.deleting_at is None or not _is_brought(declaration, row):
        return None
    at = row.deleting_at
    since = f"since {at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC ({span_text(now - at)})"
    named = f"{row.key.kind} {f'{row.key.namespace}/' if row.key.namespace else ''}{row.key.name}"
    text = f"{named} is being deleted {since}"
    foreign = tuple(name for name in row.finalizers if not _is_ours(name))
    if len(foreign) == len(row.finalizers) and foreign:
        word = "finalizer" if len(foreign) == 1 else "finalizers"
        verb = "holds" if len(foreign) == 1 else "hold"
        return Reason(HELD, row.key, f"{text}: {word} {', '.join(foreign)} {verb} it", act=_act(row, foreign[0]))
    blocked = tuple(each for each in causes if any(course_of(end.code) is Course.BLOCKED for end in roots(each)))
    return Reason(DELETING, row.key, f"{text}: the operator ends its work first", because=blocked)


def _is_brought(declaration: Declaration, row: Row) -> bool:
    """Whether Haulout brings the definition of an object's kind."""
    return any(kind.kind == row.key.kind and kind.plural in _definitions() for kind in declaration.kinds)


@cache
def _definitions() -> frozenset[str]:
    return frozenset(plural for each in all_declarations() for plural in each.crds)


def _act(row: ObjectRow, finalizer: str) -> str:
    if finalizer in DEPENDENTS:
        return f"wait until the objects that it owns are {DEPENDENTS[finalizer]}, or delete them"
    where = f"/metadata/finalizers/{row.finalizers.index(finalizer)}"
    # The test keeps the command from removing another finalizer if the list has changed since.
    body = [{"op": "test", "path": where, "value": finalizer}, {"op": "remove", "path": where}]
    namespace = f" -n {row.key.namespace}" if row.key.namespace else ""
    command = f"kubectl patch {row.key.kind.lower()}{namespace} {row.key.name} --type=json"
    patch = msgspec.json.encode(body).decode()
    return f"repair the program that removes finalizer {finalizer}; if it is gone: {command} -p '{patch}'"


def _is_ours(finalizer: str) -> bool:
    return finalizer.startswith(OWN_PREFIX) or finalizer in _own()


@cache
def _own() -> frozenset[str]:
    """Return the finalizers that surfaces set."""
    marked = (kind for each in all_declarations() for kind in each.remains.marked)
    return frozenset(name for kind in marked for name in kind.finalizers)
