"""A real control plane as a site of the cases."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Iterator

from tests.contract.hooks import Hooks
from tests.contract.world import Site
from tests.rig.plane import ControlPlane
from tests.rig.process import Scratch


@contextlib.contextmanager
def real_site(scratch: Scratch, hooks: Hooks) -> Iterator[Site]:
    with ControlPlane(scratch.directory("plane")) as plane:
        tls = ssl.create_default_context(cafile=plane.ca)
        yield Site(
            "real", plane.server, plane.token("test"), tls, hooks, lambda: forget(plane), plane.start_controllers
        )


def forget(plane: ControlPlane) -> None:
    """Kill a server. One that is asked to stop would wait for its watches to end."""
    plane.apiserver.kill()
    plane.etcd.compact()
    plane.start_apiserver()
