"""`--as`: the API server sees the requests of a command as those of the impersonated user."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.profiles import GO, PROFILE, STATE, label_of
from tests.rig.fleet import node_object
from tests.rig.operator import HAULOUT, Platform, environment
from tests.rig.plane import ControlPlane
from tests.rig.wait import eventually

pytestmark = pytest.mark.tools("etcd", "kube-apiserver")

DEPUTY = ("--as", "deputy", "--as-group", "system:masters")
CONFIG = f"""
intervals: {{requeue: 30s}}
instances: {{check: [{{type: hasLabel, name: go, config: {{key: {GO}}}}}]}}
profiles:
- name: once
  operational: {{transitions: [{{check: go, next: maintenance-required}}]}}
"""


@pytest.fixture
def node(plane: ControlPlane, prefix: str) -> Iterator[str]:
    plane.load([node_object(f"{prefix}-node", labels={PROFILE: "once", GO: "true"})])
    yield f"{prefix}-node"
    plane.wipe(prefix)


def test_all_that_the_operator_does(plane: ControlPlane, node: str, tmp_path: Path) -> None:
    """Lease, watch, write and event; the rights are the deputy's, too."""
    since = plane.audit.mark()
    with Platform(plane, tmp_path, CONFIG, "namespace: default", flags=DEPUTY):
        eventually(
            lambda: label_of(plane.api().get("nodes", node), STATE) == "maintenance-required", "it has been around"
        )
        eventually(lambda: "create events" in plane.audit.counts(since=since, user="operator"), "it has been told")
    done = plane.audit.entries(since=since, user="operator")
    assert {"create leases", "watch nodes", "patch nodes", "create events"} <= {entry.act for entry in done}
    assert {entry.acting_as for entry in done} == {"deputy"}


def test_explain(plane: ControlPlane, node: str, tmp_path: Path) -> None:
    (tmp_path / "maintenance.yaml").write_text(CONFIG)
    since = plane.audit.mark()
    argv = [str(HAULOUT), "explain", node, "--config", "maintenance.yaml", *DEPUTY]
    env = environment(KUBECONFIG=str(plane.kubeconfig()))
    done = subprocess.run(argv, cwd=tmp_path, env=env, text=True, capture_output=True, check=False, timeout=60)
    assert done.stderr == ""
    assert node in done.stdout
    asked = plane.audit.entries(since=since, user="operator")
    assert "list nodes" in {entry.act for entry in asked}
    assert {entry.acting_as for entry in asked} == {"deputy"}


def test_an_operator_without_rights_says_which_are_missing(plane: ControlPlane, tmp_path: Path) -> None:
    settings = "namespace: default\nleader: {elect: false}"
    with Platform(plane, tmp_path, CONFIG, settings, flags=("--as", "stranger")) as operator:
        eventually(lambda: "haulout rbac profiles" in operator.readiness()[1], "it names the right")
        status, text = operator.readiness()
        assert status == 503
        assert 'surface profiles cannot read Node: nodes is forbidden: User "stranger" cannot ' in text
        eventually(lambda: "`haulout rbac` prints the roles" in operator.process.text(), "the log says it, too")
