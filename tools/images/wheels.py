"""The Python packages of the images: the locked dependencies and Haulout's own wheel."""

from __future__ import annotations

import dataclasses
import email.parser
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from email.message import Message
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[2]
REQUIREMENTS = ROOT / "requirements" / "run.txt"
# What pip may choose: wheels for the interpreter and the C library of the images, never sources.
NEWEST_GLIBC = 36
PLATFORMS = (*(f"manylinux_2_{minor}_x86_64" for minor in range(NEWEST_GLIBC, 4, -1)), "manylinux2014_x86_64")
CHOICE = (
    *("--only-binary", ":all:", "--implementation", "cp", "--python-version", "3.11"),
    *(word for abi in ("cp311", "abi3", "none") for word in ("--abi", abi)),
    *(word for platform in PLATFORMS for word in ("--platform", platform)),
)
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "--quiet")


@dataclasses.dataclass(frozen=True)
class Wheel:
    """A wheel. `path`: its file."""

    path: Path
    sha256: str

    @property
    def metadata(self) -> Message:
        with zipfile.ZipFile(self.path) as archive:
            (name,) = (each for each in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", each))
            return email.parser.Parser().parsestr(archive.read(name).decode())

    @property
    def name(self) -> str:
        """Its name as the package index writes it."""
        return re.sub(r"[-_.]+", "-", str(self.metadata["Name"])).lower()

    @property
    def version(self) -> str:
        return str(self.metadata["Version"])


def wheel(path: Path) -> Wheel:
    return Wheel(path, hashlib.sha256(path.read_bytes()).hexdigest())


def download(cache: Path, requirements: Path = REQUIREMENTS) -> list[Wheel]:
    """Return the wheels of the locked dependencies, which pip verifies by their hashes."""
    locked = requirements.read_text()
    kept = cache / hashlib.sha256(f"{locked}{CHOICE}".encode()).hexdigest()[:16]
    listed = kept / "wheels.json"
    if listed.exists():
        digests: dict[str, str] = json.loads(listed.read_text())
        made = [wheel(kept / name) for name in sorted(digests) if (kept / name).exists()]
        if {each.path.name: each.sha256 for each in made} == digests:
            return made
    fresh = kept.with_suffix(f".{os.getpid()}")
    run([*PIP, "download", "--no-deps", "--require-hashes", *CHOICE, "-d", str(fresh), "-r", str(requirements)])
    made = [wheel(path) for path in sorted(fresh.glob("*.whl"))]
    (fresh / "wheels.json").write_text(json.dumps({each.path.name: each.sha256 for each in made}))
    shutil.rmtree(kept, ignore_errors=True)
    fresh.rename(kept)
    return [dataclasses.replace(each, path=kept / each.path.name) for each in made]


def build(into: Path, epoch: int) -> Wheel:
    """Build Haulout's own wheel from this checkout, as `make release` does."""
    words = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(into)]
    run(words, SOURCE_DATE_EPOCH=str(epoch))
    (made,) = into.glob("haulout-*.whl")
    return wheel(made)


def unpack(made: Wheel, into: Path, wants: Callable[[str], bool]) -> None:
    """Write the wanted files of a wheel into a directory of packages."""
    with zipfile.ZipFile(made.path) as archive:
        for entry in archive.infolist():
            if entry.is_dir() or not wants(entry.filename):
                continue
            place = PurePosixPath(re.sub(r"^[^/]+\.data/(purelib|platlib)/", "", entry.filename))
            if place.is_absolute() or ".." in place.parts:
                raise SystemExit(f"{made.path.name} has a file outside of its directory: {entry.filename}")
            target = into / place
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(archive.read(entry))
            target.chmod(0o755 if entry.external_attr >> 16 & 0o100 else 0o644)


def run(words: list[str], **variables: str) -> str:
    """Run a program. Return its output, or end with what it printed when it fails."""
    done = subprocess.run(words, cwd=ROOT, check=False, capture_output=True, text=True, env={**os.environ, **variables})
    if done.returncode:
        raise SystemExit(f"{' '.join(words[:6])} ... ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout
