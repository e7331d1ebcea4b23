"""Ten nodes before two leases, on the real API server: two pass at a time, in any order."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.real.profiles import GO, PROFILE, STATE, entries_of, label_of
from tests.rig.api import LEASES
from tests.rig.kwok import Kwok
from tests.rig.operator import MaintenanceController
from tests.rig.plane import ControlPlane
from tests.rig.wait import eventually

NODES, PARALLEL, SECONDS = 10, 2, 3
SPAN = timedelta(seconds=SECONDS)


def config(prefix: str) -> str:
    lease = f"{{duration: {SECONDS}s, leaseName: {prefix}, leaseNamespace: default, parallel: {PARALLEL}}}"
    return f"""
intervals: {{requeue: 1h}}
instances:
  check:
  - {{type: hasLabel, name: go, config: {{key: {GO}}}}}
  - {{type: stagger, name: apart, config: {lease}}}
profiles:
- name: apart
  operational: {{transitions: [{{check: go && apart, next: maintenance-required}}]}}
"""


@pytest.mark.tools("etcd", "kube-apiserver", "kwok")
def test_two_at_a_time(plane: ControlPlane, kwok: Kwok, prefix: str, tmp_path: Path) -> None:
    """Never three within the span; each lease as its last taker left it; one patch a take."""
    names = kwok.nodes(prefix, NODES, labels={PROFILE: "apart", GO: "true"})
    api = plane.api()

    def moves() -> dict[str, datetime]:
        found = [api.get("nodes", name) for name in names]
        known = [node for node in found if label_of(node, STATE)]
        entries = {node["metadata"]["name"]: entries_of(node)["apart"] for node in known}
        moved = {name: entry for name, entry in entries.items() if entry["Current"] == "maintenance-required"}
        return {name: datetime.fromisoformat(entry["Transition"]) for name, entry in moved.items()}

    since = plane.audit.mark()
    with MaintenanceController(plane, tmp_path, config(prefix)) as operator:
        # Woken by the leases alone: the interval would come too late.
        eventually(lambda: len(moves()) == NODES, "all have passed")
        operator.process.stop()
    moved = moves()
    leases = [api.get(LEASES, f"{prefix}-{number}", "default") for number in range(PARALLEL)]
    counts = plane.audit.counts(since=since, user="operator")
    plane.wipe(prefix)
    for lease in leases:
        api.delete(LEASES, lease["metadata"]["name"], "default")
    instants = sorted(moved.values())
    assert all(third - first > SPAN for first, third in zip(instants, instants[PARALLEL:], strict=False))
    assert sum(lease["spec"]["leaseTransitions"] + 1 for lease in leases) == NODES
    assert all(as_left(lease["spec"], moved) for lease in leases), leases
    assert counts["create leases"] + counts["patch leases"] == NODES + 1
    assert counts["get leases"] == 0


def as_left(spec: dict[str, Any], moved: dict[str, datetime]) -> bool:
    at = moved[spec["holderIdentity"]].strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    times = {"acquireTime": at, "renewTime": at, "leaseDurationSeconds": SECONDS}
    return spec == {**times, "holderIdentity": spec["holderIdentity"], "leaseTransitions": spec["leaseTransitions"]}
