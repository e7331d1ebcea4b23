"""The role for people: what `haulout rbac viewer` prints suffices to read everything, and allows no change."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.rig.api import Json
from tests.rig.fleet import node_object
from tests.rig.operator import HAULOUT, environment
from tests.rig.plane import ControlPlane
from tests.rig.process import Scratch
from tests.rig.wait import eventually

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


@pytest.fixture(scope="module")
def plane(scratch: Scratch) -> Iterator[ControlPlane]:
    """A separate control plane, in which the definitions of all surfaces are installed."""
    with ControlPlane(scratch.directory("viewed")) as made:
        yield made


@pytest.fixture(scope="module")
def folder(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An installation without its pods, and a user with the viewer's role."""
    tmp_path = tmp_path_factory.mktemp("viewed")
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
    await_rights(plane, "night-shift", [each for each in documents if each["metadata"]["name"] == "haulout-viewer"])
    return tmp_path


def await_rights(plane: ControlPlane, user: str, documents: list[Json]) -> None:
    """Wait until the last right of each role counts: the API server learns of roles and bindings in its own time."""
    for role in [each for each in documents if "rules" in each]:
        group, resource, verb = (role["rules"][-1][part][-1] for part in ("apiGroups", "resources", "verbs"))
        words = ["auth", "can-i", verb, f"{resource}.{group}".rstrip("."), "--as", user]
        words += ["-n", role["metadata"]["namespace"]] if "namespace" in role["metadata"] else []
        eventually(lambda words=words: plane.kubectl(*words, check=False).returncode == 0, f"{user} may {words}")  # type: ignore[misc]


# No operator runs in this cluster, which these commands say first.
STANDS_STILL = {"explain": 1, "history": 1}
HIDDEN = ("nodemaintenances", "nodedisruptionbudgets", "skyhooks")


@pytest.fixture(scope="module")
def guest(plane: ControlPlane, folder: Path) -> str:
    """A user with the viewer's role, but for three kinds."""
    documents = []
    for role in yaml.safe_load_all(run(plane, folder, str(HAULOUT), "rbac", "viewer").stdout):
        meta = {**role["metadata"], "name": "haulout-guest"}
        rules = [{**rule, "resources": [*({*rule["resources"]} - {*HIDDEN})]} for rule in role["rules"]]
        subjects = [{**BINDING["subjects"][0], "name": "guest"}]
        reference = {**BINDING["roleRef"], "kind": role["kind"], "name": "haulout-guest"}
        documents.append({**role, "metadata": meta, "rules": [rule for rule in rules if rule["resources"]]})
        documents.append(
            {
                **BINDING,
                "kind": f"{role['kind']}Binding",
                "metadata": meta,
                "roleRef": reference,
                "subjects": subjects,
            }
        )
    applied = run(plane, folder, "kubectl", "apply", "-f", "-", stdin=yaml.safe_dump_all(documents))
    assert applied.returncode == 0, applied.stderr
    await_rights(plane, "guest", documents)
    return "guest"


def test_every_command_names_the_rights_that_a_guest_lacks(plane: ControlPlane, folder: Path, guest: str) -> None:
    def look(*words: str) -> str:
        done = run(plane, folder, str(HAULOUT), *words, "--as", guest)
        assert (done.returncode, done.stderr) == (STANDS_STILL.get(words[0], 0), "")
        return done.stdout

    def unnamed(texts: list[str], kinds: tuple[str, ...] = HIDDEN) -> list[str]:
        return [
            kind
            for kind in kinds
            if not re.search(
                rf"(you may not (list|watch) {kind}|cannot (list|watch) resource \"{kind}\")", "\n".join(texts)
            )
        ]

    assert unnamed(json.loads(look("explain", "a", "-o", "json"))["incomplete"]) == []
    assert unnamed([line for line in look("explain", "a").splitlines() if line.startswith("INCOMPLETE: ")]) == []
    assert unnamed(json.loads(look("status", "-o", "json"))["fleet"]["incomplete"]) == []
    assert unnamed(json.loads(look("plan", "--days", "0.1", "-o", "json"))["incomplete"]) == []
    assert unnamed(json.loads(look("history", "a", "-o", "json"))["incomplete"], ("nodemaintenances",)) == []
    assert "what could not be read is listed in not-collected.txt" in look("bundle", "a", "--output", "part.tar.gz")
    assert unnamed([run(plane, folder, "tar", "xzOf", "part.tar.gz", "part/not-collected.txt").stdout]) == []


@pytest.mark.parametrize("kind", ["nodemaintenance", "ndb", "skyhook"])
def test_an_object_that_a_guest_may_not_read_is_not_reported_as_absent(
    plane: ControlPlane, folder: Path, guest: str, kind: str
) -> None:
    done = run(plane, folder, str(HAULOUT), "explain", kind, "any", "--as", guest)
    assert done.returncode == 1
    assert re.search("you may not (list|watch)|cannot (list|watch) resource", done.stderr)
    assert "there is no" not in done.stderr


def test_a_viewer_sees_everything_and_changes_nothing(plane: ControlPlane, folder: Path) -> None:
    def look(*words: str) -> subprocess.CompletedProcess[str]:
        done = run(plane, folder, str(HAULOUT), *words, "--as", "night-shift")
        assert (done.returncode, done.stderr) == (STANDS_STILL.get(words[0], 0), "")
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
