"""The kinds of objects that `explain` understands, by every name that kubectl has for them."""

from __future__ import annotations

from collections.abc import Iterable

from haulout.core.surface import Explained
from haulout.surfaces.registry import all_declarations

NODE = Explained(kind="Node", words=("node", "nodes", "no"))


def kinds() -> dict[str, tuple[str, Explained]]:
    """Return each kind with its surface, by each of its names. The surface of Nodes is empty."""
    found = [("", NODE), *((surface.name, each) for surface in all_declarations() for each in surface.explains)]
    return {word: (name, each) for name, each in found for word in each.words}


def not_served_text(names: Iterable[str]) -> str:
    """Return the line that tells users which kinds the cluster does not serve. `names`: those of their definitions."""
    return f"Not installed: {', '.join(names)} (haulout crds | kubectl apply -f -)"
