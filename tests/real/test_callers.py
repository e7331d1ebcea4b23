"""Callers without credentials on every port of a leader: it goes on leading, deciding and answering."""

from __future__ import annotations

import json
from http.client import HTTPSConnection
from pathlib import Path

import pytest

from benchmarks.latency import CONFIG
from tests.real.profiles import GO, PROFILE, STATE
from tests.rig.api import Json
from tests.rig.callers import FATES, PATH, Attacked, trusting
from tests.rig.fleet import node_object
from tests.rig.maintenances import define
from tests.rig.plane import ControlPlane
from tests.rig.wait import eventually

pytestmark = pytest.mark.tools("etcd", "kube-apiserver")

LEASES = "coordination.k8s.io/v1/leases"
EACH = 100


def review(port: int, node: str) -> Json:
    """Return an ordinary review, as the API server would send it."""
    request = {"uid": "1", "operation": "CREATE", "object": {"spec": {"nodeName": node}}}
    body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
    connection = HTTPSConnection("127.0.0.1", port, timeout=30, context=trusting())
    try:
        connection.request("POST", PATH, body, {"Content-Type": "application/json"})
        answer: Json = json.loads(connection.getresponse().read())["response"]
        return answer
    finally:
        connection.close()


def test_a_leader_that_is_held_up_on_all_ports_goes_on(plane: ControlPlane, namespace: str, tmp_path: Path) -> None:
    api = plane.api()
    define(api)
    api.create("nodes", node_object(namespace, labels={PROFILE: "one"}, annotations={}))

    def lease() -> Json:
        found: Json = api.get(LEASES, "haulout", namespace)["spec"]
        return found

    def state() -> str:
        return str(api.get("nodes", namespace)["metadata"]["labels"].get(STATE, ""))

    with Attacked(plane, tmp_path, CONFIG, namespace) as operator:
        eventually(lambda: state() == "operational", "the node has a state")
        before = lease()
        callers = operator.callers(EACH, seconds=6)
        moves = 0
        while callers.running:
            go, wanted = ("true", "maintenance-required") if moves % 2 == 0 else (None, "operational")
            api.patch("nodes", namespace, {"metadata": {"labels": {GO: go}}})
            eventually(lambda wanted=wanted: state() == wanted, f"the node is {wanted}")  # type: ignore[misc]
            assert review(operator.webhooks, namespace)["allowed"] is True
            assert operator.healthy()
            moves += 1
        counts = callers.end()
        after = lease()
    assert moves > 0
    assert (after["holderIdentity"], after["leaseTransitions"]) == (
        before["holderIdentity"],
        before["leaseTransitions"],
    )
    assert after["renewTime"] > before["renewTime"]
    assert {kind for kind, fate in FATES.items() if not counts[kind].get(fate)} == set(), counts
