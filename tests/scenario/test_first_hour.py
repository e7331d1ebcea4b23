"""What a newcomer does first: `haulout init`, `lint`, `run`, and a node that is really maintained."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.build.served import PATIENCE, Served
from tests.build.workloads import node

PROFILE, REBOOT = "cloud.sap/maintenance-profile", "example.com/reboot"
STATE = "cloud.sap/maintenance-state"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    # Ports of its own: others may serve theirs on this machine.
    with Served(tmp_path, HAULOUT_LISTEN__HTTP="127.0.0.1:0", HAULOUT_LISTEN__HEALTH="127.0.0.1:0") as made:
        made.make(node("a"), node("b"))
        yield made


def label(served: Served, name: str, **labels: str) -> None:
    from haulout.embedded import NODES

    names = {"profile": PROFILE, "reboot": REBOOT}
    served.change(NODES, name, {"metadata": {"labels": {names[key]: text for key, text in labels.items()}}})


def test_the_settings_to_begin_with_maintain_a_node(served: Served) -> None:
    begun = served.run("init")
    assert begun.stdout.startswith("wrote haulout.yaml\nwrote config/maintenance.yaml\nNext:\n")
    checked = served.run("lint", "--strict")
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
    operator = served.start("run")
    try:
        label(served, "a", profile="reboot", reboot="wanted")
        served.until(lambda: bool(served.node("a")["spec"].get("unschedulable")))
        label(served, "a", reboot="done")
        served.until(lambda: REBOOT not in served.node("a")["metadata"]["labels"])
        assert not served.node("a")["spec"].get("unschedulable")
    finally:
        operator.send_signal(signal.SIGINT)
        out, _ = operator.communicate(timeout=PATIENCE)
    assert operator.returncode == 0
    assert "waiting for one more scrape" not in out, "no scraper has been there"
    assert "ERROR" not in out


def test_a_node_with_pods_is_drained_without_an_error_in_the_log(served: Served) -> None:
    assert served.run("init").returncode == 0
    served.add_busy_node("busy", "app", 3)
    evicted = {pod["metadata"]["uid"] for pod in served.pods_on("busy")}
    operator = served.start("run")
    try:
        label(served, "busy", profile="reboot", reboot="wanted")
        served.until(lambda: not evicted & {pod["metadata"]["uid"] for pod in served.pods_on("busy")})
        served.until(lambda: served.node("busy")["metadata"]["labels"].get(STATE) == "in-maintenance")
        label(served, "busy", reboot="done")
        served.until(lambda: served.node("busy")["metadata"]["labels"].get(STATE) == "operational")
    finally:
        operator.send_signal(signal.SIGINT)
        out, err = operator.communicate(timeout=PATIENCE)
    assert "\tERROR\t" not in out + err
    assert "Error" not in out + err


def test_init_overwrites_nothing(served: Served) -> None:
    (served.folder / "haulout.yaml").write_text("mine")
    done = served.run("init")
    assert (done.returncode, done.stderr) == (1, "Error: haulout.yaml: there already; nothing was written\n")
    assert not (served.folder / "config").exists()
    assert (served.folder / "haulout.yaml").read_text() == "mine"


def test_a_file_that_is_named_and_missing(served: Served) -> None:
    assert served.run("init").returncode == 0
    (served.folder / "config" / "maintenance.yaml").unlink()
    done = served.run("lint")
    lines = (served.folder / "haulout.yaml").read_text().splitlines()
    place = f"haulout.yaml:{lines.index('    config: config/maintenance.yaml') + 1}:13"
    assert f"{place}: warning: config/maintenance.yaml is named in it and does not exist" in done.stdout
    assert done.returncode == 0


@pytest.mark.parametrize("words", [("run",), ("lint",)])
def test_no_file_at_all_names_the_command_that_writes_one(served: Served, words: tuple[str, ...]) -> None:
    done = served.run(*words)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: there is no haulout.yaml here (`haulout init` writes one to begin with")
