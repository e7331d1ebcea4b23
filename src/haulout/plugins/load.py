"""Finds plugins: the modules in the folders beside this one, and the entry points of other packages."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import TypeVar

import msgspec

from haulout.plugins import checks, notifiers, triggers
from haulout.plugins.api import Check, Notifier, Trigger

P = TypeVar("P", bound=Check | Notifier | Trigger)

CHECKS_GROUP = "haulout.checks"
NOTIFIERS_GROUP = "haulout.notifiers"
TRIGGERS_GROUP = "haulout.triggers"


class PluginProblem(Exception):
    """The entry point of a package is not a plugin, or cannot be imported."""


class Registry(msgspec.Struct, frozen=True):
    """All plugins that were found, each under the type name that configurations use."""

    checks: dict[str, Check]
    notifiers: dict[str, Notifier]
    triggers: dict[str, Trigger]


def load_plugins() -> Registry:
    """Load all plugins. If another package has a plugin of the same name as a built-in one, the built-in one wins."""
    return Registry(
        _found(CHECKS_GROUP, checks.__name__, checks.__path__, Check),
        _found(NOTIFIERS_GROUP, notifiers.__name__, notifiers.__path__, Notifier),
        _found(TRIGGERS_GROUP, triggers.__name__, triggers.__path__, Trigger),
    )


def _found(group: str, package: str, path: list[str], kind: type[P]) -> dict[str, P]:
    return {found.name: found for found in (*_foreign(group, kind), *_own(package, path, kind))}


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
