"""Objects of tenants do not affect the maintenances of others."""

from __future__ import annotations

import json

import pytest

from haulout.embedded import JOBS, Json
from haulout.surfaces.notify.wire import OBJECTS_DRAINED
from tests.build.notices import HOME, NAMESPACES, OWN, Notices, options

TENANT = "tenant"
TEMPLATE = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "x"}]}}}}


def drained(place: str = "") -> Notices:
    recipe = {"name": "rec", "type": "job", "template": TEMPLATE, "namespace": place}
    runner = {"enabled": True, "defaultClient": "rec", "recipes": [recipe]}
    ops = Notices(options(json.dumps({"slaPeriod": "1h", "operators": {"runner": runner}})))
    ops.world.objects.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TENANT}})
    return ops.drained("a")


def forge(ops: Notices, namespace: str, notice: str = "a") -> None:
    """Make a Job that says that it is a further attempt of the maintenance, and has succeeded."""
    uid = ops.get("a")["metadata"]["uid"]
    labels = {"role": "runner", "nm-uid": uid, "recipe": "rec", "attempt": "7"}
    metadata: Json = {
        "name": "forged",
        "namespace": namespace,
        "labels": {f"haulout.dev/{name}": value for name, value in labels.items()},
        "annotations": {"haulout.dev/nm": f"{HOME}/{notice}"},
    }
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}}
    ops.world.objects.create(JOBS, {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec})
    condition = {"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    status = {"status": {"startTime": "2026-01-01T00:00:00Z", "conditions": [condition]}}
    ops.world.objects.patch(JOBS, namespace, "forged", status, subresource="status")


@pytest.mark.parametrize("place", ["", "@nm", OWN], ids=["our own namespace", "that of the maintenance", "a named one"])
def test_a_job_in_a_namespace_without_recipes_is_no_attempt(place: str) -> None:
    ops = drained(place)
    forge(ops, TENANT)
    ops.run(60)
    assert ops.status("a") == OBJECTS_DRAINED
    assert ops.annotations("a")["maintenance/maintenanceClient"] == "inprogress"


def test_a_job_of_a_tenant_is_left_alone() -> None:
    ops = drained()
    forge(ops, TENANT, notice="gone")
    ops.run(60)
    assert ops.world.objects.get(JOBS, TENANT, "forged") is not None
