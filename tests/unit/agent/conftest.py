"""Hosts for the tests of the agent: in local mode and, as root, in a real chroot."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.build.agent import AgentHost, furnish, userland

MODES = ["local", pytest.param("chroot", marks=pytest.mark.skipif(os.geteuid() != 0, reason="chroot needs root"))]
Fresh = Callable[..., AgentHost]


@pytest.fixture(scope="session")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return userland(tmp_path_factory.mktemp("userland"))


@pytest.fixture(params=MODES)
def fresh(request: pytest.FixtureRequest, tmp_path: Path, tools: Path) -> Fresh:
    """A function that makes hosts of one mode."""

    def make(name: str = "host", version: str = "1.0.0") -> AgentHost:
        host = AgentHost(tmp_path / name, is_local=request.param == "local", version=version)
        if request.param == "chroot":
            furnish(host.root, tools)
        return host

    return make


@pytest.fixture
def host(fresh: Fresh) -> AgentHost:
    return fresh()


@pytest.fixture
def local(tmp_path: Path) -> AgentHost:
    """A host in local mode, for tests to which the mode makes no difference."""
    return AgentHost(tmp_path / "host")
