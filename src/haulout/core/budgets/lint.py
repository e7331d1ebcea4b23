"""What `haulout lint` finds in a NodeDisruptionBudget beyond the schema of its definition."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from haulout.cluster.key import Key
from haulout.core.budgets.budget import read_budget
from haulout.core.budgets.wire import NodeBudgetRow
from haulout.core.surface import ObjectProblem

_PLACED = re.compile(r"(spec[\w.\[\]]*): (.*)", re.DOTALL)


def lint_budget(name: str, spec: Mapping[str, Any]) -> Iterator[ObjectProblem]:
    """Yield the problems for which the operator would take this budget for invalid, and so refuse all claims."""
    for problem in read_budget(NodeBudgetRow(key=Key("", "NodeDisruptionBudget", "", name), spec=spec)).problems:
        found = _PLACED.fullmatch(problem)
        if found is None:
            yield ObjectProblem(problem)
        else:
            yield ObjectProblem(found[2], tuple(re.findall(r"\w+", found[1])))
