"""The packages operator on a real node: the example packages are installed, configured, upgraded and uninstalled."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from haulout.surfaces.packages.groups import NODEWRIGHT, SKYHOOK, Group
from tests.rig.api import Api, Json
from tests.rig.haulout_images import HauloutImages
from tests.rig.host_commands import stand_in
from tests.rig.node import IMAGE, Node
from tests.rig.operator import SkyhookOperator
from tests.rig.package_pods import NOT_READY
from tests.rig.packages import example_image
from tests.rig.registry import Registry
from tests.rig.rights import grant
from tests.rig.services import Services
from tests.rig.units import JOBS, PATHS, define
from tests.rig.wait import eventually

pytestmark = [pytest.mark.root, pytest.mark.tools("etcd", "kube-apiserver", "kubectl", "kubelet")]

EXAMPLES = ("kernel-tuning", "node-hardening", "registry-mirror")
FIRST_BOOT, SECOND_BOOT, THIRD_BOOT, FOURTH_BOOT = (
    f"00000000-0000-4000-8000-0000000000{number}" for number in (11, 12, 13, 14)
)
QUICK = [{"name": "SKYHOOK_AGENT_STEP_DELAY", "value": "0"}]


@pytest.fixture(scope="module")
def registry(images: HauloutImages, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with Registry() as made:
        made.add("skyhook-agent", "1", images.pulled("agent"))
        for name, version in (*((name, "1.0.0") for name in EXAMPLES), ("registry-mirror", "1.1.0")):
            made.add(name, version, example_image(name, tmp_path_factory.mktemp(name), version))
        yield made


@pytest.fixture
def commands(node: Node) -> Path:
    # The last two are used by node-hardening, whose settings would be those of the machine under the node.
    return stand_in(node, "reboot", "sysctl", "sshd")


@pytest.fixture
def services(node: Node, commands: Path) -> Iterator[Services]:
    """The services of the host: the containerd under the node's pods, which reads the host's configuration when it restarts."""
    config = node.root / "etc/containerd/config.toml"
    config.parent.mkdir(exist_ok=True)
    config.write_text((node.directory / "containerd.toml").read_text())
    with Services(node, {"containerd": node.containerd}) as made:
        made.define("containerd", "containerd --config /etc/containerd/config.toml")
        yield made


@pytest.fixture
def operator(node: Node, registry: Registry, namespace: str, tmp_path: Path) -> Iterator[SkyhookOperator]:
    """The operator with exactly the rights that are printed for it."""
    api = node.plane.api()
    define(api)
    words = ("kernel", "packages", "-n", namespace, f"--packages-namespace={namespace}")
    variables = {
        "AGENT_IMAGE": f"{registry.address}/skyhook-agent:1",
        "PAUSE_IMAGE": IMAGE,
        "REAPPLY_ON_REBOOT": "true",
        "PRE_PULL": "true",
    }
    user = grant(node.plane, namespace, *words).user
    with SkyhookOperator(node.plane, tmp_path, namespace, user=user, **variables) as made:
        yield made


class Installed:
    """One Skyhook or NodeWright for the node, and its progress there."""

    def __init__(self, api: Api, name: str, node: str, group: Group = SKYHOOK) -> None:
        self.api, self.name, self.node, self.group = api, name, node, group

    def create(self, packages: Json) -> None:
        spec = {
            "nodeSelectors": {"matchLabels": {"kubernetes.io/hostname": self.node}},
            "additionalTolerations": [NOT_READY],
            "packages": packages,
        }
        body = {"apiVersion": self.group.api_version, "kind": self.group.kind, "metadata": {"name": self.name}}
        self.api.create(PATHS[self.group], {**body, "spec": spec})

    def change(self, package: str, fields: Json | None) -> None:
        self.api.patch(PATHS[self.group], self.name, {"spec": {"packages": {package: fields}}})

    def completes(self) -> None:
        eventually(self._is_complete, "the Skyhook is complete", 180)

    def _is_complete(self) -> bool:
        found = self.api.get(PATHS[self.group], self.name)
        status = found.get("status", {})
        seen: bool = status.get("observedGeneration") == found["metadata"]["generation"]
        return seen and status["status"] == "complete"

    @property
    def state(self) -> dict[str, str]:
        """Return the stage of every package on the node."""
        annotations = self.api.get("nodes", self.node)["metadata"]["annotations"]
        entries = json.loads(annotations[f"{self.group.prefix}nodeState_{self.name}"])
        return {key: entry["stage"] for key, entry in entries.items() if entry["state"] == "complete"}

    def is_cordoned(self) -> bool:
        return bool(self.api.get("nodes", self.node)["spec"].get("unschedulable"))

    def pulled_before(self) -> set[str]:
        """Return the images that the pod for pulling had pulled, by the kubelet's events."""
        told = (each for each in self.api.items("events", self.name) if each["reason"] == "Pulled")
        texts = (each["message"] for each in told if "-prepull-" in each["involvedObject"]["name"])
        return {text.split('"')[1] for text in texts}

    def history(self, host: Path, package: str) -> list[str]:
        """Return the versions of a package in the host's history, the last one first."""
        found = json.loads((host / "var/lib/skyhook" / self.name / f"history/{package}.json").read_text())
        return [entry["version"] for entry in found["history"]]


@pytest.mark.timeout(900)
def test_packages_come_to_a_host_and_leave_it(
    node: Node, registry: Registry, namespace: str, commands: Path, services: Services, operator: SkyhookOperator
) -> None:
    host, installed = node.root, Installed(node.plane.api(), namespace, node.name)
    (host / "run/systemd/system").mkdir(parents=True, exist_ok=True)
    node.reboot(FIRST_BOOT)
    images = {name: {"version": "1.0.0", "image": f"{registry.address}/{name}", "env": QUICK} for name in EXAMPLES}
    # The one setting that every kernel is booted with.
    tuning = {"interrupt": {"type": "reboot"}, "configMap": {"sysctl.conf": "kernel.ostype = Linux\n", "cmdline": ""}}
    mirror = {
        "interrupt": {"type": "service", "services": ["containerd"]},
        "configMap": {"mirrors": "docker.io https://one.example.com\n"},
    }
    more: dict[str, Json] = {"kernel-tuning": tuning, "registry-mirror": mirror}
    installed.create({name: {**image, **more.get(name, {})} for name, image in images.items()})

    # One reboot serves the package that wants a service restarted, too.
    eventually(lambda: "reboot" in commands.read_text(), "the host is asked to reboot", 180)
    assert installed.is_cordoned()
    assert installed.pulled_before() >= {f"{each['image']}:1.0.0" for each in images.values()}
    node.reboot(SECOND_BOOT)
    installed.completes()
    assert not installed.is_cordoned()
    stages = {"kernel-tuning|1.0.0": "post-interrupt", "node-hardening|1.0.0": "config"}
    assert installed.state == {**stages, "registry-mirror|1.0.0": "post-interrupt"}
    calls = commands.read_text().splitlines()
    assert [call for call in calls if call.startswith(("reboot", "systemctl"))] == [
        "reboot ",
        "systemctl is-active containerd",
    ]
    assert (host / "etc/sysctl.d/95-kernel-tuning.conf").read_text() == "kernel.ostype=Linux\n"
    assert (host / "etc/sysctl.d/60-node-hardening.conf").exists()
    hosts = host / "etc/containerd/certs.d/docker.io/hosts.toml"
    assert '[host."https://one.example.com"]' in hosts.read_text()

    commands.write_text("")
    installed.change("registry-mirror", {"configMap": {"mirrors": "docker.io https://two.example.com\n"}})
    eventually(lambda: "two.example.com" in hosts.read_text(), "the new mirror is in the file")
    installed.completes()
    assert commands.read_text() == "", "containerd reads this file with every pull"

    first, log_before = services.pid("containerd"), len(node.containerd.text())
    certificates = "/etc/containerd/certs.d"
    assert certificates in (host / "etc/containerd/config.toml").read_text()
    assert certificates not in node.containerd.text(), "the process that runs has not read it"
    installed.change("registry-mirror", {"version": "1.1.0"})
    eventually(lambda: "registry-mirror|1.1.0" in installed.state, "the new version has begun")
    installed.completes()
    assert installed.state == {**stages, "registry-mirror|1.1.0": "post-interrupt"}
    assert commands.read_text().splitlines() == [
        "systemctl daemon-reload",
        "systemctl restart containerd",
        "systemctl is-active containerd",
    ]
    assert installed.history(host, "registry-mirror")[0] == "1.1.0"
    assert services.pid("containerd") != first
    assert certificates in node.containerd.text()[log_before:], "the new process has read it"

    installed.change("registry-mirror", None)
    eventually(lambda: "registry-mirror|1.1.0" not in installed.state and not hosts.exists(), "it has left the host")
    installed.completes()
    assert installed.state == stages
    assert installed.history(host, "registry-mirror")[0] == "uninstalled"
    copies = (host / "var/lib/skyhook" / namespace).glob("registry-mirror-1.1.0-*")
    last = max(copies, key=lambda each: int(each.name.rpartition("-")[2]))
    assert "two.example.com" in (last / "configmaps/mirrors").read_text(), "it kept its configuration to the end"
    assert (host / "etc/sysctl.d/60-node-hardening.conf").exists()


@pytest.fixture(scope="module")
def job_controller(node: Node) -> None:
    node.plane.start_controllers(("job-controller",))


@pytest.mark.timeout(600)
def test_a_package_of_a_nodewright_runs_in_jobs_and_its_reboot_outlasts_a_rename(
    node: Node,
    registry: Registry,
    namespace: str,
    commands: Path,
    operator: SkyhookOperator,
    job_controller: None,
) -> None:
    api, host = node.plane.api(), node.root
    before, after = (Installed(api, namespace, node.name, group) for group in (NODEWRIGHT, SKYHOOK))
    node.reboot(THIRD_BOOT)
    files = {"sysctl.conf": "kernel.ostype = Linux\n", "cmdline": ""}
    package = {"version": "1.0.0", "image": f"{registry.address}/kernel-tuning", "env": QUICK, "configMap": files}
    packages = {"kernel-tuning": {**package, "interrupt": {"type": "reboot"}}}
    before.create(packages)
    eventually(lambda: "reboot" in commands.read_text(), "the host is asked to reboot", 180)
    assert before.state == {}
    assert {each["metadata"]["ownerReferences"][0]["kind"] for each in api.items(JOBS, namespace)} == {"NodeWright"}
    after.create(packages)
    api.delete(PATHS[NODEWRIGHT], namespace)
    eventually(lambda: api.find(PATHS[NODEWRIGHT], namespace) is None, "the NodeWright is gone")
    node.reboot(FOURTH_BOOT)
    after.completes()
    assert after.state == {"kernel-tuning|1.0.0": "post-interrupt"}
    assert [call for call in commands.read_text().splitlines() if call.startswith("reboot")] == ["reboot "]
    assert not after.is_cordoned()
    assert (host / "etc/sysctl.d/95-kernel-tuning.conf").read_text() == "kernel.ostype=Linux\n"
    recorded = [each for each in api.items(JOBS, namespace) if f"{NODEWRIGHT.prefix}state-recorded" in notes_of(each)]
    assert {json.loads(notes_of(each)[f"{NODEWRIGHT.prefix}package"])["stage"] for each in recorded} == {
        *("apply", "config", "interrupt"),
    }


def notes_of(found: Json) -> Json:
    notes: Json = found["metadata"]["annotations"]
    return notes
