"""What the fixtures of all tiers share: what a missing tool means, names per test, and logs that outlive a failure."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator

import pytest

from tests.rig.process import Scratch
from tools.build import find_tool

_numbers = itertools.count(1)


def lack(reason: str) -> None:
    """A skip, or a failure where everything must run."""
    if os.environ.get("HAULOUT_TEST") == "full":
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
    """The body of a session fixture: kept logs are named in the output when a test has failed."""
    scratch = Scratch(f"{label}-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}")
    yield scratch
    if session.testsfailed:
        print(f"\nlogs of the test run: {scratch.keep()}")
    scratch.close()


def unique_prefix(test: str) -> str:
    """A name that no other test's names begin with, and that tells a reader of the logs whose it is."""
    slug = re.sub(r"[^a-z0-9]+", "-", test.lower().removeprefix("test_")).strip("-")[:24].strip("-")
    return f"t{next(_numbers):04}-{slug}"
