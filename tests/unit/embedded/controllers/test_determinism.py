"""The same seed gives the same bytes, whatever the hashes of strings are."""

import hashlib
import os
import subprocess
import sys
from datetime import timedelta

import msgspec

from haulout.embedded import DEPLOYMENTS, NODES, REPLICA_SETS, ActorOptions
from tests.build.workloads import (
    World,
    budget,
    daemon_set,
    deployment,
    job,
    node,
    replica_set,
    stateful_set,
    template,
)


def story(seed: int) -> World:
    """Run a bit of everything: rollouts, a drain, a reboot, a dead node, deletions."""
    world = World(ActorOptions(seed=seed), nodes=6, zones=3).run(5)
    world.make(
        deployment("web", 7),
        deployment("api", 3, template("api", notes={"stops-after": "3s"})),
        replica_set("bare", 2),
        stateful_set("db", 3),
        daemon_set("agent"),
        job("once", completions=4, parallelism=2),
        budget("web", maxUnavailable="20%"),
        budget("db", minAvailable=2),
    ).run(30)
    world.change(DEPLOYMENTS, "web", {"spec": {"template": {"metadata": {"annotations": {"version": "2"}}}}})
    world.change(NODES, "n1", {"spec": {"unschedulable": True}})
    for pod in world.pods("app in (api,bare)"):
        world.objects.evict("default", pod["metadata"]["name"])
    world.actors.reboot("n2", timedelta(seconds=70))
    world.run(120).actors.kill_kubelet("n3")
    world.run(500).make(node("n6", zone="z1")).objects.delete(DEPLOYMENTS, "default", "api", propagation="Foreground")
    world.objects.delete(REPLICA_SETS, "default", "bare", propagation="Background")
    world.actors.revive_kubelet("n3")
    return world.run(120)


def digest(seed: int) -> str:
    log = story(seed).log
    assert len(log) > 300
    return hashlib.sha256(b"\n".join(msgspec.json.encode((one.type, one.object)) for one in log)).hexdigest()


def test_the_same_seed_gives_the_same_changes_whatever_the_hash_seed() -> None:
    program = f"from {__name__} import digest; print(digest(1))"
    answers = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        ).stdout.strip()
        for hash_seed in ("0", "1", "4711")
    }
    assert answers == {digest(1)}


def test_another_seed_gives_other_names() -> None:
    assert digest(1) != digest(2)


def test_everything_is_well_in_the_end() -> None:
    world = story(3)
    assert world.status(DEPLOYMENTS, "web")["readyReplicas"] == 7
    assert world.names("app in (api,bare)") == []
    assert world.ready("app=agent") == 7
    assert world.ready("app=db") == 3
