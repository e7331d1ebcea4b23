"""`haulout explain NODE` names the NotifyMaintenances of a node and what they wait for, as far as that is known without pods."""

from __future__ import annotations

from pathlib import Path

import yaml

from haulout.base import yaml as strict_yaml
from haulout.core.budgets.declare import SURFACE as SHARED
from haulout.embedded import CUSTOM_RESOURCE_DEFINITIONS, Resource
from haulout.surfaces.notify.declare import SURFACE as NOTIFY
from haulout.surfaces.notify.wire import FINALIZER, GROUP, PLURAL, SCHEDULED, VERSION
from tests.build.served import Served
from tests.build.workloads import node
from tests.scenario.test_plan_of_notify import notice

NOTICES = Resource(GROUP, VERSION, PLURAL)


def test_a_node_names_its_maintenances(tmp_path: Path) -> None:
    (tmp_path / "haulout.yaml").write_text(yaml.safe_dump({"surfaces": {"notify": {"config": "notify.yaml"}}}))
    operators = {"scheduler": {"enabled": True}}
    (tmp_path / "notify.yaml").write_text(yaml.safe_dump({"slaPeriod": "1h", "operators": operators}))
    with Served(tmp_path) as served:
        served.has_leader()
        definitions = [strict_yaml.load(each.definition(name)) for each in (SHARED, NOTIFY) for name in each.crds]
        served.call(lambda world: [world.server.create(CUSTOM_RESOURCE_DEFINITIONS, each) for each in definitions])
        served.make({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fleet"}}, node("a"), node("b"))
        for name, notes in (("held", {"haulout.dev/hold": "true"}), ("other", {})):
            made = notice(name, "a", mid=name, annotations=notes)
            made["metadata"]["finalizers"] = [FINALIZER]
            served.make(made)
            body = {"status": {"maintenanceStatus": SCHEDULED}}
            served.call(
                lambda world, name=name, body=body: world.server.patch(  # type: ignore[misc]
                    NOTICES, "fleet", name, body, subresource="status"
                )
            )
        told = served.run("explain", "a").stdout
        assert (
            "NotifyMaintenance fleet/held is MaintenanceScheduled\n    its annotation haulout.dev/hold holds it" in told
        )
        assert "NotifyMaintenance fleet/other is MaintenanceScheduled" in told
        assert "NotifyMaintenance" not in served.run("explain", "b").stdout
