"""The names of all surfaces: our own, and those of installed packages. No surface is imported."""

from __future__ import annotations

import os
import sys
from functools import cache

GROUP = "haulout.surfaces"
# The folders of `surfaces` that hold a surface, in the order in which surfaces are printed.
BUILT_IN = ("profiles", "nodemaintenance", "clusterapi", "notify", "packages")
# The folders of surfaces that share the turn and the settings of another surface.
WITHIN = ("esx", "kubernikus")


@cache
def foreign() -> dict[str, str]:
    """Return the surfaces of other packages: the path of each declaration by the surface's name."""
    if not _may_be_offered():
        return {}
    # Imported here, because it takes a fifth of the time in which the command line starts.
    from importlib.metadata import entry_points

    found = sorted(entry_points(group=GROUP), key=lambda entry: entry.name)
    return {entry.name: entry.value for entry in found if entry.name not in (*BUILT_IN, *WITHIN)}


def _may_be_offered() -> bool:
    """Whether a package on `sys.path` may have a surface.

    Reading their files is faster than `importlib.metadata`. An archive on the path cannot be read and may have one.
    """
    for place in dict.fromkeys(sys.path):
        try:
            with os.scandir(place or ".") as entries:
                packages = [entry.path for entry in entries if entry.name.endswith((".dist-info", ".egg-info"))]
        except NotADirectoryError:
            return True
        except OSError:
            continue
        if any(_names_group(os.path.join(package, "entry_points.txt")) for package in packages):  # noqa: PTH118
            return True
    return False


def _names_group(path: str) -> bool:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - pathlib takes as long to import as all files take to read
            return GROUP.encode() in file.read()
    except OSError:
        return False


def names() -> tuple[str, ...]:
    """Return the names of all surfaces that take turns of their own."""
    return (*BUILT_IN, *foreign())
