"""The cases by name. Each is a function of a world, and is run once on each server."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from tests.contract.world import World


class Case(NamedTuple):
    area: str
    name: str
    run: Callable[[World], None]
    # In two halves: between them the server forgets its history.
    halves: Callable[[World], Iterator[None]] | None = None

    @property
    def slug(self) -> str:
        """The namespace of the case, and the prefix of its names outside of it."""
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")


CASES: dict[str, Case] = {}


def register(made: Case) -> None:
    if made.name in CASES or len(made.slug) > 58 or any(made.slug == other.slug for other in CASES.values()):
        raise ValueError(f"case {made.name}: the name is taken or too long")
    CASES[made.name] = made


def case(function: Callable[[World], None]) -> Callable[[World], None]:
    register(Case(area_of(function), function.__name__, function))
    return function


def halves(function: Callable[[World], Iterator[None]]) -> Callable[[World], Iterator[None]]:
    """Register a case in two halves.

    All such cases wait for each other at their `yield`, and then the server drops its history.
    """
    register(Case(area_of(function), function.__name__, lambda world: None, function))
    return function


def each(table: Mapping[str, Any]) -> Callable[[Callable[[World, Any], None]], Callable[[World, Any], None]]:
    """Register one case per row of the table, named after the function and the key."""

    def decorate(function: Callable[[World, Any], None]) -> Callable[[World, Any], None]:
        for key, row in table.items():
            register(Case(area_of(function), f"{function.__name__}[{key}]", functools.partial(_apply, function, row)))
        return function

    return decorate


def _apply(function: Callable[[World, Any], None], row: Any, world: World) -> None:
    function(world, row)


def area_of(function: Callable[..., object]) -> str:
    return function.__module__.rpartition(".")[2]
