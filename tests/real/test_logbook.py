"""The logbook and a pause of all nodes on a real control plane, with four surfaces, two replicas and a killed leader."""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from haulout.core.logbook.wire import OPEN_LABEL, REQUEST_PROOF, REQUESTED_BY
from tests.real.test_surfaces_together import (
    MAINTENANCES,
    SKYHOOKS,
    STATE_LABEL,
    WITHIN,
    Together,
    Unfinished,
    is_served,
    operator_of,
)
from tests.rig.api import CRDS, Api, Json, path_of
from tests.rig.audit import Entry
from tests.rig.fleet import node_object
from tests.rig.kwok import Kwok
from tests.rig.maintenances import LEASE_NAMESPACE, define, maintenance
from tests.rig.operator import HAULOUT, Platform, environment
from tests.rig.plane import ControlPlane
from tests.rig.process import free_port
from tests.rig.rights import printed
from tests.rig.wait import eventually

pytestmark = pytest.mark.tools("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok")

RECORDS = "haulout.dev/v1alpha1/maintenancerecords"
REGISTRATIONS = "admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
USERS = ("operator", "operator-b")
# Within this time after a pause is stored, no disruptive request leaves any more.
STOPS_WITHIN = timedelta(seconds=1)


def haulout(plane: ControlPlane, *words: str) -> str:
    env = environment(KUBECONFIG=str(plane.kubeconfig("test")))
    done = subprocess.run([str(HAULOUT), *words], env=env, text=True, capture_output=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def disrupts(entry: Entry) -> bool:
    """Whether a request evicts or starts a pod, or takes a node out of service. Pods of packages that have ended are removed."""
    if entry.act in ("create pods/eviction", "create pods", "create jobs"):
        return True
    if entry.act == "delete pods":
        return entry.name.startswith("web-")
    if entry.what != "nodes" or not isinstance(entry.body, dict):
        return False
    labels = (entry.body.get("metadata") or {}).get("labels") or {}
    return bool((entry.body.get("spec") or {}).get("unschedulable")) or labels.get(STATE_LABEL) == "in-maintenance"


def records_of(api: Api, names: list[str]) -> list[Json]:
    return [each for each in api.items(RECORDS) if each["spec"]["node"]["name"] in names]


def serve_records(api: Api) -> None:
    for crd in printed("crds", "kernel"):
        if api.find(CRDS, crd["metadata"]["name"]) is None:
            api.create(CRDS, crd)
    eventually(lambda: is_served(api, RECORDS), "records are served")


@pytest.mark.timeout(900)
def test_each_maintenance_of_four_surfaces_has_one_record_through_a_pause_and_a_killed_leader(
    managed_plane: ControlPlane, managed_kwok: Kwok, managed_namespace: str, tmp_path: Path
) -> None:
    name = managed_namespace
    together = Together(managed_plane, managed_kwok, name)
    api, since = together.api, managed_plane.audit.mark()
    serve_records(api)
    first, second = (operator_of(managed_plane, tmp_path / user, name, user=user) for user in USERS)
    with first, second:
        together.wish()
        eventually(lambda: records_of(api, together.names), "the first maintenance has begun")
        haulout(managed_plane, "pause", "--all", "--reason", "audit")
        paused_at = datetime.now(UTC)
        try:
            first.process.kill()
            first.start()
            # The other replica takes the Lease over after 15 seconds, and obeys the pause, too.
            time.sleep(25)
        finally:
            resumed_at = datetime.now(UTC)
            haulout(managed_plane, "resume", "--all")
        eventually(together.is_done, "all are done", WITHIN, refused=(Unfinished,))
        eventually(lambda: not together.marks(), "all nodes are as they were")
        is_open = lambda each: OPEN_LABEL in each["metadata"].get("labels", {})  # noqa: E731
        eventually(lambda: not any(map(is_open, records_of(api, together.names))), "all records are closed")
    sent = managed_plane.audit.entries(since=since, user=USERS)
    late = [each for each in sent if paused_at + STOPS_WITHIN < each.received_at < resumed_at and disrupts(each)]
    assert [(each.received_at - paused_at, each.act, each.of) for each in late] == []
    owners = Counter(
        (each["spec"]["surface"], each["spec"]["node"]["name"], each["spec"]["owner"]["name"])
        for each in records_of(api, together.names)
    )
    wanted = {(surface, node, node) for surface in ("nodemaintenance", "profiles", "notify") for node in together.names}
    wanted |= {("packages", node, skyhook) for node in together.names for skyhook in together.skyhooks}
    assert owners == Counter(wanted)
    for skyhook in together.skyhooks:
        api.delete(SKYHOOKS, skyhook)
    for each in records_of(api, together.names):
        api.delete(RECORDS, each["metadata"]["name"])


def test_who_asked_is_proven_by_admission_alone(
    managed_plane: ControlPlane, managed_namespace: str, tmp_path: Path
) -> None:
    api, name, port = managed_plane.api(), managed_namespace, free_port()
    define(api)
    serve_records(api)
    if api.find("namespaces", LEASE_NAMESPACE) is None:
        api.create("namespaces", {"metadata": {"name": LEASE_NAMESPACE}})
    nodes = [f"{name}-{each}" for each in "abc"]
    managed_plane.load(node_object(each) for each in nodes)
    rules: list[Json] = [
        {
            "apiGroups": ["nodemaintenance.medik8s.io"],
            "resources": ["nodemaintenances"],
            "verbs": ["create", "get", "patch", "delete"],
        }
    ]
    user = managed_plane.limited_user(rules)
    tenant = managed_plane.api(user)
    operator = Platform(managed_plane, tmp_path, "", "", surfaces="{nodemaintenance: {}}")
    operator.basic = operator.basic.replace('webhooks: "0"', f'webhooks: "127.0.0.1:{port}"')
    operator.settle(f"namespace: {name}\nleader: {{elect: false}}")
    documents = printed("webhooks", "kernel", "nodemaintenance", "--url", f"https://127.0.0.1:{port}")
    (noting,) = (each for each in documents if each["metadata"]["name"] == "haulout-requested-by")
    queen = {REQUESTED_BY: "queen", REQUEST_PROOF: "2026-01-01T00:00:00Z abc"}
    with operator:
        api.create(REGISTRATIONS, noting)
        try:
            eventually(lambda: _noted(tenant, f"{name}-dry", nodes[0]), "the webhook notes who asks")
            _ask(tenant, nodes[0], queen)
            noted = tenant.get(MAINTENANCES, nodes[0])["metadata"]["annotations"]
            assert noted[REQUESTED_BY] == user
            for forged in (queen, dict.fromkeys(queen)):
                found = tenant.patch(MAINTENANCES, nodes[0], {"metadata": {"annotations": forged}})
                assert {key: found["metadata"]["annotations"].get(key) for key in queen} == {
                    key: noted[key] for key in queen
                }
            assert _requester(api, nodes[0]) == {"name": user, "how": "admission"}
        finally:
            api.delete(REGISTRATIONS, noting["metadata"]["name"])
        # The note of another object, copied within its time, and one that is invented: neither is proven.
        _ask(tenant, nodes[1], {key: noted[key] for key in queen})
        _ask(tenant, nodes[2], queen)
        assert [_requester(api, each)["how"] for each in nodes[1:]] == ["claimed", "claimed"]
        for each in nodes:
            tenant.delete(MAINTENANCES, each)
            eventually(lambda each=each: api.find(MAINTENANCES, each) is None, f"{each} is given back")  # type: ignore[misc]
    managed_plane.wipe(name)


def _noted(tenant: Api, name: str, node: str) -> bool:
    """Whether admission would note who asks for a NodeMaintenance."""
    made = tenant.request("POST", path_of(MAINTENANCES), maintenance(name, node), query={"dryRun": "All"})
    return REQUESTED_BY in made["metadata"].get("annotations", {})


def _ask(tenant: Api, node: str, annotations: Json) -> None:
    body = maintenance(node, node)
    tenant.create(MAINTENANCES, {**body, "metadata": {"name": node, "annotations": annotations}})


def _requester(api: Api, node: str) -> Json:
    eventually(lambda: records_of(api, [node]), f"{node} has a record")
    (record,) = records_of(api, [node])
    found: Json = record["spec"]["requestedBy"]
    return found
