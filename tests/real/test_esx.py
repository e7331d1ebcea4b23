"""ESX with the real simulator of a vCenter: the requests to it, and the whole loop on a real API server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from haulout.clients.esx import Hosts, VirtualMachines
from haulout.clients.vcenter_zones import VCenterError, VCenters
from haulout.runtime.probes import ProbeFailed
from haulout.surfaces.esx.options import Login, VCenterSettings
from haulout.surfaces.esx.vcenter import HostState, StartVirtualMachine, StopVirtualMachine
from tests.rig.crash import CrashTest, normalised
from tests.rig.fleet import node_object, pod_object
from tests.rig.kwok import Kwok
from tests.rig.operator import HAULOUT, MaintenanceController
from tests.rig.plane import ControlPlane
from tests.rig.session import require_tools
from tests.rig.vcsim import VCenterSim
from tests.rig.wait import eventually

PASSWORD = "not for logs, ever"
MACHINE = "DC0_C0_RP0_VM0"
STOP = StopVirtualMachine(MACHINE, "a", timedelta(seconds=0.1), timedelta(seconds=0.5))
T = TypeVar("T")


@pytest.fixture
def center(tmp_path: Path) -> Iterator[VCenterSim]:
    require_tools("vcsim")
    with VCenterSim(tmp_path) as made:
        yield made


def centers(url: str) -> VCenters:
    login = Login(username="robot", password=PASSWORD)
    settings = VCenterSettings(template_url=url, credentials={"a": login})
    return VCenters(lambda: settings)


def asked(url: str, question: Callable[[VCenters], Awaitable[T]]) -> T:
    """Return the answer once all sessions are signed out."""

    async def ask(made: VCenters) -> T:
        return await question(made)

    made = centers(url)
    try:
        return asyncio.run(ask(made))
    finally:
        made.close()


def host(url: str, name: str = "DC0_C0_H0", zone: str = "a") -> HostState:
    return asked(url, lambda made: Hosts(made)((name, zone)))


def stop(center: VCenterSim, patience: float) -> None:
    wanted = msgspec.structs.replace(STOP, give_up_for=timedelta(seconds=patience))
    asked(center.url, lambda made: VirtualMachines(made)(wanted))


def start(center: VCenterSim, name: str = MACHINE) -> None:
    asked(center.url, lambda made: VirtualMachines(made)(StartVirtualMachine(name, "a")))


@pytest.mark.tools("vcsim")
def test_a_host(center: VCenterSim) -> None:
    assert host(center.url) == HostState("6.5.0")
    center.maintain("DC0_C0_H0", is_on=True)
    assert host(center.url) == HostState("6.5.0", in_maintenance=True)
    assert host(center.url, "DC0_C0_H1") == HostState("6.5.0")
    center.alarm, center.entering = "Host memory", True
    assert host(center.url, "DC0_C0_H1") == HostState("6.5.0", entering=True, alarms=("Host memory",))


@pytest.mark.tools("vcsim")
@pytest.mark.parametrize(
    ("name", "zone", "words"),
    [
        ("other", "a", "expected 1 of the hosts to be named other, but found 0"),
        ("DC0_C0_H0", "b", "there are no credentials for zone b"),
    ],
)
def test_a_host_that_cannot_be_judged(center: VCenterSim, name: str, zone: str, words: str) -> None:
    with pytest.raises(ProbeFailed) as caught:
        host(center.url, name, zone)
    assert str(caught.value) == f"host {name} cannot be judged: {words}"


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "vcenter", "http://[::1"])
def test_a_vcenter_that_is_not_there(url: str) -> None:
    with pytest.raises(ProbeFailed) as caught:
        host(url)
    assert PASSWORD not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.tools("vcsim")
def test_sessions_are_short_and_shared(center: VCenterSim) -> None:
    async def several(made: VCenters) -> None:
        await asyncio.gather(*(Hosts(made)((f"DC0_C0_H{number}", "a")) for number in (0, 1, 0, 1)))

    asked(center.url, several)
    assert (center.calls.count("Login"), center.calls.count("Logout")) == (1, 1)


@pytest.mark.tools("vcsim")
@pytest.mark.parametrize(
    ("guests", "patience", "switched"), [("obedient", 600, 0), ("stubborn", 0.5, 1), ("without tools", 600, 1)]
)
def test_a_virtual_machine_goes_down_whatever_its_guest_does(
    center: VCenterSim, guests: str, patience: float, switched: int, caplog: pytest.LogCaptureFixture
) -> None:
    center.guests = guests
    with caplog.at_level(logging.DEBUG):
        stop(center, patience)
        assert not center.is_up(MACHINE)
        stop(center, patience)
        start(center)
        start(center)
    assert center.is_up(MACHINE)
    assert center.calls.count("ShutdownGuest") == 1
    assert center.calls.count("PowerOffVM_Task") == switched
    assert center.calls.count("PowerOnVM_Task") == 1
    assert not [record for record in caplog.records if PASSWORD in str(record.__dict__)]


@pytest.mark.tools("vcsim")
def test_a_virtual_machine_that_is_not_there(center: VCenterSim) -> None:
    with pytest.raises(VCenterError, match=r"^expected 1 of the virtual machines to be named none, but found 0$"):
        start(center, "none")


@pytest.mark.tools("vcsim")
def test_what_is_wanted_of_one_virtual_machine_is_done_in_order(center: VCenterSim) -> None:
    """A guest that still shuts down must not be taken for one that is up."""
    center.guests = "stubborn"

    async def both(made: VCenters) -> None:
        machines = VirtualMachines(made)
        await asyncio.gather(machines(STOP), machines(StartVirtualMachine(MACHINE, "a")))

    asked(center.url, both)
    assert center.calls.index("PowerOffVM_Task") < center.calls.index("PowerOnVM_Task")
    assert center.is_up(MACHINE)


# The whole loop


def esx_file(url: str) -> str:
    return f"""
intervals:
  check: {{period: 500ms, jitter: 0.1}}
  podEviction: {{period: 100ms, timeout: 1m}}
  vmShutdown: {{period: 100ms, timeout: 10s}}
alarms: [Host memory]
vCenters:
  templateUrl: {url}
  credentials: {{1: {{username: robot, password: "{PASSWORD}"}}}}
"""


class Seen:
    def __init__(self, plane: ControlPlane, name: str) -> None:
        self.api, self.name = plane.api(), name

    @property
    def node(self) -> Any:
        return self.api.get("nodes", self.name)

    def label(self, name: str) -> str | None:
        found: str | None = self.node["metadata"]["labels"].get(f"cloud.sap/{name}")
        return found

    @property
    def is_out(self) -> bool:
        marked = self.node["metadata"].get("annotations", {}).get("cloud.sap/esx-reboot-initiated") == "true"
        return marked and bool(self.node["spec"].get("unschedulable"))

    @property
    def is_back(self) -> bool:
        marked = "cloud.sap/esx-reboot-initiated" in self.node["metadata"].get("annotations", {})
        return not marked and not self.node["spec"].get("unschedulable")


@pytest.mark.tools("etcd", "kube-apiserver", "kwok", "vcsim")
def test_a_virtual_machine_goes_down_with_its_host_and_up_again(
    plane: ControlPlane, kwok: Kwok, center: VCenterSim, prefix: str, tmp_path: Path
) -> None:
    place = {"kubernetes.cloud.sap/host": center.host(0), "failure-domain.beta.kubernetes.io/zone": "eu-1"}
    (name,) = kwok.nodes(prefix, 1, labels=place)
    center.name_machine(0, name)
    node = Seen(plane, name)
    plane.api().create("pods", pod_object(f"{prefix}-pod", "default", name, grace=1), "default")
    operator = MaintenanceController(
        plane, tmp_path, "intervals: {requeue: 30s}", flags=["--enable-esx-maintenance", "--zap-devel=false"]
    )
    operator.write(esx_file(center.url), "config/esx.yaml")
    with operator:
        eventually(lambda: node.label("esx-in-maintenance") == "false", "the host works")
        assert node.label("esx-version") == "6.5.0"
        center.maintain(center.host(0), is_on=True)
        eventually(lambda: node.label("esx-in-maintenance") == "true", "the host is in maintenance")
        assert node.is_back
        plane.api().patch("nodes", name, {"metadata": {"labels": {"cloud.sap/esx-reboot-ok": "true"}}})
        eventually(lambda: node.is_out, "the node is marked and cordoned")
        eventually(lambda: not center.is_up(name), "the virtual machine is down")
        assert plane.api().find("pods", f"{prefix}-pod", "default") is None
        center.maintain(center.host(0), is_on=False)
        eventually(lambda: node.is_back, "the node is back")
        assert center.is_up(name)
        operator.process.stop()
    assert PASSWORD not in operator.process.text()
    plane.wipe(prefix)


@pytest.mark.tools("etcd", "kube-apiserver", "vcsim")
def test_killed_at_every_write_a_machine_goes_down_and_up_once(
    plane: ControlPlane, center: VCenterSim, prefix: str, tmp_path: Path
) -> None:
    place = {"kubernetes.cloud.sap/host": center.host(0), "failure-domain.beta.kubernetes.io/zone": "eu-1"}
    wish = {"cloud.sap/esx-reboot-ok": "true"}
    name, api, switched = f"{prefix}-node", plane.api(), list[tuple[int, int]]()
    node = Seen(plane, name)
    center.name_machine(0, name)
    (tmp_path / "maintenance.yaml").write_text("intervals: {requeue: 30s}")
    (tmp_path / "esx.yaml").write_text(esx_file(center.url))
    (tmp_path / "haulout.yaml").write_text(
        'listen: {http: "0", health: "0"}\nleader: {elect: false}\n'
        f"surfaces: {{profiles: {{config: {tmp_path}/maintenance.yaml, esx: {{enabled: true, config: {tmp_path}/esx.yaml}}}}}}\n"
    )

    def make() -> None:
        plane.wipe(prefix)
        api.create("namespaces", {"metadata": {"name": prefix}})
        plane.load([node_object(name, labels=place | wish), pod_object(f"{prefix}-pod", prefix, name, grace=0)])
        center.calls.clear()
        switched.append((0, 0))
        # Before the operator is there: two who write to a node at the same time would have a conflict.
        center.maintain(center.host(0), is_on=True)

    def act() -> None:
        eventually(lambda: not center.is_up(name), "the virtual machine is down")
        center.maintain(center.host(0), is_on=False)

    def end() -> Any:
        switched[-1] = (center.calls.count("ShutdownGuest"), center.calls.count("PowerOnVM_Task"))
        found = node.node
        return normalised([found["metadata"]["labels"], found["metadata"]["annotations"], found["spec"]])

    report = CrashTest(
        plane=plane,
        logs=tmp_path,
        argv=[HAULOUT, "run", "--config", tmp_path / "haulout.yaml"],
        make_world=make,
        act=act,
        settled=lambda: node.is_back and center.is_up(name) and node.label("esx-in-maintenance") == "false",
        end_state=end,
        quiet=0.3,
    ).verify()
    plane.wipe(prefix)
    # State and version of the host, its maintenance, the mark with the cordon, the eviction, its end, the node back.
    assert 5 <= len(report.writes) <= 7, report.writes
    assert set(switched) == {(1, 1)}


@pytest.mark.tools("etcd", "kube-apiserver")
@pytest.mark.parametrize("text", ["", "intervals: ["])
def test_a_file_that_is_wrong_at_the_start_ends_the_process(plane: ControlPlane, tmp_path: Path, text: str) -> None:
    operator = MaintenanceController(plane, tmp_path, "intervals: {requeue: 30s}", flags=["--enable-esx-maintenance"])
    operator.write(text, "config/esx.yaml")
    operator.process.start()
    eventually(lambda: operator.process.code is not None, "it ends")
    assert operator.process.code == 1
    assert "config/esx.yaml:" in operator.process.text()
