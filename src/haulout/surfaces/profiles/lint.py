"""Warnings about a `maintenance.yaml` that loads: dead ends, unused instances, transitions that can never happen."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from haulout.base import expression, yaml
from haulout.base.yaml import Node, Place
from haulout.plugins.api import Check, Notifier, Trigger
from haulout.plugins.config import ConfigProblem
from haulout.plugins.file_lint import Oddity, Problem
from haulout.plugins.shape import text_of
from haulout.surfaces.profiles.load import Configuration, Instance, Plugins, Profile, known_plugins, load_and_check
from haulout.surfaces.profiles.messages import flaw
from haulout.surfaces.profiles.wire import DEFAULT_PROFILE, State

# With more checks in one expression, trying all combinations takes too long.
MOST_CHECKS = 12

Config = Configuration[Check, Notifier, Trigger]


def lint(
    data: bytes | str, plugins: Plugins[Check, Notifier, Trigger], *, source: str, environment: Mapping[str, str]
) -> list[Problem]:
    """Return all errors and warnings, from top to bottom. There are warnings only about a file that loads."""
    config, found = load_and_check(data, plugins, source=source, environment=environment)
    if isinstance(config, ConfigProblem):
        return found
    document = yaml.parse(data)
    for path, what, right in (*_unused(config, document), *_templates(config, document), *_profiles(config, document)):
        place = yaml.place_of(document, path) or Place(1, 1)
        found.append(Problem(source, place, ".".join(path), what, right, is_error=False))
    return sorted(found, key=lambda problem: (problem.place.line, problem.place.column))


def lint_file(data: bytes, *, source: str, environment: Mapping[str, str]) -> list[Problem]:
    """Return all errors and warnings of a file, with the installed plugins."""
    return lint(data, known_plugins(), source=source, environment=environment)


def _unused(config: Config, document: Node | None) -> Iterator[Oddity]:
    stages = [stage for profile in config.profiles.values() for stage in profile.stages.values()]
    used = {
        "check": {each.name for stage in stages for move in stage.transitions for each in move.checks},
        "notify": {each.name for stage in stages for each in stage.notify},
        "trigger": {each.name for stage in stages for each in stage.enter}
        | {each.name for stage in stages for move in stage.transitions for each in move.trigger},
    }
    made = {"check": config.checks, "notify": config.notifications, "trigger": config.triggers}
    for kind, names in used.items():
        for number, name in enumerate(_written(document, ("instances", kind))):
            # A name with a variable is skipped, because its value is not known when the file is checked.
            if name in made[kind] and name not in names:
                yield ("instances", kind, str(number)), f'"{name}" is used by no profile', "use it or remove it"


def _templates(config: Config, document: Node | None) -> Iterator[Oddity]:
    """Yield templates that can never be rendered. Otherwise they would fail only when a notification is due."""
    for number, name in enumerate(_written(document, ("instances", "notify"))):
        each = config.notifications.get(name)
        if each is not None and (why := flaw(each.plugin, each.config)):
            yield ("instances", "notify", str(number), "config"), f"its message can never be rendered: {why}", ""


def _profiles(config: Config, document: Node | None) -> Iterator[Oddity]:
    for number, name in enumerate(_written(document, ("profiles",))):
        profile, path = config.profiles.get(name), ("profiles", str(number))
        if profile is None:
            continue
        reached = _reached(profile)
        for state, stage in profile.stages.items():
            empty = not (stage.transitions or stage.enter or stage.notify)
            if state not in reached and not empty:
                yield (*path, state), "no transition leads here", "add one, or remove the state"
            if state in reached and not stage.transitions and not (name == DEFAULT_PROFILE and len(reached) == 1):
                yield (*path, *(() if empty else (state,))), f"a node never leaves {state}", "add a transition"
            for place, move in enumerate(stage.transitions):
                why = _hopeless(move.check, move.checks)
                if why:
                    yield (*path, state, "transitions", str(place), "check"), f"can never pass: {why}", ""


def _reached(profile: Profile[Check, Notifier, Trigger]) -> set[State]:
    reached, fresh = set[State](), {State.OPERATIONAL}
    while fresh:
        reached |= fresh
        fresh = {move.next for state in fresh for move in profile.stages[state].transitions} - reached
    return reached


def _hopeless(check: expression.Expression, checks: tuple[Instance[Check], ...]) -> str:
    """Return why no combination of answers lets the expression pass; empty if one does."""
    instances = {each.name: each for each in checks}
    names = sorted(instances)
    never = {name: why for name, each in instances.items() if (why := _never(each))}
    if len(names) > MOST_CHECKS:
        return ""
    for answers in itertools.product((True, False), repeat=len(names)):
        values = dict(zip(names, answers, strict=True))
        if expression.evaluate(check, values) and _possible(values, instances, never):
            return ""
    return "; ".join(f"{name} {why}" for name, why in never.items()) or "its checks exclude each other"


def _possible(values: dict[str, bool], instances: dict[str, Instance[Check]], never: dict[str, str]) -> bool:
    """Whether these answers can occur together: a label has one value at a time, or none."""
    if any(values[name] for name in never):
        return False
    wanted: dict[tuple[str, str], set[str]] = {}
    absent: set[tuple[str, str]] = set()
    for name, answer in values.items():
        each = instances[name]
        if each.plugin.name not in ("hasLabel", "hasAnnotation"):
            continue
        key, value = (each.plugin.name, str(getattr(each.config, "key", ""))), str(getattr(each.config, "value", ""))
        if answer:
            wanted.setdefault(key, set()).update({value} - {""})
        elif not value:
            absent.add(key)
    return not absent & wanted.keys() and all(len(one) <= 1 for one in wanted.values())


def _never(instance: Instance[Check]) -> str:
    config: Any = instance.config
    match instance.plugin.name:
        case "maxMaintenance" if config.max < 1:
            return f"allows {config.max}"
        case "timeWindow" if config.start == config.end:
            return "is a window that never opens"
        case "stagger" if config.parallel < 1:
            return f"has {config.parallel} leases"
        case _:
            return ""


def _written(document: Node | None, path: tuple[str, ...]) -> Iterator[str]:
    """Yield the names of the items in a list, as they are written in the file."""
    node = document
    for step in path:
        node = node.entries.get(step) if isinstance(node, yaml.Mapping) else None
    for item in node.items if isinstance(node, yaml.Sequence) else ():
        name = item.entries.get("name") if isinstance(item, yaml.Mapping) else None
        yield text_of(name.value) if isinstance(name, yaml.Scalar) and name.value is not None else ""
