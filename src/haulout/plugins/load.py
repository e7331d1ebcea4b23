"""Finds the plugins: every module beside this one, and what other packages offer by entry point."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import TypeVar

import msgspec

from haulout.plugins import checks, triggers
from haulout.plugins.api import Check, Trigger

P = TypeVar("P", Check, Trigger)

CHECKS_GROUP = "haulout.checks"
TRIGGERS_GROUP = "haulout.triggers"


class PluginProblem(Exception):
    """A package offers as a plugin what is none, or what cannot be imported."""


class Registry(msgspec.Struct, frozen=True):
    checks: dict[str, Check]
    triggers: dict[str, Trigger]


def load_plugins() -> Registry:
    """Built-in plugins first: a foreign one does not take the name of one of ours."""
    return Registry(
        {
            found.name: found
            for found in (*_foreign(CHECKS_GROUP, Check), *_own(checks.__name__, checks.__path__, Check))
        },
        {
            found.name: found
            for found in (*_foreign(TRIGGERS_GROUP, Trigger), *_own(triggers.__name__, triggers.__path__, Trigger))
        },
    )


def _own(package: str, path: list[str], kind: type[P]) -> Iterator[P]:
    for module in pkgutil.iter_modules(path):
        loaded = importlib.import_module(f"{package}.{module.name}")
        yield from (value for value in vars(loaded).values() if isinstance(value, kind))


def _foreign(group: str, kind: type[P]) -> Iterator[P]:
    word = kind.__name__.lower()
    for entry in entry_points(group=group):
        package = f" of {entry.dist.name}" if entry.dist else ""
        where = f"{word} plugin {entry.name} ({entry.value}){package}"
        try:
            plugin = entry.load()
        except Exception as error:
            raise PluginProblem(f"{where} cannot be loaded: {type(error).__name__}: {error}") from error
        if not isinstance(plugin, kind):
            raise PluginProblem(f"{where} is no {word} (decorate it with @{word} of haulout.plugins.api)")
        yield plugin
