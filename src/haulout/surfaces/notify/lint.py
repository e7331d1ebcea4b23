"""Checks a configuration file of notify without a cluster."""

from __future__ import annotations

from collections.abc import Mapping

from haulout.plugins.file_lint import Problem
from haulout.surfaces.notify.load import START, load
from haulout.surfaces.notify.options import Options


def lint(data: bytes, *, source: str, environment: Mapping[str, str]) -> list[Problem]:
    """Return everything that is wrong with the file, and what it says in vain."""
    read = load(data)
    if isinstance(read, Options):
        return [Problem(source, START, path, what, is_error=False) for path, what in _vain(read)]
    return [Problem(source, each.place or START, ".".join(each.path), each.what, each.right) for each in read]


def _vain(options: Options) -> list[tuple[str, str]]:
    """Return the settings that have no effect, with the reason."""
    operators = options.operators
    found: list[tuple[str, str]] = []
    for name in ("runner", "validator"):
        operator = getattr(operators, name)
        default = operators.runner.default_client if name == "runner" else operators.validator.default
        if operator.enabled and default and default not in {recipe.name for recipe in operator.recipes}:
            found.append(
                (f"operators.{name}", f"its default {default} is none of its recipes, so nothing is done by default")
            )
    if operators.scheduler.enabled and not operators.returner.enabled:
        found.append(
            ("operators.scheduler", "without the returner, nodes that it cordons have to be uncordoned by hand")
        )
    return found
