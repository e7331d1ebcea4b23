"""A NotifyMaintenance on a real node: a Job changes a file of its host, another one reads it, and the node is back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rig.api import Json
from tests.rig.node import Node
from tests.rig.notices import NMS, NotifyOperator, define, notice, status_of
from tests.rig.plane import ControlPlane
from tests.rig.wait import eventually

pytestmark = [
    pytest.mark.root,
    pytest.mark.tools("etcd", "kube-apiserver", "kube-controller-manager", "kubectl", "kubelet"),
]

IMAGE = "haulout.test/tools:1"
WHERE = "/host/etc/firmware"


@pytest.fixture
def controllers(plane: ControlPlane) -> Iterator[None]:
    """The controllers that create the pods of Jobs and report their end."""
    process = plane.start_controllers(("job-controller",))
    yield
    process.stop()


def recipe(name: str, command: str) -> Json:
    """Return a recipe that runs a command on the node, with the file system of its host."""
    container = {
        "name": name,
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", command],
        "volumeMounts": [{"name": "host", "mountPath": "/host"}],
    }
    spec = {"containers": [container], "volumes": [{"name": "host", "hostPath": {"path": "/"}}]}
    return {"name": name, "type": "job", "timeout": "2m", "template": {"spec": {"template": {"spec": spec}}}}


def test_a_job_changes_a_file_of_the_host_and_a_validation_reads_it(
    plane: ControlPlane, node: Node, namespace: str, controllers: None, tmp_path: Path
) -> None:
    api = plane.api()
    define(api)
    node.load_image(IMAGE)
    (node.root / "etc/firmware").write_text("1.0\n")
    work = f'echo "$MAINTENANCE_ID on $NODE_NAME" > {WHERE}'
    blocks: dict[str, Json] = {
        "scheduler": {},
        "drainer": {"settle": "500ms"},
        "runner": {"defaultClient": "work", "recipes": [recipe("work", work)]},
        "validator": {
            "default": "right",
            "recipes": [
                {**recipe("right", f'test "$(cat {WHERE})" = "fw-2.0 on {node.name}"'), "checks": {"readyFor": "0s"}},
                recipe("wrong", f"grep -q fw-3.0 {WHERE}"),
            ],
        },
        "returner": {},
    }
    match = {"enabled": True, "match": {"namespaces": [namespace]}}
    config = {"slaPeriod": "1h", "operators": {name: {**match, **block} for name, block in blocks.items()}}
    with NotifyOperator(plane, tmp_path, namespace, config):
        api.create(NMS, notice("right", node.name, "fw-2.0"), namespace)
        eventually(lambda: api.find(NMS, "right", namespace) is None, "the node is maintained and validated", 120)
        assert (node.root / "etc/firmware").read_text() == f"fw-2.0 on {node.name}\n"
        found = api.get("nodes", node.name)
        assert not found["spec"].get("unschedulable")
        assert not [key for key in found["metadata"]["labels"] if key.startswith("maintenance/")]

        wrong = notice("wrong", node.name, "fw-2.1", labels={"haulout.dev/validation-client": "wrong"})
        api.create(NMS, wrong, namespace)
        failed = "MaintenanceIncomplete"
        eventually(lambda: status_of(api.get(NMS, "wrong", namespace)) == failed, "a validation fails", 120)
        assert api.get("nodes", node.name)["spec"].get("unschedulable")
        api.delete(NMS, "wrong", namespace)
        note = {"metadata": {"annotations": {"haulout.dev/force-return": "true"}}}
        api.patch("nodes", node.name, note)
        eventually(lambda: api.find(NMS, "wrong", namespace) is None, "it is given up")
        eventually(lambda: not api.get("nodes", node.name)["spec"].get("unschedulable"), "the node is back")
