"""Checks of a notify configuration file, and of NotifyMaintenances in manifests, that need no cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from haulout.base import yaml
from haulout.base.struct_reader import Path
from haulout.base.yaml import Node, Place
from haulout.core.surface import ObjectProblem
from haulout.plugins.file_lint import Problem, similar
from haulout.surfaces.notify.admit import id_problem, spec_problem
from haulout.surfaces.notify.load import BLOCKS, START, load, place_of
from haulout.surfaces.notify.options import Operators, Options
from haulout.surfaces.notify.recipes.recipe import ANSIBLE, JOB, WEBHOOK, Recipe
from haulout.surfaces.notify.wire import Spec

# The types of recipe that read a key. Keys that are not listed are read by all types.
USED_BY = {
    **dict.fromkeys(("template", "placement"), (JOB,)),
    **dict.fromkeys(("image", "playbook", "sshKeySecret", "knownHosts", "user", "extraVars"), (ANSIBLE,)),
    **dict.fromkeys(
        ("url", "caFile", "tokenSecret", "hmacSecret", "requestTimeout", "requestRetries", "pollInterval"), (WEBHOOK,)
    ),
    "namespace": (JOB, ANSIBLE),
    "success": (JOB, ANSIBLE, WEBHOOK),
}


def lint(data: bytes, *, source: str, environment: Mapping[str, str]) -> list[Problem]:
    """Return all errors of the file or, if it has none, warnings about settings that have no effect."""
    read = load(data)
    if not isinstance(read, Options):
        return [Problem(source, each.place or START, ".".join(each.path), each.what, each.right) for each in read]
    tree = yaml.parse(data)
    found = [*_repeated(tree), *((place_of(tree, path), path, what) for path, what in _vain(read, tree))]
    ordered = sorted(found, key=lambda each: (each[0].line, each[0].column))
    return [Problem(source, place, ".".join(path), what, is_error=False) for place, path, what in ordered]


def lint_notice(name: str, spec: Mapping[str, Any]) -> Iterator[ObjectProblem]:
    """Yield the problem for which the webhook would refuse a NotifyMaintenance."""
    read = msgspec.convert(spec, Spec)
    if problem := spec_problem(read) or id_problem(read):
        yield ObjectProblem(problem)


def _vain(options: Options, tree: Node | None) -> Iterator[tuple[Path, str]]:
    """Yield the settings that have no effect, or probably not the intended one, with the reason."""
    known = ("slaPeriod", *BLOCKS)
    for name in tree.entries if isinstance(tree, yaml.Mapping) else ():
        if name not in known and (meant := similar(name, known)):
            yield (name,), f"this key is not known, and ignored: {meant}"
    operators = options.operators
    yield from _defaults(operators)
    if operators.scheduler.enabled and not operators.returner.enabled:
        path = ("operators", "scheduler")
        yield path, "without the returner, nodes that it cordons have to be uncordoned by hand"
    if operators.drainer.enabled and not operators.drainer.max_concurrent_evictions:
        yield ("operators", "drainer", "maxConcurrentEvictions"), "with 0 no pod is ever evicted"
    if operators.runner.enabled and not operators.runner.max_concurrent:
        yield ("operators", "runner", "maxConcurrent"), "with 0 no recipe ever runs"
    for name, recipes in (("runner", operators.runner.recipes), ("validator", operators.validator.recipes)):
        for number, recipe in enumerate(recipes):
            yield from _unread(recipe, ("operators", name, "recipes", str(number)))


def _defaults(operators: Operators) -> Iterator[tuple[Path, str]]:
    runner, validator = operators.runner, operators.validator
    for name, key, operator, default in (
        ("runner", "defaultClient", runner, runner.default_client),
        ("validator", "default", validator, validator.default),
    ):
        if operator.enabled and default and default not in {recipe.name for recipe in operator.recipes}:
            path = ("operators", name, key)
            yield path, f"its default {default} is none of its recipes, so nothing is done by default"


def _unread(recipe: Recipe, path: Path) -> Iterator[tuple[Path, str]]:
    """Yield the keys of a recipe that its type or its operator does not read, and what it should have."""
    default = Recipe(name="", type="")
    for field in msgspec.structs.fields(Recipe):
        is_set = getattr(recipe, field.name) != getattr(default, field.name)
        kinds = USED_BY.get(field.encode_name)
        if is_set and kinds is not None and recipe.type not in kinds:
            yield (*path, field.encode_name), f"a recipe of type {recipe.type} does not read it"
    if recipe.type == ANSIBLE and recipe.known_hosts is None:
        yield path, "without knownHosts, SSH cannot tell the node from another host at its address"
    if recipe.checks is not None and path[1] == "runner":
        yield (*path, "checks"), "only the validator runs checks"


def _repeated(node: Node | None, path: Path = ()) -> Iterator[tuple[Place, Path, str]]:
    """Yield the keys that occur twice in a block. The last one counts."""
    match node:
        case yaml.Mapping():
            for name, inner in node.entries.items():
                if name in node.earlier:
                    line = node.earlier[name].line
                    yield node.keys[name], (*path, name), f"set in line {line} already; this one counts"
                yield from _repeated(inner, (*path, name))
        case yaml.Sequence():
            for number, inner in enumerate(node.items):
                yield from _repeated(inner, (*path, str(number)))
