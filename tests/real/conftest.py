"""One bare and one managed control plane per test run, started when first asked for; names of its own per test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.rig.faults import FaultProxy
from tests.rig.kwok import Kwok
from tests.rig.plane import ControlPlane
from tests.rig.process import Scratch
from tests.rig.session import require_marked_tools, require_tools, scratch_of, unique_prefix


def pytest_runtest_setup(item: pytest.Item) -> None:
    require_marked_tools(item)


@pytest.fixture(scope="session")
def scratch(request: pytest.FixtureRequest) -> Iterator[Scratch]:
    yield from scratch_of(request.session, "real")


@pytest.fixture(scope="session")
def plane(scratch: Scratch) -> Iterator[ControlPlane]:
    """etcd and an API server alone. Only the test and the operator change objects."""
    require_tools("etcd", "kube-apiserver", "kubectl")
    with ControlPlane(scratch.directory("plane")) as made:
        yield made


@pytest.fixture(scope="session")
def managed_plane(scratch: Scratch) -> Iterator[ControlPlane]:
    """A control plane with workload and disruption controllers and a scheduler.

    It is a separate one, because it collects garbage.
    """
    require_tools("etcd", "kube-apiserver", "kubectl", "kube-controller-manager", "kube-scheduler")
    with ControlPlane(scratch.directory("managed-plane")) as made:
        made.start_controllers()
        made.start_scheduler()
        yield made


@pytest.fixture(scope="session")
def kwok(plane: ControlPlane) -> Iterator[Kwok]:
    require_tools("kwok")
    with Kwok(plane) as made:
        yield made


@pytest.fixture(scope="session")
def managed_kwok(managed_plane: ControlPlane) -> Iterator[Kwok]:
    require_tools("kwok")
    with Kwok(managed_plane) as made:
        yield made


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> str:
    return unique_prefix(request.node.name)


@pytest.fixture
def namespace(plane: ControlPlane, prefix: str) -> Iterator[str]:
    """A namespace on the bare plane, named like the prefix. All objects with the prefix are removed after the test."""
    yield from namespace_on(plane, prefix)


@pytest.fixture
def managed_namespace(managed_plane: ControlPlane, prefix: str) -> Iterator[str]:
    yield from namespace_on(managed_plane, prefix)


def namespace_on(plane: ControlPlane, prefix: str) -> Iterator[str]:
    plane.api().create("namespaces", {"metadata": {"name": prefix}})
    yield prefix
    plane.wipe(prefix)


@pytest.fixture
def proxy(plane: ControlPlane) -> Iterator[FaultProxy]:
    """A fault proxy in front of the bare plane, without rules."""
    with FaultProxy(plane) as made:
        yield made
