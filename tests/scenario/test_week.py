"""Objects of all five surfaces, workload clusters and nodes come and go for a long time: nothing of them is remembered."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path

import pytest

from haulout.embedded import NODES, Resource
from haulout.kube.errors import NotFound
from haulout.serve.certificate_process import in_this_process
from haulout.serve.managed_certificate import SelfManagedCertificate
from haulout.surfaces.clusterapi.wire import CLUSTER_LABEL, ENABLED, HOOK, MAINTENANCE_APPROVED, REQUEST, STATE
from haulout.surfaces.notify.wire import CLIENT
from haulout.surfaces.profiles.wire import PROFILE_LABEL
from tests.build.all_surfaces import GO, NODE_BUDGETS
from tests.build.examples import LONG
from tests.build.footprint import footprint, living
from tests.build.maintenance_sets import SETS
from tests.build.maintenances import MAINTENANCES
from tests.build.notices import HOME, NOTICES, OWN
from tests.build.one_process import MACHINES, SECRETS, InlineLoop, OneProcess
from tests.build.skyhooks import SKYHOOKS, pkg

NODEWRIGHTS = Resource("nodewright.nvidia.com", "v1alpha1", "nodewrights")
RECORDS = Resource("haulout.dev", "v1alpha1", "maintenancerecords")
POLICIES = Resource("skyhook.nvidia.com", "v1alpha1", "deploymentpolicies")
# A few hours show the same as a week.
HOURS = int(os.environ.get("HAULOUT_WEEK", "168" if LONG else "4"))
HOUR = 3600.0
# Places with a bound of their own: the last series of notify's metrics, recent events, and labels that pods share.
BOUNDED = ("metrics._counters", "metrics._histograms", "recorder._known")
SHARED = (".kinds", "._sender")
EVENTS = "haulout.kube.recorder._Happening"
KINDS = ("maintained", "noticed", "profiled", "listed")


class Visit:
    """Objects of every kind that come, do their work, and go again. `number`: their names are of no other visit."""

    def __init__(self, world: OneProcess, number: int) -> None:
        self.world, self.home, self.name = world, world.home, f"v{number}"
        self.nodes = {kind: f"{self.name}-{kind}" for kind in KINDS}

    def come(self) -> None:
        world, name = self.world, self.name
        chosen = {"matchLabels": {"visit": name}}
        world.create(NODE_BUDGETS, "NodeDisruptionBudget", {"name": name}, {"selector": chosen, "maxUnavailable": 2})
        for node in self.nodes.values():
            world.add_node(node, visit=name)
        whole = {"strategy": {"fixed": {"initialBatch": 100, "batchThreshold": 100}}}
        compartments = [{"name": "all", "selector": chosen, "budget": {"percent": 100}, **whole}]
        default = {"budget": {"percent": 100}, **whole}
        world.create(
            POLICIES,
            "DeploymentPolicy",
            {"name": name, "namespace": "skyhook"},
            {"default": default, "compartments": compartments},
        )
        packages = {"base": pkg(interrupt={"type": "noop"})}
        spec = {"packages": packages, "deploymentPolicy": name, "nodeSelectors": chosen}
        world.create(SKYHOOKS, "Skyhook", {"name": name}, spec)
        world.create(NODEWRIGHTS, "NodeWright", {"name": f"{name}-w"}, {"packages": packages, "nodeSelectors": chosen})
        world.create(SETS, "NodeMaintenanceSet", {"name": name}, {"nodes": [self.nodes["listed"]]})
        node = self.nodes["maintained"]
        world.create(MAINTENANCES, "NodeMaintenance", {"name": name}, {"nodeName": node})
        notice = {"nodeObject": self.nodes["noticed"], "maintenanceID": name, "maintenanceType": "planned"}
        world.create(NOTICES, "NotifyMaintenance", {"name": name, "namespace": HOME}, notice)
        body = {"metadata": {"labels": {PROFILE_LABEL: "p", GO: "yes"}}}
        self.home.patch(NODES, "", self.nodes["profiled"], body)
        far = world.add_workload(name)
        far.create(
            NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "far", "labels": {STATE: "operational"}}}
        )
        labels = {ENABLED: "true", REQUEST: "requested", CLUSTER_LABEL: name}
        world.create(MACHINES, "Machine", {"name": name, "namespace": HOME, "labels": labels}, {"clusterName": name})
        self.home.patch(MACHINES, HOME, name, {"status": {"nodeRef": {"name": "far"}}}, subresource="status")

    def left(self) -> dict[str, object]:
        """Act as people do. Return what is not done yet."""
        home, name, left = self.home, self.name, {}
        for each in (name, self.nodes["listed"]):
            maintenance = home.get(MAINTENANCES, "", each)
            if maintenance is not None:
                left[f"maintenance {each}"] = maintenance.get("status")
                if maintenance.get("status", {}).get("phase") == "Succeeded":
                    home.delete(MAINTENANCES, "", each)
        rollout = home.get(SETS, "", name)
        if rollout is not None and rollout.get("status", {}).get("phase") != "Completed":
            left["set"] = rollout.get("status")
        notice = home.get(NOTICES, HOME, name)
        if notice is not None:
            left["notice"] = notice.get("status")
            if notice.get("status", {}).get("maintenanceStatus") == "ObjectsDrained":
                home.patch(NOTICES, HOME, name, {"metadata": {"annotations": {CLIENT: "complete"}}})
        profiled = home.get(NODES, "", self.nodes["profiled"])
        if profiled is not None and GO in profiled["metadata"]["labels"]:
            left["profile"] = profiled["metadata"]["labels"]
        for kind, each in ((SKYHOOKS, name), (NODEWRIGHTS, f"{name}-w")):
            unit = home.get(kind, "", each)
            if unit is not None and unit.get("status", {}).get("status") != "complete":
                left[kind.plural] = unit.get("status")
        machine = home.get(MACHINES, HOME, name)
        if machine is not None:
            labels = machine["metadata"]["labels"]
            if labels[REQUEST] != "approved":
                left["machine"] = machine["metadata"]
                self.world.workloads[name].patch(
                    NODES, "", "far", {"metadata": {"labels": {MAINTENANCE_APPROVED: "true"}}}
                )
        return left

    async def end(self) -> None:
        home, name = self.home, self.name
        home.delete(SKYHOOKS, "", name)
        home.delete(NODEWRIGHTS, "", f"{name}-w")
        home.delete(SETS, "", name)
        home.patch(MACHINES, HOME, name, {"metadata": {"labels": {ENABLED: None, REQUEST: None}}})
        await asyncio.sleep(60)
        machine = home.get(MACHINES, HOME, name)
        assert machine is not None
        assert HOOK not in machine["metadata"].get("annotations", {})
        home.delete(MACHINES, HOME, name)
        home.delete(POLICIES, "skyhook", name)
        home.delete(NODE_BUDGETS, "", name)
        self.world.remove_workload(name)
        for node in self.nodes.values():
            home.delete(NODES, "", node)
        # The logbook keeps what was until it is too old or too much.
        made = [each for each in home.list(RECORDS) if each["spec"]["node"]["name"] in self.nodes.values()]
        recorded = {each["spec"]["surface"] for each in made}
        assert recorded >= {"nodemaintenance", "notify", "packages", "profiles"}, recorded
        for each in made:
            home.delete(RECORDS, "", each["metadata"]["name"])
        with suppress(NotFound):
            home.delete(SECRETS, OWN, "haulout-webhook-cert")


async def visited(world: OneProcess, number: int) -> None:
    visit = Visit(world, number)
    visit.come()
    for _ in range(200):
        await asyncio.sleep(5)
        left = visit.left()
        if not left:
            break
    assert not left, left
    await visit.end()
    await asyncio.sleep(60)


def size(world: OneProcess) -> dict[str, int]:
    """Return what exists because of objects: entries of containers by place, objects by type, tasks."""
    process = world.process
    process.kernel.loop.forget_counts()
    named = {part.name: part for part in process.parts}
    owned = {
        name: part
        for name, part in vars(process).items()
        if hasattr(part, "__dict__") and name not in ("kernel", "_transport")
    }
    places = footprint(process.kernel, **named, **owned)
    counted = {place: size for place, size in places.items() if place not in BOUNDED and not place.endswith(SHARED)}
    objects = living()
    del objects[EVENTS]
    return {**counted, **objects, "tasks": len(asyncio.all_tasks())}


def resident() -> float:
    """Return how much memory the process has, in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


async def lasting(world: OneProcess) -> dict[str, int]:
    """Return what exists at each of several instants. A request that is under way at one of them has objects of its own."""
    sizes = []
    for _ in range(3):
        sizes.append(size(world))
        await asyncio.sleep(1.7)
    return {place: min(each.get(place, 0) for each in sizes) for place in sizes[0]}


@pytest.mark.timeout(600 + 60 * HOURS)
def test_nothing_is_remembered_of_objects_that_are_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Another process takes real time, in which hours pass here: it would seem to stay.
    defaults = SelfManagedCertificate.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "libraries", in_this_process)

    async def scenario() -> None:
        async with OneProcess(tmp_path).running() as world:
            loop = asyncio.get_running_loop()
            before: dict[str, int] = {}
            for number in range(HOURS):
                began = loop.time()
                await visited(world, number)
                await asyncio.sleep(began + HOUR - loop.time())
                before = await lasting(world) if number == 1 else before
                # Shown by `pytest -s`: the memory of a process that has the embedded cluster in it, too.
                print(f"hour {number + 1}: {resident():.0f} MiB resident, {len(world.home.list(RECORDS))} records")
            grown = {
                place: (before.get(place, 0), now)
                for place, now in (await lasting(world)).items()
                if now > before.get(place, 0)
            }
            assert not grown, f"something is remembered of objects that are gone: {grown}"

    with asyncio.Runner(loop_factory=InlineLoop) as runner:
        runner.run(scenario())
