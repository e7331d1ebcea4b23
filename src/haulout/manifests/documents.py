"""The documents that a cluster needs: their labels and namespaces, and how they are written as YAML."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NAMESPACE = "haulout-system"
# What the pods of Haulout carry; Services find them by it.
POD_LABELS = {"app.kubernetes.io/name": "haulout"}
MANAGED = {"app.kubernetes.io/name": "haulout", "app.kubernetes.io/part-of": "haulout"}

Json = dict[str, Any]


def written(document: Mapping[str, Any]) -> str:
    """Return the document as YAML, with the line that separates it from the one before."""
    # Imported here: the list of commands does not need it, and it takes a fifth of the time in which they start.
    import yaml

    class Dumper(yaml.SafeDumper):
        """A YAML writer without anchors: kubectl reads them, people do not."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

    return f"---\n{yaml.dump(document, Dumper=Dumper, sort_keys=False, width=120)}"
