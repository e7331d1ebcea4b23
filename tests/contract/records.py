"""What a real API server answered to each case: one file per area in `records`, a line per step, sorted by case.

`make records` writes them. The tests compare both servers with them, so that neither has to run for the other.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.contract.registry import Case

Transcript = list[Any]

FOLDER = Path(__file__).parent / "records"
REFRESH = "`make records` writes the records anew"


def recorded(case: Case) -> Transcript:
    """Return the recorded transcript of a case; an empty one if there is none."""
    return records_of(case.area).get(case.name, [])


@functools.cache
def records_of(area: str) -> dict[str, Transcript]:
    path = FOLDER / f"{area}.json"
    found: dict[str, Transcript] = json.loads(path.read_text()) if path.exists() else {}
    return found


def text_of(transcripts: Mapping[str, Transcript]) -> str:
    """Return the content of a file of records. A step has a line of its own, so that changes read well."""
    cases = ",\n".join(f"{json.dumps(name)}: [\n{lines_of(transcripts[name])}\n]" for name in sorted(transcripts))
    return f"{{\n{cases}\n}}\n"


def lines_of(steps: Transcript) -> str:
    return ",\n".join(json.dumps(step, sort_keys=True, separators=(",", ":"), ensure_ascii=False) for step in steps)


def write(cases: Iterable[Case], transcripts: Mapping[str, Transcript]) -> None:
    """Replace all records."""
    by_area: dict[str, dict[str, Transcript]] = {}
    for case in cases:
        by_area.setdefault(case.area, {})[case.name] = transcripts[case.name]
    for stale in FOLDER.glob("*.json"):
        stale.unlink()
    FOLDER.mkdir(exist_ok=True)
    for area, found in by_area.items():
        (FOLDER / f"{area}.json").write_text(text_of(found))
