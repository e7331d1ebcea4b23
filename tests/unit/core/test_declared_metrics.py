"""The metrics that surfaces declare, against those that the code makes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import haulout
from haulout.surfaces.registry import all_declarations

SOURCES = Path(haulout.__file__).parent
# What makes a metric, with the name as its first argument.
MAKERS = ("count", "observe", "begin", "gauge", "Measure")
# prometheus_client makes them.
OF_THE_PROCESS = re.compile("process_")


def _texts(tree: ast.AST) -> Iterator[str]:
    """Yield every text in a module, f-strings as regular expressions, without the texts of declarations."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("Metric", "_gauge"):
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield re.escape(node.value)
        if isinstance(node, ast.JoinedStr):
            parts = [re.escape(str(each.value)) if isinstance(each, ast.Constant) else r"\w+" for each in node.values]
            if parts[0] != r"\w+":
                yield "".join(parts)
        else:
            yield from _texts(node)


def _made() -> Iterator[str]:
    """Return the names of metrics in the code that makes them."""
    for path in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
                maker = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                text = node.args[0].value
                if maker in MAKERS and isinstance(text, str) and re.fullmatch("[a-z]+(_[a-z0-9]+)+", text):
                    yield text


def test_every_metric_that_is_declared_is_made_somewhere() -> None:
    texts = {text for path in SOURCES.rglob("*.py") for text in _texts(ast.parse(path.read_text()))}
    patterns = re.compile("|".join(text for text in texts if re.match("[a-z]+_", text)))
    # The metrics of packages are published a second time, under the name of the other API group.
    names = [
        metric.name.replace("nodewright_", "skyhook_", 1) for each in all_declarations() for metric in each.metrics
    ]
    assert [name for name in names if not patterns.fullmatch(name) and not OF_THE_PROCESS.match(name)] == []


def test_every_metric_that_is_made_is_declared() -> None:
    names = {metric.name for each in all_declarations() for metric in each.metrics}
    assert set(_made()) - names == set()


def test_labels_stand_in_order_and_names_once() -> None:
    metrics = [metric for each in all_declarations() for metric in each.metrics]
    assert [metric.name for metric in metrics if list(metric.labels) != sorted(metric.labels)] == []
    assert len({metric.name for metric in metrics}) == len(metrics)
