"""The two API groups of packages: the names of skyhook, and those of NodeWright, to which the original was renamed.

Objects of one name are one *unit*, in whichever group they are. The names on Nodes and other objects that belong to a
unit have the prefix of its group. Inside the surface they all have the prefix of skyhook: `node/prefixes.py` translates
them where a Node is read and where it is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct


class Group(Struct, frozen=True):
    """One API group of packages.

    `word`: the last part of its finalizer, and the word for its object in lower case.
    """

    name: str
    kind: str
    plural: str
    word: str

    @property
    def prefix(self) -> str:
        """The prefix of labels, annotations and conditions."""
        return f"{self.name}/"

    @property
    def api_version(self) -> str:
        return f"{self.name}/{VERSION}"

    @property
    def finalizer(self) -> str:
        return f"{self.prefix}{self.word}"

    def named(self, inner: str) -> str:
        """Return a name that has the prefix of skyhook with the prefix of this group; others as they are."""
        if self is SKYHOOK or not inner.startswith(SKYHOOK.prefix):
            return inner
        return self.prefix + inner.removeprefix(SKYHOOK.prefix)

    def inner(self, name: str) -> str:
        """Return a name that has the prefix of this group with the prefix of skyhook; others as they are."""
        return SKYHOOK.prefix + name.removeprefix(self.prefix) if name.startswith(self.prefix) else name


VERSION = "v1alpha1"
SKYHOOK = Group("skyhook.nvidia.com", "Skyhook", "skyhooks", "skyhook")
NODEWRIGHT = Group("nodewright.nvidia.com", "NodeWright", "nodewrights", "nodewright")
GROUPS = (SKYHOOK, NODEWRIGHT)
_JOB_LABEL = f"{NODEWRIGHT.prefix}name"


def is_package_job(job: Mapping[str, Any]) -> bool:
    """Whether a Job runs a stage of a package."""
    return _JOB_LABEL in (job["metadata"].get("labels") or {})


OF_KIND = {group.kind: group for group in GROUPS}
