"""The kinds of objects that `explain` understands, by every name that kubectl has for them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from haulout.core.surface import Explained
from haulout.surfaces.registry import all_declarations

NODE = Explained(kind="Node", words=("node", "nodes", "no"))


def kinds() -> dict[str, tuple[str, Explained]]:
    """Return each kind with its surface, by each of its names. The surface of Nodes is empty."""
    found = [("", NODE), *((surface.name, each) for surface in all_declarations() for each in surface.explains)]
    return {word: (name, each) for name, each in found for word in each.words}


def not_served_text(names: Iterable[str]) -> str:
    """Return the line that says which kinds the cluster does not serve. `names`: those of their definitions."""
    wanted, known = tuple(names), dict(_definitions())
    found = [known[name] for name in wanted if name in known]
    kinds = ", ".join(dict.fromkeys([kind for _, kind in found] + [name for name in wanted if name not in known]))
    surfaces = " ".join(dict.fromkeys(surface for surface, _ in found))
    how = f" (`haulout crds {surfaces} | kubectl apply -f -`)" if surfaces else ""
    return f"{kinds} are not installed{how}"


def _definitions() -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the name of each of our definitions, with its surface and the plural of its kind as people write it."""
    for each in all_declarations():
        for crd in each.crds:
            text = each.definition(crd)
            (plural,), (kind,) = (
                re.findall(rf"^    {word}: (\S+)$", text, re.MULTILINE) for word in ("plural", "kind")
            )
            (group,) = re.findall(r"^  group: (\S+)$", text, re.MULTILINE)
            # NodeDisruptionBudgets, and DeploymentPolicies: the kind as far as both are written alike, then the ending.
            alike = len(kind) if plural.startswith(kind.lower()) else len(kind) - 1
            yield f"{plural}.{group}", (each.name, kind[:alike] + plural[alike:])
