"""Installs what the tests of the console's pages need: Node's packages of `web/`, and Debian's Chromium where we are root."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

WEB = Path(__file__).parent.parent / "web"
CHROMIUM = Path("/usr/bin/chromium")
INSTALLED = WEB / "node_modules" / ".package-lock.json"
LOCK = WEB / "package-lock.json"


def prepare() -> str:
    """Install what is missing. Return what could not be installed, and what would help; empty if all is there."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        return "no node and npm: install Node 20 or later"
    if not has_packages():
        done = subprocess.run(
            ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"],
            cwd=WEB,
            check=False,
            capture_output=True,
            text=True,
        )
        if done.returncode != 0:
            return f"npm ci in web/ failed: {done.stderr.strip()[-200:]}"
    return _prepare_chromium()


def has_packages() -> bool:
    """Whether the packages are installed, and not older than their lock file."""
    return INSTALLED.is_file() and INSTALLED.stat().st_mtime >= LOCK.stat().st_mtime


def _prepare_chromium() -> str:
    if CHROMIUM.is_file():
        return ""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return "no /usr/bin/chromium: run `apt-get install chromium`"
    for words in (("update", "-qq"), ("install", "-qq", "-y", "chromium")):
        subprocess.run(
            ["apt-get", *words],
            check=False,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        )
    return "" if CHROMIUM.is_file() else "apt-get could not install chromium"


if __name__ == "__main__":
    print(prepare() or "browser: all that the tests of pages need is installed")
