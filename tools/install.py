"""Installs the pinned requirements and this project into the interpreter that runs it, and says how far it is."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
PIP = (sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--progress-bar=off")
BEGINNINGS = ("Collecting ", "Requirement already satisfied: ")


def packages(requirements: Path) -> int:
    """Return how many packages a file of pinned requirements names."""
    return sum("==" in line for line in requirements.read_text().splitlines())


def main() -> int:
    requirements = ROOT / "requirements" / "dev.txt"
    count = packages(requirements)
    print(f"installing {count} packages into {sys.prefix}; the first time this takes one to two minutes", flush=True)
    code = _installed(count, "--require-hashes", "-r", str(requirements))
    return code or _installed(0, "--no-deps", "--no-build-isolation", "--editable", str(ROOT))


def _installed(count: int, *words: str) -> int:
    """Run pip. Print each package that it looks at, and its whole output if it fails. Return its exit code."""
    lines, seen, started = list[str](), 0, time.monotonic()
    with subprocess.Popen(
        [*PIP, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as pip:
        assert pip.stdout is not None
        for line in pip.stdout:
            lines.append(line)
            begins = next((each for each in BEGINNINGS if line.startswith(each)), None)
            if begins is not None and count:
                seen += 1
                name = line.removeprefix(begins).partition("==")[0].strip()
                print(f"  {seen}/{count} {name}", flush=True)
            elif line.startswith("Installing collected packages"):
                print(f"  unpacking, after {time.monotonic() - started:.0f} s", flush=True)
    if pip.returncode:
        sys.stderr.write("".join(lines))
    return pip.returncode


if __name__ == "__main__":
    sys.exit(main())
