"""An upgrade from the last release to this checkout, and the way back, with maintenances of four surfaces in flight."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rig.api import CRDS, ApiError, Json
from tests.rig.in_flight import MAINTENANCES, PLACE, SKYHOOKS, STATE, InFlight, operator_of
from tests.rig.kwok import Kwok
from tests.rig.notices import NMS
from tests.rig.operator import Platform
from tests.rig.plane import ControlPlane
from tests.rig.process import Process, Scratch
from tests.rig.released import Released
from tests.rig.rights import printed
from tests.rig.wait import eventually

pytestmark = [
    pytest.mark.tools("etcd", "kube-apiserver", "kubectl", "kube-controller-manager", "kube-scheduler", "kwok"),
    pytest.mark.timeout(900),
]

SURFACES = ("kernel", "nodemaintenance", "notify", "packages")
HOME = "haulout-system"
# They change from version to version, without a meaning for maintenances.
VOLATILE = ("haulout.dev/seen",)


class Upgrade:
    """A control plane on which two versions serve the same maintenances one after the other."""

    def __init__(self, plane: ControlPlane, kwok: Kwok, folder: Path, prefix: str) -> None:
        self.plane, self.api = plane, plane.api()
        self.nodes = kwok.nodes(prefix, 6)
        self.flight = InFlight(self.api, self.nodes[:4])
        self.released = Released(folder / "released")
        for name in (HOME, "skyhook", "medik8s-leases"):
            self.api.create("namespaces", {"metadata": {"name": name}})
        self.operator = operator_of(plane, folder, HOME)
        self._this = self.operator.process
        argv = [*self.released.argv, *self._this.argv[1:]]
        self._before = Process("operator-before", argv, folder, env=self.released.variables, cwd=folder)

    def define(self, documents: list[Json]) -> None:
        for body in documents:
            name = body["metadata"]["name"]
            if self.api.find(CRDS, name) is None:
                self.api.create(CRDS, body)
            else:
                self.api.patch(CRDS, name, {"spec": body["spec"]})
        eventually(self._serves_all, "the kinds are served", refused=(ApiError,))

    def _serves_all(self) -> bool:
        return all(self.api.items(resource) is not None for resource in (MAINTENANCES, NMS, SKYHOOKS))

    def starts(self, *, before: bool) -> Platform:
        """Return the operator of one of the versions, to be started and stopped."""
        self.operator.process = self._before if before else self._this
        return self.operator

    def picture(self) -> Json:
        """Return what the maintenances in flight look like: cordons, marks and states."""
        found: Json = {}
        for name in self.nodes[:4]:
            node = self.api.get("nodes", name)
            meta = node["metadata"]
            marks = [key for key in meta.get("annotations", {}) if "kwok" not in key and key not in VOLATILE]
            taints = sorted(each["key"] for each in node["spec"].get("taints", []))
            found[name] = [node["spec"].get("unschedulable"), sorted(marks), meta["labels"].get(STATE), taints]
        found["out"] = self.api.get(MAINTENANCES, self.flight.out)["status"]["phase"]
        found["noticed"] = self.api.get(NMS, self.flight.noticed, PLACE)["status"]["maintenanceStatus"]
        found["ledgers"] = [
            self.api.get("nodes", name)["metadata"]["annotations"].get("haulout.dev/cordon") for name in self.nodes[:4]
        ]
        return found

    def is_returned(self) -> bool:
        left = [
            f"{each['kind']} {each['metadata']['name']}"
            for resource in (MAINTENANCES, NMS, SKYHOOKS)
            for each in self.api.items(resource)
        ]
        for node in self.api.items("nodes"):
            name, taints = node["metadata"]["name"], [each["key"] for each in node["spec"].get("taints", [])]
            left += [f"cordon of {name}"] if node["spec"].get("unschedulable") else []
            left += [f"{name}: {key}" for key in taints if key == "medik8s.io/drain"]
            left += [f"{name}: {key}" for key in node["metadata"].get("annotations", {}) if "cordon" in key]
        if left:
            raise Unfinished(left)
        return True


class Unfinished(Exception):
    """What has not ended yet."""


def test_maintenances_in_flight_survive_an_upgrade_and_the_way_back(
    scratch: Scratch, tmp_path: Path, prefix: str
) -> None:
    with ControlPlane(scratch.directory(prefix)) as plane:
        plane.start_controllers()
        plane.start_scheduler()
        with Kwok(plane, package_takes=600) as kwok:
            upgrade = Upgrade(plane, kwok, tmp_path, prefix)
            upgrade.define(upgrade.released.printed("crds", *SURFACES))
            with upgrade.starts(before=True):
                upgrade.flight.wish()
                eventually(upgrade.flight.has_begun, "a maintenance of each surface has begun")
            begun = upgrade.picture()

            upgrade.define(printed("crds", *SURFACES))
            with upgrade.starts(before=False):
                upgrade.flight.maintain(upgrade.nodes[4])
                eventually(lambda: upgrade.flight.is_maintained(upgrade.nodes[4]), "this version maintains a node")
                ready = ("wait", "--for=condition=Ready", f"nodemaintenance/{upgrade.nodes[4]}", "--timeout=60s")
                assert "condition met" in plane.kubectl(*ready).stdout
            assert upgrade.picture() == begun

            with upgrade.starts(before=True):
                upgrade.flight.maintain(upgrade.nodes[5])
                eventually(lambda: upgrade.flight.is_maintained(upgrade.nodes[5]), "the release maintains a node")
                assert upgrade.picture() == begun
                upgrade.flight.end()
                eventually(upgrade.is_returned, "everything has ended, and all nodes are back", refused=(Unfinished,))
