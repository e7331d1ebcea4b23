"""Shared by the commands that print manifests: the choice of surfaces, and printing documents as YAML."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import click

from haulout.manifests.documents import NAMESPACE, yaml_document
from haulout.surfaces.registry import KERNEL, definition_of, surface, surfaces

namespace_option = click.option(
    "-n",
    "--namespace",
    default=NAMESPACE,
    metavar="NAME",
    show_default=True,
    help="The namespace in which Haulout runs.",
)


def surfaces_in_order(wanted: tuple[str, ...]) -> tuple[str, ...]:
    """Return the named surfaces in the order of the registry; all of them if none is named."""
    known = (KERNEL, *(each.name for each in surfaces() if not each.within))
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise click.UsageError(f"there is no surface {unknown[0]!r}; there are: {', '.join(known)}")
    return tuple(name for name in known if name in wanted or not wanted)


def say(documents: Iterable[Mapping[str, Any]]) -> None:
    """Print documents as YAML."""
    for document in documents:
        click.echo(yaml_document(document), nl=False)


def say_definitions(chosen: Iterable[str]) -> None:
    """Print the custom resource definitions of surfaces."""
    for each in map(surface, chosen):
        for name in each.crds:
            click.echo(f"---\n{definition_of(each, name)}", nl=False)
