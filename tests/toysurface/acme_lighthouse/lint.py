"""Checks lighthouse.yaml, a configuration file of the surface's own."""

from __future__ import annotations

from collections.abc import Mapping

from haulout.base import yaml
from haulout.plugins.file_lint import Problem


def lint(data: bytes, *, source: str, environment: Mapping[str, str]) -> list[Problem]:
    lamps = yaml.node_at(yaml.parse(data), ("lamps",))
    if isinstance(lamps, yaml.Sequence) or lamps is None:
        return []
    return [Problem(source, lamps.place, "lamps", "not a list", "such as [north, south]")]
