"""Finds promtool, which tests alert rules as Prometheus itself does. It is unpacked from Debian's package, and nothing is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tools.build import cache_root

PACKAGE = "prometheus"


def promtool() -> Path | None:
    """Return the path of promtool on this machine or in our cache; None if it is in neither."""
    found = shutil.which("promtool")
    cached = cache_root() / "promtool"
    return Path(found) if found else cached if cached.is_file() else None


def prepare() -> str:
    """Unpack promtool into our cache if it is missing. Without Debian's packages, its test is skipped. Return no obstacle."""
    if promtool() is not None or shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        return ""
    if os.geteuid() == 0:
        _run("apt-get", "update", "-qq", folder=None)
    with tempfile.TemporaryDirectory() as scratch:
        _run("apt-get", "download", "-qq", PACKAGE, folder=scratch)
        for package in Path(scratch).glob("*.deb"):
            _run("dpkg-deb", "-x", str(package), "unpacked", folder=scratch)
        unpacked = Path(scratch) / "unpacked" / "usr" / "bin" / "promtool"
        if unpacked.is_file():
            cache_root().mkdir(parents=True, exist_ok=True)
            # Moved in one step, because other checkouts share the cache.
            partial = cache_root() / f"promtool.{os.getpid()}"
            shutil.copy2(unpacked, partial)
            partial.rename(cache_root() / "promtool")
    return ""


def _run(*argv: str, folder: str | None) -> None:
    subprocess.run(argv, cwd=folder, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
