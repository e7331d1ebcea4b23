"""Measures whether tests notice mistakes: changes one place of the sources at a time, and runs the tests that should fail.

    python -m tools.mutations --count 100 --seed 1

A place is an operator, a comparison or a constant in `kernel`, `core`, `packages` or `notify`. First the tests of these rooms run
unchanged, and it is measured which of them run which line. Then, in copies of the tree, the tests that run the changed line
run, the quickest first, until one fails. What no test notices is printed at the end.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from tools import measured

ROOT = Path(__file__).parent.parent
SOURCES = Path("src/haulout")
# A test that a change keeps from ending has noticed it. Tests may take so many times as long as unchanged, and these seconds more.
SLOWER, SPARE_SECONDS = 10, 60.0

ROOMS = ("kernel", "core", "surfaces/packages", "surfaces/notify")
TESTS = (
    *(f"tests/unit/{room}" for room in ("kernel", "core", "drain", "packages", "notify", "nodemaintenance", "acts")),
    *("tests/property/kernel", "tests/property/test_packages_*.py", "tests/property/test_notify_*.py"),
    *("tests/property/test_drain_*.py", "tests/property/test_logbook.py", "tests/property/test_maintenance_sets.py"),
    *("tests/scenario/test_packages*.py", "tests/scenario/test_notify*.py", "tests/scenario/test_explain_*.py"),
    *(
        f"tests/scenario/test_{name}.py"
        for name in (
            *("acts", "completion", "drain", "expires", "fleet", "maintenance_sets", "nodemaintenance", "overrides"),
            *("pauses", "plan_of_notify", "status", "surfaces_together", "vanished_objects"),
        )
    ),
)
# The first tests to run: among so many there is nearly always one that notices.
FIRST = 40

COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
SPELLED: dict[type[ast.cmpop], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "not in",
}


@dataclasses.dataclass(frozen=True)
class Mutation:
    """One change of one line: columns `begin` to `end` become `after`."""

    path: str
    room: str
    line: int
    begin: int
    end: int
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.begin + 1}: {self.before} -> {self.after}"


@dataclasses.dataclass(frozen=True)
class Verdict:
    """Whether a test noticed a mutation, and which."""

    mutation: Mutation
    killer: str
    seconds: float


def mutations(root: Path) -> Iterator[Mutation]:
    """Yield every place that can be changed, in the order of the files."""
    for room in ROOMS:
        for path in sorted((root / SOURCES / room).rglob("*.py")):
            text = path.read_text()
            lines = text.splitlines()
            for node in _nodes(ast.parse(text)):
                for line, begin, end, after in _changes(node, lines):
                    before = lines[line - 1].encode()[begin:end].decode()
                    yield Mutation(path.relative_to(root).as_posix(), room, line, begin, end, before, after)


def _nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that run: no annotations, decorators, and blocks for type checkers."""
    for field, value in ast.iter_fields(tree):
        if field in {"annotation", "returns", "decorator_list", "bases"}:
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST):
                continue
            if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
                continue
            yield child
            yield from _nodes(child)


def _changes(node: ast.AST, lines: list[str]) -> Iterator[tuple[int, int, int, str]]:
    """Yield the changes of a node as line, first column, column behind the last, and the new text. Columns count bytes."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        operator = type(node.ops[0])
        yield from _between(node.left, node.comparators[0], SPELLED[operator], COMPARISONS[operator], lines)
    elif isinstance(node, ast.BoolOp) and len(node.values) == 2:
        before, after = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        yield from _between(node.values[0], node.values[1], before, after, lines)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        before, after = ("+", "-") if isinstance(node.op, ast.Add) else ("-", "+")
        yield from _between(node.left, node.right, before, after, lines)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.lineno, node.col_offset, node.col_offset + len("not "), ""
    elif isinstance(node, ast.Constant) and node.end_col_offset is not None:
        if isinstance(node.value, bool):
            yield node.lineno, node.col_offset, node.end_col_offset, str(not node.value)
        elif isinstance(node.value, int):
            yield node.lineno, node.col_offset, node.end_col_offset, str(node.value + 1)


def _between(
    left: ast.expr, right: ast.expr, before: str, after: str, lines: list[str]
) -> Iterator[tuple[int, int, int, str]]:
    """Yield the change of an operator that stands alone between its sides on one line."""
    if left.end_lineno != right.lineno or left.end_col_offset is None:
        return
    between = lines[right.lineno - 1].encode()[left.end_col_offset : right.col_offset].decode()
    if between.strip(" ()") == before:
        begin = left.end_col_offset + between.index(before)
        yield right.lineno, begin, begin + len(before), after


def changed(text: str, mutation: Mutation) -> str:
    lines = text.splitlines(keepends=True)
    line = lines[mutation.line - 1].encode()
    lines[mutation.line - 1] = (line[: mutation.begin] + mutation.after.encode() + line[mutation.end :]).decode()
    return "".join(lines)


def judge(tree: Path, mutation: Mutation, tests: Mapping[str, float]) -> Verdict:
    """Return which test notices a mutation, or none. `tests`: with the seconds that each took unchanged. The tree stays as it was."""
    path, started = tree / mutation.path, time.monotonic()
    original = path.read_text()
    path.write_text(changed(original, mutation))
    try:
        rungs = ([*tests][:FIRST], [*tests][FIRST:])
        limits = [SPARE_SECONDS + SLOWER * sum(tests[test] for test in rung) for rung in rungs]
        failures = (_failure(tree, rung, limit) for rung, limit in zip(rungs, limits, strict=True) if rung)
        killer = next(filter(None, failures), "")
    finally:
        path.write_text(original)
    return Verdict(mutation, killer, time.monotonic() - started)


def measure(tree: Path, folder: Path, workers: int) -> str:
    """Run the tests unchanged, and measure which of them run which line. Return the first that fails."""
    patterns = [found for pattern in TESTS for found in sorted(tree.glob(pattern)) or [tree / pattern]]
    spread = ("-n", str(workers), "--dist", "worksteal")
    return _failure(
        tree,
        [*spread, "-p", "tools.measured", *(found.relative_to(tree).as_posix() for found in patterns)],
        None,
        {measured.FOLDER: str(folder), measured.BY_TEST: "1"},
    )


def _failure(tree: Path, words: Sequence[str], limit: float | None, more: Mapping[str, str] | None = None) -> str:
    """Run pytest with these words, for so many seconds at most. Return the first test that fails; empty if all pass."""
    argv = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--no-header", *words]
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": "1", **(more or {})}
    try:
        done = subprocess.run(
            argv, cwd=tree, env=environment, capture_output=True, text=True, check=False, timeout=limit
        )
    except subprocess.TimeoutExpired:
        return f"no end within {limit:.0f} s"
    if done.returncode == 0:
        return ""
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0].partition(" - ")[0] if failed else f"pytest ended with {done.returncode}"


def copies(count: int, scratch: Path) -> list[Path]:
    """Return copies of the files that git tracks, for tests that run side by side."""
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    trees = [scratch / str(number) for number in range(count)]
    for tree in trees:
        for name in tracked.splitlines():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    return trees


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--count", type=int, default=100, help="how many places to change")
    parser.add_argument("--seed", type=int, default=1, help="which places: the same seed chooses the same ones")
    parser.add_argument("--workers", type=int, default=2, help="how many changes to try side by side")
    parser.add_argument("--first", type=int, default=0, help="leave out the places before this number")
    parser.add_argument("--report", type=Path, help="also write each verdict to this file, as a line of JSON")
    parser.add_argument(
        "--measured", type=Path, help="the folder of an earlier measurement of the same sources, or for one"
    )
    given = parser.parse_args()
    # A place in each room in turn, as large rooms would otherwise leave hardly any to small ones.
    rooms = {room: [each for each in mutations(ROOT) if each.room == room] for room in ROOMS}
    chance = random.Random(given.seed)
    share = -(-given.count // len(ROOMS))
    chosen = [each for places in rooms.values() for each in chance.sample(places, min(share, len(places)))][
        : given.count
    ]
    survivors: list[Mutation] = []
    with tempfile.TemporaryDirectory(prefix="haulout-mutations-") as scratch, ThreadPoolExecutor(given.workers) as pool:
        free = SimpleQueue[Path]()
        for tree in copies(given.workers, Path(scratch)):
            free.put(tree)

        folder = (given.measured or Path(scratch) / "measured").absolute()
        if not folder.exists():
            folder.mkdir(parents=True)
            if failure := measure(ROOT, folder, given.workers):
                print(f"without any change, {failure} fails: nothing can be measured", file=sys.stderr)
                return 1
        tests = measured.Tests(folder)
        # One after another: the database of a measurement is read by one thread.
        concerned = {each: tests.of(ROOT / each.path, each.line) for each in chosen}

        def tried(mutation: Mutation) -> Verdict:
            tree = free.get()
            try:
                return judge(tree, mutation, concerned[mutation])
            finally:
                free.put(tree)

        for number, verdict in enumerate(pool.map(tried, chosen[given.first :]), given.first):
            fate = verdict.killer or "SURVIVED"
            print(f"{number:>3} {verdict.seconds:>5.0f} s  {verdict.mutation}  {fate}", flush=True)
            if given.report:
                with given.report.open("a") as report:
                    report.write(json.dumps([str(verdict.mutation), verdict.killer]) + "\n")
            if not verdict.killer:
                survivors.append(verdict.mutation)
    tried_count = len(chosen) - given.first
    print(f"\n{tried_count - len(survivors)} of {tried_count} mutations were noticed by a test")
    for each in survivors:
        print(f"  survived: {each}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
