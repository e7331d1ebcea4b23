"""The packages operator behind the fault proxy: watches end, stall, repeat and expire, and writes are refused, over a whole life."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.real.test_packages_crash import STAGES as WHOLE_LIFE
from tests.real.test_packages_crash import package, stages_of
from tests.real.test_packages_fleet import MANAGED, SKYHOOKS, P, define
from tests.rig.api import Api, Json
from tests.rig.faults import (
    Action,
    Answer,
    CutAfter,
    CutBefore,
    CutStream,
    DelayEvents,
    FaultProxy,
    InsertEvent,
    RepeatEvents,
    Stall,
)
from tests.rig.kwok import Kwok
from tests.rig.operator import SkyhookOperator
from tests.rig.plane import ControlPlane
from tests.rig.wait import eventually

pytestmark = pytest.mark.tools("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")

STAGES = ["apply", "config", "interrupt", "post-interrupt", "upgrade", "config", "interrupt", "post-interrupt"]


WATCHES = (r"/skyhooks$", r"/api/v1/nodes$", r"/api/v1/pods$", r"/namespaces/[^/]+/pods$", r"/configmaps$")
# ConfigMaps are watched three times, each time for another label.
MOST_WATCHES = 3
EXPIRED: Json = {
    "type": "ERROR",
    "object": {"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old"},
}
# What happens to each watch of the operator, one after another.
STREAMS: dict[str, tuple[Action, ...]] = {
    "broken": (
        CutStream(0, "torn"),
        CutStream(1, "torn"),
        CutStream(1, "reset"),
        CutStream(1, "close"),
        CutStream(1, "end"),
    ),
    "expired": (InsertEvent(EXPIRED), InsertEvent(EXPIRED, events=1)),
    "stalled": (Stall(),),
    "delayed": (DelayEvents(0.3),),
    "repeated": (RepeatEvents(times=3),),
}


def is_complete(api: Api, name: str) -> bool:
    found = api.get(SKYHOOKS, name)
    status = found.get("status", {})
    is_seen = status.get("observedGeneration") == found["metadata"]["generation"]
    return bool(is_seen and status.get("status") == "complete")


@contextmanager
def disturbed(proxy: FaultProxy, actions: tuple[Action, ...]) -> Iterator[None]:
    """Break all watches, so that those that follow misbehave; silent ones go on when the block ends."""
    # What an earlier turn did not use up would come before the rules of this one.
    proxy.clear()
    rules = [proxy.rule(action, path=path, watch=True, times=MOST_WATCHES) for path in WATCHES for action in actions]
    first = rules[:: len(actions)]
    proxy.cut_all()
    eventually(lambda: all(rule.acted for rule in first), "every watch has come back")
    yield
    for rule in rules:
        proxy.release(rule)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("actions", STREAMS.values(), ids=STREAMS.keys())
def test_a_package_lives_through_watches_that_misbehave(
    managed_plane: ControlPlane, managed_kwok: Kwok, managed_namespace: str, tmp_path: Path, actions: tuple[Action, ...]
) -> None:
    """At each turn of the life, all watches break, and misbehave when they come back."""
    api, name = managed_plane.api(), managed_namespace
    define(api)
    (node,) = managed_kwok.nodes(name, 1, labels={MANAGED: name}, suffix="-n")
    since = managed_plane.audit.mark()
    spec = {"nodeSelectors": {"matchLabels": {MANAGED: name}}, "packages": {"base": package("1.0.0", "1")}}
    body = {"apiVersion": f"{P}v1alpha1", "kind": "Skyhook", "metadata": {"name": name}, "spec": spec}
    changes = (package("1.0.0", "2"), package("1.1.0", "2"), None)
    turns: list[Callable[[], object]] = [
        lambda: api.create(SKYHOOKS, body),
        *(lambda changed=changed: api.patch(SKYHOOKS, name, {"spec": {"packages": {"base": changed}}}) for changed in changes),
    ]  # fmt: skip
    with FaultProxy(managed_plane) as proxy, SkyhookOperator(managed_plane, tmp_path, name, server=proxy.url):
        for turn in turns:
            with disturbed(proxy, actions):
                turn()
            eventually(lambda: is_complete(api, name), "it is complete", 120)
        with disturbed(proxy, actions):
            api.delete(SKYHOOKS, name)
        eventually(lambda: api.find(SKYHOOKS, name) is None, "it is gone")
    assert stages_of(managed_plane, since, name) == WHOLE_LIFE
    found = api.get("nodes", node)
    marks = {key: value for key, value in found["metadata"]["annotations"].items() if key.startswith(P)}
    assert ("unschedulable" in found["spec"], marks) == (False, {f"{P}nodeState_{name}": "{}"})


def test_a_package_lives_through_every_fault(
    managed_plane: ControlPlane, managed_kwok: Kwok, managed_namespace: str, tmp_path: Path
) -> None:
    api, name = managed_plane.api(), managed_namespace
    define(api)
    managed_kwok.nodes(name, 1, labels={MANAGED: name})
    package: Json = {"version": "1.0.0", "image": "reg.test/base", "interrupt": {"type": "noop"}}
    spec = {"nodeSelectors": {"matchLabels": {MANAGED: name}}, "packages": {"base": package}}
    body = {"apiVersion": f"{P}v1alpha1", "kind": "Skyhook", "metadata": {"name": name}, "spec": spec}

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
            eventually(lambda: is_complete(api, name), "it is complete", 120)
            api.patch(SKYHOOKS, name, {"spec": {"packages": {"base": {"version": "1.1.0"}}}})
            eventually(lambda: is_complete(api, name), "it is upgraded", 120)
            api.delete(SKYHOOKS, name)
            eventually(lambda: api.find(SKYHOOKS, name) is None, "it is gone")
    made = [write.body for write in proxy.writes if write.path.endswith("/pods") and write.code == 201]
    stages = [json.loads(pod["metadata"]["annotations"][f"{P}package"])["stage"] for pod in made]
    assert [number for number, rule in enumerate(rules) if not rule.acted] == []
    assert stages == STAGES
