"""The labels and the namespace of the objects that install Haulout, and how they are written as YAML."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NAMESPACE = "haulout-system"
# The labels by which Services and the Deployment select Haulout's pods.
POD_LABELS = {"app.kubernetes.io/name": "haulout"}
MANAGED = {"app.kubernetes.io/name": "haulout", "app.kubernetes.io/part-of": "haulout"}

Json = dict[str, Any]


def yaml_document(document: Mapping[str, Any]) -> str:
    """Return a document as YAML, after a line `---` that separates it from the one before."""
    # Imported here, because most commands do not need it, and it would take a fifth of their starting time.
    import yaml

    class Dumper(yaml.SafeDumper):
        """A YAML writer that repeats values instead of using anchors, which are hard to read for people."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

    return f"---\n{yaml.dump(document, Dumper=Dumper, sort_keys=False, width=120)}"
