"""The first hour: what the README and the first page of the site say, pasted; and a drain whose log has no error."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from importlib.resources import files
from pathlib import Path

import pytest

from tests.real.profiles import PROFILE, STATE, label_of
from tests.rig.embedded import EmbeddedCluster
from tests.rig.fleet import Owner
from tests.rig.kwok import Kwok
from tests.rig.operator import HAULOUT, Platform
from tests.rig.plane import ControlPlane, tool
from tests.rig.wait import PATIENCE, eventually

pytestmark = pytest.mark.tools("etcd", "kube-apiserver", "kwok")

REBOOT = "example.com/reboot"
ROOT = Path(__file__).parents[2]


def test_a_drain_without_trouble_logs_no_error(
    plane: ControlPlane, kwok: Kwok, namespace: str, prefix: str, tmp_path: Path
) -> None:
    (node,) = kwok.nodes(prefix, 1)
    kwok.pods(namespace, [node], 5, owner=Owner("ReplicaSet", prefix), stops_after="2s")
    config = files("haulout.settings").joinpath("starters", "maintenance.yaml").read_text()
    # Leases of its own: other tests have theirs in the namespace that is usual.
    settings = f"namespace: {namespace}"
    with Platform(plane, tmp_path, config, settings) as operator:
        plane.api().patch("nodes", node, {"metadata": {"labels": {PROFILE: "reboot", REBOOT: "wanted"}}})
        eventually(lambda: label_of(plane.api().get("nodes", node), STATE) == "in-maintenance", "it is drained")
        assert plane.api().items("pods", namespace) == []
        plane.api().patch("nodes", node, {"metadata": {"labels": {REBOOT: "done"}}})
        eventually(lambda: label_of(plane.api().get("nodes", node), STATE) == "operational", "it is back")
        assert operator.logged("The transition waits for its triggers")
        assert '"level":"error"' not in operator.process.text()
    plane.wipe(prefix)


def blocks(page: str, *sections: str) -> list[str]:
    """Return the blocks of code below the headings of a page."""
    text = (ROOT / page).read_text()
    bodies = [text.partition(f"\n## {section}\n")[2].partition("\n## ")[0] for section in sections]
    assert all(bodies)
    found = re.findall(r"(?:^    .*\n|^\n(?=    ))+", "\n".join(bodies), re.MULTILINE)
    return [textwrap.dedent(block).strip() for block in found]


@pytest.mark.parametrize(
    ("pasted", "maintained"),
    [
        # The first block is `make demo` and `make test`.
        pytest.param(blocks("README.md", "Try it")[1:2], "zone-a-17", id="README"),
        # The first block installs Haulout.
        pytest.param(
            blocks("docs/getting-started.md", "On the embedded cluster")[1:], "zone-a-01", id="getting started"
        ),
    ],
)
def test_what_is_pasted_from_the_page_maintains_a_node(pasted: list[str], maintained: str, tmp_path: Path) -> None:
    """Every command succeeds, in the order of the page and without a pause, and the node has been through maintenance."""
    (tmp_path / ".venv").symlink_to(Path(sys.executable).parents[1])
    path = f"{HAULOUT.parent}:{tool('kubectl').parent}:{os.environ['PATH']}"
    ports = {"HAULOUT_LISTEN__HTTP": "127.0.0.1:0", "HAULOUT_LISTEN__HEALTH": "127.0.0.1:0"}
    look = f"\nexport KUBECONFIG=$PWD/kubeconfig\nhaulout history {maintained}\n"
    *most, last = pasted
    # What a page stops at its end is needed for a last look.
    text = "\n".join([*most, look, last] if last.startswith("kill ") else [*pasted, look, "kill %2 %1"])
    argv = ["bash", "--noprofile", "--norc", "-emo", "pipefail", "-c", f"trap 'kill $(jobs -p) || true' EXIT\n{text}"]
    env = {"PATH": path, "HOME": str(tmp_path), **ports}
    with (tmp_path / "out").open("w+") as out:
        shell = subprocess.Popen(argv, cwd=tmp_path, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        code = shell.wait(PATIENCE * 3)
        out.seek(0)
        said = out.read()
    assert code == 0, said
    for state in ("in-maintenance", "operational"):
        assert re.search(rf"{maintained}.* is now in the {state} state", said), said


def test_the_manifests_of_the_page_are_accepted(tmp_path: Path) -> None:
    """After them, commands follow the Deployment that is installed."""
    (text,) = (line for line in blocks("README.md", "Try it")[-1].splitlines() if line.startswith("haulout manifests"))
    with EmbeddedCluster(tmp_path) as made:
        path = f"{HAULOUT.parent}:{tool('kubectl').parent}:{os.environ['PATH']}"
        env = {"PATH": path, "HOME": str(tmp_path), "KUBECONFIG": str(made.kubeconfig())}
        argv = ["bash", "-eo", "pipefail", "-c", f"{text}\nhaulout status"]
        done = subprocess.run(argv, cwd=tmp_path, env=env, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "settings: Deployment haulout-system/haulout" in done.stdout
