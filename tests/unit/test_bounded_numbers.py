"""Numbers in texts of objects are read within bounds: `1e9000000` must not stop the operator, nor 5,000 digits end a decision.

`Fraction` and `Decimal` compute for hours over a short text, `int` refuses more than 4,300 digits with an exception, and
`float` returns infinity or NaN. So only the modules below turn text into numbers by these; all others call them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from haulout.base.gotemplate import Map, render
from haulout.base.number import digits, parse_int
from haulout.base.quantity import QuantityError, amount
from haulout.base.semver import SemverError, Version
from haulout.cluster.project import version_number
from haulout.core.holds import PRIORITY_ANNOTATION, read_priority

SOURCES = Path(__file__).parents[2] / "src" / "haulout"
UNBOUNDED = {"int", "float", "Fraction", "Decimal", "complex", "fromhex"}
# Calls and attributes whose results are numbers, not texts.
NUMERIC_CALLS = {
    *("total_seconds", "timestamp", "len", "sum", "max", "min", "round", "bool", "log2", "days", "abs", "isinstance"),
    *("getsockname", "Fraction", "any", "all"),
}
# Modules and functions that give text to these types, and why that is bounded.
BOUNDED = {
    # The modules of base that read numbers for all others.
    "base.number": "each function checks the length first",
    "base.quantity": "a text has 400 characters at most, and an exponent three digits",
    "base.duration": "19 digits at most, one at a time after the point",
    "base.semver": "a version has 256 characters at most",
    "base.cron": "a number has three digits at most",
    "base.weekday": "a number has two digits at most",
    "base.patch": "an index has nine digits at most",
    "base.selector._int64": "40 digits at most",
    "base.arithmetic": "a formula has 4,096 characters at most; float takes time in proportion, and infinity compares",
    "base.yaml": "an index in a path of ours; a tagged value is a number already, of a bounded scalar",
    "base.gotemplate.text": "at most eight digits of an escape in a literal",
    "base.gotemplate.times": "nine digits of a fraction",
    "base.gotemplate.execute": "a number of a template, not a text",
    "base.gotemplate.functions": "a number of a template, not a text",
    "base.gotemplate.printing": "a number of a template, not a text",
    # Patterns that allow few digits.
    "core.budgets.budget._Reader.most": "a percentage has three digits at most",
    "surfaces.packages.specs.versions": "a version has 63 characters at most",
    "surfaces.packages.skyhook.claims._overall": "a setting that was checked when it was read",
    "surfaces.notify.scheduler.budgets.allowed_by": "a percentage of the file, of three digits at most",
    "surfaces.notify.recipes.attempts._last_attempt": "six digits at most",
    "surfaces.notify.drainer.report": "seven digits at most",
    "surfaces.notify.scheduler.show": "nine digits at most before and after the point",
    "surfaces.profiles.messages._time": "two digits",
    "surfaces.profiles.wire": "six digits at most",
    "serve.certificate_end._instant": "the two digits of a year that was parsed already",
    # Samples of Prometheus: float takes time in proportion to a bounded answer. Infinity and NaN are samples.
    "clients.prometheus": "an answer is bounded",
    "plugins.checks.prometheus_instant": "a sample that was read as a number",
    "surfaces.packages.skyhook.wave_gates": "a sample that was read as a number",
    # Values that are numbers already: typed fields, counts, values of JSON and of files.
    "app.controllers.depths": "a count",
    "app.process.Process": "a count",
    "clients.otlp._readable": "digits of a digest of ours",
    "core.budgets.status.samples": "a count",
    "core.logbook.trace.is_sampled": "eight digits of a digest of ours",
    "explain.history": "counts of events, which are integers in the API",
    "kube.allowed_addresses": "an IP address",
    "kube.http1.answer.AnswerParser.take_head": "three digits",
    "kube.http1.message.MessageParser": "at most 18 digits",
    "kube.reflector.Reflector": "a number of seconds of ours",
    "serve.exchange.Request.content_length": "at most 18 digits",
    "plan.chart": "a number",
    "plugins.shape": "a number of a file",
    "serve.web": "a port of a socket; a weight in a header, whose length is bounded, that is compared alone",
    "settings.lint": "line and column of a problem of ours",
    "surfaces.clusterapi.metrics": "a count",
    "surfaces.nodemaintenance.options": "a number of the settings",
    "surfaces.notify.config_file.reading": "a number of the file",
    "surfaces.notify.scheduler.fairness": "a count",
    "surfaces.notify.scheduler.present": "a count",
    "surfaces.packages.metrics": "a count",
    "authoring": "files of a package, on the machine of its author",
    # The embedded cluster serves demo, plan and tests. Its integers have passed the schemas of Kubernetes.
    "embedded": "integers of the API, which the schemas have checked; texts of annotations are read by base.number",
}


def _is_number(node: ast.expr) -> bool:
    """Whether an expression is a number by its form, so that converting it reads no text."""
    match node:
        case ast.Constant() | ast.Compare():
            return True
        case ast.BoolOp(values=values):
            return all(_is_number(value) for value in values)
        case ast.UnaryOp(op=op, operand=operand):
            return isinstance(op, ast.Not) or _is_number(operand)
        case ast.BinOp(left=left, right=right):
            return _is_number(left) or _is_number(right)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name in NUMERIC_CALLS
        case _:
            return False


def _conversions(tree: ast.AST, place: str) -> Iterator[tuple[str, int]]:
    for child in ast.iter_child_nodes(tree):
        named = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
        inner = f"{place}.{child.name}" if isinstance(child, named) else place
        match child:
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[first, *_]) if name in UNBOUNDED:
                if not _is_number(first):
                    yield place, child.lineno
        yield from _conversions(child, inner)


def conversions() -> list[tuple[str, int]]:
    """Return the functions that convert something that may be a text, each with its line."""
    found: list[tuple[str, int]] = []
    for path in sorted(SOURCES.rglob("*.py")):
        if "agent" not in path.relative_to(SOURCES).parts[0]:
            module = ".".join(path.relative_to(SOURCES).with_suffix("").parts)
            found += _conversions(ast.parse(path.read_text()), module)
    return found


def _listed(place: str) -> bool:
    return any(place == known or place.startswith(f"{known}.") for known in BOUNDED)


def test_only_the_listed_functions_make_numbers_of_texts() -> None:
    assert [f"{place}, line {line}" for place, line in conversions() if not _listed(place)] == []


def test_each_listed_function_still_does() -> None:
    places = {place for place, _ in conversions()}
    assert [known for known in BOUNDED if not any(f"{place}.".startswith(f"{known}.") for place in places)] == []


@pytest.mark.parametrize("text", ["", "-1", "+1", "1.0", "1e3", " 1", "١", "²", "1_0", "9" * 19, "9" * 100_000])
def test_what_is_not_a_short_row_of_digits_is_no_number(text: str) -> None:
    assert digits(text) is None


def test_digits_are_a_number() -> None:
    assert (digits("007"), digits("9" * 18), digits("123", most=2)) == (7, 10**18 - 1, None)


@pytest.mark.parametrize("text", ["9" * 5000, "1e9000000", "0x" + "f" * 5000, "²", "NaN", "-" + "9" * 5000])
def test_the_readers_of_objects_take_any_text(text: str) -> None:
    assert version_number(text) == 0
    assert read_priority({PRIORITY_ANNOTATION: text}) is None
    assert parse_int(text) is None
    assert render("{{ printf .x 1 }}", Map({"x": f"%[{text}]d %{text}d %.{text}f"}))
    with pytest.raises(SemverError):
        Version(f"v{text}.0.0")
    with pytest.raises(QuantityError):
        amount(text)
