"""What is said about the Python that runs the program."""

from __future__ import annotations

import sys
import sysconfig

import pytest

from haulout.base import interpreter

SLOW = ", built without --enable-optimizations"


@pytest.mark.parametrize(
    ("prefix", "options", "note"),
    [
        ("/opt/python", "'--enable-shared'", SLOW),
        ("/opt/python", None, SLOW),
        ("/opt/python", "'--enable-shared' '--enable-optimizations'", ""),
        ("/usr", "'--enable-shared'", ""),
    ],
    ids=["without", "unknown", "with", "of a distribution"],
)
def test_a_build_without_optimizations_is_noted(
    monkeypatch: pytest.MonkeyPatch, prefix: str, options: str | None, note: str
) -> None:
    monkeypatch.setattr(sys, "base_prefix", prefix)
    monkeypatch.setattr(sysconfig, "get_config_var", {"CONFIG_ARGS": options}.get)
    version = ".".join(map(str, sys.version_info[:3]))
    assert interpreter.description() == f"CPython {version}{note}"
