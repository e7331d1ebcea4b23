"""Formats and lints in one run, so that it shows everything that is wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

RUFF = str(Path(sys.executable).parent / "ruff")


def main() -> int:
    formatted = subprocess.run([RUFF, "format", "--check", "--quiet"], check=False).returncode
    linted = subprocess.run([RUFF, "check", "--quiet"], check=False).returncode
    if formatted:
        print("the format differs: run `make format`", file=sys.stderr)
    return formatted or linted


if __name__ == "__main__":
    sys.exit(main())
