"""Which fields of objects a support archive may contain, as data.

Surfaces declare them for the kinds that they serve.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import msgspec


class Kept(Enum):
    """How a support archive keeps a field.

    VALUE: as it is. SIZE: only its size. LABELS: a map of labels. PSEUDONYMS: a map or list with pseudonyms in place of
    its values, except for labels of well-known programs. ANNOTATIONS: the values of known annotations. QUANTITIES: a
    map of numbers.
    """

    VALUE = "value"
    SIZE = "size"
    LABELS = "labels"
    PSEUDONYMS = "pseudonyms"
    ANNOTATIONS = "annotations"
    QUANTITIES = "quantities"


class Each(msgspec.Struct, frozen=True):
    """A map whose keys users choose, for a support archive: every key is kept, and these fields of each value."""

    fields: Each | Fields


Fields = Mapping[str, "Kept | Each | Fields"]


def values(*names: str, **more: Kept | Each | Fields) -> Fields:
    """Return the fields whose plain values are kept, together with `more`, which says for each field how it is kept."""
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
    """A kind whose objects belong in a support archive, with the fields that are kept.

    `versions`: the versions of its API, the newest first; the first that the server has is read.
    `only`: path of a function that says whether an object belongs in the archive. Empty: all objects do.
    `node`: path in the object, with dots, of the name of the node that it is about.
    `has_harmless_events`: the messages of events about it contain no text of users, so that they are kept.
    """

    group: str
    versions: tuple[str, ...]
    plural: str
    kind: str
    fields: Fields
    only: str = ""
    node: str = ""
    has_harmless_events: bool = True
