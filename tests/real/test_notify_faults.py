"""The operators of notify behind the fault proxy: every kind of fault, over the cycle from creation to a schedulable node."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.rig.api import Json
from tests.rig.faults import (
    Answer,
    CutAfter,
    CutBefore,
    CutStream,
    Delay,
    DelayEvents,
    DropEvents,
    FaultProxy,
    InsertEvent,
    RepeatEvents,
    Rule,
    Stall,
)
from tests.rig.kwok import ENDS_AFTER, STOPS_AFTER, Kwok
from tests.rig.notices import NMS, NotifyOperator, define, notice
from tests.rig.plane import ControlPlane
from tests.rig.wait import eventually

pytestmark = pytest.mark.tools("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")

NODES = 2
EXPIRED: Json = {
    "type": "ERROR",
    "object": {"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old"},
}


def rules(proxy: FaultProxy, prefix: str) -> list[Rule]:
    """Let each write of the cycle fail once in one way or another, and each watch once."""
    notices, status = rf"/notifymaintenances/{prefix}-\d$", rf"/notifymaintenances/{prefix}-\d/status$"
    return [
        proxy.rule(Answer(500), method="PATCH", path=notices, times=1),
        proxy.rule(Answer(409), method="PATCH", path=status, skip=1, times=1),
        proxy.rule(CutAfter(), method="PATCH", path=f"/nodes/{prefix}", times=1),
        proxy.rule(CutBefore(), method="PATCH", path=status, skip=4, times=1),
        proxy.rule(CutAfter(), method="POST", path="/eviction$", times=1),
        proxy.rule(Answer(503), method="POST", path="/eviction$", skip=2, times=1),
        proxy.rule(Answer(429, retry_after=1), method="PATCH", path=notices, skip=3, times=1),
        proxy.rule(CutAfter(), method="POST", path="/jobs$", times=1),
        proxy.rule(Answer(500), method="POST", path="/jobs$", skip=2, times=1),
        proxy.rule(CutAfter(), method="PATCH", path=status, skip=8, times=1),
        proxy.rule(CutAfter(), method="PATCH", path=notices, skip=6, times=1),
        proxy.rule(CutAfter(), method="DELETE", path=notices, times=1),
        proxy.rule(Answer(409), method="PATCH", path=f"/nodes/{prefix}", skip=2, times=1),
        proxy.rule(Delay(before=1.0, late=True), method="PATCH", path=notices, skip=8, times=1),
        proxy.rule(CutStream(events=2, how="end"), path="/notifymaintenances$", watch=True, times=1),
        proxy.rule(InsertEvent(EXPIRED, events=2), path="/notifymaintenances$", watch=True, times=1),
        proxy.rule(CutStream(events=3, how="torn"), path="/pods$", watch=True, times=1),
        proxy.rule(DropEvents(), path="/pods$", watch=True, times=1),
        proxy.rule(CutStream(events=1, how="reset"), path="/jobs$", watch=True, times=1),
        proxy.rule(Answer(410), path="/nodes$", watch=True, times=1),
        proxy.rule(RepeatEvents(), path="/nodes$", watch=True, times=1),
        proxy.rule(DelayEvents(0.3), path="/poddisruptionbudgets$", watch=True, times=1),
        proxy.rule(Stall(events=1), path="/daemonsets$", watch=True, times=1),
    ]


def test_the_cycle_goes_through_every_fault(
    managed_plane: ControlPlane, managed_kwok: Kwok, managed_namespace: str, tmp_path: Path
) -> None:
    api, name = managed_plane.api(), managed_namespace
    define(api)
    names = managed_kwok.nodes(name, NODES, labels={"node": name})
    labels = {"app": "web"}
    spec = {"nodeSelector": {"node": name}, "containers": [{"name": "c", "image": "x"}]}
    template = {"metadata": {"labels": labels, "annotations": {STOPS_AFTER: "200ms"}}, "spec": spec}
    replicas = {"replicas": 2 * NODES, "selector": {"matchLabels": labels}, "template": template}
    api.create("apps/v1/deployments", {"metadata": {"name": "web"}, "spec": replicas}, name)
    running = {"fieldSelector": "status.phase=Running"}
    eventually(lambda: len(api.items("pods", name, **running)) == 2 * NODES, "pods run")
    meta: Json = {"annotations": {ENDS_AFTER: "200ms"}}
    job = {"spec": {"template": {"metadata": meta, "spec": {"containers": [{"name": "c", "image": "x"}]}}}}
    recipe = {"name": "rec", "type": "job", "template": job}
    blocks: dict[str, Json] = {
        "scheduler": {"budgets": [{"name": "all", "nodeSelector": f"node={name}", "maxUnavailable": NODES}]},
        "drainer": {"settle": "200ms", "retryInterval": "1s"},
        "runner": {"defaultClient": "rec", "recipes": [recipe]},
        "validator": {"default": "rec", "recipes": [recipe]},
        "returner": {},
    }
    match = {"enabled": True, "match": {"namespaces": [name]}}
    config = {"slaPeriod": "1h", "operators": {key: {**match, **block} for key, block in blocks.items()}}
    with FaultProxy(managed_plane) as proxy:
        made = rules(proxy, name)
        with NotifyOperator(managed_plane, tmp_path, name, config, server=proxy.url):
            for node in names:
                api.create(NMS, notice(node, node, "mid"), name)
            eventually(lambda: not api.items(NMS, name), "both are done", 120)
    nodes = [api.get("nodes", node) for node in names]
    assert not any(node["spec"].get("unschedulable") for node in nodes)
    assert not [key for node in nodes for key in node["metadata"]["labels"] if key.startswith("maintenance/")]
    done = [write for write in proxy.writes if write.code in (200, 201)]
    evicted = Counter(write.path for write in done if write.path.endswith("/eviction"))
    created = Counter(write.body["metadata"]["name"] for write in done if write.path.endswith("/jobs"))
    assert (max(evicted.values()), max(created.values()), len(created)) == (1, 1, 2 * NODES)
    assert all(each.endswith("-1") for each in created)
    assert [number for number, rule in enumerate(made) if not rule.acted] == []
