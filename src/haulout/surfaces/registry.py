"""Which surfaces there are, and where each is declared. Nothing of a surface is imported before it is asked for."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from haulout.core.surface import Surface
from haulout.core.surface_names import BUILT_IN, WITHIN, foreign
from haulout.core.surface_names import names as turn_names

# What all surfaces share is declared like one of them.
KERNEL = "kernel"


class SurfaceProblem(Exception):
    """A package offers as a surface what is none, or what cannot be imported."""


@cache
def paths() -> dict[str, str]:
    """Return the path of each surface's declaration by the surface's name: ours, then those of other packages."""
    own = {name: f"haulout.surfaces.{name}.declare:SURFACE" for name in (*BUILT_IN, *WITHIN)}
    return {**own, **{name: path for name, path in foreign().items() if name != KERNEL}}


def names() -> tuple[str, ...]:
    """Return the names of all surfaces, without the kernel."""
    return tuple(paths())


@cache
def surface(name: str) -> Surface:
    """Import the declaration of a surface, or of the kernel."""
    path = "haulout.core.budgets.declare:SURFACE" if name == KERNEL else paths()[name]
    try:
        found = load(path)
    except Exception as error:
        raise SurfaceProblem(f"surface {name} ({path}) cannot be loaded: {type(error).__name__}: {error}") from error
    if not isinstance(found, Surface) or found.name != name:
        raise SurfaceProblem(
            f"surface {name} ({path}) is no declaration of that surface (haulout.core.surface.Surface)"
        )
    return found


def surfaces() -> tuple[Surface, ...]:
    """Import the declarations of all surfaces, without the kernel."""
    return tuple(surface(name) for name in names())


def declared() -> tuple[Surface, ...]:
    """Import all declarations, that of the kernel first."""
    return (surface(KERNEL), *surfaces())


@cache
def originals() -> dict[str, str]:
    """Return the surface of each original by the original's name."""
    return {each.original.name: each.name for each in surfaces() if each.original and each.settings and not each.within}


@cache
def programs() -> dict[str, str]:
    """Return the programs that belong to originals by their names, each with the path of its function."""
    return {name: path for each in surfaces() for name, path in each.programs.items()}


def served(blocks: Mapping[str, Any]) -> tuple[Surface, ...]:
    """Return the surfaces that are switched on by these blocks of `haulout.yaml`, each before those within it."""
    found = []
    for each in surfaces():
        inner = getattr(blocks.get(each.within), each.name, None) if each.within else None
        if each.name in blocks or (inner is not None and inner.enabled):
            found.append(each)
    return tuple(found)


def definition(crd: str) -> str:
    """Return the YAML of a CustomResourceDefinition by its name: the file is the truth about the resource."""
    return next(definition_of(each, crd) for each in declared() if crd in each.crds)


def definition_of(declared: Surface, crd: str) -> str:
    """Return the YAML of a definition of a surface. An enumeration that is marked so has the names of all surfaces."""
    return re.sub(
        r"enum: \[.*\](?= # surfaces$)",
        f"enum: [{', '.join(turn_names())}]",
        declared.definition(crd),
        flags=re.MULTILINE,
    )


def load(path: str) -> Any:
    """Return what `module:name` names."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)
