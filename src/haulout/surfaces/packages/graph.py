"""The dependencies between the packages of a Skyhook: which are missing, and whether they form a cycle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter

from haulout.surfaces.packages.wire import Package

# Each package with the packages that it depends on, all by `name|version`.
Graph = Mapping[str, tuple[str, ...]]


def graph_of(packages: Iterable[Package]) -> Graph:
    return {
        package.key: tuple(f"{name}|{version}" for name, version in sorted(package.depends_on.items()))
        for package in packages
    }


def missing(graph: Graph) -> list[str]:
    """Return the packages that others depend on and that the Skyhook does not have, sorted."""
    return sorted({needed for names in graph.values() for needed in names} - set(graph))


def cycle(graph: Graph) -> list[str]:
    """Return one cycle of dependencies, or nothing. The smallest package comes first and again last."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        # In `error.args[1]` each package depends on the one before it, and the last is the first again.
        circle: list[str] = error.args[1][:0:-1]
        start = circle.index(min(circle))
        return [*circle[start:], *circle[:start], circle[start]]
    return []
