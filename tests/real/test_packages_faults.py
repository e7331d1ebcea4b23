"""The packages operator through a proxy that misbehaves: watches end, stall and expire, writes are refused, over a whole life."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.real.test_packages_fleet import MANAGED, SKYHOOKS, P, define
from tests.rig.api import Json
from tests.rig.faults import Answer, CutAfter, CutBefore, CutStream, FaultProxy
from tests.rig.kwok import Kwok
from tests.rig.operator import SkyhookOperator
from tests.rig.plane import ControlPlane
from tests.rig.wait import eventually

pytestmark = pytest.mark.tools("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")

STAGES = ["apply", "config", "interrupt", "post-interrupt", "upgrade", "config", "interrupt", "post-interrupt"]


def test_a_package_lives_through_every_fault(
    managed_plane: ControlPlane, managed_kwok: Kwok, managed_namespace: str, tmp_path: Path
) -> None:
    api, name = managed_plane.api(), managed_namespace
    define(api)
    managed_kwok.nodes(name, 1, labels={MANAGED: name})
    package: Json = {"version": "1.0.0", "image": "reg.test/base", "interrupt": {"type": "noop"}}
    spec = {"nodeSelectors": {"matchLabels": {MANAGED: name}}, "packages": {"base": package}}
    body = {"apiVersion": f"{P}v1alpha1", "kind": "Skyhook", "metadata": {"name": name}, "spec": spec}

    def is_complete() -> bool:
        found = api.get(SKYHOOKS, name)
        status = found.get("status", {})
        is_seen = status.get("observedGeneration") == found["metadata"]["generation"]
        return bool(is_seen and status.get("status") == "complete")

    with FaultProxy(managed_plane) as proxy:
        rules = [
            proxy.rule(Answer(409), method="PATCH", path=f"/nodes/{name}", skip=1, times=1),
            proxy.rule(Answer(429, retry_after=1), method="PATCH", path=f"/nodes/{name}", skip=4, times=1),
            proxy.rule(Answer(500), method="POST", path="/pods$", skip=1, times=1),
            proxy.rule(CutBefore(), method="POST", path="/pods$", skip=2, times=1),
            proxy.rule(CutAfter(), method="POST", path="/pods$", skip=3, times=1),
            proxy.rule(CutAfter(), method="PATCH", path=f"/skyhooks/{name}/status", skip=2, times=1),
            proxy.rule(CutStream(events=3, how="end"), path="/pods$", watch=True, times=1),
            proxy.rule(CutStream(events=2, how="reset"), path="/nodes$", watch=True, times=1),
            proxy.rule(Answer(410), path="/nodes$", watch=True, times=1),
        ]
        with SkyhookOperator(managed_plane, tmp_path, name, server=proxy.url):
            api.create(SKYHOOKS, body)
            eventually(is_complete, "it is complete", 120)
            api.patch(SKYHOOKS, name, {"spec": {"packages": {"base": {"version": "1.1.0"}}}})
            eventually(is_complete, "it is upgraded", 120)
            api.delete(SKYHOOKS, name)
            eventually(lambda: api.find(SKYHOOKS, name) is None, "it is gone", 60)
    made = [write.body for write in proxy.writes if write.path.endswith("/pods") and write.code == 201]
    stages = [json.loads(pod["metadata"]["annotations"][f"{P}package"])["stage"] for pod in made]
    assert [number for number, rule in enumerate(rules) if not rule.acted] == []
    assert stages == STAGES
