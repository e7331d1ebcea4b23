"""The reference of metrics: each with its kind, labels and help, by the surface that exports it."""

from __future__ import annotations

from collections.abc import Iterator

from haulout.surfaces.registry import KERNEL, all_declarations
from tools.reference.table import code, table


def lines() -> Iterator[str]:
    yield "# Metrics"
    yield ""
    yield "What `/metrics` exports. Made by `python -m tools.reference` from what the surfaces declare; tests hold the labels to"
    yield "what is exported. A histogram also has the label `le`."
    yield ""
    for surface in all_declarations():
        if surface.metrics:
            yield f"## {'Every process' if surface.name == KERNEL else code(surface.name)}"
            yield ""
            rows = [
                (code(each.name), each.kind, ", ".join(map(code, each.labels)), each.help)
                for each in sorted(surface.metrics, key=lambda each: each.name)
            ]
            yield from table(("Metric", "Kind", "Labels", "Meaning"), rows)
