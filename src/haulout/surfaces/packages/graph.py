"""The dependencies between the packages of a Skyhook: what is missing, and what waits for itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter

from haulout.surfaces.packages.wire import Package

# The packages that each package waits for, all by `name|version`.
Graph = Mapping[str, tuple[str, ...]]


def graph_of(packages: Iterable[Package]) -> Graph:
    return {
        package.key: tuple(f"{name}|{version}" for name, version in sorted(package.depends_on.items()))
        for package in packages
    }


def missing(graph: Graph) -> list[str]:
    """Return what packages depend on and nothing provides, in order."""
    return sorted({needed for names in graph.values() for needed in names} - set(graph))


def cycle(graph: Graph) -> list[str]:
    """Return a package that waits for itself, with those in between, or nothing. The smallest comes first and last."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        # Each package in the cycle waits for the one before it, and the last one is the first again.
        circle: list[str] = error.args[1][:0:-1]
        start = circle.index(min(circle))
        return [*circle[start:], *circle[:start], circle[start]]
    return []
