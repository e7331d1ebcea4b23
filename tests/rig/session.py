"""What the fixtures of all tiers share: what a missing tool means, names per test, and logs that outlive a failure."""

from __future__ import annotations

import itertools
import os
import re
import sys
from collections.abc import Iterator

import pytest
from _pytest.capture import CaptureManager

from tests.build.examples import FULL
from tests.rig.process import Scratch
from tools.build import find_tool

_numbers = itertools.count(1)


def lack(reason: str) -> None:
    """Skip a test, or fail it in a run in which everything must run."""
    if FULL:
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def require_tools(*names: str) -> None:
    lacking = [name for name in names if find_tool(name) is None]
    if lacking:
        lack(f"no {', '.join(lacking)}: run `make tools` (needs Go)")


def require_marked_tools(item: pytest.Item) -> None:
    for mark in item.iter_markers("tools"):
        require_tools(*mark.args)


def scratch_of(session: pytest.Session, label: str) -> Iterator[Scratch]:
    """Yield the scratch directory of a session fixture. If a test has failed, print where its logs were kept."""
    scratch = Scratch(f"{label}-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}")
    yield scratch
    if session.testsfailed:
        # Bypass the capturing of output: a worker has no other way to the terminal.
        capturing = session.config.pluginmanager.getplugin("capturemanager")
        assert isinstance(capturing, CaptureManager)
        with capturing.global_and_fixture_disabled():
            print(f"\nlogs of the test run: {scratch.keep()}", file=sys.stderr)
    scratch.close()


def unique_prefix(test: str) -> str:
    """Return a prefix that no other test's names have, and that shows readers of logs which test it is."""
    slug = re.sub(r"[^a-z0-9]+", "-", test.lower().removeprefix("test_")).strip("-")[:24].strip("-")
    return f"t{next(_numbers):04}-{slug}"
