"""Reads the configuration file: bytes to options, or everything that is wrong with it, each with its place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from haulout.base import yaml
from haulout.base.yaml import Node, Place
from haulout.plugins.config import ConfigProblem
from haulout.surfaces.notify.options import Core, Notifications, Operators, Options
from haulout.surfaces.notify.rules import WORDS, flaws
from haulout.surfaces.notify.spans import Period, read

NO_PERIOD = "slaPeriod is not defined"
BLOCKS: dict[str, type[msgspec.Struct]] = {"core": Core, "notifications": Notifications}
START = Place(1, 1)
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")

Problems = tuple[ConfigProblem, ...]


def load(data: bytes | str) -> Options | Problems:
    """Return the options, or what is wrong. Unknown keys at the top are not ours, and ignored as the original does."""
    try:
        tree = yaml.parse(data)
        content: Any = yaml.load(data)
    except yaml.YamlError as error:
        return (ConfigProblem(str(error), what=error.problem, place=error.place, is_syntax=True),)
    if content is not None and not isinstance(content, dict):
        return (ConfigProblem("the file must be a mapping", place=START),)
    return _read(content or {}, tree)


def _read(content: dict[str, Any], tree: Node | None) -> Options | Problems:
    problems: list[ConfigProblem] = []

    def convert(path: tuple[str, ...], kind: type[Any], value: Any) -> Any:
        try:
            return msgspec.convert({} if value is None else value, kind, dec_hook=read)
        except msgspec.ValidationError as error:
            problems.append(_problem(str(error), path, tree))
            return None

    period = _period(content, tree, problems)
    blocks = {name: convert((name,), kind, content.get(name)) for name, kind in BLOCKS.items()}
    operators = _operators(content.get("operators"), convert)
    if not problems:
        options = Options(sla_for=period, operators=Operators(**operators), **blocks)
        problems += [_problem(what, path, tree, right) for path, what, right in flaws(options)]
        if not problems:
            return options
    return tuple(problems)


def _operators(content: Any, convert: Any) -> dict[str, Any]:
    """Read each operator on its own, so that what is wrong in several is told at once."""
    known = {field.encode_name: field.type for field in msgspec.structs.fields(Operators)}
    if not isinstance(content, dict):
        return {} if content is None else {"": convert(("operators",), Operators, content)}
    unknown = {name: value for name, value in content.items() if name not in known}
    if unknown:
        convert(("operators",), Operators, unknown)
    return {name: convert(("operators", name), known[name], value) for name, value in content.items() if name in known}


def _period(content: dict[str, Any], tree: Node | None, problems: list[ConfigProblem]) -> Any:
    value = content.get("slaPeriod")
    right = "a duration above 0, as 8h"
    if value is None:
        problems.append(ConfigProblem(NO_PERIOD, right=right, path=("slaPeriod",), place=START))
        return None
    try:
        period = read(Period, value)
    except ValueError as error:
        problems.append(_problem(str(error), ("slaPeriod",), tree, right))
        return None
    if period.total_seconds() <= 0:
        problems.append(_problem(NO_PERIOD, ("slaPeriod",), tree, right))
    return period


def _problem(text: str, path: tuple[str, ...], tree: Node | None, right: str = "") -> ConfigProblem:
    """Return a problem with the place of the innermost block that its path leads to."""
    what, _, below = text.rpartition(" - at `$") if " - at `$" in text else (text, "", "")
    steps = (*path, *_steps(below.rstrip("`")))
    if unknown := _UNKNOWN.fullmatch(what):
        what, steps = "there is no such key", (*steps, unknown[1])
    places = (yaml.place_of(tree, steps[:length]) for length in range(len(steps), -1, -1))
    place = next((place for place in places if place is not None), START)
    return ConfigProblem(f"{'.'.join(steps)}: {what}", what=what, right=right, path=steps, place=place)


def _steps(text: str) -> Iterator[str]:
    """Yield the parts of a path such as `.recipes[0].type`."""
    yield from (step for step in text.replace("[", ".").replace("]", "").split(".") if step)


def schema() -> dict[str, Any]:
    """Return the JSON schema of the file, for editors."""
    spans = {"type": ["string", "integer"], "description": "A duration, as 90s or 1h30m."}
    parts, definitions = msgspec.json.schema_components(
        [Core, Notifications, Operators], schema_hook=lambda kind: spans, ref_template="#/$defs/{name}"
    )
    for (block, key), words in WORDS.items():
        definitions[block]["properties"][key]["enum"] = list(words)
    properties = {"slaPeriod": spans, **dict(zip(("core", "notifications", "operators"), parts, strict=True))}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "notifyMaintenanceConfig.yaml",
        "type": "object",
        "required": ["slaPeriod"],
        "properties": properties,
        "$defs": definitions,
    }
