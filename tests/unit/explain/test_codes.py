"""The reasons that the operator can have, against those that are described for people."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import haulout
from haulout.core.drain.progress import Standing
from haulout.explain.codes import by_surface
from haulout.surfaces.notify.scheduler.show import TEXTS

SOURCES = Path(haulout.__file__).parent
# Codes that are chosen at run time: of budgets, of pods that are left, of nodes under a Skyhook, of the scheduler.
CHOSEN = {
    "budget-full",
    "domain-taken",
    "window-closed",
    "finalizer",
    "terminating",
    "node-failing",
    "node-incomplete",
    *(each.lower() for each in (Standing.NAMESPACE, Standing.WAITING, Standing.HELD, Standing.FAILED)),
    *TEXTS,
}
# Where a code is not written down in the call that makes the reason. Each place is one that fills CHOSEN.
CHOOSING = {
    "surfaces/packages/present.py",
    "surfaces/notify/scheduler/show.py",
    "core/budgets/cover.py",
    "core/drain/progress.py",
}


def _constants(tree: ast.Module) -> dict[str, str]:
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign):
            continue
        for target in node.targets:
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts, strict=False))
            for name, value in pairs:
                if isinstance(name, ast.Name) and isinstance(value, ast.Constant) and isinstance(value.value, str):
                    found[name.id] = value.value
    return found


def written() -> Iterator[tuple[str, str | None]]:
    """Every place that makes a reason, with its code where that is written down."""
    for path in sorted(SOURCES.rglob("*.py")):
        tree = ast.parse(path.read_text())
        constants = _constants(tree)
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == "Reason"
                and node.args
            ):
                code, place = node.args[0], path.relative_to(SOURCES).as_posix()
                if isinstance(code, ast.Constant) and isinstance(code.value, str):
                    yield place, code.value
                elif isinstance(code, ast.Name) and code.id in constants:
                    yield place, constants[code.id]
                else:
                    yield place, None


def test_every_reason_that_can_be_had_is_described_and_no_other() -> None:
    made = {code for _, code in written() if code is not None} | CHOSEN
    described = {code for codes in by_surface().values() for code in codes}
    assert described - made == set(), "described, but never made"
    assert made - described == set(), "made, but not described"


def test_codes_are_written_where_reasons_are_made_except_in_known_places() -> None:
    assert {place for place, code in written() if code is None} == CHOOSING
