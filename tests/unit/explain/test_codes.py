"""The reason codes that the code can make, against those that the documentation describes."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

import haulout
from haulout.core.drain.progress import Standing
from haulout.explain.codes import by_surface
from haulout.surfaces.notify.reasons import TEXTS
from haulout.surfaces.packages.skyhook.intent import IMAGE_NOT_ALLOWED, NAME_TAKEN, SKYHOOK_INVALID

SOURCES = Path(haulout.__file__).parent
# The codes that are chosen at run time, with the file that chooses: of budgets, of pods that are left, of the scheduler.
CHOSEN = {
    "core/budgets/cover.py": {"budget-full", "domain-taken", "window-closed"},
    "core/drain/progress.py": {
        each.lower() for each in (Standing.NAMESPACE, Standing.WAITING, Standing.HELD, Standing.FAILED)
    },
    "surfaces/notify/scheduler/show.py": set(TEXTS),
    "surfaces/packages/present.py": {SKYHOOK_INVALID, IMAGE_NOT_ALLOWED, NAME_TAKEN},
}
# What an expression may be: some texts, or anything (None).
Texts = frozenset[str] | None
# A module's own names, and those of other modules as `module.name`.
Names = Mapping[str, Texts]


@cache
def modules() -> dict[str, ast.Module]:
    """Return each source file by its path."""
    return {path.relative_to(SOURCES).as_posix(): ast.parse(path.read_text()) for path in SOURCES.rglob("*.py")}


def module_name(path: str) -> str:
    return f"haulout.{path.removesuffix('.py').replace('/', '.')}".removesuffix(".__init__")


def texts_of(node: ast.expr, names: Names) -> Texts:
    match node:
        case ast.Constant(value=str(text)):
            return frozenset({text})
        case ast.IfExp(body=body, orelse=other):
            first, second = texts_of(body, names), texts_of(other, names)
            return None if first is None or second is None else first | second
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return names.get(name)
    return None


def assigned(tree: ast.Module, names: Names) -> dict[str, Texts]:
    """Return what each name of a file may be. A name that is anything once may be anything."""
    found: dict[str, Texts] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign):
            continue
        for target in node.targets:
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts, strict=False))
            for name, value in pairs:
                if isinstance(name, ast.Name):
                    texts, before = texts_of(value, names), found.get(name.id, frozenset())
                    found[name.id] = None if texts is None or before is None else texts | before
    return found


def imported(tree: ast.Module, constants: Mapping[str, Mapping[str, Texts]]) -> dict[str, Texts]:
    """Return the constants of other modules that a file imports, also those that it can reach through a module."""
    found: dict[str, Texts] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for each in node.names:
                found |= constants.get(f"{node.module}.{each.name}", {})
                found[each.asname or each.name] = constants.get(node.module, {}).get(each.name)
    return found


def codes_in(call: ast.Call) -> Iterator[ast.expr]:
    """Yield the code that a call gives to a reason: a new one, or another one than it had."""
    name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
    keywords = (each.value for each in call.keywords if each.arg == "code")
    if name == "Reason":
        yield from (*call.args[:1], *keywords)
    elif name == "replace":
        yield from (each for each in keywords if isinstance(each, ast.Constant) and isinstance(each.value, str))


def written(trees: Mapping[str, ast.Module]) -> Iterator[tuple[str, Texts]]:
    """Yield every place that makes a reason, with the codes that it may have as far as they are written down."""
    constants = {module_name(path): assigned(tree, {}) for path, tree in trees.items()}
    for path, tree in trees.items():
        others = imported(tree, constants)
        names = others | assigned(tree, others)
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                yield from ((path, texts_of(code, names)) for code in codes_in(node))


def test_every_reason_that_can_be_had_is_described_and_no_other() -> None:
    made = {code for _, codes in written(modules()) for code in codes or ()}.union(*CHOSEN.values())
    described = {code for codes in by_surface().values() for code in codes}
    assert described - made == set(), "described, but never made"
    assert made - described == set(), "made, but not described"


def test_codes_are_written_where_reasons_are_made_except_in_known_places() -> None:
    assert {place for place, codes in written(modules()) if codes is None} == CHOSEN.keys()


def test_no_surface_describes_a_code_of_another() -> None:
    codes = [code for codes in by_surface().values() for code in codes]
    assert len(codes) == len(set(codes))


@pytest.mark.parametrize(
    ("source", "codes"),
    [
        ('Reason("x", key)', {"x"}),
        ('Reason(subject=key, code="x")', {"x"}),
        ('reason.Reason("x", key)', {"x"}),
        ('msgspec.structs.replace(found, code="x")', {"x"}),
        ('WORD = "x"\nReason(WORD, key)', {"x"}),
        ('A, B = "x", "y"\nReason(A if odd else B, key)', {"x", "y"}),
        ("from haulout.there import WORD\nReason(WORD, key)", {"there"}),
        ("from haulout.there import WORD as OTHER\nReason(OTHER, key)", {"there"}),
        ("from haulout import there\nReason(there.WORD, key)", {"there"}),
        ('word = "x"\nword = ask()\nReason(word, key)', None),
        ("Reason(ask(), key)", None),
    ],
)
def test_a_code_is_found_however_it_is_written(source: str, codes: set[str] | None) -> None:
    trees = {"here.py": ast.parse(source), "there.py": ast.parse('WORD = "there"')}
    assert list(written(trees)) == [("here.py", codes)]
