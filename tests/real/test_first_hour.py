"""The settings of `haulout init` on a real API server: a node with pods is drained, and the log has no error."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest

from tests.real.profiles import PROFILE, STATE, label_of
from tests.rig.fleet import Owner
from tests.rig.kwok import Kwok
from tests.rig.operator import Platform
from tests.rig.plane import ControlPlane
from tests.rig.wait import eventually

pytestmark = pytest.mark.tools("etcd", "kube-apiserver", "kwok")

REBOOT = "example.com/reboot"


def test_a_drain_without_trouble_logs_no_error(
    plane: ControlPlane, kwok: Kwok, namespace: str, prefix: str, tmp_path: Path
) -> None:
    (node,) = kwok.nodes(prefix, 1)
    kwok.pods(namespace, [node], 5, owner=Owner("ReplicaSet", prefix), stops_after="2s")
    config = files("haulout.settings").joinpath("starters", "maintenance.yaml").read_text()
    # Leases of its own: other tests have theirs in the namespace that is usual.
    settings = f"namespace: {namespace}"
    with Platform(plane, tmp_path, config, settings) as operator:
        plane.api().patch("nodes", node, {"metadata": {"labels": {PROFILE: "reboot", REBOOT: "wanted"}}})
        eventually(lambda: label_of(plane.api().get("nodes", node), STATE) == "in-maintenance", "it is drained")
        assert plane.api().items("pods", namespace) == []
        plane.api().patch("nodes", node, {"metadata": {"labels": {REBOOT: "done"}}})
        eventually(lambda: label_of(plane.api().get("nodes", node), STATE) == "operational", "it is back")
        assert operator.logged("The transition waits for its triggers")
        assert '"level":"error"' not in operator.process.text()
    plane.wipe(prefix)
