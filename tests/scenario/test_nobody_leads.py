"""Commands where no operator leads: they say so first, since when and what to do, and end with 1."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from haulout.base import yaml as strict_yaml
from haulout.core.budgets.declare import SURFACE as SHARED
from haulout.embedded import CUSTOM_RESOURCE_DEFINITIONS, Json, Resource
from haulout.manifests.documents import NAMESPACE as HOME
from haulout.manifests.workload import workload
from haulout.surfaces.nodemaintenance.declare import SURFACE as NODEMAINTENANCE
from tests.build.served import Served
from tests.build.workloads import node
from tests.scenario.test_plan_surfaces import maintenance

FIRST = "NO OPERATOR IS RUNNING: nothing below will move"
LEASES = Resource("coordination.k8s.io", "v1", "leases")
SETTINGS = {
    "surfaces": {"nodemaintenance": {}},
    "namespace": "default",
    "listen": {"http": "0", "health": "0", "webhooks": "0"},
}
HOUR = timedelta(hours=1)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with Served(tmp_path) as made:
        (tmp_path / "haulout.yaml").write_text(yaml.safe_dump(SETTINGS))
        definitions = [
            strict_yaml.load(surface.definition(name)) for surface in (SHARED, NODEMAINTENANCE) for name in surface.crds
        ]
        made.call(lambda world: [world.server.create(CUSTOM_RESOURCE_DEFINITIONS, each) for each in definitions])
        made.make(node("a"), node("b"), maintenance("one", "a"))
        yield made


def lease(
    ago: timedelta,
    holder: str = "host_1",
    surfaces: str = "nodemaintenance",
    name: str = "haulout",
    seconds: int = 3000,
) -> Json:
    renewed_at = f"{datetime.now(UTC) - ago:%Y-%m-%dT%H:%M:%S.%fZ}"
    marks = {"labels": {"app.kubernetes.io/name": "haulout"}, "annotations": {"haulout.dev/surfaces": surfaces}}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": "default", **marks},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": seconds, "renewTime": renewed_at},
    }


def test_a_missing_namespace_of_the_lease_is_named_with_the_command_that_creates_it(
    served: Served, tmp_path: Path
) -> None:
    (tmp_path / "haulout.yaml").write_text(yaml.safe_dump({**SETTINGS, "namespace": "gone"}))
    for words in (("status",), ("explain", "a")):
        # Lines are wrapped.
        text = " ".join(served.run(*words).stdout.split())
        assert text.startswith(
            f"{FIRST} there is no Lease gone/haulout, because the namespace gone does not exist: a running operator cannot lead. "
            "Create it: kubectl create namespace gone. Start it: haulout run"
        )


@pytest.mark.parametrize(
    ("leases", "why"),
    [
        pytest.param((), "there is no Lease default/haulout", id="never ran"),
        pytest.param((lease(HOUR),), "was last held by host_1", id="it was killed"),
        pytest.param((lease(HOUR, holder="", seconds=1),), "was released", id="it was stopped"),
    ],
)
def test_every_answer_begins_with_it(served: Served, leases: tuple[Json, ...], why: str) -> None:
    for each in leases:
        served.call(lambda world, each=each: world.server.create(LEASES, each))  # type: ignore[misc]
    for words in (("status", "--exit-code"), ("explain", "a"), ("explain", "nm", "one"), ("history", "a")):
        done = served.run(*words)
        first, second, *_ = done.stdout.splitlines()
        assert first.startswith(FIRST), done.stdout
        assert (", 1 h" in first) is bool(leases)
        assert why in second
        assert "haulout run" in second
        assert done.returncode == 1
    waiting = served.run("wait", "a", "--for", "maintained", "--timeout", "1s")
    assert waiting.stderr.startswith(FIRST)
    assert waiting.returncode == 1


def test_the_pod_that_holds_the_lease_is_gone(served: Served) -> None:
    """The Lease is good for some more seconds, and no process renews it: its holder was deleted."""
    (served.folder / "haulout.yaml").unlink()
    settings = yaml.safe_dump({"surfaces": {"nodemaintenance": {}}})
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}}
    served.make(namespace, *workload(HOME, "haulout:1", 0, settings, files=[]))
    made = lease(timedelta(), holder="haulout-5d8f-x2x_0b1c")
    made["metadata"]["namespace"] = HOME
    served.call(lambda world: world.server.create(LEASES, made))
    for words in (("status", "--exit-code"), ("explain", "a"), ("explain", "nm", "one"), ("history", "a")):
        done = served.run(*words)
        first, second, *_ = done.stdout.splitlines()
        assert first.startswith(FIRST), done.stdout
        assert f"Lease {HOME}/haulout was last held by haulout-5d8f-x2x" in second
        assert f"kubectl -n {HOME} logs deployment/haulout" in " ".join(done.stdout.split())
        assert done.returncode == 1
    containers = [{"name": "haulout", "image": "haulout:1"}]
    meta = {"name": "haulout-5d8f-x2x", "namespace": HOME}
    served.make({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": containers}})
    assert served.run("explain", "a").returncode == 0


def test_what_would_move_stands_still(served: Served) -> None:
    served.call(lambda world: world.server.create(LEASES, lease(HOUR)))
    assert "a: waiting for nodemaintenance nodemaintenance/one, standing still since 20" in served.run("status").stdout
    explained = served.run("explain", "a").stdout
    assert "granted" not in explained
    assert "wanted by nodemaintenance, drain: standing still since 20" in explained
    told = json.loads(served.run("explain", "a", "-o", "json").stdout)["operator"]
    assert (told["isLeading"], told["since"][:2]) == (False, "20")
    assert json.loads(served.run("status", "-o", "json").stdout)["installation"]["operator"] == told


def test_a_maintenance_that_is_started_waits_for_an_operator(served: Served) -> None:
    served.call(lambda world: world.server.create(LEASES, lease(HOUR)))
    done = served.run("start", "node/b", "--with", "nodemaintenance", "--reason", "disks")
    assert done.returncode == 0
    assert done.stderr.startswith("NO OPERATOR IS RUNNING: the maintenance begins once one runs (since 20"), done.stderr
    assert "Start it: haulout run" in done.stderr


def test_a_plan_says_that_it_takes_an_operator(served: Served) -> None:
    served.call(lambda world: world.server.create(LEASES, lease(HOUR)))
    planned = served.run("plan", "--days", "1")
    assert planned.stdout.startswith("NO OPERATOR IS RUNNING: nothing of this plan happens until one runs (since 20")
    told = json.loads(served.run("plan", "--days", "1", "-o", "json").stdout)["operator"]
    assert told["isLeading"] is False


def test_nothing_is_said_while_one_leads(served: Served) -> None:
    served.call(lambda world: world.server.create(LEASES, lease(timedelta())))
    done = served.run("status", "--exit-code")
    assert (done.stdout.splitlines()[0][:7], done.returncode) == ("2 nodes", 0)
    explained = served.run("explain", "a")
    assert (explained.stdout.splitlines()[0], explained.returncode) == ("node a", 0)
    assert "standing still" not in explained.stdout


def test_a_surface_that_no_operator_serves(served: Served) -> None:
    served.call(lambda world: world.server.create(LEASES, lease(timedelta(), surfaces="packages")))
    for words in (("status", "--exit-code"), ("explain", "a"), ("explain", "nm", "one")):
        done = served.run(*words)
        first, second, *_ = done.stdout.splitlines()
        assert first == "NO RUNNING OPERATOR SERVES nodemaintenance: none of its objects below will move"
        assert "default/haulout serves packages" in second
        assert done.returncode == 1


def test_objects_of_a_surface_that_is_not_switched_on(served: Served) -> None:
    (served.folder / "haulout.yaml").write_text(yaml.safe_dump({**SETTINGS, "surfaces": {"packages": {}}}))
    served.call(lambda world: world.server.create(LEASES, lease(timedelta(), surfaces="packages")))
    assert served.run("status").stdout.startswith("NO RUNNING OPERATOR SERVES nodemaintenance: ")


ORIGINAL = {"nodemaintenance": "135b1886.medik8s.io", "packages": "3c22c1ae.nvidia.com"}


def lease_of_original(surface: str, ago: timedelta, holder: str) -> Json:
    """Make the Lease of an original or of Haulout in its place, which writes neither label nor annotation."""
    made = lease(ago, holder, name=ORIGINAL[surface], seconds=60)
    made["metadata"] = {"name": ORIGINAL[surface], "namespace": "default"}
    return made


@pytest.mark.parametrize("holder", ["old-pod_1", ""])
def test_a_drop_in_that_no_longer_holds_the_lease_of_its_original(served: Served, holder: str) -> None:
    (served.folder / "haulout.yaml").unlink()
    served.call(lambda world: world.server.create(LEASES, lease_of_original("nodemaintenance", HOUR, holder)))
    for words in (("status", "--exit-code"), ("explain", "a"), ("explain", "nm", "one"), ("history", "a")):
        done = served.run(*words)
        first, second, *_ = done.stdout.splitlines()
        assert first.startswith(f"{FIRST} (since 20"), done.stdout
        assert f"Lease default/{ORIGINAL['nodemaintenance']} was " in second
        assert done.returncode == 1


def test_without_any_lease_it_is_unknown(served: Served) -> None:
    (served.folder / "haulout.yaml").unlink()
    for words in (("status",), ("explain", "a"), ("history", "a")):
        done = served.run(*words)
        lines = done.stdout.splitlines()
        assert lines[0].startswith(
            "It is unknown whether an operator is running: there is no Lease haulout-system/haulout"
        )
        assert any(
            line.startswith("  If none is, nothing below will move. Start it: haulout run") for line in lines[1:3]
        )
        assert done.returncode == 0


def test_of_two_drop_ins_one_has_ended(served: Served) -> None:
    (served.folder / "haulout.yaml").unlink()
    for name, ago in (("nodemaintenance", HOUR), ("packages", timedelta())):
        made = lease_of_original(name, ago, "pod_1")
        served.call(lambda world, made=made: world.server.create(LEASES, made))  # type: ignore[misc]
    first, second, *_ = served.run("status").stdout.splitlines()
    assert first == "NO RUNNING OPERATOR SERVES nodemaintenance: none of its objects below will move"
    assert second.startswith(f"  pod_1 holds default/{ORIGINAL['packages']} and serves packages. Start the operator")


def test_two_operators(served: Served) -> None:
    for name in ("haulout", "local"):
        served.call(lambda world, name=name: world.server.create(LEASES, lease(timedelta(), name=name)))  # type: ignore[misc]
    first, second, *_ = served.run("status").stdout.splitlines()
    assert first.startswith("2 OPERATORS ARE RUNNING in this cluster")
    assert "default/haulout (held by host_1)" in first + second


def test_an_operator_says_what_it_serves(served: Served) -> None:
    process = served.start("run")
    try:
        served.until(lambda: served.run("explain", "a").returncode == 0)
        assert not served.run("status").stdout.startswith("NO ")
    finally:
        process.terminate()
        process.communicate(timeout=60)
    (found,) = served.call(lambda world: world.server.list(LEASES, "default"))
    assert found["metadata"]["annotations"] == {"haulout.dev/surfaces": "nodemaintenance"}
    assert served.run("status").stdout.startswith(FIRST)
