"""What a surface leaves in a cluster, as data, so that `haulout uninstall` can remove it while no operator runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import Any

import msgspec

from haulout.core.act import Endpoint

LEASES = Endpoint("Lease", "coordination.k8s.io", "v1", "leases", is_namespaced=True)
CONFIG_MAPS = Endpoint("ConfigMap", "", "v1", "configmaps", is_namespaced=True)
PODS = Endpoint("Pod", "", "v1", "pods", is_namespaced=True)
JOBS = Endpoint("Job", "batch", "v1", "jobs", is_namespaced=True)
# The prefix of our own labels, annotations and taints.
OWN_PREFIX = "haulout.dev/"


class Place(Enum):
    """Where a mark is on an object."""

    LABEL = "label"
    ANNOTATION = "annotation"
    TAINT = "taint"
    CONDITION = "condition"


class Mark(msgspec.Struct, frozen=True):
    """A label, annotation, taint or condition that a surface writes on objects of others.

    `is_prefix`: every name that begins with `name`. `value`: the mark is the surface's only with this value.
    `beside`: it is the surface's only on objects that have this annotation, label or taint, too. `{}` in it stands for
    the name of the mark, with `_` for `/`.
    `is_record`: it says what has been done. Without it a later installation would do that work again, so it stays until
    the definitions are removed.
    """

    place: Place
    name: str
    is_prefix: bool = False
    value: str | None = None
    beside: str = ""
    is_record: bool = False


def marks_on(present: Mapping[Place, Mapping[str, Any]], marks: Iterable[Mark]) -> Iterator[tuple[Place, str, Mark]]:
    """Yield place and name of each mark on an object, with the mark. The first mark that fits a name decides about it.

    `present`: the names that the object has in each place, with their values.
    """
    decided: set[tuple[Place, str]] = set()
    for mark in marks:
        for name, value in present[mark.place].items():
            fits = name.startswith(mark.name) if mark.is_prefix else name == mark.name
            beside = mark.beside.format(name.replace("/", "_")) if mark.beside else ""
            has_companion = not beside or any(beside in each for each in present.values())
            if not fits or not has_companion or mark.value not in (None, value) or (mark.place, name) in decided:
                continue
            decided.add((mark.place, name))
            yield mark.place, name, mark


class MarkedKind(msgspec.Struct, frozen=True):
    """A kind of objects of others that the surface marks. Names that begin with `haulout.dev/` need no mark here.

    `finalizers`: those that the surface sets. `selector`: the labels of the objects that can have marks.
    """

    endpoint: Endpoint
    finalizers: tuple[str, ...] = ()
    marks: tuple[Mark, ...] = ()
    selector: str = ""


class MadeKind(msgspec.Struct, frozen=True):
    """A kind of objects that the surface creates. Objects that another client has created are left alone.

    `selector`: the labels that they have. `holder`: Leases with this holder. `is_record`: as for marks.
    """

    endpoint: Endpoint
    selector: str = ""
    holder: str = ""
    is_record: bool = False


class Remains(msgspec.Struct, frozen=True, kw_only=True):
    """What a surface leaves in a cluster.

    `nodes`: its marks on Nodes. The first mark that fits a name counts. `marked`: the objects of others that it marks.
    `made`: the objects that it creates. `names`: ConfigMaps in the operator's namespace.
    `advice`: for a mark on a Node, by name, what a person has to check by hand once the mark is removed.
    """

    nodes: tuple[Mark, ...] = ()
    marked: tuple[MarkedKind, ...] = ()
    made: tuple[MadeKind, ...] = ()
    names: tuple[str, ...] = ()
    advice: tuple[tuple[str, str], ...] = ()
