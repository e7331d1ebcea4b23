"""Which surfaces there are, by name: ours, and those that installed packages offer. Nothing of a surface is imported."""

from __future__ import annotations

from functools import cache

GROUP = "haulout.surfaces"
# The folders of `surfaces` that hold a surface, in the order in which surfaces are printed.
BUILT_IN = ("profiles", "nodemaintenance", "clusterapi", "notify", "packages")
# The folders of those that share the turn and the settings of another surface.
WITHIN = ("esx", "kubernikus")


@cache
def foreign() -> dict[str, str]:
    """Return the paths of the declarations of other packages' surfaces, by the surfaces' names."""
    # Imported here, because it takes longer than everything else in this module.
    from importlib.metadata import entry_points

    found = sorted(entry_points(group=GROUP), key=lambda entry: entry.name)
    return {entry.name: entry.value for entry in found if entry.name not in (*BUILT_IN, *WITHIN)}


def names() -> tuple[str, ...]:
    """Return the names of all surfaces that take turns of their own."""
    return (*BUILT_IN, *foreign())
