"""The operator as the manifests run it: as any uid, without capabilities, on file systems that are all read-only."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from haulout.surfaces.nodemaintenance.wire import API_VERSION, KIND
from tests.build.locked import FOLDER, locked
from tests.build.maintenances import MAINTENANCES, definition
from tests.build.served import HAULOUT, PATIENCE, Served
from tests.rig.process import free_port

UID = 12345
PLACES = ("/", "/tmp", "/var/tmp", "/dev/shm", str(FOLDER), str(HAULOUT.parent))
WRITABLE = """
import os, sys
for place in sys.argv[1:]:
    try:
        os.close(os.open(f"{place}/written", os.O_CREAT | os.O_WRONLY))
        print(place)
    except OSError:
        pass
print(os.getuid(), os.getgid(), os.getgroups())
"""

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(
        os.geteuid() != 0 or not shutil.which("unshare") or not shutil.which("setpriv"),
        reason="needs root, unshare and setpriv",
    ),
]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    tmp_path.chmod(0o755)
    with Served(tmp_path) as made:
        (tmp_path / "kubeconfig").chmod(0o644)
        yield made


def environment() -> dict[str, str]:
    """Return the environment of a container whose uid no file names. There is no TMPDIR."""
    return {"PATH": os.environ["PATH"], "HOME": "/", "KUBECONFIG": str(FOLDER / "kubeconfig")}


@contextmanager
def running(served: Served, *words: str) -> Iterator[subprocess.Popen[str]]:
    argv = locked([str(HAULOUT), *words], served.folder, UID)
    with subprocess.Popen(
        argv, env=environment(), text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as operator:
        try:
            yield operator
        finally:
            operator.send_signal(signal.SIGTERM)
            _, errors = operator.communicate(timeout=PATIENCE)
            print(errors, file=sys.stderr)


def answers(port: int, path: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def test_the_place_is_as_it_is_said_to_be(served: Served) -> None:
    """Otherwise the tests below would show nothing."""
    argv = locked([sys.executable, "-c", WRITABLE, *PLACES], served.folder, UID)
    done = subprocess.run(argv, env=environment(), text=True, capture_output=True, check=False, timeout=PATIENCE)
    assert done.stdout.splitlines() == [f"{UID} {UID} []"], done.stderr


def test_the_operator_needs_no_uid_and_no_place_to_write_to(served: Served) -> None:
    http, health, webhooks = free_port(), free_port(), free_port()
    listen = f'{{http: "127.0.0.1:{http}", health: "127.0.0.1:{health}", webhooks: "127.0.0.1:{webhooks}"}}'
    (served.folder / "haulout.yaml").write_text(f"listen: {listen}\nsurfaces: {{nodemaintenance: {{}}}}\n")
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "haulout-system"}}
    served.make(definition(), namespace)
    served.add_busy_node("u1", "shop", 2)
    with running(served, "run", "--config", str(FOLDER / "haulout.yaml")) as operator:
        served.until(lambda: answers(health, "/readyz") or operator.poll() is not None)
        assert operator.poll() is None
        served.until(lambda: answers(http, "/metrics"))
        served.make({"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "a"}, "spec": {"nodeName": "u1"}})
        served.until(lambda: phase(served) == "Succeeded")
        assert served.node("u1")["spec"]["unschedulable"] is True
    assert operator.returncode == 0


def phase(served: Served) -> str:
    found = served.call(lambda world: world.server.get(MAINTENANCES, "", "a"))
    return str((found or {}).get("status", {}).get("phase", ""))
