"""The copies of a package on the host that belong to earlier generations of its Skyhook."""

from __future__ import annotations

import re
from collections.abc import Iterable

from haulout.agent.settings import ResourceId

UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
# A version has a dot. So `a-1-1.0.0-...` is a copy of the package `a-1`, and not of the package `a`.
VERSION = r"\d+(?:\.\d+){1,2}(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?"


def old_copies(resource: ResourceId, names: Iterable[str], current: str, keep: int) -> list[str]:
    """Return the names of the copies to delete.

    These are the older copies of the same package and Skyhook, except for the `keep` newest of them. A name that can be
    read as that of a copy of another package is not among them.
    """
    found = re.fullmatch(rf".+-({UUID})-(\d{{1,18}})", resource.owner) or re.fullmatch(
        r".+-([^-]+)-(\d{1,18})", resource.owner
    )
    if found is None:
        return []
    uid, generation = found[1], int(found[2])
    pattern = re.compile(rf"({re.escape(resource.package)}-{VERSION})-{re.escape(uid)}-(\d{{1,18}})")
    older: list[tuple[int, str]] = []
    for name in names:
        match = pattern.fullmatch(name)
        if match is None or int(match[2]) >= generation or name == current or _is_ambiguous(match[1]):
            continue
        older.append((int(match[2]), name))
    return [name for _, name in sorted(older, reverse=True)[keep:]]


def _is_ambiguous(copied: str) -> bool:
    """Whether the name and version of a package can be told apart in several ways: names may have dots.

    `a-1.0-2.0.0` is version 2.0.0 of the package `a-1.0`, or version 1.0-2.0.0 of the package `a`.
    """
    # No name has a plus, so all dashes after it are the version's.
    dashes = (found.end() for found in re.finditer("-", copied.partition("+")[0]))
    return sum(re.fullmatch(VERSION, copied[dash:]) is not None for dash in dashes) > 1
