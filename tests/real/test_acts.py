"""Acts on a real control plane: refused without the right, which they name; and a roll that survives a kill."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from haulout.cli.root import root
from tests.rig.api import CRDS, Api, ApiError, Json
from tests.rig.kwok import Kwok
from tests.rig.maintenances import LEASE_NAMESPACE, NMS, define, maintenance, marks, phase
from tests.rig.operator import HAULOUT, Platform, environment
from tests.rig.plane import ControlPlane
from tests.rig.wait import eventually

pytestmark = pytest.mark.tools("etcd", "kube-apiserver", "kubectl", "kube-controller-manager", "kwok")

BUDGETS = "nodedisruptionbudgets"
# What a node shows for which an act is possible.
STATES: dict[str, Json] = {
    "resume": {"metadata": {"annotations": {"haulout.dev/paused": "disk"}}},
    "approve": {"metadata": {"labels": {"cloud.sap/maintenance-state": "maintenance-required"}}},
    "finish": {"metadata": {"labels": {"cloud.sap/maintenance-state": "in-maintenance"}}},
}
SETS = "haulout.dev/v1alpha1/nodemaintenancesets"
LOOK: Json = {
    "apiGroups": ["", "nodemaintenance.medik8s.io"],
    "resources": ["nodes", "nodemaintenances"],
    "verbs": ["get", "list"],
}


@pytest.fixture(scope="module")
def managed(managed_plane: ControlPlane) -> ControlPlane:
    """The control plane with the garbage collector, and the definitions of the kernel."""
    api = managed_plane.api()
    define(api)
    for crd in yaml.safe_load_all(CliRunner().invoke(root, ["crds", "kernel"]).output):
        if api.find(CRDS, crd["metadata"]["name"]) is None:
            api.create(CRDS, crd)
    eventually(lambda: api.items(SETS) is not None, "sets are served", refused=(ApiError,))
    if api.find("namespaces", LEASE_NAMESPACE) is None:
        api.create("namespaces", {"metadata": {"name": LEASE_NAMESPACE}})
    return managed_plane


def haulout(plane: ControlPlane, user: str, *words: str) -> subprocess.CompletedProcess[str]:
    env = environment(KUBECONFIG=str(plane.kubeconfig(user)))
    return subprocess.run([str(HAULOUT), *words], env=env, text=True, capture_output=True, check=False, timeout=60)


def document(plane: ControlPlane, user: str, *words: str) -> Any:
    return json.loads(haulout(plane, user, *words, "-o", "json").stdout)


@pytest.mark.parametrize(
    ("words", "verb", "resource"),
    [
        (("start", "{}"), "create", "nodemaintenances"),
        (("start", "{}", "--with", "profile", "os"), "patch", "nodes"),
        (("start", "{}", "other"), "create", "nodemaintenancesets"),
        (("cancel", "nodemaintenance/{}"), "delete", "nodemaintenances"),
        (("pause", "node/{}", "--reason", "disk"), "patch", "nodes"),
        (("pause", "nodemaintenance/{}", "--reason", "disk"), "patch", "nodemaintenances"),
        (("pause", "--all", "--reason", "disk"), "create", "nodedisruptionbudgets"),
        (("resume", "node/{}"), "patch", "nodes"),
        (("approve", "node/{}"), "patch", "nodes"),
        (("finish", "node/{}", "--label", "done=yes"), "patch", "nodes"),
        (("override", "node/{}", "--limit", "night", "--for", "1h", "--reason", "disk"), "override", BUDGETS),
    ],
    ids=lambda value: "-".join(value[:2]).replace("/{}", "") if isinstance(value, tuple) else value,
)
def test_a_missing_right_is_named_and_nothing_is_written(
    managed: ControlPlane, managed_kwok: Kwok, managed_namespace: str, words: tuple[str, ...], verb: str, resource: str
) -> None:
    (node,) = managed_kwok.nodes(managed_namespace, 1)
    api = managed.api()
    api.patch("nodes", node, STATES.get(words[0], {}))
    managed.api().create(NMS, maintenance(node, node))
    before = (api.get("nodes", node), len(api.items(NMS)), len(api.items(SETS)))
    user = managed.limited_user([LOOK])
    filled = [word.format(node) for word in words]
    done = haulout(managed, user, *filled)
    assert (done.returncode, f"may not {verb} {resource}" in done.stderr) == (1, True), done.stderr
    told = document(managed, user, *filled)
    assert (told["code"], told["verb"], told["resource"]) == ("missing-right", verb, resource)
    listed = document(managed, user, "act", f"node/{node}")["acts"]
    assert not [each["act"] for each in listed if each["allowed"]]
    assert (api.get("nodes", node)["spec"], len(api.items(NMS)), len(api.items(SETS))) == (
        before[0]["spec"],
        *before[1:],
    )
    for each in api.items(NMS):
        api.delete(NMS, each["metadata"]["name"])


def test_a_dry_run_asks_the_api_server_and_stores_nothing(
    managed: ControlPlane, managed_kwok: Kwok, managed_namespace: str
) -> None:
    (node,) = managed_kwok.nodes(managed_namespace, 1)
    done = haulout(managed, "test", "start", node, "--dry-run")
    assert (done.returncode, done.stderr) == (0, "")
    assert managed.api().find(NMS, node) is None
    wrong = haulout(managed, "test", "start", "a_b")
    assert (wrong.returncode, "there is no Node" in wrong.stderr) == (1, True)


def at_work(api: Api, nodes: list[str]) -> list[str]:
    return sorted(name for name in nodes if api.find(NMS, name) is not None)


def test_a_roll_goes_on_after_a_kill_and_its_cancel_gives_the_nodes_back(
    managed: ControlPlane, managed_kwok: Kwok, managed_namespace: str, tmp_path: Path
) -> None:
    api, roll = managed.api(), f"{managed_namespace}-roll"
    nodes = sorted(managed_kwok.nodes(managed_namespace, 4))
    settings = "leader: {elect: false}"
    with Platform(managed, tmp_path, "", settings, surfaces="{nodemaintenance: {}}") as operator:
        done = haulout(managed, "test", "start", *nodes, "--max", "2", "--name", roll, "--reason", "firmware")
        assert done.returncode == 0, done.stderr
        eventually(lambda: at_work(api, nodes) == nodes[:2], "two begin")
        eventually(lambda: phase(api, nodes[0]) == "Succeeded", "the first is drained")
        operator.process.kill()
        assert haulout(managed, "test", "cancel", f"nodemaintenance/{nodes[0]}").returncode == 0
        operator.process.start()
        eventually(lambda: at_work(api, nodes) == nodes[1:3], "the third begins when the first is back")
        eventually(lambda: api.get(SETS, roll)["status"]["nodes"].get(nodes[0]) == "Done", "the first is done")
        assert haulout(managed, "test", "cancel", f"nodemaintenanceset/{roll}").returncode == 0
        eventually(lambda: at_work(api, nodes) == [], "all maintenances end")
        eventually(lambda: [marks(api, name)[0] for name in nodes] == [False] * 4, "all nodes are back")
