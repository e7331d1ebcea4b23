"""Tells configuration files apart by their content, and collects what is wrong with each."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from haulout.base import yaml
from haulout.cli.settings_file import SettingsProblem, read_settings
from haulout.surfaces.profiles.lint import lint
from haulout.surfaces.profiles.surface import known_plugins

_PLACED = re.compile(r"(?P<file>.*?):(?P<line>\d+):(?P<column>\d+): (?:(?P<path>[\w.-]+): )?(?P<what>.*)", re.DOTALL)


class Finding(msgspec.Struct, frozen=True):
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
    if _is_settings(data):
        try:
            read_settings(data, name, {}, {}, "")
        except SettingsProblem as problem:
            return [_from_line(line, name) for line in problem.lines]
        return []
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
        for problem in lint(data, known_plugins(), source=name, environment=environment)
    ]


def _is_settings(data: bytes) -> bool:
    try:
        tree = yaml.parse(data)
    except yaml.YamlError:
        return False
    return isinstance(tree, yaml.Mapping) and "surfaces" in tree.entries


def _from_line(line: str, name: str) -> Finding:
    found = _PLACED.fullmatch(line)
    if not found:
        return Finding(name, 1, 1, "", line.removeprefix(f"{name}: "), "", "error")
    return Finding(name, int(found["line"]), int(found["column"]), found["path"] or "", found["what"], "", "error")
