"""Both flows of clusterapi: the operator is killed right before and after each write, and each write meets each fault."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.rig.api import BROKEN, Json
from tests.rig.clusterapi import (
    DELETED,
    HOOK,
    HOSTS,
    MACHINES,
    MAINTENANCE,
    MAY_DELETE,
    MAY_MEND,
    ORIGINAL,
    REBOOT,
    REQUEST,
    ClusterApiOperator,
    Fleet,
    Machine,
    define_all,
    kubeconfig,
    repeatedly,
)
from tests.rig.crash import CrashTest, normalised
from tests.rig.faults import Action, Answer, CutAfter, CutBefore, FaultProxy, Rule
from tests.rig.operator import HAULOUT, JSON_LOG
from tests.rig.plane import ControlPlane
from tests.rig.wait import eventually

pytestmark = pytest.mark.tools("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")


class Flow:
    """One Machine on one host that is first maintained and then deleted.

    Other controllers do their part by themselves.
    """

    def __init__(self, fleet: Fleet, workload: ControlPlane, name: str) -> None:
        self.fleet = fleet
        self.workload = workload
        self.name = name
        self.machine = Machine(name, fleet.ns, fleet.api, workload.api())
        # The Machines whose deletion was approved, by UID: each run of a crash test has one of its own.
        self.approved: set[str] = set()

    def make(self) -> None:
        self.fleet.host(self.name)
        provider = f"metal3://{self.fleet.ns}/{self.name}/m"
        self.fleet.machine(self.name, self.workload, provider=provider, labels={REQUEST: "requested"})

    def go_on(self, found: Json, labels: Json, *, off: bool) -> None:
        """Do what is due by the Machine, its Node's labels and the state of its host."""
        hooked = HOOK in found.get("annotations", {})
        match found["labels"].get(REQUEST), "deletionTimestamp" in found:
            case "requested", _ if MAINTENANCE in labels and hooked and MAY_MEND not in labels:
                self.machine.tell_node({MAY_MEND: "true"})
            case "approved", _ if off:
                self.machine.label(**{REQUEST: None})
            case None, False if MAINTENANCE not in labels and not off:
                self.machine.tell_node({MAY_MEND: None})
                self.machine.delete()
            case None, True if DELETED in labels and hooked and MAY_DELETE not in labels:
                self.approved.add(found["uid"])
                self.machine.tell_node({MAY_DELETE: "true"})

    def over(self) -> bool:
        found = self.machine.read()["metadata"]
        return (
            "deletionTimestamp" in found and HOOK not in found.get("annotations", {}) and DELETED in self.machine.node()
        )

    def end(self) -> Any:
        host = self.fleet.api.get(HOSTS, self.name, self.fleet.ns)
        found = [self.machine.read(), self.workload.api().get("nodes", self.name), host]
        left = [[each["metadata"].get(part) for part in ("labels", "annotations", "finalizers")] for each in found]
        return normalised(left)


@pytest.fixture
def fleet(plane: ControlPlane, managed_plane: ControlPlane, prefix: str) -> Iterator[Fleet]:
    define_all(plane.api())
    plane.api().create("namespaces", {"metadata": {"name": prefix}})
    yield Fleet(plane, prefix)
    plane.wipe(prefix)
    managed_plane.wipe(prefix)


def test_killed_at_every_write_both_flows_end_the_same(
    fleet: Fleet, plane: ControlPlane, prefix: str, tmp_path: Path
) -> None:
    """One API server is both clusters here, so that every write passes the same place."""
    flow = Flow(fleet, plane, f"{prefix}-m")

    def make() -> None:
        plane.wipe(prefix)
        plane.api().create("namespaces", {"metadata": {"name": prefix}})
        fleet.cluster("alpha", kubeconfig(plane, server=test.url, token=plane.token("operator")))
        flow.make()

    silent = ("--leader-elect=false", "--metrics-bind-address=0", "--enable-metal3-maintenance", *JSON_LOG)
    test = CrashTest(
        plane=plane,
        logs=tmp_path,
        argv=[HAULOUT, "as", ORIGINAL, *silent],
        make_world=make,
        act=lambda: None,
        settled=flow.over,
        end_state=flow.end,
        quiet=0.3,
    )
    with let_go_too_early(fleet, [flow]) as early, repeatedly(all_parties(fleet, plane, [flow])):
        report = test.verify()
    # Told, hooked, approved, off, told, on, told, let go; hook and approval may be one.
    assert 7 <= len(report.writes) <= 8, report.writes
    assert early == []


FAULTS: dict[str, Action] = {
    "401": Answer(401),
    "403": Answer(403),
    "409": Answer(409),
    "422": Answer(422),
    "429": Answer(429, retry_after=1),
    "500": Answer(500),
    "504": Answer(504),
    "cut-before": CutBefore(),
    "cut-after": CutAfter(),
}
# One after another of what is written to each; the workload cluster is behind a way of its own.
WRITES = {
    "announce": ("away", "/nodes/{name}$", 0),
    "withdraw": ("away", "/nodes/{name}$", 1),
    "tell": ("away", "/nodes/{name}$", 2),
    "hook": ("home", "/machines/{name}$", 0),
    "approve": ("home", "/machines/{name}$", 1),
    "let-go": ("home", "/machines/{name}$", 2),
    "off": ("home", "/baremetalhosts/{name}$", 0),
    "on": ("home", "/baremetalhosts/{name}$", 1),
}


def test_each_write_meets_each_fault(
    fleet: Fleet, plane: ControlPlane, managed_plane: ControlPlane, prefix: str, tmp_path: Path
) -> None:
    """A Machine for each fault, all at once.

    It ends as without a fault, and no Machine is released before it is approved.
    """
    flows: dict[str, Flow] = {}
    rules: dict[str, Rule] = {}
    with ExitStack() as stack:
        proxies = {
            "home": stack.enter_context(FaultProxy(plane)),
            "away": stack.enter_context(FaultProxy(managed_plane)),
        }
        fleet.cluster("alpha", kubeconfig(managed_plane, server=proxies["away"].url))
        for (fault, action), (what, (side, path, skip)) in itertools.product(FAULTS.items(), WRITES.items()):
            name = f"{prefix}-{what}-{fault}"
            flows[name] = Flow(fleet, managed_plane, name)
            rules[name] = proxies[side].rule(action, method="PATCH", path=path.format(name=name), skip=skip, times=1)
        for flow in flows.values():
            flow.make()
        stack.enter_context(
            ClusterApiOperator(plane, tmp_path, "--enable-metal3-maintenance", server=proxies["home"].url)
        )
        early = stack.enter_context(let_go_too_early(fleet, list(flows.values())))
        stack.enter_context(repeatedly(all_parties(fleet, managed_plane, list(flows.values()))))
        for name, flow in flows.items():
            eventually(flow.over, f"{name} is over")
    assert {name for name, rule in rules.items() if not rule.acted} == set()
    assert early == []
    ends = {name: str(flow.end()).replace(name, "") for name, flow in flows.items()}
    assert len(set(ends.values())) == 1, ends


def all_parties(fleet: Fleet, workload: ControlPlane, flows: list[Flow]) -> Callable[[], None]:
    """Return a function that acts for all other controllers of Machines, Nodes and hosts: it does what is due."""
    known = {flow.name: flow for flow in flows}

    def look() -> None:
        labels = {
            each["metadata"]["name"]: each["metadata"].get("labels", {}) for each in workload.api().items("nodes")
        }
        hosts = {each["metadata"]["name"]: each["metadata"] for each in fleet.api.items(HOSTS, fleet.ns)}
        for found in (each["metadata"] for each in fleet.api.items(MACHINES, fleet.ns)):
            name = found["name"]
            if name in hosts and name in labels:
                off = REBOOT in hosts[name].get("annotations", {})
                known[name].go_on(found, labels[name], off=off)

    return look


@contextmanager
def let_go_too_early(fleet: Fleet, flows: list[Flow]) -> Iterator[list[str]]:
    """Yield the Machines that are deleted and without a hook before that was approved, if only for a moment.

    A watch sees every change.
    """
    known, found = {flow.name: flow for flow in flows}, list[str]()
    watch = fleet.api.watch(MACHINES, fleet.ns, silence=300)

    def follow() -> None:
        with suppress(*BROKEN, ValueError, AttributeError):
            for event in watch:
                about = event["object"]["metadata"]
                waits = event["type"] == "MODIFIED" and "deletionTimestamp" in about
                is_free = waits and HOOK not in about.get("annotations", {})
                if is_free and about["uid"] not in known[about["name"]].approved:
                    found.append(about["name"])

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        watch.close()
        thread.join(30)
