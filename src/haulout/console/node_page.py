"""What the console says about one object, from the settled kernel: the same explanation as `haulout explain` gives."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec

from haulout.cluster.indexes import PODS_OF_NODE
from haulout.cluster.key import Key, node_key
from haulout.cluster.rows import NodeRow, PodRow, Row
from haulout.cluster.store import Listing, Store
from haulout.cluster.view import NotListed, View
from haulout.console.documents import PodProgress
from haulout.core.declaration import Enabled
from haulout.core.drain.options import DRAINS_OF_NODE, DrainRow
from haulout.core.drain.progress import PodStanding, progress
from haulout.core.node_signs import shows_sign
from haulout.core.surface import Explained
from haulout.explain.cordons import cordon_text
from haulout.explain.documents import ExplanationDocument, explanation_document
from haulout.explain.node import Explanation, explain, explain_listed
from haulout.explain.operators import OperatorState
from haulout.explain.setup import Setup
from haulout.kernel.kernel import Kernel
from haulout.surfaces.registry import load, surface

IGNORED, RUNNING = "Ignored", "Running"


class NotFollowed(Exception):
    """Raised for an object whose kind the console does not follow. Its text says what to do instead."""


def explained_node(
    kernel: Kernel, setup: Setup, name: str, whole: dict[str, Any], operator: OperatorState, now: datetime
) -> ExplanationDocument | None:
    """Return the explanation of a node; None if there is no such node. `whole`: the Node as JSON; empty if it is unknown."""
    found = explain(kernel, _concerned(kernel.store, setup, name), node_key(name), now)
    if found is None:
        return None
    if (whole.get("spec") or {}).get("unschedulable") and not found.cordon:
        found = msgspec.structs.replace(found, cordon=cordon_text(whole, now))
    return _document(found, setup, operator)


def explained_object(
    kernel: Kernel, setup: Setup, owner: str, kind: Explained, key: Key, operator: OperatorState, now: datetime
) -> msgspec.Struct | None:
    """Return the explanation of an object of the surface `owner`; None if there is no such object. Raises `NotFollowed`."""
    if kind.command and not kind.picture:
        raise NotFollowed(f"run `haulout explain {kind.words[0]} {key.namespace}/{key.name}` for it")
    declared = next((each.declaration for each in setup.enabled if each.declaration.name == owner), None)
    if declared is None:
        raise NotFollowed(f"add {owner} to `surfaces` in the haulout.yaml of the console, and start it again")
    if kind.picture:
        document: msgspec.Struct | None = load(kind.picture)(View(kernel.store, explaining=True), key, now, operator)
        return document
    found = explain_listed(kernel, declared, kind, key, now, setup.enabled)
    return _document(found, setup, operator) if found is not None else None


def _document(found: Explanation, setup: Setup, operator: OperatorState) -> ExplanationDocument:
    unread = (*setup.unread, *found.incomplete)
    return explanation_document(
        msgspec.structs.replace(found, settings=setup.origin, incomplete=unread, operator=operator)
    )


def _concerned(store: Store, setup: Setup, node: str) -> Iterator[Enabled]:
    """Yield the surfaces that concern the node, as `haulout explain` picks them.

    Where surfaces do not run together, one without an object about the node or a sign on it has nothing to say about it.
    """
    row = store.row(node_key(node))
    for each in setup.enabled:
        objects = each.declaration.node_objects
        if setup.together:
            yield each
        elif objects is not None:
            is_read = store.listing("", objects.kind) is Listing.LISTED
            if not is_read or store.bucket(objects.index, "", node) or _shows_sign(each, row):
                yield each
        elif not _is_idle(store, each):
            yield each


def _shows_sign(enabled: Enabled, node: Row | None) -> bool:
    if not isinstance(node, NodeRow):
        return False
    signs = surface(enabled.declaration.name).signs
    return shows_sign(signs, node.labels, (taint.key for taint in node.taints), node.annotations)


def _is_idle(store: Store, enabled: Enabled) -> bool:
    """Whether the surface's own kinds have no object at all."""
    declaration = enabled.declaration
    brought = surface(declaration.name).crds
    own = [kind for kind in declaration.kinds if kind.plural in brought and kind.kind in declaration.explains]
    return bool(own) and all(
        store.listing("", kind.kind) is Listing.LISTED and not store.rows("", kind.kind) for kind in own
    )


def pods_of(kernel: Kernel, node: str, now: datetime) -> tuple[PodProgress, ...] | None:
    """Return the pods of a node, those that its drains wait for first; None if pods cannot be read."""
    store = kernel.store
    if store.listing("", "Pod") is not Listing.LISTED:
        return None
    key = node_key(node)
    drains = [row for row in store.bucket(DRAINS_OF_NODE, "", key) if isinstance(row, DrainRow)]
    view = View(store, explaining=True)
    awaited: dict[Key, PodStanding] = {}
    for drain in drains:
        try:
            standings = progress(view, drain, now).pods
        except NotListed:
            continue
        awaited |= {each.pod.key: each for each in standings}
    rows = [row for row in store.bucket(PODS_OF_NODE, "", node) if isinstance(row, PodRow) and not row.ended]
    others = [row for row in rows if row.key not in awaited]
    state = IGNORED if drains and isinstance(store.row(key), NodeRow) else RUNNING
    return (
        *(_progress(each) for each in awaited.values()),
        *(PodProgress(row.key.namespace, row.key.name, state, until=row.deleting_at) for row in others),
    )


def _progress(each: PodStanding) -> PodProgress:
    pod = each.pod
    return PodProgress(pod.key.namespace, pod.key.name, each.standing, each.message, each.since, pod.deleting_at)
