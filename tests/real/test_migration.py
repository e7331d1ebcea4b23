"""docs/migration.md, walked for the Deployment that each original publishes: the switch with work in flight, and the way back."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from haulout.base import yaml
from haulout.surfaces.notify.wire import FINALIZER
from haulout.surfaces.registry import originals
from tests.real.profiles import DATA, GO, PROFILE, STATE, entries_of, label_of, roll_config
from tests.real.test_originals import DropIn
from tests.real.test_packages_fleet import SKYHOOKS, P
from tests.real.test_packages_fleet import define as define_packages
from tests.rig import original_deployments
from tests.rig.api import CRDS, ApiError, Json
from tests.rig.kwok import Kwok
from tests.rig.maintenances import LEASE_NAMESPACE, NMS, OUT, ends, maintenance, marks, succeeds
from tests.rig.maintenances import define as define_maintenances
from tests.rig.notices import CLIENT, READY, notice, status_of
from tests.rig.notices import NMS as NOTICES
from tests.rig.notices import define as define_notices
from tests.rig.operator import JSON_LOG
from tests.rig.original_roles import MAINTENANCE_CONTROLLER, NODE_MAINTENANCE, PIKA, SKYHOOK, OriginalRole
from tests.rig.plane import ControlPlane, tool
from tests.rig.process import free_port
from tests.rig.wait import eventually

pytestmark = pytest.mark.tools("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")

PAGE = (Path(__file__).parents[2] / "docs/migration.md").read_text()
DEPLOYMENTS = "apps/v1/deployments"
IMAGE = "registry.test/haulout:1"
CSVS = "operators.coreos.com/v1alpha1/clusterserviceversions"
# What the API server fills in is the same before and after.
CHANGED = {"image", "command", "resources"}


def commands(heading: str) -> str:
    """Return the commands of the page below a heading, up to the next heading or the next text after them."""
    section = re.split(r"^#+ ", PAGE.partition(f" {heading}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    lines = [line[4:] for line in section.splitlines() if line.startswith("    ")]
    assert lines, heading
    return "\n".join(lines)


@dataclasses.dataclass
class Walk:
    """A Deployment of an original in a namespace of its own, and the commands of the page about it."""

    plane: ControlPlane
    ns: str
    published: Json

    def __post_init__(self) -> None:
        self.api = self.plane.api()
        self.name: str = self.published["metadata"]["name"]
        self.api.create(DEPLOYMENTS, self.published, self.ns)
        self.before = self.template()
        self.settled()

    def template(self) -> Json:
        found: Json = self.api.get(DEPLOYMENTS, self.name, self.ns)["spec"]["template"]
        return found

    def settled(self) -> None:
        eventually(
            lambda: self.api.get(DEPLOYMENTS, self.name, self.ns).get("status", {}).get("availableReplicas"), "it runs"
        )

    def shell(self, text: str, **names: str) -> str:
        """Run commands of the page as a person pastes them, in the namespace of this test."""
        text = re.sub(r"(?<= -n )\S+", self.ns, text)
        for placeholder, value in names.items():
            text = re.sub(rf"\b{placeholder.replace('_', '-')}\b", value, text)
        path = f"{tool('kubectl').parent}:{os.environ['PATH']}"
        env = {"PATH": path, "HOME": os.environ["HOME"], "KUBECONFIG": str(self.plane.kubeconfig("test"))}
        done = subprocess.run(["bash", "-euc", text], check=False, capture_output=True, text=True, env=env, timeout=180)
        assert done.returncode == 0, (text, done.stderr)
        return done.stdout

    def switch(self, heading: str) -> Json:
        """Follow the page. Return the container of Haulout, after a look at what has changed."""
        self.shell(commands(heading), IMAGE=IMAGE)
        after = self.template()["spec"]
        old, new = ({each["name"]: each for each in spec["containers"]} for spec in (self.before["spec"], after))
        assert old.keys() == new.keys()
        (changed,) = (name for name in old if old[name] != new[name])
        differing = {key for key in old[changed] | new[changed] if old[changed].get(key) != new[changed].get(key)}
        assert {"image"} <= differing <= CHANGED
        assert {**after, "containers": ()} == {**self.before["spec"], "containers": ()}
        container: Json = new[changed]
        assert container["image"] == IMAGE
        # The test of the image holds that it has these entry points.
        assert container["command"][0].removeprefix("/") in originals()
        return container

    def goes_back(self) -> None:
        text = commands("The way back").partition("kubectl -n NAMESPACE patch")[0]
        self.shell(text, DEPLOYMENT=self.name)
        assert self.template() == self.before

    def drop_in(self, container: Json, role: OriginalRole, folder: Path, *more: str, **variables: str) -> DropIn:
        """Return the container of Haulout as a process. `more`, `variables`: free ports, and files of this test."""
        words = (container["command"][0].removeprefix("/"), *container.get("args", ()), *more)
        env = {each["name"]: each["value"] for each in container.get("env", ()) if "value" in each}
        return DropIn(self.plane, folder, role, self.ns, *words, **{**env, **variables})


@pytest.fixture
def nodes(managed_plane: ControlPlane, managed_kwok: Kwok, prefix: str) -> Iterator[list[str]]:
    """Nodes to maintain. The original runs on one more."""
    names = managed_kwok.nodes(prefix, 2, labels={"maintained": prefix})
    managed_kwok.nodes(f"{prefix}-host", 1, labels={"original": prefix})
    yield names
    managed_plane.wipe(prefix)


def walk(plane: ControlPlane, prefix: str, facts: str) -> Walk:
    plane.api().create("namespaces", {"metadata": {"name": prefix}})
    return Walk(plane, prefix, original_deployments.deployment(facts, prefix, {"original": prefix}))


def prefixes(body: Json) -> set[str]:
    return {key.partition("/")[0] for key in body["metadata"].get("annotations", {})}


def test_maintenance_controller(managed_plane: ControlPlane, nodes: list[str], prefix: str, tmp_path: Path) -> None:
    api, (inside, later) = managed_plane.api(), nodes
    walked = walk(managed_plane, prefix, original_deployments.MAINTENANCE_CONTROLLER)
    entry = {"Transition": f"{datetime.now(UTC) - timedelta(hours=2):%Y-%m-%dT%H:%M:%SZ}", "Current": "in-maintenance"}
    data = {"Profiles": {prefix: {**entry, "Previous": "maintenance-required"}}, "Notifications": {}}
    labels = {PROFILE: prefix, STATE: "in-maintenance", GO: "true"}
    api.patch("nodes", inside, {"metadata": {"labels": labels, "annotations": {DATA: json.dumps(data)}}})

    flags = ("--metrics-addr=:{http}", "--health-addr=:{health}", "--enable-leader-election=false", *JSON_LOG)
    operator = walked.drop_in(walked.switch("maintenance-controller"), MAINTENANCE_CONTROLLER, tmp_path, *flags)
    operator.write(roll_config(1, profile=prefix, wait="1h"))
    operator.begin()
    eventually(lambda: label_of(api.get("nodes", inside), STATE) == "operational", "the first has returned")
    clean = prefixes(api.get("nodes", later)) - {"cloud.sap"}
    api.patch("nodes", later, {"metadata": {"labels": {PROFILE: prefix, GO: "true"}}})
    eventually(lambda: label_of(api.get("nodes", later), STATE) == "in-maintenance", "the second is in maintenance")

    walked.goes_back()
    operator.end()
    left = api.get("nodes", later)
    assert entries_of(left)[prefix]["Current"] == label_of(left, STATE) == "in-maintenance"
    assert prefixes(left) - clean <= {"cloud.sap", "haulout.dev"}


def test_node_maintenance_operator(managed_plane: ControlPlane, nodes: list[str], prefix: str, tmp_path: Path) -> None:
    api, name = managed_plane.api(), f"{prefix}-a"
    define_maintenances(api)
    walked = walk(managed_plane, prefix, original_deployments.NODE_MAINTENANCE_OPERATOR)
    # The original has begun with it, and has not drained the node yet.
    made = maintenance(name, nodes[0])
    made["metadata"]["finalizers"] = ["foregroundDeleteNodeMaintenance"]
    api.create(NMS, made)
    api.patch(NMS, name, {"status": {"phase": "Running", "drainProgress": 0}}, sub="status")

    container = walked.switch("node-maintenance-operator")
    flags = (
        *("--health-probe-bind-address=:{health}", "--metrics-bind-address=0", "--listen-webhooks=0"),
        *("--leader-elect=false", *JSON_LOG),
    )
    operator = walked.drop_in(container, NODE_MAINTENANCE, tmp_path, *flags, LEASE_NAMESPACE=LEASE_NAMESPACE)
    operator.begin()
    succeeds(api, name)
    assert marks(api, nodes[0]) == OUT

    walked.goes_back()
    operator.end()
    left = api.get(NMS, name)
    assert left["metadata"]["finalizers"] == ["foregroundDeleteNodeMaintenance"]
    assert (left["status"]["phase"], marks(api, nodes[0])) == ("Succeeded", OUT)
    # The original's turn has come; Haulout stands in for it.
    operator.begin()
    ends(api, name)
    operator.end()


def test_node_maintenance_operator_under_olm(managed_plane: ControlPlane, prefix: str) -> None:
    """OLM writes into the Deployment what the ClusterServiceVersion says: it has to say the same as a patch of the Deployment."""
    api = managed_plane.api()
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    names = {"plural": "clusterserviceversions", "kind": "ClusterServiceVersion", "shortNames": ["csv"]}
    versions = [{"name": "v1alpha1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}]
    spec = {"group": "operators.coreos.com", "scope": "Namespaced", "names": names, "versions": versions}
    subscriptions = {**spec, "names": {"plural": "subscriptions", "kind": "Subscription"}}
    for each in (spec, subscriptions):
        plural = f"{each['names']['plural']}.{each['group']}"  # type: ignore[index]
        if api.find(CRDS, plural) is None:
            api.create(CRDS, {"metadata": {"name": plural}, "spec": each})
    eventually(lambda: api.items(CSVS) is not None, "they are served", refused=(ApiError,))
    eventually(
        lambda: api.items(CSVS.replace("clusterserviceversions", "subscriptions")) is not None,
        "both",
        refused=(ApiError,),
    )
    api.create("namespaces", {"metadata": {"name": prefix}})
    walked = Walk.__new__(Walk)
    walked.plane, walked.ns, walked.api = managed_plane, prefix, api
    published = original_deployments.deployment(original_deployments.NODE_MAINTENANCE_OPERATOR, prefix, {})
    before = {"strategy": "deployment", "spec": {"deployments": [{"name": "x", "spec": published["spec"]}]}}
    for kind, name, body in (("ClusterServiceVersion", "nmo.v1", {"install": before}), ("Subscription", "nmo", {})):
        made = {"apiVersion": "operators.coreos.com/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": body}
        api.create(f"operators.coreos.com/v1alpha1/{kind.lower()}s", made, prefix)

    def container() -> Json:
        install = api.get(CSVS, "nmo.v1", prefix)["spec"]["install"]
        found: Json = install["spec"]["deployments"][0]["spec"]["template"]["spec"]["containers"][0]
        return found

    old = container()
    text = commands("node-maintenance-operator under OLM")
    walked.shell(text.replace("NAME ", "nmo "), IMAGE=IMAGE, CSV="nmo.v1")
    patch = yaml.load(commands("node-maintenance-operator").partition("--patch '")[2].partition("'")[0].encode())
    (wanted,) = patch["spec"]["template"]["spec"]["containers"]
    resources = {**old["resources"], **wanted["resources"]}
    assert container() == {**old, **wanted, "image": IMAGE, "resources": resources}
    back = commands("The way back").partition("kubectl -n NAMESPACE patch csv")
    text = f"{back[1]}{back[2]}".partition("kubectl -n haulout-system")[0]
    walked.shell(text.replace("NAME ", "nmo "), ORIGINAL_IMAGE=old["image"], CSV="nmo.v1")
    assert container() == old


def test_pika(managed_plane: ControlPlane, nodes: list[str], prefix: str, tmp_path: Path) -> None:
    api, node = managed_plane.api(), nodes[0]
    define_notices(api)
    walked = walk(managed_plane, prefix, original_deployments.PIKA)
    api.create("secrets", {"metadata": {"name": "pika-server-cert"}}, prefix)
    # The original has begun with it: its node is cordoned, and is being drained by its users.
    api.patch("nodes", node, {"metadata": {"labels": {"maintenance/m": ""}}, "spec": {"unschedulable": True}})
    made = notice("m", node, "m")
    made["metadata"]["finalizers"] = [FINALIZER]
    api.create(NOTICES, made, prefix)
    expires = f"{datetime.now(UTC) + timedelta(hours=8):%Y-%m-%dT%H:%M:%SZ}"
    begun = {"maintenanceStatus": "MaintenanceStarted", "slaExpires": expires}
    api.patch(NOTICES, "m", {"status": begun}, prefix, sub="status")

    (tmp_path / "notify.yaml").write_text("slaPeriod: 8h\n")
    flags = (
        *(f"--config={tmp_path}/notify.yaml", f"--cert-dir={tmp_path}/certs", f"--listen-webhooks=:{free_port()}"),
        *("--health-probe-bind-address=:{health}", "--metrics-port={http}", *JSON_LOG),
    )
    operator = walked.drop_in(walked.switch("PIKA"), PIKA, tmp_path, *flags, NAMESPACE=prefix)
    operator.begin()

    def goes_to(state: str) -> None:
        eventually(lambda: status_of(api.get(NOTICES, "m", prefix)) == state, f"it is {state}")

    api.patch(NOTICES, "m", {"metadata": {"annotations": {READY: "true"}}}, prefix)
    goes_to("ObjectsDrained")

    walked.goes_back()
    operator.end()
    left = api.get(NOTICES, "m", prefix)
    assert left["status"]["slaExpires"] == expires
    assert prefixes(left) <= {"maintenance", "haulout.dev", "ngn2.nvidia.com"}
    # The original's turn has come; Haulout stands in for it.
    operator.begin()
    api.patch(NOTICES, "m", {"metadata": {"annotations": {CLIENT: "complete"}}}, prefix)
    goes_to("Validating")
    api.patch("nodes", node, {"spec": {"unschedulable": False}})
    api.delete(NOTICES, "m", prefix)
    operator.end()


def test_runtime_extension_maintenance_controller(managed_plane: ControlPlane, nodes: list[str], prefix: str) -> None:
    """Its work in flight is in tests/real/test_clusterapi_replicas.py: it needs workload clusters."""
    walked = walk(managed_plane, prefix, original_deployments.RUNTIME_EXTENSION)
    walked.switch("runtime-extension-maintenance-controller")
    walked.goes_back()


def test_skyhook_operator(managed_plane: ControlPlane, nodes: list[str], prefix: str, tmp_path: Path) -> None:
    api = managed_plane.api()
    define_packages(api)
    walked = walk(managed_plane, prefix, original_deployments.SKYHOOK_OPERATOR)
    packages = {"base": {"version": "1.0.0", "image": "reg.test/base"}}
    spec: Json = {"nodeSelectors": {"matchLabels": {"maintained": prefix}}, "packages": packages}
    api.create(SKYHOOKS, {"apiVersion": f"{P}v1alpha1", "kind": "Skyhook", "metadata": {"name": prefix}, "spec": spec})
    # The original has completed one of the two nodes.
    entry = {"name": "base", "version": "1.0.0", "image": "reg.test/base", "stage": "config", "state": "complete"}
    state = {f"{P}nodeState_{prefix}": json.dumps({"base|1.0.0": entry})}
    api.patch("nodes", nodes[0], {"metadata": {"annotations": state}})

    variables = {"METRICS_PORT": ":{http}", "PROBE_PORT": ":{health}", "NAMESPACE": prefix}
    operator = walked.drop_in(walked.switch("skyhook-operator"), SKYHOOK, tmp_path, **variables)
    operator.begin()
    eventually(lambda: api.get(SKYHOOKS, prefix).get("status", {}).get("status") == "complete", "both are complete")

    walked.goes_back()
    operator.end()
    for name in nodes:
        left = api.get("nodes", name)
        (found,) = json.loads(left["metadata"]["annotations"][f"{P}nodeState_{prefix}"]).values()
        assert (found["stage"], found["state"]) == ("config", "complete")
    operator.begin()
    api.delete(SKYHOOKS, prefix)
    eventually(lambda: api.find(SKYHOOKS, prefix) is None, "it is gone")
    operator.end()
