"""One control plane and one real node per test run; what the node needs is installed where that is possible."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.rig.haulout_images import HauloutImages
from tests.rig.node import Node, install, lacking
from tests.rig.plane import ControlPlane
from tests.rig.process import Scratch
from tests.rig.session import lack, require_marked_tools, require_tools, scratch_of, unique_prefix


def pytest_runtest_setup(item: pytest.Item) -> None:
    require_marked_tools(item)
    if item.get_closest_marker("root") is not None:
        require_node()


def require_node() -> None:
    if lacking() and lacking() != "root on Linux":
        install()
    if missing := lacking():
        lack(f"a real node needs {missing}: see tests/rig/install-node.sh")


@pytest.fixture(scope="session")
def scratch(request: pytest.FixtureRequest) -> Iterator[Scratch]:
    yield from scratch_of(request.session, "node")


@pytest.fixture(scope="session")
def plane(scratch: Scratch) -> Iterator[ControlPlane]:
    require_tools("etcd", "kube-apiserver", "kubectl", "kubelet")
    with ControlPlane(scratch.directory("plane")) as made:
        yield made


@pytest.fixture(scope="session")
def node(plane: ControlPlane, scratch: Scratch) -> Iterator[Node]:
    """A real node that all tests share. Each has pods of its own."""
    with Node(plane, scratch.directory("node"), "real") as made:
        yield made


@pytest.fixture(scope="session")
def images(scratch: Scratch) -> HauloutImages:
    """Haulout's images, built once for all tests."""
    return HauloutImages(scratch.directory("images"))


@pytest.fixture
def namespace(plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace whose pods are all stopped after the test."""
    name = unique_prefix(request.node.name)
    plane.api().create("namespaces", {"metadata": {"name": name}})
    yield name
    plane.api().delete_all("pods", name, grace=1)
    plane.wipe(name)
