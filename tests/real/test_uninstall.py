"""`haulout uninstall` on a real control plane, with maintenances of all surfaces in flight: nothing of Haulout is left."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rig.api import CRDS, Api, ApiError, Json
from tests.rig.in_flight import MAINTENANCES, PLACE, SKYHOOKS, InFlight, operator_of
from tests.rig.kwok import Kwok
from tests.rig.notices import NMS
from tests.rig.operator import HAULOUT, environment
from tests.rig.plane import ControlPlane
from tests.rig.process import Scratch
from tests.rig.rights import printed
from tests.rig.wait import eventually

pytestmark = [
    pytest.mark.tools("etcd", "kube-apiserver", "kubectl", "kube-controller-manager", "kube-scheduler", "kwok"),
    pytest.mark.timeout(600),
]

HOME = "haulout-system"
SURFACES = ("profiles", "nodemaintenance", "notify", "packages", "clusterapi")
MACHINES = "cluster.x-k8s.io/v1beta2/machines"
LEASES = "coordination.k8s.io/v1/leases"
ORIGINAL = "runtime-extension-maintenance-controller"
HOOK = "pre-drain.delete.hook.machine.cluster.x-k8s.io/maintenance-controller"
# Nothing answers webhooks here. They are registered once the objects are made, as by an installation that then breaks.
ADMISSION = "admissionregistration.k8s.io"
INSTALLED = (
    *(f"{ADMISSION}/v1/{kind}webhookconfigurations" for kind in ("validating", "mutating")),
    *(f"{ADMISSION}/v1/validatingadmissionpolic{end}" for end in ("ies", "ybindings")),
    *(
        f"rbac.authorization.k8s.io/v1/{kind}"
        for kind in ("clusterroles", "clusterrolebindings", "roles", "rolebindings")
    ),
    *("apps/v1/deployments", "services", "secrets", "configmaps", "serviceaccounts", "namespaces", LEASES),
)
# These say which packages a host has, and stay with the Skyhook.
RECORDS = tuple(
    f"skyhook.nvidia.com/{name}_" for name in ("nodeState", "version", "copyDir", "resourceId", "stageTime", "keptConf")
)
WORDS = ("haulout.dev/", "skyhook.nvidia.com", "cloud.sap/maintenance-", "maintenance/", "medik8s", "foregroundDelete")
WISHES = ("cloud.sap/maintenance-profile",)


class Installation:
    """An installation of all surfaces, with nodes that they want and one that a person has cordoned."""

    def __init__(self, plane: ControlPlane, kwok: Kwok, folder: Path, prefix: str) -> None:
        self.plane, self.api, self.folder = plane, plane.api(), folder
        # The last node takes the operator's pods: its own budget keeps one of them running while the others are drained.
        self.out, self.labelled, self.noticed, self.rolled, self.by_hand, _ = kwok.nodes(prefix, 6)
        manifests = printed("manifests", *SURFACES)
        # The pods of the Deployment would have to leave nodes, too, and take long for it.
        self._last = [
            body for body in manifests if body["apiVersion"].startswith(ADMISSION) or body["kind"] == "Deployment"
        ]
        others = [body for body in manifests if body not in self._last]
        eventually(lambda: self._applied(machine_definition(), *others), "Haulout is installed")
        self.operator = operator_of(plane, folder, HOME)
        self.flight = InFlight(self.api, (self.out, self.labelled, self.noticed, self.rolled))

    def _applied(self, *bodies: Json) -> bool:
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(bodies)})
        done = self.plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=text, check=False)
        return done.returncode == 0

    def begin(self) -> None:
        """Let a maintenance of each surface begin, then kill the operator, register the webhooks and make the Deployment."""
        self.api.patch("nodes", self.by_hand, {"spec": {"unschedulable": True}})
        with self.operator:
            self.flight.wish()
            eventually(self.flight.has_begun, "a maintenance of each surface has begun")
            self.operator.process.kill()
        hooked = {HOOK: ORIGINAL, "haulout.dev/node-cleanup": "x"}
        labels = {f"{ORIGINAL}.cloud.sap/enabled": "true"}
        body = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine"}
        self.api.create(MACHINES, {**body, "metadata": {"name": "m", "labels": labels, "annotations": hooked}}, PLACE)
        assert self._applied(*self._last)

    def uninstall(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        config = str(self.plane.kubeconfig("test"))
        argv = [str(HAULOUT), "uninstall", "--kubeconfig", config, *words]
        done = subprocess.run(argv, env=environment(), capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0 or not check, done.stdout + done.stderr
        return done

    def uninstall_in_part(self, word: str) -> None:
        """Kill the command once it has printed a line with this word."""
        argv = [str(HAULOUT), "uninstall", "--yes", "--kubeconfig", str(self.plane.kubeconfig("test"))]
        env = environment(PYTHONUNBUFFERED="1")
        with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith(word):
                    process.kill()

    def left(self) -> list[str]:
        """Return everything of Haulout in the cluster, apart from definitions and what people have made."""
        found = []
        for node in self.api.items("nodes"):
            meta = node["metadata"]
            keys = (
                *meta.get("annotations", {}),
                *meta["labels"],
                *(each["key"] for each in node["spec"].get("taints", [])),
            )
            found += [f"{meta['name']}: {key}" for key in keys if is_ours(key)]
            found += [
                f"{meta['name']}: {each['type']}" for each in node["status"]["conditions"] if is_ours(each["type"])
            ]
        for resource in (MAINTENANCES, NMS, SKYHOOKS, MACHINES):
            for each in items(self.api, resource):
                meta = each["metadata"]
                marks = [key for key in meta.get("annotations", {}) if key.startswith("haulout.dev/") or key == HOOK]
                found += [f"{meta['name']}: {key}" for key in (*meta.get("finalizers", []), *marks)]
        for resource in INSTALLED:
            found += [
                f"{resource} {each['metadata']['name']}"
                for each in self.api.items(resource)
                if "haulout" in each["metadata"]["name"] + str(each["metadata"].get("labels"))
                and "haulout.dev/applied" not in each["metadata"].get("labels", {})
            ]
        found += [f"pod {each['metadata']['name']}" for each in self.api.items("pods", "skyhook")]
        return found + [f"lease {each['metadata']['name']}" for each in self.api.items(LEASES, "medik8s-leases")]

    def cordoned(self) -> list[str]:
        return [each["metadata"]["name"] for each in self.api.items("nodes") if each["spec"].get("unschedulable")]


def is_ours(key: str) -> bool:
    return any(word in key for word in WORDS) and not key.startswith((*RECORDS, *WISHES))


def items(api: Api, resource: str) -> list[Json]:
    try:
        return api.items(resource)
    except ApiError:
        return []


def machine_definition() -> Json:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "machines.cluster.x-k8s.io"},
        "spec": {
            "group": "cluster.x-k8s.io",
            "names": {"kind": "Machine", "plural": "machines"},
            "scope": "Namespaced",
            "versions": [{"name": "v1beta2", "served": True, "storage": True, "schema": schema}],
        },
    }


@pytest.fixture
def installation(scratch: Scratch, tmp_path: Path, prefix: str) -> Iterator[Installation]:
    """An installation on a control plane of its own, because everything of Haulout goes."""
    with ControlPlane(scratch.directory(prefix)) as plane:
        plane.start_controllers()
        plane.start_scheduler()
        # Packages run for longer than the test.
        with Kwok(plane, package_takes=600) as kwok:
            made = Installation(plane, kwok, tmp_path, prefix)
            made.begin()
            yield made


def test_nothing_is_left_of_any_surface_after_its_operator_was_killed(installation: Installation) -> None:
    before = installation.left()
    shown = installation.uninstall("--dry-run")
    assert (
        "the operator, which is stopped first:\n  deployments.apps/haulout-system/haulout: scale from 2 to 0"
        in shown.stdout
    )
    assert "finalizer foregroundDeleteNodeMaintenance" in shown.stdout
    assert installation.left() == before, "a dry run writes nothing"
    limited = installation.plane.limited_user([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]}])
    config = str(installation.plane.kubeconfig(limited))
    refused = installation.uninstall("--yes", "--kubeconfig", config, check=False)
    assert refused.returncode == 1
    assert "nothing was written, because rights are missing" in refused.stderr
    assert "nodes" in refused.stderr
    assert installation.left() == before

    installation.uninstall_in_part("changed nodes/")
    assert installation.left(), "it was killed half-way"
    installation.uninstall("--yes")
    eventually(lambda: not installation.left(), f"nothing is left of {installation.left()}")
    assert installation.cordoned() == [installation.by_hand]
    assert [each["metadata"]["name"] for each in installation.api.items(MAINTENANCES)] == [installation.out]
    assert installation.uninstall("--yes").stdout == "nothing of Haulout is left here\n"
    # Another operator, such as the original, finds the objects as people made them.
    for resource, name, place in ((MAINTENANCES, installation.out, None), (NMS, installation.noticed, PLACE)):
        installation.api.delete(resource, name, place)
        eventually(lambda r=resource, n=name, p=place: installation.api.find(r, n, p) is None, f"{name} is gone")  # type: ignore[misc]


def test_definitions_that_were_deleted_first_go_with_their_objects(installation: Installation) -> None:
    for name in ("nodemaintenances.nodemaintenance.medik8s.io", "skyhooks.skyhook.nvidia.com"):
        installation.api.delete(CRDS, name)
    installation.uninstall("--yes", "--definitions")
    eventually(lambda: not installation.left(), "nothing is left")
    assert installation.cordoned() == [installation.by_hand]
    assert [each["metadata"]["name"] for each in installation.api.items(CRDS)] == ["machines.cluster.x-k8s.io"]
    annotations = [key for each in installation.api.items("nodes") for key in each["metadata"].get("annotations", {})]
    assert not [key for key in annotations if "skyhook" in key]
