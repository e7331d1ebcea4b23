"""What the commands that print manifests share: which surfaces there are, and how YAML is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import resources
from typing import Any

import click
import yaml

from haulout.cli.settings import TO_COME

# The kernel's are what all surfaces share.
SURFACES = ("kernel", "profiles", "nodemaintenance", "clusterapi", "packages")
NAMESPACE = "haulout-system"
# What the pods of Haulout are expected to carry; Services find them by it.
POD_LABELS = {"app.kubernetes.io/name": "haulout"}
MANAGED = {"app.kubernetes.io/name": "haulout", "app.kubernetes.io/part-of": "haulout"}

Json = dict[str, Any]


class _Dumper(yaml.SafeDumper):
    """Without anchors: kubectl reads them, people do not."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def picked(names: Iterable[str]) -> tuple[str, ...]:
    """All of them where none is named."""
    wanted = tuple(names)
    unknown = [name for name in wanted if name not in SURFACES]
    if unknown:
        name = unknown[0]
        what = f"{name} is not part of this version yet" if name in TO_COME else f"there is no surface {name!r}"
        raise click.UsageError(f"{what}; there are: {', '.join(SURFACES)}")
    return tuple(name for name in SURFACES if name in wanted or not wanted)


def say(documents: Iterable[Mapping[str, Any]]) -> None:
    for document in documents:
        click.echo(written(document), nl=False)


def written(document: Mapping[str, Any]) -> str:
    return f"---\n{yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=120)}"


def crd(name: str) -> str:
    """The file itself: it is the truth about the resource."""
    return (resources.files("haulout") / "manifests" / "crds" / f"{name}.yaml").read_text()
