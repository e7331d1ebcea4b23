"""Recognizes configuration files and manifests by their content, and collects the errors and warnings of each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from haulout.base import yaml
from haulout.base.visible import visible_line
from haulout.core.surface import Lint
from haulout.settings.file import SettingsProblem, read_file
from haulout.settings.manifest_lint import definition_of_object, definitions, object_problems, objects_of
from haulout.surfaces.registry import enabled_surfaces, load, surfaces

_PLACED = re.compile(r"(?P<file>.*?):(?P<line>\d+):(?P<column>\d+): (?:(?P<path>[\w.-]+): )?(?P<what>.*)", re.DOTALL)


class Finding(msgspec.Struct, frozen=True):
    """One error or warning about a configuration file or manifest, with its place.

    `path`: the setting or field that it is about, such as `surfaces.profiles`.
    `right`: what would be right; empty where there is no suggestion.
    `rule`: what was checked: `settings` of a configuration file, the `schema` of an object, or a `rule` of its surface.
    """

    file: str
    line: int
    column: int
    path: str
    what: str
    right: str
    severity: str
    rule: str = "settings"

    def __str__(self) -> str:
        path = f"{self.path}: " if self.path else ""
        right = f" ({self.right})" if self.right else ""
        return visible_line(f"{self.file}:{self.line}:{self.column}: {self.severity}: {path}{self.what}{right}")


SETTINGS_KEYS = frozenset({"surfaces", "listen", "leader", "log"})
EMPTY = "the file is empty"
NONE = "no surface is switched on: run needs --surfaces"


def lint_file(data: bytes, name: str, environment: Mapping[str, str]) -> list[Finding]:
    """Return the errors and warnings of a configuration file or manifest. Its content says which kind of file it is."""
    objects = objects_of(data)
    if any(definition_of_object(each) for each in objects):
        found = [finding for each in objects for finding in _lint_object(each, name)]
        return sorted(found, key=lambda finding: (finding.line, finding.column))
    if foreign := foreign_kind(data):
        return [Finding(name, 1, 1, "", not_ours(foreign), right_for(foreign), "error")]
    kind = kind_of(data, name)
    if kind is None:
        return _lint_settings(data, name)
    if kind.takes_rest and _is_empty(data):
        # Neither content nor name shows the kind of file, or it is one that may not be empty.
        return [Finding(name, 1, 1, "", EMPTY, _right_for_empty(kind), "error")]
    return [
        Finding(
            name,
            problem.place.line,
            problem.place.column,
            problem.path,
            problem.what,
            problem.right,
            "error" if problem.is_error else "warning",
        )
        for problem in load(kind.check)(data, source=name, environment=environment)
    ]


def _is_empty(data: bytes) -> bool:
    """Whether a file has no content beside comments."""
    try:
        tree = yaml.parse(data, any_keys=True)
    except yaml.YamlError:
        return False
    return not tree.entries if isinstance(tree, yaml.Mapping) else getattr(tree, "value", None) in (None, "")


def _right_for_empty(kind: Lint) -> str:
    """Return what belongs into a file of which nothing but perhaps its name is known."""
    keys = " and ".join(f"`{key}`" for key in kind.keys)
    return f"haulout.yaml has `surfaces`: `haulout init` writes one; {kind.stem}.yaml has {keys}"


def is_of_others(data: bytes, name: str) -> bool:
    """Whether a file is none of ours: by its objects, or else by its name and by the keys at its top."""
    if objects := objects_of(data):
        return not any(definition_of_object(each) for each in objects)
    if Path(name).stem in {"haulout", *(each.stem for surface in surfaces() for each in surface.lint)}:
        return False
    try:
        tree = yaml.parse(data, any_keys=True)
    except yaml.YamlError:
        groups = {group.encode() for group, _ in definitions()}
        return b"{{" in data or not any(group in data for group in groups)
    return not (_serves_surfaces(tree) or _recognized(tree))


def _serves_surfaces(tree: yaml.Node | None) -> bool:
    """Whether a file has the blocks of surfaces, as haulout.yaml. The chart's values have `true` there."""
    blocks = yaml.node_at(tree, ("surfaces",)) if tree is not None else None
    switches = blocks.entries.values() if isinstance(blocks, yaml.Mapping) else ()
    return blocks is not None and not any(
        isinstance(each, yaml.Scalar) and isinstance(each.value, bool) for each in switches
    )


def _lint_object(document: yaml.Node, name: str) -> list[Finding]:
    """Return the findings about an object in a manifest; none if its kind is not one of ours."""
    definition = definition_of_object(document)
    return [
        Finding(
            name,
            each.place.line,
            each.place.column,
            each.path,
            each.what,
            "",
            "error" if each.is_error else "warning",
            each.rule,
        )
        for each in (object_problems(document, definition) if definition is not None else ())
    ]


def _lint_settings(data: bytes, name: str) -> list[Finding]:
    try:
        file = read_file(data, name, {}, {})
    except SettingsProblem as problem:
        return [_from_line(line, name) for line in problem.lines]
    # A file without surfaces is only a warning, because --surfaces can name them.
    return [] if file.blocks else [Finding(name, 1, 1, "surfaces", NONE, "", "warning")]


def foreign_kind(data: bytes) -> str:
    """Return the kind of the Kubernetes object that a file holds, such as Deployment; empty where it holds none."""
    try:
        tree = yaml.parse(data, any_keys=True)
    except yaml.YamlError:
        return ""
    entries = tree.entries if isinstance(tree, yaml.Mapping) else {}
    kind = entries.get("kind")
    return str(kind.value) if isinstance(kind, yaml.Scalar) and kind.value and "apiVersion" in entries else ""


def not_ours(kind: str) -> str:
    """Say that a file holds a Kubernetes object instead of settings."""
    return f"this is a {kind}, not a configuration file"


def right_for(kind: str) -> str:
    """Return the advice for a user who named a file with an object of this kind."""
    if kind == "ConfigMap":
        return "write what stands under its `data` into a file of its own"
    files = ", ".join(f"{each.stem}.yaml" for surface in surfaces() for each in surface.lint)
    return f"haulout.yaml, {files}"


def named_files(data: bytes, name: str) -> tuple[str, ...]:
    """Return the paths of surfaces' own files that a haulout.yaml names; empty for any other or an invalid file."""
    if kind_of(data, name) is not None:
        return ()
    try:
        blocks = read_file(data, name, {}, {}).blocks
    except SettingsProblem:
        return ()
    found = []
    for each in enabled_surfaces(blocks):
        block = getattr(blocks[each.within], each.name) if each.within else blocks[each.name]
        found += load(each.decisions).files(block)
    return tuple(dict.fromkeys(found))


def kind_of(data: bytes, name: str) -> Lint | None:
    """Return the kind of a configuration file, by its content or else by its name. None stands for haulout.yaml."""
    try:
        tree = yaml.parse(data, any_keys=True)
    except yaml.YamlError:
        tree = None
    keys = tree.entries.keys() if isinstance(tree, yaml.Mapping) else frozenset[str]()
    if keys & SETTINGS_KEYS:
        return None
    known = [each for surface in surfaces() for each in surface.lint]
    stem = Path(name).stem
    found = _recognized(tree)
    if found is not None or stem == "haulout":
        return found
    named = (each for each in known if each.stem == stem)
    return next(named, None) or next(each for each in known if each.takes_rest)


def _recognized(tree: yaml.Node | None) -> Lint | None:
    """Return the kind of a surface's configuration file that its content shows."""
    keys = tree.entries.keys() if isinstance(tree, yaml.Mapping) else frozenset[str]()
    known = (each for surface in surfaces() for each in surface.lint)
    found = (each for each in known if keys & set(each.keys) or (each.recognizes and load(each.recognizes)(tree)))
    return next(found, None)


def _from_line(line: str, name: str) -> Finding:
    found = _PLACED.fullmatch(line)
    if not found:
        return Finding(name, 1, 1, "", line.removeprefix(f"{name}: "), "", "error")
    return Finding(name, int(found["line"]), int(found["column"]), found["path"] or "", found["what"], "", "error")
