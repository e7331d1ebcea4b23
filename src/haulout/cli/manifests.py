"""What the commands that print manifests share: which surfaces there are, and how documents are printed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import click

from haulout.manifests.documents import written
from haulout.settings.settings import TO_COME

# The kernel's are what all surfaces share.
SURFACES = ("kernel", "profiles", "nodemaintenance", "clusterapi", "packages")


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
