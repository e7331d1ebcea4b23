"""Commands of a user who may read nodes and little else: the missing right is named, and nothing is said to be absent."""

from __future__ import annotations

import re
import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from haulout.base import yaml as strict_yaml
from haulout.core.budgets.declare import SURFACE as SHARED
from haulout.embedded import CUSTOM_RESOURCE_DEFINITIONS
from haulout.surfaces.nodemaintenance.declare import SURFACE as NODEMAINTENANCE
from tests.build.forbidding import Forbidding
from tests.build.served import PATIENCE, Served
from tests.build.workloads import node
from tests.rig.process import free_port

SETTINGS = {"surfaces": {"profiles": {"config": "maintenance.yaml"}, "nodemaintenance": {}}}
RIGHT = "you may not watch nodemaintenances: `haulout rbac viewer` prints the role that allows it"


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[Served]:
    with Served(tmp_path) as served:
        definitions = [
            strict_yaml.load(each.definition(name)) for each in (SHARED, NODEMAINTENANCE) for name in each.crds
        ]
        served.call(lambda world: [world.server.create(CUSTOM_RESOURCE_DEFINITIONS, each) for each in definitions])
        served.make(node("a"))
        (tmp_path / "haulout.yaml").write_text(yaml.safe_dump(SETTINGS))
        (tmp_path / "maintenance.yaml").write_text("intervals: {requeue: 30s}\nprofiles: []\n")
        forbidden = "nodemaintenances|nodedisruptionbudgets|notifymaintenances|pods|leases|events"
        with Forbidding(tmp_path / "kubeconfig", forbidden):
            yield served


def test_that_a_node_has_returned_is_not_concluded_from_what_may_not_be_read(limited: Served) -> None:
    done = limited.run("wait", "a", "--for", "returned", "--kubeconfig", "limited", "--config", "haulout.yaml")
    assert (done.returncode, done.stdout) == (1, "")
    assert f"INCOMPLETE: NodeMaintenance: {RIGHT}" in done.stderr
    assert done.stderr.endswith("it is unknown whether node a has returned: not everything can be read\n")


def test_an_explanation_names_kinds_of_the_cluster_alone(limited: Served) -> None:
    done = limited.run("explain", "a", "--kubeconfig", "limited", "--config", "haulout.yaml")
    missing = [line for line in done.stdout.splitlines() if line.startswith("INCOMPLETE: ")]
    kinds = {"Lease/medik8s-leases", "NodeDisruptionBudget", "NodeMaintenance", "Pod"}
    assert f"INCOMPLETE: NodeMaintenance: {RIGHT}" in done.stdout
    assert {line.split(": ")[1] for line in missing} <= kinds


def test_events_that_may_not_be_read_are_not_said_to_be_absent(limited: Served) -> None:
    done = limited.run("history", "a", "--kubeconfig", "limited")
    assert "INCOMPLETE: you may not list events: `haulout rbac viewer` prints the role that allows it" in done.stdout
    assert "forbidden" not in done.stdout
    assert done.stdout.splitlines()[-1] == "nothing about node a could be read"


def test_a_status_says_what_of_the_installation_is_not_known(limited: Served) -> None:
    done = limited.run("status", "--exit-code", "--kubeconfig", "limited", "--config", "haulout.yaml")
    assert done.returncode == 1
    assert done.stdout.startswith("It is unknown whether an operator is running: you may not list leases")
    assert "\nINCOMPLETE, this could not be read:\n" in done.stdout
    assert "replicas: unknown" in done.stdout


def test_the_commands_that_readyz_names_print_roles(limited: Served) -> None:
    port = free_port()
    listen = {"http": "0", "health": f"127.0.0.1:{port}", "webhooks": "0"}
    (limited.folder / "haulout.yaml").write_text(
        yaml.safe_dump({**SETTINGS, "listen": listen, "leader": {"elect": False}})
    )
    process = limited.start("run", "--kubeconfig", "limited")
    try:
        for kind in ("NodeDisruptionBudget", "NodeMaintenance"):
            limited.until(lambda kind=kind: f"cannot read {kind}: " in answer(port))  # type: ignore[misc]
        commands = set(re.findall(r"`haulout (rbac \w+)`", answer(port)))
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE)
    assert commands >= {"rbac kernel", "rbac nodemaintenance"}
    assert {limited.run(*command.split()).returncode for command in commands} == {0}


def answer(port: int) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as found:
            text: str = found.read().decode()
            return text
    except OSError:
        return ""
