"""Which packages may run next on a node, considering their dependencies."""

from __future__ import annotations

from collections.abc import Iterable

from haulout.surfaces.packages.node_state import entry_key
from haulout.surfaces.packages.wire import Package


def runnable(packages: Iterable[Package], complete: frozenset[str]) -> list[Package]:
    """Return the packages that may run, sorted by name. Packages without dependencies all come before the others."""
    missing = [package for package in sorted(packages, key=lambda each: each.name) if package.key not in complete]
    roots = [package for package in missing if not package.depends_on]
    return roots or [package for package in missing if _needs(package) <= complete]


def _needs(package: Package) -> frozenset[str]:
    return frozenset(entry_key(name, version) for name, version in package.depends_on.items())
