"""Pods that a real API server accepts and that are too large for us: they affect no other object, and are drained as others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rig.api import Api, Json
from tests.rig.faults import Answer, FaultProxy
from tests.rig.fleet import node_object, pod_object
from tests.rig.maintenances import NMS, define, ends, maintenance, pods_on, succeeds
from tests.rig.operator import Platform
from tests.rig.plane import ControlPlane
from tests.rig.wait import eventually

pytestmark = pytest.mark.tools("etcd", "kube-apiserver")

EVENTS = "events.k8s.io/v1/events"
SEEN = 'haulout_oversized_objects_total{kind="Pod"}'


def fat_pod(name: str, node: str) -> Json:
    """Return a pod of 1.2 MB in etcd and 7.2 MB in JSON, because Go's encoder makes six bytes of each `<`."""
    container = {"name": "c", "image": "i", "args": ["<" * 1_200_000]}
    spec = {"nodeName": node, "terminationGracePeriodSeconds": 0, "containers": [container]}
    return {"metadata": {"name": name}, "spec": spec}


@pytest.fixture
def api(plane: ControlPlane) -> Api:
    define(plane.api())
    return plane.api()


@pytest.fixture
def operator(plane: ControlPlane, api: Api, proxy: FaultProxy, namespace: str, tmp_path: Path) -> Iterator[Platform]:
    """An operator that finds one large pod in its first list, which has to be a list in pages."""
    for name in ("one", "two"):
        plane.load([node_object(f"{namespace}-{name}")])
    api.create("pods", fat_pod("listed", f"{namespace}-one"), namespace)
    proxy.rule(Answer(400), path="/pods$", watch=True, times=1)
    settings = "leader: {elect: false}"
    made = Platform(plane, tmp_path, "", settings, server=proxy.url, surfaces="{nodemaintenance: {}}")
    with made:
        yield made


def told(api: Api) -> str:
    return " ".join(event.get("note", "") for event in api.items(EVENTS) if event["reason"] == "ObjectTooLarge")


def test_nodes_with_oversized_pods_are_drained(api: Api, namespace: str, operator: Platform) -> None:
    ns, one, two = namespace, f"{namespace}-one", f"{namespace}-two"
    eventually(lambda: operator.metric(SEEN) == 1, "the listed pod is counted")
    api.create("pods", fat_pod("watched", two), ns)
    api.create("pods", pod_object("thin", ns, two, grace=0, running=False), ns)
    eventually(lambda: operator.metric(SEEN) == 2, "so is the one that the watch brings")
    notes = [f"Pod {ns}/{name} is too large and is read in part: it has 72" for name in ("listed", "watched")]
    eventually(lambda: all(note in told(api) for note in notes), "and told")

    for node in (one, two):
        api.create(NMS, maintenance(node, node))
    succeeds(api, one, two)
    assert pods_on(api, one, ns) == pods_on(api, two, ns) == []
    ends(api, one, two)
