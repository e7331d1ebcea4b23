"""What `haulout lint` finds in a NodeMaintenanceSet beyond the schema of its definition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from haulout.core.surface import ObjectProblem
from haulout.surfaces.nodemaintenance.sets.wire import SetProblem, read_spec


def lint_set(name: str, spec: Mapping[str, Any]) -> Iterator[ObjectProblem]:
    """Yield the problem for which the operator would leave a set alone."""
    try:
        read = read_spec(dict(spec))
    except SetProblem as problem:
        field, _, what = str(problem).partition(" ")
        yield ObjectProblem(what, tuple(field.split(".")))
        return
    if len(read.nodes) < len(spec["nodes"]):
        yield ObjectProblem("names a node twice", ("spec", "nodes"), is_error=False)
