"""The copies of a package that its earlier generations left on the host."""

from __future__ import annotations

import re
from collections.abc import Iterable

from haulout.agent.settings import ResourceId

UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
# Packages are named without dots, so that a version's first dot tells `a-1.0.0-...` from the package `a-1`.
VERSION = r"\d+(?:\.\d+){1,2}(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?"


def superseded(resource: ResourceId, names: Iterable[str], current: str, keep: int) -> list[str]:
    """Return the names of the copies to delete: of the same package and Skyhook, older, but for the `keep` newest."""
    found = re.fullmatch(rf".+-({UUID})-(\d+)", resource.owner) or re.fullmatch(r".+-([^-]+)-(\d+)", resource.owner)
    if found is None:
        return []
    uid, generation = found[1], int(found[2])
    pattern = re.compile(rf"{re.escape(resource.package)}-{VERSION}-{re.escape(uid)}-(\d{{1,18}})")
    older: list[tuple[int, str]] = []
    for name in names:
        match = pattern.fullmatch(name)
        if match is not None and int(match[1]) < generation and name != current:
            older.append((int(match[1]), name))
    return [name for _, name in sorted(older, reverse=True)[keep:]]
