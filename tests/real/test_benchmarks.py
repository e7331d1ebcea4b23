"""Benchmarks with a peer: both are measured in turn on the same API server, and the ratios are printed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.rig.operator import HAULOUT
from tests.rig.process import CHECKOUT, free_port

pytestmark = pytest.mark.tools("etcd", "kube-apiserver")


def measured(folder: Path, name: str, *words: str, peer: str) -> dict[str, Any]:
    file = folder / "figures.json"
    argv = [sys.executable, "-m", f"benchmarks.{name}", "--runs=1", f"--json={file}", f"--peer=other={peer}", *words]
    done = subprocess.run(argv, cwd=CHECKOUT, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    figures: dict[str, Any] = json.loads(file.read_text())
    assert [row["ratio"] for row in figures["Ratios of medians"]] == ["haulout / other"]
    return figures


def test_one_that_only_has_to_hold_everything(tmp_path: Path) -> None:
    """It says nothing of itself, and is done when it is at rest."""
    figures = measured(tmp_path, "sync", "--nodes=2", "--pods=20", peer="sleep 600")
    ours, other = figures["20 pods and 2 nodes"]
    assert (ours["program"], other["program"]) == ("haulout", "other")
    assert "watch pods" in ours["requests"]
    assert other["requests"] == ""
    assert 0 < other["peak RSS, MiB"] < ours["peak RSS, MiB"]


def test_one_that_has_to_do_the_same_work(tmp_path: Path) -> None:
    """It finds its kubeconfig in the environment and the configuration in its folder."""
    ports = f"--metrics-addr=127.0.0.1:{free_port()} --health-addr=127.0.0.1:{free_port()}"
    peer = f"{HAULOUT} as maintenance-controller --metrics-timeout=0s {ports}"
    figures = measured(tmp_path, "latency", "--nodes=4", "--changes=2", peer=peer)
    changes = [(row["program"], row["change"], row["changes"]) for row in figures["Single changes, 4 nodes"]]
    kinds = ("one transition", "two transitions")
    assert changes == [(program, kind, 2) for program in ("haulout", "other") for kind in kinds]


@pytest.mark.tools("kwok")
def test_packages_on_a_small_fleet(tmp_path: Path) -> None:
    """It says on the way what it measures, and counts what is written."""
    file = tmp_path / "figures.json"
    words = ["--nodes=2", "--many=0", "--window=1", "--no-interrupt", "--no-failing", f"--json={file}"]
    argv = [sys.executable, "-m", "benchmarks.packages", *words]
    done = subprocess.run(argv, cwd=CHECKOUT, capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, "haulout: 2 nodes" in done.stderr) == (0, True), done.stderr
    figures = json.loads(file.read_text())
    (roll,), (idle,) = figures["Packages without an interrupt"], figures["At rest, after the roll"]
    assert (roll["node writes a stage"], roll["ConfigMap writes a node and package"], idle["writes"]) == (2, 2, 0)


def test_one_that_takes_maintenances_through_their_lives(tmp_path: Path) -> None:
    """It finds the configuration file in its folder; writes are counted by the API server."""
    ports = f"--health-probe-bind-address=127.0.0.1:{free_port()} --metrics-port={free_port()}"
    peer = f"{HAULOUT} as pika --config notifyMaintenanceConfig.yaml --cert-dir=. --listen-webhooks=0 {ports}"
    figures = measured(tmp_path, "notify", "--at-once=3", "--many=0", "--changes=0", peer=peer)
    title = "Writes of one life: from its creation to its end, validated, by a person and clients"
    assert [(row["program"], row["all writes"]) for row in figures[title]] == [("haulout", 9), ("other", 9)]
    assert [row["maintenances"] for row in figures["Created at once"]] == [3, 3]
