"""Which object of a unit owns a pod or ConfigMap, and the patch by which the other object takes it over."""

from __future__ import annotations

from typing import Any

from haulout.cluster.key import Key
from haulout.core.action import Patch
from haulout.model.meta import ObjectMeta
from haulout.surfaces.packages.pods.bodies import PodPlace, in_groups, owner_of


def owner_uid(metadata: ObjectMeta) -> str:
    """Return the UID of the object that manages another one; empty if none does."""
    return metadata.controller.uid if metadata.controller is not None else ""


def taking_over(place: PodPlace, key: Key, labels: dict[str, str], annotations: dict[str, str] | None = None) -> Patch:
    """Return the patch that gives an object to the object that leads the unit, with the labels of its group.

    The other labels stay: they are what the object is watched by.
    """
    metadata: dict[str, Any] = {"labels": in_groups(place.group, labels), "ownerReferences": [owner_of(place)]}
    if annotations:
        metadata["annotations"] = in_groups(place.group, annotations)
    return Patch(key, {"metadata": metadata})
