"""The role of people: what `haulout rbac viewer` prints suffices to look at everything, and allows to change nothing."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.rig.fleet import node_object
from tests.rig.operator import HAULOUT, environment
from tests.rig.plane import ControlPlane
from tests.rig.process import Scratch

pytestmark = pytest.mark.tools("etcd", "kube-apiserver", "kubectl")

SURFACES = ("profiles", "nodemaintenance", "packages")
BINDING: dict[str, Any] = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "name": "haulout-viewer"},
    "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "night-shift"}],
}
PROFILES = """
intervals: {requeue: 30s}
instances: {check: [{type: hasLabel, name: never, config: {key: never}}]}
profiles: [{name: mine, operational: {transitions: [{check: never, next: maintenance-required}]}}]
"""


def run(plane: ControlPlane, folder: Path, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    env = environment(KUBECONFIG=str(plane.kubeconfig()))
    return subprocess.run(
        words, cwd=folder, env=env, text=True, capture_output=True, input=stdin, check=False, timeout=60
    )


@pytest.fixture
def plane(scratch: Scratch) -> Iterator[ControlPlane]:
    """A control plane of its own: definitions of all surfaces are installed in it."""
    with ControlPlane(scratch.directory("viewed")) as made:
        yield made


@pytest.fixture
def folder(plane: ControlPlane, tmp_path: Path) -> Path:
    """An installation without its pods, and a user with the viewer's role."""
    plane.load([node_object("a", labels={"cloud.sap/maintenance-profile": "mine"})])
    printed = [
        run(plane, tmp_path, str(HAULOUT), *words).stdout
        for words in (("manifests", *SURFACES, "--replicas", "0"), ("rbac", "viewer"))
    ]
    documents = [
        each
        for text in printed
        for each in yaml.safe_load_all(text)
        if not each["kind"].endswith("WebhookConfiguration")
    ]
    for role in [each for each in documents if each["metadata"]["name"] == "haulout-viewer"]:
        bound = {**BINDING, "kind": f"{role['kind']}Binding", "metadata": {**role["metadata"]}}
        documents.append({**bound, "roleRef": {**BINDING["roleRef"], "kind": role["kind"]}})
    meta = {"name": "haulout-profiles", "namespace": "haulout-system"}
    documents.append(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"maintenance.yaml": PROFILES}}
    )
    text = yaml.safe_dump_all(documents)
    applied = run(plane, tmp_path, "kubectl", "apply", "--server-side", "-f", "-", stdin=text)
    assert applied.returncode == 0, applied.stderr
    return tmp_path


def test_a_viewer_sees_everything_and_changes_nothing(plane: ControlPlane, folder: Path) -> None:
    def look(*words: str) -> subprocess.CompletedProcess[str]:
        done = run(plane, folder, str(HAULOUT), *words, "--as", "night-shift")
        assert (done.returncode, done.stderr) == (0, "")
        return done

    explained = json.loads(look("explain", "a", "-o", "json").stdout)
    assert (explained["settings"], explained["incomplete"]) == ("Deployment haulout-system/haulout", [])
    status = json.loads(look("status", "-o", "json").stdout)
    assert (status["fleet"]["incomplete"], status["installation"]["unread"]) == ([], [])
    assert status["installation"]["missingDefinitions"] == []
    assert json.loads(look("plan", "--days", "0.1", "-o", "json").stdout)["incomplete"] == []
    look("bundle", "a", "--output", "seen.tar.gz")
    refused = run(plane, folder, "tar", "xzOf", "seen.tar.gz", "seen/not-collected.txt").stdout
    assert "forbidden" not in refused
    denied = run(plane, folder, "kubectl", "cordon", "a", "--as", "night-shift")
    assert "forbidden" in denied.stderr
    secrets = run(plane, folder, "kubectl", "get", "secrets", "-A", "--as", "night-shift")
    assert "forbidden" in secrets.stderr
