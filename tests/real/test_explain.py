"""`haulout explain` on a real cluster: what each node waits for, with only the right to read, and without a write."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.real.profiles import GO, PROFILE, roll_config, states
from tests.rig.api import ApiError
from tests.rig.fleet import node_object
from tests.rig.maintenances import define
from tests.rig.operator import HAULOUT, MaintenanceController, environment
from tests.rig.plane import ControlPlane
from tests.rig.wait import eventually

pytestmark = pytest.mark.tools("etcd", "kube-apiserver")

Explain = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def prefix() -> str:
    return "explained"


@pytest.fixture(scope="module")
def folder(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory, prefix: str) -> Iterator[Path]:
    """A folder with settings, one node in maintenance for an hour, and more that want it. The operator has ended."""
    folder = tmp_path_factory.mktemp("explain")
    names = {"a": "slow", "b": "slow", "c": "slow--ghost", "d": ""}
    plane.load(
        node_object(
            f"{prefix}-{name}",
            labels={PROFILE: profile},
            annotations={"haulout.dev/priority": "low"} if name == "c" else {},
            unschedulable=name == "d",
        )
        for name, profile in names.items()
    )
    inside, waits, idle = "in-maintenance", "maintenance-required", "operational"
    with MaintenanceController(plane, folder, roll_config(1, profile="slow", wait="1h")):
        # The first one alone. Of two at once, the one that is answered first would begin.
        for wishes, wanted in (("a", [inside, idle, idle, idle]), ("bc", [inside, waits, waits, idle])):
            for name in wishes:
                plane.api().patch("nodes", f"{prefix}-{name}", {"metadata": {"labels": {GO: "true"}}})
            eventually(lambda to=wanted: list(states(plane.api(), prefix).values()) == to, f"{wanted}")  # type: ignore[misc]
    yield folder
    plane.wipe(prefix)


@pytest.fixture(scope="module")
def reader(plane: ControlPlane) -> str:
    kinds = (
        ("", "nodes"),
        ("nodemaintenance.medik8s.io", "nodemaintenances"),
        ("ngn2.nvidia.com", "notifymaintenances"),
        ("skyhook.nvidia.com", "skyhooks"),
    )
    rules = [{"apiGroups": [group], "resources": [kind], "verbs": ["list", "watch"]} for group, kind in kinds]
    user = plane.limited_user(rules)
    eventually(lambda: plane.api(user).items("nodes") is not None, "it may read", refused=(ApiError,))
    return user


@pytest.fixture(scope="module")
def explain(plane: ControlPlane, folder: Path, reader: str) -> Explain:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        argv = [str(HAULOUT), "explain", *words]
        env = environment(KUBECONFIG=str(plane.kubeconfig(reader)))
        return subprocess.run(argv, cwd=folder, env=env, text=True, capture_output=True, check=False, timeout=60)

    return run


def text(done: subprocess.CompletedProcess[str]) -> list[str]:
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def page(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Return what is said about the node. Before it comes that a drop-in without a leader leaves no trace of itself."""
    first, *lines = text(done)
    assert first.startswith("It is unknown whether an operator is running: ")
    return lines[lines[0].startswith("  If none is, nothing below will move.") :]


def test_who_works_on_a_node_and_until_when(explain: Explain) -> None:
    lines = page(explain("explained-a"))
    assert lines[0] == "node explained-a"
    assert lines[1] == "  settings: config/maintenance.yaml"
    assert lines[2].startswith("  held by profiles, profile slow, since ")
    assert lines[3:5] == ["  profile slow is in-maintenance", "    to operational if hold: not yet"]
    assert re.fullmatch(
        r"      hold: the node has not been in-maintenance for 1 h yet, until 20\S+ \S+ UTC \(in (1 h|\d+ min( \d+ s)?)\)",
        lines[5],
    )


def test_whom_a_node_waits_for(explain: Explain) -> None:
    assert page(explain("explained-b")) == [
        "node explained-b",
        "  settings: config/maintenance.yaml",
        "  wanted by profiles, profile slow, transition 1 to in-maintenance: waits",
        "  profile slow is maintenance-required",
        "    to in-maintenance if go && few: waits",
        "      few: 1 of 1 nodes in maintenance with profile slow (explained-a)",
        "blocked by:",
        "  few: 1 of 1 nodes in maintenance with profile slow (explained-a); there: hold: the node has not been in-maintenance for 1 h yet",
        "look up: haulout help CODE [no-room]",
    ]


def test_what_is_odd_about_a_node(explain: Explain) -> None:
    lines = text(explain("explained-c"))
    assert "  profile ghost is not configured (configured are: default, slow)" in lines
    priority = 'haulout.dev/priority is "low": it counts as 0 (a whole number would be right)'
    assert f"  The annotation {priority}" in lines


def test_a_node_without_profiles_that_is_cordoned_by_hand(plane: ControlPlane, explain: Explain) -> None:
    for unschedulable in (False, True):
        plane.api().patch("nodes", "explained-d", {"spec": {"unschedulable": unschedulable}})
    lines = page(explain("explained-d"))
    assert lines[:2] == ["node explained-d (cordoned)", "  settings: config/maintenance.yaml"]
    assert lines[2].startswith("  cordoned by hand, with ")
    assert lines[3] == "  profile default is operational, and no transition leads out of it"


def test_json_and_that_nothing_is_written(plane: ControlPlane, explain: Explain, reader: str) -> None:
    since = plane.audit.mark()
    found = json.loads("\n".join(text(explain("explained-b", "-o", "json"))))
    assert [hold["granted"] for hold in found["holds"]] == [False]
    (profile,) = found["reasons"]
    (transition,) = profile["because"]
    assert (transition["code"], transition["because"][0]["code"]) == ("waits-for-grant", "no-room")
    asked = set(plane.audit.counts(since=since, user=reader))
    # Of kinds that are not served there is nothing to list; which are depends on what else runs on this server.
    assert asked - {"list notifymaintenances", "list skyhooks", "list nodewrights"} == {
        "get /apis/nodewright.nvidia.com/v1alpha1",
        "get leases",
        "list leases",
        "list deployments",
        "list nodemaintenances",
        "list nodes",
        "watch nodes",
    }


def test_maintenances_that_may_not_be_read_are_not_taken_for_none(plane: ControlPlane, folder: Path) -> None:
    define(plane.api())
    user = plane.limited_user([{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]}])
    eventually(lambda: plane.api(user).items("nodes") is not None, "it may read", refused=(ApiError,))
    argv, env = [str(HAULOUT), "explain", "explained-b"], environment(KUBECONFIG=str(plane.kubeconfig(user)))
    done = subprocess.run(argv, cwd=folder, env=env, text=True, capture_output=True, check=False, timeout=60)
    (line,) = {line.strip() for line in text(done) if "NodeMaintenances cannot be read" in line}
    assert re.search(
        r"you may not (list|watch) nodemaintenances\.nodemaintenance\.medik8s\.io: `haulout rbac viewer`", line
    )


def test_as_somebody_else(plane: ControlPlane, explain: Explain) -> None:
    """A user who may not impersonate gets an error, and so does one who may not read."""
    refused = explain("explained-a", "--as", "nobody")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "cannot impersonate" in refused.stderr
    master = str(plane.kubeconfig("operator"))
    forbidden = explain("explained-a", "--kubeconfig", master, "--as", "nobody")
    assert forbidden.returncode == 1
    assert 'nodes "explained-a" is forbidden: User "nobody" cannot list resource "nodes"' in forbidden.stderr
    allowed = explain("explained-a", "--kubeconfig", master, "--as", "nobody", "--as-group", "system:masters")
    # This user also sees the Leases of operators in other tests, which decides about the exit code.
    assert "node explained-a" in allowed.stdout.splitlines()


def test_a_node_that_is_not_there(explain: Explain) -> None:
    done = explain("nobody")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "Error: there is no node named nobody\n")
