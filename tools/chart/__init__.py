"""The Helm chart in deploy/chart: what of it follows from declarations, so that it agrees with `haulout manifests`."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tools.chart.templates import templates
from tools.chart.values import schema, values_text

TOP = Path(__file__).parents[2]
CHART = TOP / "deploy" / "chart"
# A chart cannot read files outside of its folder, so it has copies of them.
COPIES = {
    "files/prometheus-rule.yaml": TOP / "deploy" / "monitoring" / "prometheus-rule.yaml",
    "files/dashboard.json": TOP / "deploy" / "monitoring" / "dashboard.json",
}


def files() -> dict[str, str]:
    """Return the text of every file of the chart that is not written by hand, by its path in the chart."""
    return {
        "values.yaml": values_text(),
        "values.schema.json": msgspec.json.format(msgspec.json.encode(schema()), indent=2).decode() + "\n",
        **{f"templates/{name}": text for name, text in templates()},
        **{name: source.read_text() for name, source in COPIES.items()},
    }
