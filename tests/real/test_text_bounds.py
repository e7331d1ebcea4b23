"""The bounds of our definitions on a real API server: which objects it refuses, and which it still lets be changed."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest
import yaml

from haulout.surfaces.registry import definition
from tests.rig.api import CRDS, Api, ApiError, Json
from tests.rig.plane import ControlPlane
from tests.rig.wait import eventually

pytestmark = pytest.mark.tools("etcd", "kube-apiserver")

# The group is not that of the real kind, because other tests define that.
GROUP = "bounds.test"
NOTICES = f"{GROUP}/v1alpha1/notifymaintenances"
NAME = f"notifymaintenances.{GROUP}"
LONG = "x" * 5000
TOO_MANY = [{"maintenanceStatus": "x"}] * 2001


def bounded() -> Json:
    found: Json = yaml.safe_load(definition("notifymaintenances"))
    found["metadata"]["name"], found["spec"]["group"] = NAME, GROUP
    return found


def without_bounds(tree: Json) -> Json:
    """Return a definition as the original's is."""
    found = copy.deepcopy(tree)
    waiting: list[object] = [found]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            for name in ("maxLength", "maxItems", "maxProperties"):
                each.pop(name, None)
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each
    return found


def notice(name: str, owner: str) -> Json:
    spec = {"nodeObject": "n", "maintenanceID": "id", "maintenanceType": "planned", "owner": owner}
    return {"apiVersion": f"{GROUP}/v1alpha1", "kind": "NotifyMaintenance", "metadata": {"name": name}, "spec": spec}


@pytest.fixture
def api(plane: ControlPlane) -> Iterator[Api]:
    """A client, and the kind without bounds, with one object that is larger than the bounds allow."""
    api = plane.api()
    api.create(CRDS, without_bounds(bounded()))
    eventually(lambda: api.items(NOTICES) == [], "it is served", refused=(ApiError,))
    api.create(NOTICES, notice("old", LONG), "default")
    yield api
    api.delete(CRDS, NAME)


def is_refused(api: Api, body: Json) -> bool:
    try:
        api.create(NOTICES, body, "default")
    except ApiError as error:
        return error.code == 422
    api.delete(NOTICES, body["metadata"]["name"], "default")
    return False


def test_an_object_from_before_the_bounds_can_still_be_changed(api: Api) -> None:
    """API servers tolerate what a change does not touch (ratcheting, since 1.30). Without that, no status could be written."""
    api.patch(CRDS, NAME, {"spec": {"versions": bounded()["spec"]["versions"]}})
    eventually(lambda: is_refused(api, notice("new", LONG)), "the bounds are in force")
    assert not is_refused(api, notice("short", "a team"))
    api.patch(NOTICES, "old", {"metadata": {"finalizers": ["bounds.test/x"], "labels": {"a": "b"}}}, "default")
    api.patch(NOTICES, "old", {"status": {"maintenanceStatus": "MaintenanceScheduled"}}, "default", sub="status")
    api.patch(NOTICES, "old", {"spec": {"maintenanceType": "unplanned"}}, "default")
    with pytest.raises(ApiError, match="Too long"):
        api.patch(NOTICES, "old", {"spec": {"owner": f"{LONG}y"}}, "default")
    with pytest.raises(ApiError, match="Too many"):
        api.patch(NOTICES, "old", {"status": {"transitionTimestamps": TOO_MANY}}, "default", sub="status")
    api.patch(NOTICES, "old", {"spec": {"owner": "a team"}, "metadata": {"finalizers": None}}, "default")
