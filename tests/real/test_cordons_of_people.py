"""A person's cordon on the real API server, which notes who set it: no surface lifts it."""

from __future__ import annotations

from pathlib import Path

import pytest

from haulout.core.cordon import ANNOTATION
from tests.rig.api import Api
from tests.rig.kwok import Kwok
from tests.rig.maintenances import NMS, define, ends, maintenance, succeeds
from tests.rig.operator import Platform
from tests.rig.plane import ControlPlane
from tests.rig.wait import eventually

pytestmark = pytest.mark.tools("etcd", "kube-apiserver", "kubectl", "kwok")

SURFACES = "{nodemaintenance: {}}"


def is_cordoned(api: Api, node: str) -> bool:
    return bool(api.get("nodes", node)["spec"].get("unschedulable"))


def test_a_cordon_set_again_while_no_operator_runs_stays(
    plane: ControlPlane, kwok: Kwok, prefix: str, tmp_path: Path
) -> None:
    api = plane.api()
    define(api)
    (node,) = kwok.nodes(prefix, 1)
    api.create(NMS, maintenance(prefix, node))
    with Platform(plane, tmp_path, "", "leader: {elect: false}", surfaces=SURFACES):
        succeeds(api, prefix)
    plane.kubectl("uncordon", node)
    plane.kubectl("cordon", node)
    with Platform(plane, tmp_path, "", "leader: {elect: false}", surfaces=SURFACES):
        ends(api, prefix)
        eventually(lambda: ANNOTATION not in api.get("nodes", node)["metadata"]["annotations"], "it is released")
    assert is_cordoned(api, node)


def test_a_ledger_that_was_left_behind_does_not_lift_a_cordon_of_a_person(
    plane: ControlPlane, kwok: Kwok, prefix: str, tmp_path: Path
) -> None:
    api = plane.api()
    define(api)
    (node,) = kwok.nodes(prefix, 1)
    api.patch("nodes", node, {"metadata": {"annotations": {ANNOTATION: '{"before":false,"by":[]}'}}})
    plane.kubectl("cordon", node)
    with Platform(plane, tmp_path, "", "leader: {elect: false}", surfaces=SURFACES):
        api.create(NMS, maintenance(prefix, node))
        succeeds(api, prefix)
        ends(api, prefix)
        eventually(lambda: ANNOTATION not in api.get("nodes", node)["metadata"]["annotations"], "it is released")
    assert is_cordoned(api, node)
