"""Which fields of an object may leave in a support archive, as data: surfaces say it of the objects that they serve."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import msgspec


class Kept(Enum):
    """What is kept of a field: a plain value; how large it is; a map of labels; known annotations; a map of numbers."""

    VALUE = "value"
    SIZE = "size"
    LABELS = "labels"
    PSEUDONYMS = "pseudonyms"
    ANNOTATIONS = "annotations"
    QUANTITIES = "quantities"


class Each(msgspec.Struct, frozen=True):
    """What is kept of a map whose names users choose: every name, and of each value these fields."""

    fields: Each | Fields


Fields = Mapping[str, "Kept | Each | Fields"]


def values(*names: str, **more: Kept | Each | Fields) -> Fields:
    """Return the fields whose plain values are kept, and `more` of which something else is."""
    return {**dict.fromkeys(names, Kept.VALUE), **more}


METADATA = values(
    *("name", "generateName", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp"),
    *("deletionTimestamp", "deletionGracePeriodSeconds", "finalizers"),
    ownerReferences=values("apiVersion", "kind", "name", "uid", "controller"),
    labels=Kept.PSEUDONYMS,
    annotations=Kept.ANNOTATIONS,
)
LABELLED_METADATA = {**METADATA, "labels": Kept.LABELS}
CONDITION = values("type", "status", "reason", "observedGeneration", "lastTransitionTime", "lastHeartbeatTime")
OWN_CONDITION = {**CONDITION, "message": Kept.VALUE}
REFERENCE = values("apiVersion", "apiGroup", "kind", "namespace", "name", "uid")
SELECTOR: Fields = {
    "matchLabels": Kept.PSEUDONYMS,
    "matchExpressions": values("key", "operator", values=Kept.PSEUDONYMS),
}
OWN_SELECTOR: Fields = {"matchLabels": Kept.LABELS, "matchExpressions": values("key", "operator", "values")}


class Archived(msgspec.Struct, frozen=True, kw_only=True):
    """A kind whose objects belong into a support archive, and the fields of them that are kept.

    `versions`: of its API, the newest first; the first that is served is read.
    `only`: path of a function that says of an object whether it belongs into the archive. Empty: all do.
    `node`: path in the object, with dots, of the name of the node that it is about.
    `has_harmless_events`: whether the messages of events about it hold nothing that others wrote, so that they are kept.
    """

    group: str
    versions: tuple[str, ...]
    plural: str
    kind: str
    fields: Fields
    only: str = ""
    node: str = ""
    has_harmless_events: bool = True
