"""Finds the acts that surfaces and the kernel declare, and the kinds of objects that they are for."""

from __future__ import annotations

from functools import cache

import msgspec

from haulout.core.act import Act, Endpoint
from haulout.core.archive import Archived
from haulout.surfaces.registry import all_declarations

# The order in which acts are shown. Others follow, in the order of their declarations.
_PLACES = {
    name: place for place, name in enumerate(("start", "pause", "resume", "approve", "finish", "retry", "cancel"))
}
# kubectl's short names of kinds that no surface explains.
_SHORT = {"Node": ("no",)}


class DeclaredAct(msgspec.Struct, frozen=True):
    """An act with the name of the surface that declares it, or `kernel`."""

    surface: str
    act: Act


@cache
def declared_acts() -> tuple[DeclaredAct, ...]:
    """Return all acts, those of the kernel last: what surfaces do is what people look for."""
    kernel, *surfaces = all_declarations()
    return tuple(DeclaredAct(each.name, act) for each in (*surfaces, kernel) for act in each.acts)


def acts_named(name: str, kind: str) -> tuple[DeclaredAct, ...]:
    """Return the acts of a name for a kind of objects; with an empty kind, those that need no object."""
    return tuple(each for each in acts_for(kind) if each.act.name == name)


def acts_for(kind: str) -> tuple[DeclaredAct, ...]:
    """Return the acts for a kind of objects; with an empty kind, those that need no object.

    Acts of one name are together, first those that need no arguments: they are what is done where nothing is said.
    """
    found = [
        each
        for each in declared_acts()
        if (any(target.kind == kind for target in each.act.targets) if kind else not each.act.targets)
    ]
    return tuple(sorted(found, key=lambda each: (_PLACES.get(each.act.name, len(_PLACES)), each.act.needs_arguments)))


def act_names() -> tuple[str, ...]:
    """Return the name of every act, each once."""
    return tuple(dict.fromkeys(each.act.name for each in declared_acts()))


@cache
def kinds_of_acts() -> dict[str, Endpoint]:
    """Return each kind that has acts, by every name that kubectl has for it, in lower case."""
    short = {each.kind: each.words for surface in all_declarations() for each in surface.explains}
    found: dict[str, Endpoint] = {}
    for each in declared_acts():
        for target in each.act.targets:
            kind = target.kind
            words = (kind.lower(), target.resource, target.named, *_SHORT.get(kind, ()), *short.get(kind, ()))
            found |= dict.fromkeys(words, target)
    return found


def kind_named(word: str) -> Endpoint | None:
    """Return the kind that a word names, in any case; None if there are no acts for it."""
    return kinds_of_acts().get(word.lower())


@cache
def claimant_kinds() -> tuple[Endpoint, ...]:
    """Return the kinds of surfaces whose objects are about one node each."""
    return tuple(Endpoint(each.kind, each.group, each.versions[0], each.plural) for each in claimants())


@cache
def claimants() -> tuple[Archived, ...]:
    """Return how the objects of surfaces that are about one node each are described."""
    _, *surfaces = all_declarations()
    return tuple(each for surface in surfaces for each in surface.archive if each.node)
