"""A kubelet writes the addresses of its Node. They do not aim a playbook at another host."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from haulout.embedded import JOBS, NODES, Json
from tests.build.free_texts import environment_of, expanded
from tests.build.notices import OWN, Notices, options

PLAYBOOK: Json = {
    "name": "rec",
    "type": "ansible",
    "namespace": OWN,
    "image": "registry.example/ansible:1",
    "playbook": {"configMap": "books", "key": "site.yml"},
    "sshKeySecret": {"name": "keys", "key": "id"},
    "knownHosts": {"configMap": "hosts", "key": "known_hosts"},
}
TEMPLATE = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "x"}]}}}}
SCRIPT: Json = {"name": "rec", "type": "job", "template": TEMPLATE}


def ops(recipe: Json) -> Notices:
    runner = {"enabled": True, "defaultClient": "rec", "recipes": [recipe]}
    return Notices(options(json.dumps({"slaPeriod": "1h", "operators": {"runner": runner}})))


def state(world: Notices, node: str, *addresses: tuple[str, str]) -> None:
    """Have the kubelet of a node write these addresses."""
    stated = [{"type": kind, "address": address} for kind, address in addresses]
    world.world.objects.patch(NODES, "", node, {"status": {"addresses": stated}}, subresource="status")


def containers(world: Notices) -> list[Json]:
    jobs = world.world.objects.list(JOBS, OWN)
    return [job["spec"]["template"]["spec"]["containers"][0] for job in jobs]


@pytest.mark.parametrize("address", ["10.0.0.7", "fd00::7", "n0.example.com", "ip-10-0-0-7"])
def test_an_address_or_name_of_a_host_is_used(address: str) -> None:
    given = ops(PLAYBOOK)
    state(given, "n0", ("InternalIP", address))
    [container] = containers(given.drained("a"))
    assert environment_of(container)["NODE_ADDRESS"] == address


@pytest.mark.parametrize(
    "address",
    [
        *(
            "-oProxyCommand=id",
            "host other",
            "host,other",
            "root@host",
            "host:22",
            "/etc/hosts",
            "a" * 64,
            "[a:z].example",
        ),
        *("{{ x }}", "$(id)", "127.0.0.1", "127.1", "2130706433", "0x7f000001", "localhost", "x.localhost", "::1"),
        *("169.254.169.254", "fe80::1", "fe80::1%eth0", "0.0.0.0", "::ffff:127.0.0.1", "224.0.0.1"),
    ],
)
def test_an_address_that_is_none_of_another_host_is_not_used(address: str) -> None:
    given = ops(PLAYBOOK)
    state(given, "n0", ("InternalIP", address))
    given.drained("a").run(60)
    assert containers(given) == []
    assert "is not an IP address or DNS name of another host" in given.message("a", "maintenanceRun")


@pytest.mark.parametrize(
    "other",
    [
        ("InternalIP", "10.0.0.7"),
        ("ExternalIP", "10.0.0.7"),
        ("InternalIP", "::ffff:10.0.0.7"),
    ],
)
def test_an_address_of_two_nodes_is_used_for_neither(other: tuple[str, str]) -> None:
    given = ops(PLAYBOOK)
    state(given, "n0", ("InternalIP", "10.0.0.7"))
    state(given, "n1", other)
    given.drained("a").drained("b", "n1").run(60)
    assert given.message("a", "maintenanceRun") == (
        "attempt 1/1: its address 10.0.0.7 is also in status.addresses of node n1: correct or delete one of the Nodes"
    )
    assert environment_of_nodes(given) <= {"n1"}
    state(given, "n1", ("InternalIP", "10.0.0.8"))
    given.run()
    assert environment_of_nodes(given) == {"n0", "n1"}


def environment_of_nodes(world: Notices) -> set[str]:
    """Return the nodes that a playbook was started for."""
    return {environment_of(each)["NODE_NAME"] for each in containers(world)}


def test_the_name_of_another_node_is_not_used() -> None:
    given = ops(PLAYBOOK)
    state(given, "n0", ("Hostname", "N1"))
    given.drained("a").run(60)
    assert containers(given) == []
    assert "of node n1" in given.message("a", "maintenanceRun")


def test_a_job_of_your_own_gets_no_address_that_another_node_has() -> None:
    given = ops(SCRIPT)
    state(given, "n0", ("InternalIP", "10.0.0.7"))
    state(given, "n1", ("InternalIP", "10.0.0.7"))
    [container] = containers(given.drained("a"))
    assert environment_of(container)["NODE_ADDRESS"] == ""


def test_ssh_asks_for_the_host_key_of_the_node_by_its_name(tmp_path: Path) -> None:
    given = ops(PLAYBOOK)
    state(given, "n0", ("InternalIP", "10.0.0.7"))
    given.drained("a")
    [job] = given.world.objects.list(JOBS, OWN)
    spec = job["spec"]["template"]["spec"]
    [hosts] = [volume for volume in spec["volumes"] if volume["name"] == "known-hosts"]
    assert hosts["configMap"]["name"] == "hosts"
    # This program takes the place of SSH: it notes how it is called, and fails.
    ssh = tmp_path / "ssh"
    ssh.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >> {tmp_path}/called\nexit 255\n')
    ssh.chmod(ssh.stat().st_mode | stat.S_IXUSR)
    (tmp_path / "site.yml").write_text(
        "- hosts: all\n  gather_facts: false\n  tasks: [{ansible.builtin.raw: 'true'}]\n"
    )
    [container] = spec["containers"]
    environment = environment_of(container)
    paths = {"/playbook/site.yml": "site.yml", "/ssh/id": "id"}
    words = [expanded(paths.get(word, word), environment) for word in container["command"]]
    path = f"{tmp_path}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    around = {"PATH": path, "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"}
    subprocess.run(words, cwd=tmp_path, env={**environment, **around}, capture_output=True, check=False)
    called = (tmp_path / "called").read_text().splitlines()
    wanted = {"UserKnownHostsFile=/known_hosts/known_hosts", "StrictHostKeyChecking=yes", "HostKeyAlias=n0", "10.0.0.7"}
    assert wanted <= set(called)
