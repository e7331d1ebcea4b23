"""Writes the description of the console's API, src/haulout/console/openapi.json, from its operations."""

from __future__ import annotations

import json
from pathlib import Path

from haulout.console.openapi import description

FILE = Path(__file__).parent.parent / "src" / "haulout" / "console" / "openapi.json"


def text() -> str:
    return json.dumps(description(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(text())
