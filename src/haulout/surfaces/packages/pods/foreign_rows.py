"""Package pods outside of the packages' namespace. Like the original, the drop-in records their results."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable
from functools import lru_cache
from typing import Any

from haulout.cluster.project import Resource
from haulout.cluster.rows import Row
from haulout.cluster.store import Index
from haulout.cluster.view import View
from haulout.surfaces.packages.entries.entry import STAGES
from haulout.surfaces.packages.options import Options
from haulout.surfaces.packages.pods.bodies import About
from haulout.surfaces.packages.pods.names import LONGEST_LABEL, LONGEST_NAME
from haulout.surfaces.packages.pods.rows import PackagePodRow, PodObject, about_of, init_containers_of
from haulout.surfaces.packages.pods.verdict import verdict
from haulout.surfaces.packages.specs.skyhook_problems import name_problem
from haulout.surfaces.packages.wire import NAME, PACKAGE

FOREIGN_POD = "ForeignPackagePod"
_NAME = re.compile(r"[a-z0-9](?:[-.a-z0-9]*[a-z0-9])?")


def foreign_pods(view: View, options: Options, node: str) -> tuple[PackagePodRow, ...]:
    """Return the pods of a node that have a Skyhook's label and are in another namespace; none under `haulout run`."""
    return tuple(view.rows(_foreign_pods_of_node(options.namespace), node, PackagePodRow)) if options.alone else ()


def _project(obj: PodObject, common: dict[str, Any]) -> PackagePodRow:
    """Return the row of a pod in another namespace.

    Only its identity and its result are kept, because tenants can create as many and as large pods as they like.
    """
    about = about_of(obj)
    return PackagePodRow(
        **common,
        node=obj.spec.node_name,
        about=about if about is not None and _is_storable(about) else None,
        containers=(verdict(init_containers_of(obj)).container,),
        skyhook=obj.metadata.labels.get(NAME, ""),
        package=obj.metadata.labels.get(PACKAGE, ""),
    )


def _is_storable(about: About) -> bool:
    """Whether an entry of the pod can be stored on a node: the annotation's name is legal, and no field is too long."""
    is_short = max(len(about.name), len(about.version)) <= LONGEST_LABEL
    is_short = is_short and max(len(about.image), len(about.container_sha)) <= LONGEST_NAME
    has_name = _NAME.fullmatch(about.skyhook) is not None and not name_problem(about.skyhook)
    return is_short and has_name and about.stage in STAGES


# The API objects are those of PackagePod, but of all namespaces and in a table of their own.
FOREIGN_POD_RESOURCE = Resource(FOREIGN_POD, "/api/v1", "pods", True, PodObject, _project, labels=NAME)


@lru_cache(maxsize=8)
def _foreign_pods_of_node(namespace: str) -> Index:
    def node_of(row: Row) -> Iterable[Hashable]:
        if not isinstance(row, PackagePodRow) or row.key.namespace == namespace:
            return ()
        return (row.node,) if row.node else ()

    return Index("foreign-package-pods-of-node", FOREIGN_POD, node_of)
