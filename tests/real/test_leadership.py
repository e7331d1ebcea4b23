"""Several replicas: one acts at a time, whatever happens to it, and none writes once another may."""

from __future__ import annotations

import os
import shutil
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.real.profiles import GO, PROFILE, STATE, label_of, roll_config, sampled
from tests.rig.api import LEASES, Json
from tests.rig.audit import Entry
from tests.rig.fleet import node_object
from tests.rig.operator import JSON_LOG, MaintenanceController, Operator, Platform
from tests.rig.plane import ControlPlane
from tests.rig.session import lack
from tests.rig.wait import eventually

pytestmark = pytest.mark.tools("etcd", "kube-apiserver")

LEADS = "haulout_leader"


@pytest.fixture
def wanting(plane: ControlPlane, namespace: str) -> list[str]:
    """Create twelve nodes that want maintenance."""
    names = [f"{namespace}-{number:02}" for number in range(12)]
    plane.load(node_object(name, labels={PROFILE: namespace, GO: "true"}) for name in names)
    return names


def replica(plane: ControlPlane, directory: Path, namespace: str, user: str) -> Platform:
    config = roll_config(2, profile=namespace, wait="1s")
    return Platform(plane, directory / user, config, f"namespace: {namespace}", name=user, user=user)


def leads(operator: Operator) -> bool:
    return operator.metric(LEADS) == 1


def moved(plane: ControlPlane, names: list[str]) -> int:
    """Return how many nodes have completed their maintenance."""
    wanted = set(names)
    nodes = [node for node in plane.api().items("nodes") if node["metadata"]["name"] in wanted]
    return sum(label_of(node, GO) is None and label_of(node, STATE) == "operational" for node in nodes)


def acts(plane: ControlPlane, user: str, since: int) -> list[Entry]:
    return [entry for entry in plane.audit.entries(since=since, user=user) if entry.writes]


def rests(plane: ControlPlane, user: str, since: int) -> bool:
    """Whether no write is under way.

    One that is in the buffer of a socket when a process freezes cannot be called back.
    """
    return datetime.now(UTC) - acts(plane, user, since)[-1].received_at > timedelta(seconds=0.3)


def test_one_acts_at_a_time_and_another_takes_over(
    plane: ControlPlane, namespace: str, wanting: list[str], tmp_path: Path
) -> None:
    """Frozen, signalled and killed in turn: one test, for a lease takes its time to run out."""
    since = plane.audit.mark()
    first, second = (replica(plane, tmp_path, namespace, user) for user in ("operator", "operator-b"))
    with sampled(plane, f"{PROFILE}={namespace}") as seen, first:
        eventually(lambda: leads(first), "the first leads")
        with second:
            eventually(lambda: moved(plane, wanting) > 0, "it is in the middle")
            assert acts(plane, "operator-b", since) == [], "the second stands by"

            eventually(lambda: rests(plane, "operator", since), "it waits, and will want to write when it wakes up")
            first.process.freeze()
            eventually(lambda: leads(second), "the second leads")
            taken_at = acts(plane, "operator-b", since)[0].received_at
            first.process.thaw()
            assert first.process.wait() == 1
            late = [entry for entry in acts(plane, "operator", since) if entry.received_at > taken_at]
            assert [entry.act for entry in late] == [], "nothing is written once another may"
            assert '"msg":"leadership lost"' in first.process.text().splitlines()[-1]

            first.start()
            assert not leads(first)
            held_by = plane.api().get(LEASES, "haulout", namespace)["spec"]["holderIdentity"]
            second.process.send(signal.SIGTERM)
            assert second.process.wait() == 0
            # Given back: the first does not wait for the lease to run out.
            assert acts(plane, "operator-b", since)[-1].act == "update leases", "the lease is the last that it lets go"
            lease: Json = plane.api().get(LEASES, "haulout", namespace)["spec"]
            assert lease.get("holderIdentity", "") != held_by, "it is given back"
            eventually(lambda: leads(first), "the first leads again")

            for name in wanting:
                plane.api().patch("nodes", name, {"metadata": {"labels": {GO: "true"}}})
            second.start()
            eventually(lambda: moved(plane, wanting) > 0, "it is in the middle again")
            first.process.kill()
            eventually(lambda: leads(second), "the second leads again")
            eventually(lambda: moved(plane, wanting) == len(wanting), "all have been around")
    assert seen.most == 2
    assert "Traceback" not in first.process.text() + second.process.text()
    lease = plane.api().get(LEASES, "haulout", namespace)["spec"]
    assert (lease.get("holderIdentity", ""), lease["leaseTransitions"]) == ("", 3)


def test_the_original_elects_in_its_own_namespace_and_keeps_its_lease(
    plane: ControlPlane, namespace: str, wanting: list[str], tmp_path: Path
) -> None:
    """Which it reads from the mount of its service account; here a private one."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        lack("needs root and unshare")
    operator = MaintenanceController(
        plane, tmp_path, roll_config(2, profile=namespace), flags=[*JSON_LOG, "--enable-leader-election"]
    )
    mounted = "/run/secrets/kubernetes.io/serviceaccount"
    script = f'mount -t tmpfs none /run && mkdir -p {mounted} && echo -n "$0" > {mounted}/namespace && exec "$@"'
    operator.process.argv = ["unshare", "-m", "sh", "-c", script, namespace, *operator.process.argv]
    with operator:
        eventually(lambda: moved(plane, wanting) == len(wanting), "all have been around")
        name = "maintenance-controller-leader-election.cloud.sap"
        assert operator.metric(f'leader_election_master_status{{name="{name}"}}') == 1
        operator.process.send(signal.SIGTERM)
        assert operator.process.wait() == 0
    spec = plane.api().get(LEASES, name, namespace)["spec"]
    assert spec["leaseDurationSeconds"] == 15
    assert spec["holderIdentity"].partition("_")[0] == os.uname().nodename


def test_a_surface_waits_for_the_lease_of_its_original_as_long_as_the_settings_say_so(
    plane: ControlPlane, namespace: str, wanting: list[str], tmp_path: Path
) -> None:
    meta = {"name": "maintenance-controller-leader-election.cloud.sap"}
    body: Json = {"metadata": meta, "spec": {"holderIdentity": "the original", "leaseDurationSeconds": 600}}
    plane.api().create(LEASES, body, namespace)
    since = plane.audit.mark()
    operator = replica(plane, tmp_path, namespace, "operator")
    alone, without = f"{operator.basic}namespace: {namespace}\n", "metricsTimeout: 0s"
    operator.write(alone.replace(without, f"{without}, lease: {{namespace: {namespace}}}"), "haulout.yaml")
    with operator:
        eventually(lambda: leads(operator), "it leads")
        eventually(lambda: operator.get("/api/v1/info")[1].count(namespace) >= len(wanting), "it knows the nodes")
        assert [act for act in acts(plane, "operator", since) if "nodes" in act.act] == []
        operator.write(alone, "haulout.yaml")
        eventually(lambda: moved(plane, wanting) > 0, "it acts")
        assert operator.process.stop() == 0
    assert "Traceback" not in operator.process.text()
