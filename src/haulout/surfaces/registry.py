"""The names of all surfaces, and where each is declared. A surface's modules are imported only when they are needed."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from haulout.core.surface import Surface
from haulout.core.surface_names import BUILT_IN, WITHIN, foreign
from haulout.core.surface_names import names as turn_names

# The name of the declaration that all surfaces share. It has the form of a surface.
KERNEL = "kernel"


class SurfaceProblem(Exception):
    """The error of a package whose surface cannot be imported, or is not a surface."""


@cache
def paths() -> dict[str, str]:
    """Return the path of each surface's declaration, by name: the built-in ones, then those of other packages."""
    own = {name: f"haulout.surfaces.{name}.declare:SURFACE" for name in (*BUILT_IN, *WITHIN)}
    return {**own, **{name: path for name, path in foreign().items() if name != KERNEL}}


def names() -> tuple[str, ...]:
    """Return the names of all surfaces, without the kernel."""
    return tuple(paths())


@cache
def surface(name: str) -> Surface:
    """Import and return the declaration of a surface, or of the kernel."""
    path = "haulout.core.budgets.declare:SURFACE" if name == KERNEL else paths()[name]
    try:
        found = load(path)
    except Exception as error:
        raise SurfaceProblem(f"surface {name} ({path}) cannot be loaded: {type(error).__name__}: {error}") from error
    if not isinstance(found, Surface) or found.name != name:
        raise SurfaceProblem(
            f"surface {name} ({path}) is not a declaration of that surface (haulout.core.surface.Surface)"
        )
    return found


def surfaces() -> tuple[Surface, ...]:
    """Import and return the declarations of all surfaces, without the kernel."""
    return tuple(surface(name) for name in names())


def all_declarations() -> tuple[Surface, ...]:
    """Import and return all declarations, that of the kernel first."""
    return (surface(KERNEL), *surfaces())


@cache
def originals() -> dict[str, str]:
    """Return the name of the surface for each original's name."""
    return {each.original.name: each.name for each in surfaces() if each.original and each.settings and not each.within}


@cache
def programs() -> dict[str, str]:
    """Return the path of the main function of each program that belongs to an original, by the program's name."""
    return {name: path for each in surfaces() for name, path in each.programs.items()}


def enabled_surfaces(blocks: Mapping[str, Any]) -> tuple[Surface, ...]:
    """Return the surfaces that these blocks of `haulout.yaml` enable, each before the surfaces within it."""
    found = []
    for each in surfaces():
        inner = getattr(blocks.get(each.within), each.name, None) if each.within else None
        if each.name in blocks or (inner is not None and inner.enabled):
            found.append(each)
    return tuple(found)


def block_of(blocks: Mapping[str, Any], name: str, within: str = "") -> Any:
    """Return the block of a surface: its own in `haulout.yaml`, or the one in that of the surface it is within.

    A surface without a block has its defaults. None: the name is not that of a surface.
    """
    declared = next((each for each in surfaces() if each.name == name), None)
    if declared is None:
        return None
    if not within:
        return blocks.get(name) or (declared.settings() if declared.settings is not None else None)
    return getattr(block_of(blocks, within), name)


def claims_nodes(blocks: Mapping[str, Any]) -> bool:
    """Whether one of the surfaces that these blocks of `haulout.yaml` enable ever claims a node."""
    return any(load(each.decisions).claims for each in enabled_surfaces(blocks))


def keeps_quorum(blocks: Mapping[str, Any]) -> bool:
    """Whether one of these blocks of `haulout.yaml` asks for etcd to keep its quorum."""
    return any(
        getattr(blocks[each.name], each.quorum_setting) for each in enabled_surfaces(blocks) if each.quorum_setting
    )


def definition(crd: str) -> str:
    """Return the YAML of a CustomResourceDefinition by its name. The file is the source of truth for the resource."""
    return next(definition_of(each, crd) for each in all_declarations() if crd in each.crds)


def definition_of(declared: Surface, crd: str) -> str:
    """Return the YAML of a surface's CustomResourceDefinition.

    An enumeration with the comment `# surfaces` gets the names of all surfaces.
    """
    return re.sub(
        r"enum: \[.*\](?= # surfaces$)",
        f"enum: [{', '.join(turn_names())}]",
        declared.definition(crd),
        flags=re.MULTILINE,
    )


def load(path: str) -> Any:
    """Import and return the object at a path `module:name`."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)
