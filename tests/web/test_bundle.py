"""The committed bundle is what the sources build, it is small, and the sources pass their own checks."""

from __future__ import annotations

import subprocess

import pytest

from tools import browser


@pytest.fixture(scope="module", autouse=True)
def packages() -> None:
    if why := browser.prepare():
        pytest.skip(why)


def passes(*command: str) -> None:
    done = subprocess.run(command, cwd=browser.WEB, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


def test_the_committed_bundle_is_built_again_byte_for_byte() -> None:
    passes("node", "build.mjs", "--check")


def test_the_sources_have_strict_types() -> None:
    passes("node_modules/.bin/tsc", "--noEmit")


def test_the_tests_beside_the_sources_pass() -> None:
    passes("node", "test.mjs")


def test_the_lock_file_names_no_registry() -> None:
    assert "http" not in "".join(line for line in browser.LOCK.read_text().splitlines() if "resolved" in line)
