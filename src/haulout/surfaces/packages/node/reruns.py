"""Packages whose recorded steps a person wants to run again on a node."""

from __future__ import annotations

from collections.abc import Collection

from haulout.cluster.rows import NodeRow

# An annotation on a Node: a comma-separated list of SKYHOOK/PACKAGE. An entry is removed when the next pod of that
# package has succeeded.
RERUN = "haulout.dev/rerun"


def reruns_of(node: NodeRow, skyhook: str) -> frozenset[str]:
    """Return the packages of a Skyhook whose next pod on the node runs all its steps again."""
    found = (_parts(each) for each in _listed(node))
    return frozenset(package for owner, package in found if owner == skyhook and package)


def without(node: NodeRow, skyhook: str, done: Collection[str]) -> str | None:
    """Return the annotation without the packages in `done`; None if nothing remains in it."""
    listed = node.annotations.get(RERUN)
    if not done:
        return listed
    remaining = [each for each in _listed(node) if _parts(each) not in {(skyhook, package) for package in done}]
    return ",".join(remaining) or None


def _listed(node: NodeRow) -> list[str]:
    return [text for each in node.annotations.get(RERUN, "").split(",") if (text := each.strip())]


def _parts(entry: str) -> tuple[str, str]:
    owner, _, package = entry.partition("/")
    return owner.strip(), package.strip()
