"""A thousand nodes through the three states, three at a time, on the real API server."""

from __future__ import annotations

from collections import Counter
from http import HTTPStatus
from pathlib import Path

import pytest

from benchmarks.latency import Watching
from benchmarks.profiles import Member, configuration, requests, singles
from tests.real.profiles import GO, PROFILE, STATE, label_of, roll_config, sampled
from tests.rig.fleet import node_object
from tests.rig.kwok import Kwok
from tests.rig.operator import MaintenanceController
from tests.rig.plane import ControlPlane
from tests.rig.wait import eventually

NODES = 1000
# What is counted when a node enters maintenance: pods by what owns them.
OWNERS = ("daemonsets", "deployments", "replicasets", "statefulsets")
AROUND = ["maintenance-required", "in-maintenance", "operational"]


@pytest.mark.tools("etcd", "kube-apiserver", "kwok")
def test_a_thousand_nodes_roll_three_at_a_time(plane: ControlPlane, kwok: Kwok, prefix: str, tmp_path: Path) -> None:
    """Never four; one PATCH and one event a transition; no GET at all."""
    names = kwok.nodes(prefix, NODES, labels={PROFILE: "roll", GO: "true"})
    since = plane.audit.mark()
    with (
        sampled(plane, f"{PROFILE}=roll") as seen,
        MaintenanceController(plane, tmp_path, roll_config(3)) as operator,
    ):
        eventually(lambda: all(seen.moves.get(name, [])[-3:] == AROUND for name in names), "all have been around", 300)
        eventually(
            lambda: operator.metric('haulout_requests_total{kind="Node",outcome="done",verb="change"}') > 0, "counted"
        )
        eventually(
            lambda: plane.audit.counts(since=since, user="operator")["create events"] >= 3 * NODES, "all is told", 300
        )
        operator.process.stop()
    entries = plane.audit.entries(since=since, user="operator")
    counts = Counter(entry.act for entry in entries)
    # An event that is being written when the operator is told to stop is written again under its name, and refused.
    stored = [entry for entry in entries if entry.act == "create events" and entry.code == HTTPStatus.CREATED]
    told = [entry for entry in stored if entry.name.startswith(prefix)]
    nodes = [node for node in plane.api().items("nodes") if node["metadata"]["name"] in set(names)]
    plane.wipe(prefix)
    assert seen.most == 3
    assert {label_of(node, STATE) for node in nodes} == {"operational"}
    # Attached and moved on in one go is one write: three transitions and one attachment at the most.
    assert len(told) == 3 * NODES
    assert 3 * NODES <= counts["patch nodes"] <= 4 * NODES
    assert counts["get nodes"] == 0
    reads = {f"{verb} {kind}" for verb in ("list", "watch") for kind in ("nodes", "pods", *OWNERS)}
    assert set(counts) <= {"patch nodes", "create events", *reads}, counts


@pytest.mark.tools("etcd", "kube-apiserver")
def test_a_maintenance_is_one_patch_and_one_event_a_transition(
    plane: ControlPlane, prefix: str, tmp_path: Path
) -> None:
    """One patch more where something was done on entering, which has to be stored; the same fifty profiles as measured."""
    members = [Member(f"{prefix}-{profile}", profile) for profile in (0, 1, 48, 49)]
    plane.load(node_object(each.name, labels={PROFILE: f"p{each.profile}"}, annotations={}) for each in members)
    watching = Watching(plane)
    try:
        with MaintenanceController(plane, tmp_path, configuration(50, 2)) as operator:
            eventually(lambda: all(watching.moves.get(each.name) for each in members), "all nodes have a state")
            since = plane.audit.mark()
            singles(plane, watching, members)
            eventually(
                lambda: plane.audit.counts(since=since, user="operator")["create events"] >= 3 * len(members),
                "all is told",
            )
            operator.process.stop()
        entries = plane.audit.entries(since=since, user="operator")
    finally:
        watching.stop()
        plane.wipe(prefix)
    plain, entering = requests("haulout", "step by step", entries, members)
    assert (plain["PATCHes"], entering["PATCHes"]) == (3, 4)
    assert plain["events"] == 3
    assert (plain["GETs and LISTs"], plain["other requests"]) == (0, 0)
