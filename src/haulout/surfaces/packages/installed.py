"""Which versions of packages a node has, for people who look at a fleet."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from haulout.surfaces.packages.entries.entry import MalformedNodeState, parse
from haulout.surfaces.packages.groups import NODEWRIGHT
from haulout.surfaces.packages.node.names import NODE_STATE_PREFIX

# Nodes of one fleet have few different texts, but each Skyhook has one on each node.
MOST_TEXTS = 16_384


def versions_on(annotations: Mapping[str, str]) -> Mapping[str, str]:
    """Return the version of each package on a node, from its annotations; several while one replaces another."""
    found: dict[str, str] = {}
    for name, text in annotations.items():
        if NODEWRIGHT.inner(name).startswith(NODE_STATE_PREFIX):
            found |= _versions(text)
    return found


@lru_cache(maxsize=MOST_TEXTS)
def _versions(text: str) -> Mapping[str, str]:
    try:
        entries = parse(text).values()
    except MalformedNodeState:
        return {}
    versions: dict[str, list[str]] = {}
    for entry in entries:
        versions.setdefault(entry.name, []).append(entry.version)
    return {name: ", ".join(sorted(each)) for name, each in versions.items()}
