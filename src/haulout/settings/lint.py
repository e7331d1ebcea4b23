"""Tells configuration files apart by their content, and collects what is wrong with each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from haulout.base import yaml
from haulout.settings.file import SettingsProblem, read_file
from haulout.surfaces.esx import lint as esx
from haulout.surfaces.kubernikus import lint as kubernikus
from haulout.surfaces.profiles.lint import lint
from haulout.surfaces.profiles.surface import known_plugins

_PLACED = re.compile(r"(?P<file>.*?):(?P<line>\d+):(?P<column>\d+): (?:(?P<path>[\w.-]+): )?(?P<what>.*)", re.DOTALL)


class Finding(msgspec.Struct, frozen=True):
    """One error or warning about a configuration file, with its place.

    `path`: the setting that it is about, such as `surfaces.profiles`.
    `right`: what would be right; empty where there is no suggestion.
    """

    file: str
    line: int
    column: int
    path: str
    what: str
    right: str
    severity: str

    def __str__(self) -> str:
        path = f"{self.path}: " if self.path else ""
        right = f" ({self.right})" if self.right else ""
        return f"{self.file}:{self.line}:{self.column}: {self.severity}: {path}{self.what}{right}"


def lint_file(data: bytes, name: str, environment: Mapping[str, str]) -> list[Finding]:
    kind = kind_of(data, name)
    if kind == SETTINGS:
        try:
            file = read_file(data, name, {}, {})
        except SettingsProblem as problem:
            return [_from_line(line, name) for line in problem.lines]
        # It may still be told on the command line which there are to be.
        return [] if file.blocks else [Finding(name, 1, 1, "surfaces", NONE, "", "warning")]
    match kind:
        case "esx":
            found = esx.lint(data, source=name, environment=environment)
        case "kubernikus":
            found = kubernikus.lint(data, source=name, environment=environment)
        case _:
            found = lint(data, known_plugins(), source=name, environment=environment)
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
        for problem in found
    ]


SETTINGS, PROFILES = "settings", "profiles"
NONE = "no surface is switched on: run needs --surfaces"


def kind_of(data: bytes, name: str) -> str:
    """By what stands in the file; where that says nothing, by its name. Profiles are what is left."""
    try:
        tree = yaml.parse(data, any_keys=True)
    except yaml.YamlError:
        tree = None
    entries = tree.entries if isinstance(tree, yaml.Mapping) else {}
    if entries.keys() & {"surfaces", "listen", "leader", "log"}:
        return SETTINGS
    if entries.keys() & {"instances", "profiles"}:
        return PROFILES
    if esx.is_esx(tree):
        return "esx"
    if kubernikus.is_kubernikus(tree):
        return "kubernikus"
    stem = Path(name).stem
    if stem == "haulout":
        return SETTINGS
    return stem if stem in ("esx", "kubernikus") else PROFILES


def _from_line(line: str, name: str) -> Finding:
    found = _PLACED.fullmatch(line)
    if not found:
        return Finding(name, 1, 1, "", line.removeprefix(f"{name}: "), "", "error")
    return Finding(name, int(found["line"]), int(found["column"]), found["path"] or "", found["what"], "", "error")
