"""`python -m tools.chart`: writes the chart's files that follow from declarations, and removes those that do so no longer."""

from __future__ import annotations

from tools.chart import CHART, files

made = files()
for folder in ("templates/crds", "templates/roles", "files"):
    for path in (CHART / folder).glob("*"):
        if str(path.relative_to(CHART)) not in made:
            path.unlink()
for name, text in made.items():
    (CHART / name).parent.mkdir(parents=True, exist_ok=True)
    (CHART / name).write_text(text)
