"""External operators, written in shell: each takes over one step of a maintenance, and ours do the rest."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.rig.api import Api, Json
from tests.rig.fleet import pod_object
from tests.rig.kwok import ENDS_AFTER, STOPS_AFTER, Kwok
from tests.rig.notices import NMS, NotifyOperator, condition, define, notice, status_of
from tests.rig.operator import environment
from tests.rig.plane import ControlPlane, tool
from tests.rig.process import CHECKOUT, Process
from tests.rig.wait import eventually

pytestmark = pytest.mark.tools(
    *("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "kubectl"),
)

SCRIPTS = CHECKOUT / "examples/notify/external"
VOLUMES = "storage.k8s.io/v1/volumeattachments"
STEPS = ("scheduler", "drainer", "validator")
OPERATORS = ("scheduler", "drainer", "runner", "validator", "returner")


@contextmanager
def script(plane: ControlPlane, directory: Path, step: str, namespace: str) -> Iterator[Process]:
    env = environment(KUBECONFIG=str(plane.kubeconfig("test")), PAUSE="0.3")
    env["PATH"] = f"{tool('kubectl').parent}:{env['PATH']}"
    env["KUBECACHEDIR"] = str(directory / "kubectl-cache")
    process = Process(step, ["sh", SCRIPTS / f"{step}.sh", namespace], directory, env=env)
    process.start()
    try:
        yield process
    finally:
        process.stop()


def drain_of(api: Api, prefix: str) -> str:
    found = api.get(NMS, "validator", f"{prefix}-validator")
    return str(condition(found, "drainProgress").get("message", ""))


def config(prefix: str) -> Json:
    meta: Json = {"annotations": {ENDS_AFTER: "200ms"}}
    job = {"spec": {"template": {"metadata": meta, "spec": {"containers": [{"name": "c", "image": "x"}]}}}}
    checks = {"name": "smoke", "type": "builtin", "checks": {"readyFor": "0s"}}
    blocks: dict[str, Json] = {
        "scheduler": {"budgets": [{"name": "all", "maxUnavailable": 3}]},
        "drainer": {"settle": "200ms", "waitForVolumeDetach": True},
        "runner": {"defaultClient": "rec", "recipes": [{"name": "rec", "type": "job", "template": job}]},
        "validator": {"default": "smoke", "recipes": [checks]},
        "returner": {},
    }
    match = {"enabled": True, "match": {"namespaces": [f"{prefix}-*"]}}
    return {"slaPeriod": "1h", "operators": {name: {**match, **block} for name, block in blocks.items()}}


def test_scripts_with_kubectl_take_over_one_step_each(
    managed_plane: ControlPlane, managed_kwok: Kwok, managed_namespace: str, tmp_path: Path
) -> None:
    api, prefix = managed_plane.api(), managed_namespace
    define(api)
    nodes = dict(zip(STEPS, managed_kwok.nodes(prefix, len(STEPS)), strict=True))
    # The in-box drainer waits for a pod without a controller, so that the script finds it in the middle of its step.
    bare = pod_object(f"{prefix}-bare", prefix, nodes["drainer"], annotations={STOPS_AFTER: "200ms"}, running=False)
    managed_plane.load([bare])
    managed_kwok.wait_running(prefix)
    source = {"persistentVolumeName": f"{prefix}-data"}
    attached = {"attacher": "haulout.test", "nodeName": nodes["validator"], "source": source}
    api.create(VOLUMES, {"metadata": {"name": f"{prefix}-data"}, "spec": attached})
    for step in STEPS:
        api.create("namespaces", {"metadata": {"name": f"{prefix}-{step}"}})
    with NotifyOperator(managed_plane, tmp_path, prefix, config(prefix)), ExitStack() as scripts:
        for step, node in nodes.items():
            others = ",".join(each for each in OPERATORS if each != step or step == "drainer")
            body = notice(step, node, "mid", annotations={"haulout.dev/operators": others})
            api.create(NMS, body, f"{prefix}-{step}")
        drained = f"{prefix}-drainer"
        eventually(lambda: status_of(api.get(NMS, "drainer", drained)) == "MaintenanceStarted", "the drain has begun")
        eventually(lambda: drain_of(api, prefix) == "0 of 0 pods left; volumes attached: 1", "a volume is waited for")
        api.delete(VOLUMES, f"{prefix}-data")
        processes = [scripts.enter_context(script(managed_plane, tmp_path, step, f"{prefix}-{step}")) for step in STEPS]
        eventually(lambda: not any(api.items(NMS, f"{prefix}-{step}") for step in STEPS), "all are done")
        assert not [node for node in nodes.values() if api.get("nodes", node)["spec"].get("unschedulable")]
        eventually(lambda: not any(process.running for process in processes), "each script has nothing more to do")
        assert [process.text().count("error:") for process in processes] == [0, 0, 0]
