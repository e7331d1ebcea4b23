"""What `haulout explain` prints about the virtual machines under nodes, from the cluster's objects alone."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime
from pathlib import Path

import click
import pytest

from haulout.cluster.key import node_key
from haulout.embedded import NODES, Api, InProcessTransport, Server
from haulout.explain.node import as_text, explain
from haulout.explain.setup import read_setup
from haulout.explain.snapshot import picture
from tests.build.profiles import config_text
from tests.build.workloads import World, budget, deployment, node

HOST, ZONE = "kubernetes.cloud.sap/host", "failure-domain.beta.kubernetes.io/zone"
STATE, OK = "cloud.sap/esx-in-maintenance", "cloud.sap/esx-reboot-ok"
PLACE = {HOST: "esx-1", ZONE: "eu-2a"}
ESX = """\
intervals:
  check: {period: 5m, jitter: 0.1}
  podEviction: {period: 20s, timeout: 5m}
  vmShutdown: {period: 20s, timeout: 3m}
alarms: [Host memory usage]
vCenters:
  templateUrl: https://vcenter-$AZ.test
  credentials:
    a: {username: haulout, password: "${NOT_SET_HERE}"}
"""
KUBERNIKUS = """\
intervals:
  requeue: 30s
  podDeletion: {period: 20s, timeout: 5m}
  podEviction: {period: 20s, timeout: 5m}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "maintenance.yaml").write_text(config_text("- name: none"))
    return tmp_path


def told(
    folder: Path, labels: dict[str, str], *, cordoned: bool = False, kubelet: str = "v1.36.3", **notes: str
) -> str:
    """Return the explanation of a node with one pod, whose budget is closed."""
    world = World()
    made = node("n0")
    made["metadata"]["labels"] |= labels
    made["metadata"]["annotations"] = {f"cloud.sap/{name.replace('_', '-')}": value for name, value in notes.items()}
    made["status"] = {"nodeInfo": {"kubeletVersion": kubelet}}
    world.make(made, deployment("web", 1), budget("web", minAvailable=1)).run()
    world.change(NODES, "n0", {"spec": {"unschedulable": cordoned or None}})
    world.run()
    setup = read_setup(str(folder / "maintenance.yaml"))
    enabled = [each for each in setup.enabled if each.declaration.within]
    assert isinstance(world.objects, Server)
    kernel = asyncio.run(picture(setup.without("nodemaintenance"), InProcessTransport(Api(world.objects)), labels))
    now = datetime.now(UTC)
    found = explain(kernel, enabled, node_key("n0"), now)
    assert found is not None
    text = as_text(found, now).partition("\nlook up:")[0]
    return re.sub(r"web-[0-9a-z]+-[0-9a-z]+", "web", text)


@pytest.mark.parametrize(
    ("labels", "lines"),
    [
        pytest.param({}, ["  nothing is wanted of it"], id="no machine of ESX"),
        pytest.param(
            PLACE,
            [
                "  waiting: the state of its host esx-1 is unknown",
                "    the vCenter of zone a has not reported the state of the host yet",
                "blocked by:",
                "  the vCenter of zone a has not reported the state of the host yet",
            ],
            id="never seen",
        ),
        pytest.param(
            {**PLACE, STATE: "false"},
            ["  its host esx-1 was last seen at work, and its virtual machine stays as it is"],
            id="works",
        ),
        pytest.param(
            {**PLACE, STATE: "alarm"},
            [
                "  its host esx-1 was last seen under an alarm",
                "    its virtual machine stays on until the node has the label cloud.sap/esx-reboot-ok=true",
                "blocked by:",
                "  its virtual machine stays on until the node has the label cloud.sap/esx-reboot-ok=true",
                "what would help:",
                "  let the virtual machine go down: kubectl label node n0 cloud.sap/esx-reboot-ok=true",
            ],
            id="may not go down yet",
        ),
    ],
)
def test_esx(folder: Path, labels: dict[str, str], lines: list[str]) -> None:
    (folder / "esx.yaml").write_text(ESX)
    assert told(folder, labels).splitlines()[1:] == lines


def test_a_virtual_machine_that_goes_down_waits_for_its_pods(folder: Path) -> None:
    (folder / "esx.yaml").write_text(ESX)
    text = told(folder, {**PLACE, STATE: "true", OK: "true"}, cordoned=True, esx_reboot_initiated="true")
    assert "its host esx-1 is out of service, its virtual machine is to be off, once it is empty" in text
    assert "default/web" in text.partition("blocked by:")[2]


def test_a_virtual_machine_that_comes_back(folder: Path) -> None:
    (folder / "esx.yaml").write_text(ESX)
    text = told(folder, {**PLACE, STATE: "false"}, cordoned=True, esx_reboot_initiated="true")
    assert "its host esx-1 works again: its virtual machine is switched on, then the node is uncordoned" in text


def test_kubernikus_compares_with_the_version_of_the_api_server(folder: Path) -> None:
    (folder / "kubernikus.yaml").write_text(KUBERNIKUS)
    text = told(folder, {}, kubelet="v1.35.0")
    assert text.splitlines()[1:] == [
        "  its kubelet is v1.35.0, the API server v1.36.3+haulout: cloud.sap/kubelet-needs-update=true, and its server stays"
    ]


def test_kubernikus_without_a_version(folder: Path) -> None:
    (folder / "kubernikus.yaml").write_text(KUBERNIKUS)
    assert "versions cannot be compared" in told(folder, {}, kubelet="v1.x").partition("blocked by:")[2]


def test_a_server_that_is_to_be_deleted_waits_for_its_pods(folder: Path) -> None:
    (folder / "kubernikus.yaml").write_text(KUBERNIKUS)
    text = told(folder, {"cloud.sap/delete-node": "true"}, cordoned=True)
    assert "its server is to be deleted, once it is empty" in text
    assert "default/web" in text.partition("blocked by:")[2]


def test_a_file_that_is_wrong_is_told_with_all_that_is(folder: Path) -> None:
    """Only credentials are not checked, because a command that only reads does not need them."""
    (folder / "esx.yaml").write_text(ESX.replace("jitter: 0.1", "jitter: x").replace("20s", "soon"))
    with pytest.raises(click.ClickException) as refused:
        read_setup(str(folder / "maintenance.yaml"))
    assert [line.removeprefix(f"{folder}/").partition(": ")[0] for line in str(refused.value).splitlines()] == [
        "esx.yaml:2:31",
        "esx.yaml:3:25",
        "esx.yaml:4:24",
    ]


def test_the_platform_says_which_are_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in (("m", config_text("- name: none")), ("e", ESX), ("k", KUBERNIKUS)):
        Path(f"{name}.yaml").write_text(text)
    blocks = "{config: m.yaml, esx: {enabled: true, config: e.yaml}, kubernikus: {enabled: false, config: k.yaml}}"
    Path("haulout.yaml").write_text(f"surfaces: {{profiles: {blocks}}}\n")
    assert read_setup("").asked == ("profiles", "esx")
