"""Writes the description of the console's API, src/haulout/console/openapi.json, from its operations, and the page's types."""

from __future__ import annotations

import json
from pathlib import Path

from haulout.console.openapi import description
from tools.typescript import typescript

ROOT = Path(__file__).parent.parent
FILE = ROOT / "src" / "haulout" / "console" / "openapi.json"
TYPES = ROOT / "web" / "src" / "api" / "schema.ts"


def text() -> str:
    return json.dumps(description(), indent=1, ensure_ascii=False) + "\n"


def types() -> str:
    return typescript(description()["components"]["schemas"])


if __name__ == "__main__":
    FILE.write_text(text())
    TYPES.write_text(types())
