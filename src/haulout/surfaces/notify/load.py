"""The reader of the configuration file: from bytes to options, or to all its problems with their places."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from haulout.base import yaml
from haulout.base.struct_reader import Flaw, Path
from haulout.base.yaml import Node, Place
from haulout.plugins.config import ConfigProblem
from haulout.surfaces.notify.config_file.reading import Reader
from haulout.surfaces.notify.config_file.rules import flaws
from haulout.surfaces.notify.config_file.spans import Period, read
from haulout.surfaces.notify.options import Core, Notifications, Operators, Options

NO_PERIOD = "slaPeriod is not defined"
PERIOD = "a duration above 0, as 8h"
BLOCKS = {"core": Core, "notifications": Notifications, "operators": Operators}
START = Place(1, 1)
# The value for a period that cannot be read, so that the rest of the file is still checked.
_ANY_PERIOD = timedelta(hours=1)

Problems = tuple[ConfigProblem, ...]


def load(data: bytes | str) -> Options | Problems:
    """Return the options, or the problems of the file. Like the original, unknown keys at the top level are ignored."""
    try:
        tree = yaml.parse(data)
        content: Any = yaml.load(data)
    except yaml.YamlError as error:
        return (ConfigProblem(str(error), what=error.problem, place=error.place, is_syntax=True),)
    if content is not None and not isinstance(content, dict):
        return (ConfigProblem("the file must be a mapping", right="slaPeriod: 8h", place=START),)
    return _read(content or {}, tree)


def _read(content: dict[str, Any], tree: Node | None) -> Options | Problems:
    reader = Reader()
    period = _period(content, reader.flaws)
    blocks = {name: reader.block(kind, content.get(name), (name,)) for name, kind in BLOCKS.items()}
    readable = {name: block for name, block in blocks.items() if block is not None}
    options = Options(sla_for=period or _ANY_PERIOD, **readable)
    # A value that cannot be read leaves its default behind. Problems with that default are not reported.
    found = [*reader.flaws, *(each for each in flaws(options) if not _is_about(each, reader.flaws))]
    problems = (_problem(flaw, tree) for flaw in found)
    return tuple(sorted(problems, key=_place)) if found else options


def _is_about(flaw: Flaw, known: list[Flaw]) -> bool:
    """Whether a flaw is in, or around, a value that another flaw is about."""
    path = flaw[0]
    return any(path[: len(other)] == other[: len(path)] for other, _, _ in known)


def _period(content: dict[str, Any], found: list[Flaw]) -> timedelta | None:
    value, path = content.get("slaPeriod"), ("slaPeriod",)
    if value is None:
        found.append((path, NO_PERIOD, PERIOD))
        return None
    try:
        period = read(Period, value)
    except ValueError as error:
        found.append((path, str(error), PERIOD))
        return None
    if period <= timedelta():
        found.append((path, NO_PERIOD, PERIOD))
    return period


def _problem(flaw: Flaw, tree: Node | None) -> ConfigProblem:
    """Return the problem of a flaw, with the place of the innermost block on its path."""
    path, what, right = flaw
    return ConfigProblem(f"{'.'.join(path)}: {what}", what=what, right=right, path=path, place=place_of(tree, path))


def _place(problem: ConfigProblem) -> tuple[int, int]:
    place = problem.place or START
    return place.line, place.column


def place_of(tree: Node | None, path: Path) -> Place:
    return yaml.place_of(tree, path) or START
