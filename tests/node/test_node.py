"""A real kubelet on this machine: pods run, change the host's files and end with grace, and nothing is left behind."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.rig.api import Api, Json
from tests.rig.node import IMAGE, Node, cgroups, command_of, pids, processes, sweep
from tests.rig.plane import ControlPlane
from tests.rig.process import CHECKOUT, Scratch
from tests.rig.wait import eventually

pytestmark = [pytest.mark.root, pytest.mark.tools("etcd", "kube-apiserver", "kubectl", "kubelet")]

POLITE = 'trap "echo stopped > /host/etc/haulout-test-stopped; exit 0" TERM; echo started; while :; do sleep 0.1; done'
STUBBORN = 'trap "" TERM; echo started; while :; do sleep 0.1; done'


def pod(name: str, node: str, script: str, *, image: str = IMAGE, grace: int = 30) -> Json:
    """Create a pod that runs a shell script, with the host's root directory under /host."""
    main = {
        "name": "main",
        "image": image,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", script],
        "volumeMounts": [{"name": "host", "mountPath": "/host"}],
    }
    return {
        "metadata": {"name": name},
        "spec": {
            "nodeName": node,
            "terminationGracePeriodSeconds": grace,
            "automountServiceAccountToken": False,
            "tolerations": [{"operator": "Exists"}],
            "containers": [main],
            "volumes": [{"name": "host", "hostPath": {"path": "/"}}],
            "restartPolicy": "Never",
        },
    }


def phase(api: Api, name: str, ns: str) -> str:
    return str(api.get("pods", name, ns)["status"]["phase"])


def run(api: Api, body: Json, ns: str) -> None:
    api.create("pods", body, ns)
    eventually(lambda: phase(api, body["metadata"]["name"], ns) == "Running", "the pod runs")


def await_traps(node: Node, ns: str, name: str) -> None:
    """Wait until a script reports that it has set its signal handlers, which it does after the pod is Running."""
    logs = eventually(lambda: node.plane.kubectl("logs", "-n", ns, name).stdout, "the pod has said something")
    assert logs == "started\n"


def test_node_is_ready_and_says_what_it_is(node: Node) -> None:
    info = node.plane.api().get("nodes", node.name)["status"]["nodeInfo"]
    assert info["containerRuntimeVersion"].startswith("containerd://")
    assert node.ready()


def test_pod_runs_logs_and_is_told_to_stop(node: Node, namespace: str) -> None:
    api = node.plane.api()
    run(api, pod("polite", node.name, POLITE), namespace)
    await_traps(node, namespace, "polite")
    api.delete("pods", "polite", namespace)
    eventually(lambda: api.find("pods", "polite", namespace) is None, "the pod is gone")
    assert (node.root / "etc" / "haulout-test-stopped").read_text() == "stopped\n"
    assert not Path("/etc/haulout-test-stopped").exists()


def test_pod_that_does_not_listen_is_killed_when_its_grace_is_over(node: Node, namespace: str) -> None:
    api = node.plane.api()
    run(api, pod("stubborn", node.name, STUBBORN, grace=2), namespace)
    await_traps(node, namespace, "stubborn")
    started = time.monotonic()
    api.delete("pods", "stubborn", namespace)
    eventually(lambda: api.find("pods", "stubborn", namespace) is None, "the pod is gone")
    assert time.monotonic() - started >= 2


def test_image_of_a_tests_own_files(node: Node, namespace: str) -> None:
    api, image = node.plane.api(), "haulout.test/own:1"
    node.load_image(image, {"opt/greeting": b"hello\n"})
    api.create("pods", pod("own", node.name, "cat /opt/greeting > /host/var/own-greeting", image=image), namespace)
    eventually(lambda: phase(api, "own", namespace) == "Succeeded", "the pod has done its work")
    assert (node.root / "var" / "own-greeting").read_text() == "hello\n"


def test_kubelet_can_be_stopped_and_started_again(node: Node, namespace: str) -> None:
    api = node.plane.api()
    node.kill_kubelet()
    api.create("pods", pod("waiting", node.name, "true"), namespace)
    assert phase(api, "waiting", namespace) == "Pending"
    node.kubelet.start()
    eventually(lambda: phase(api, "waiting", namespace) == "Succeeded", "the pod has run")


def test_stopped_node_leaves_nothing_behind(plane: ControlPlane, scratch: Scratch, namespace: str) -> None:
    forwarding = Path("/proc/sys/net/ipv4/ip_forward").read_text()
    with Node(plane, scratch.directory("short-lived"), f"{namespace}-node") as node:
        run(plane.api(), pod("left", node.name, STUBBORN), namespace)
        assert any("trap" in command for command in node.containers())
    plane.api().delete("pods", "left", namespace, grace=0)
    assert node.leftovers() == []
    assert Path("/proc/sys/net/ipv4/ip_forward").read_text() == forwarding


KILLED = """
import sys, time, pathlib
from tests.rig.node import Node
from tests.rig.plane import ControlPlane

at = pathlib.Path(sys.argv[1])
for name in ("plane", "node"):
    (at / name).mkdir()
plane = ControlPlane(at / "plane").start()
node = Node(plane, at / "node", "doomed").start()
print(node.mark, flush=True)
time.sleep(600)
"""


def test_killed_test_run_takes_its_node_along(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", KILLED, str(tmp_path)]
    with subprocess.Popen(argv, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True) as victim:
        assert victim.stdout is not None
        mark = victim.stdout.readline().strip()
        victim.kill()
    assert mark
    eventually(lambda: not processes(mark), "no process is left")
    eventually(lambda: not speaking_of(str(tmp_path)), "nor one that knows the directory")
    sweep()
    assert cgroups(mark) == []


def speaking_of(word: str) -> list[str]:
    commands = [command_of(pid) for pid in pids()]
    return [command for command in commands if word in command]
