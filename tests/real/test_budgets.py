"""NodeDisruptionBudgets on a real API server: obeyed at every instant, and shown in their status."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from haulout.cli.root import root
from tests.real.profiles import GO, PROFILE, Sampled, sampled
from tests.rig.api import CRDS, Api, ApiError, Json
from tests.rig.faults import Answer, FaultProxy
from tests.rig.fleet import node_object
from tests.rig.operator import HAULOUT, Platform
from tests.rig.plane import ControlPlane
from tests.rig.wait import eventually

pytestmark = pytest.mark.tools("etcd", "kube-apiserver", "kubectl")

NDBS = "haulout.dev/v1alpha1/nodedisruptionbudgets"
NMS = "nodemaintenance.medik8s.io/v1beta1/nodemaintenances"
NAMES = "abcde"
POOL = "budgets.test/pool"


class Cordoned(Sampled):
    """The nodes that are cordoned at every change, in the server's own order."""

    def take(self, event: dict[str, Any]) -> None:
        if event["type"] == "BOOKMARK":
            return
        name = event["object"]["metadata"]["name"]
        if event["object"]["spec"].get("unschedulable"):
            self.inside.add(name)
        else:
            self.inside.discard(name)
        self.most = max(self.most, len(self.inside))


@pytest.fixture(scope="module")
def definitions(plane: ControlPlane) -> None:
    done = CliRunner().invoke(root, ["crds", "kernel", "nodemaintenance"])
    for crd in yaml.safe_load_all(done.output):
        if plane.api().find(CRDS, crd["metadata"]["name"]) is None:
            plane.api().create(CRDS, crd)
    served = [partial(plane.api().items, resource) for resource in (NDBS, NMS)]
    eventually(lambda: all(items() is not None for items in served), "they are served", refused=(ApiError,))


@pytest.fixture
def api(plane: ControlPlane, definitions: None, prefix: str, tmp_path: Path) -> Iterator[Api]:
    """A client, five nodes of one pool, and an operator that serves NodeMaintenances."""
    plane.load(node_object(f"{prefix}-{name}", labels={POOL: prefix}) for name in NAMES)
    with operator_on(plane, tmp_path):
        yield plane.api()
    plane.wipe(prefix)


def operator_on(plane: ControlPlane, directory: Path, server: str | None = None) -> Platform:
    surfaces = "{nodemaintenance: {}}"
    return Platform(plane, directory, "", "leader: {elect: false}", server=server, surfaces=surfaces)


def budget(api: Api, prefix: str, *, used: int = 0, **spec: Any) -> None:
    """Create a budget, and wait until the operator has seen it and so many nodes out of service.

    Before that, a maintenance would begin: the operator learns of each kind by a watch of its own.
    """
    create_budget(api, prefix, **spec)
    eventually(lambda: status(api, prefix).get("used") == used, f"the operator knows the budget and {used} cordons")


def create_budget(api: Api, prefix: str, **spec: Any) -> None:
    body = {
        "apiVersion": "haulout.dev/v1alpha1",
        "kind": "NodeDisruptionBudget",
        "metadata": {"name": prefix},
        "spec": {"selector": {"matchLabels": {POOL: prefix}}, **spec},
    }
    api.create(NDBS, body)


def maintenance(api: Api, prefix: str, name: str) -> None:
    body = {
        "apiVersion": "nodemaintenance.medik8s.io/v1beta1",
        "kind": "NodeMaintenance",
        "metadata": {"name": f"{prefix}-{name}"},
        "spec": {"nodeName": f"{prefix}-{name}", "reason": "kernel"},
    }
    api.create(NMS, body)


def status(api: Api, prefix: str) -> Json:
    found: Json = api.get(NDBS, prefix).get("status") or {}
    return found


def phases(api: Api, prefix: str) -> dict[str, str]:
    found = [each for each in api.items(NMS) if each["metadata"]["name"].startswith(prefix)]
    return {each["metadata"]["name"]: each.get("status", {}).get("phase", "") for each in found}


def test_one_node_at_a_time(plane: ControlPlane, api: Api, prefix: str) -> None:
    budget(api, prefix, maxUnavailable=1)
    with sampled(plane, f"{POOL}={prefix}", Cordoned()) as seen:
        for name in NAMES:
            maintenance(api, prefix, name)
        served = [serve_one(api, prefix, left) for left in (4, 3, 2, 1, 0)]
        eventually(lambda: told_of(status(api, prefix))["used"] == 0, "all are back")
    assert sorted(served) == [f"{prefix}-{name}" for name in NAMES]
    assert seen.most == 1


def serve_one(api: Api, prefix: str, left: int) -> str:
    """End the maintenance of the node that is out of service, while so many others wait."""
    (done,) = eventually(lambda: [name for name, phase in phases(api, prefix).items() if phase == "Succeeded"], "one")
    told = {"used": 1, "allowed": 1, "waiting": left}
    eventually(lambda: told_of(status(api, prefix)) == told, f"the status says {told}")
    api.delete(NMS, done)
    eventually(lambda: done not in phases(api, prefix), "it is gone")
    return done


def told_of(said: Json) -> Json:
    return {"used": said.get("used"), "allowed": said.get("allowed"), "waiting": said.get("waiting", {}).get("count")}


def test_what_people_are_shown(plane: ControlPlane, api: Api, prefix: str) -> None:
    """A node that another client cordoned takes the place. A claim that waits names its reason."""
    api.patch("nodes", f"{prefix}-e", {"spec": {"unschedulable": True}})
    budget(api, prefix, used=1, maxUnavailable="25%")
    maintenance(api, prefix, "a")
    waiting = eventually(lambda: status(api, prefix).get("waiting", {}).get("first"), "it waits")
    assert waiting == [{"node": f"{prefix}-a", "surface": "nodemaintenance", "reason": "budget-full"}]
    assert status(api, prefix)["holders"] == [{"node": f"{prefix}-e", "reason": "Cordoned"}]
    # Its own status need not be there yet when that of the budget is.
    error = eventually(
        lambda: api.get(NMS, f"{prefix}-a").get("status", {}).get("lastError"), "the maintenance says so"
    )
    assert f"budget {prefix}: at most 1 node may be out at a time" in error
    header, line = plane.kubectl("get", "ndb", prefix).stdout.splitlines()
    assert header.split() == ["NAME", "ALLOWED", "USED", "WAITING", "PAUSED", "AGE"]
    assert line.split()[:4] == [prefix, "1", "1", "1"]
    api.patch("nodes", f"{prefix}-e", {"spec": {"unschedulable": None}})
    eventually(lambda: phases(api, prefix)[f"{prefix}-a"] == "Succeeded", "it goes")


def test_a_window_that_is_closed_and_one_that_cannot_be_read(api: Api, prefix: str) -> None:
    budget(api, prefix, windows=[{"schedule": "0 4 29 feb *", "duration": "1h", "timeZone": "Europe/Berlin"}])
    maintenance(api, prefix, "a")
    eventually(lambda: status(api, prefix).get("waiting", {}).get("count") == 1, "it waits")
    assert status(api, prefix)["nextOpening"].endswith("-02-29T03:00:00Z")
    broken = [{"days": ["Mon"], "timeZone": "Mars/Olympus"}]
    api.patch(NDBS, prefix, {"spec": {"windows": broken}})
    eventually(lambda: status(api, prefix)["conditions"][0]["status"] == "False", "it says that it is invalid")
    said = status(api, prefix)
    assert "nextOpening" not in said
    assert "unknown time zone Mars/Olympus" in said["conditions"][0]["message"]
    assert said["waiting"]["first"][0]["reason"] == "budget-invalid"
    events = eventually(
        lambda: [each for each in api.items("events.k8s.io/v1/events") if each["regarding"].get("name") == prefix],
        "told",
    )
    assert {each["reason"] for each in events} == {"BudgetInvalid"}
    api.patch(NDBS, prefix, {"spec": {"windows": None}})
    eventually(lambda: phases(api, prefix)[f"{prefix}-a"] == "Succeeded", "it goes")
    eventually(lambda: status(api, prefix)["conditions"][0]["status"] == "True", "it is valid again")


def test_while_budgets_may_not_be_read_nothing_new_is_disrupted(
    plane: ControlPlane, definitions: None, prefix: str, tmp_path: Path
) -> None:
    """The reason names the missing right; once it is given, the budget decides."""
    plane.load([node_object(f"{prefix}-a", labels={POOL: prefix})])
    api = plane.api()
    right = f'User "{prefix}" cannot list resource "nodedisruptionbudgets" in API group "haulout.dev"'
    with FaultProxy(plane) as proxy, sampled(plane, f"{POOL}={prefix}", Cordoned()) as seen:
        proxy.rule(Answer(403, message=right), path="/nodedisruptionbudgets")
        with operator_on(plane, tmp_path, proxy.url) as operator:
            maintenance(api, prefix, "a")
            error = eventually(
                lambda: api.get(NMS, f"{prefix}-a").get("status", {}).get("lastError"),
                "the maintenance says why it waits",
            )
            assert "NodeDisruptionBudgets cannot be read: " in error
            assert right in error
            eventually(
                lambda: operator.logged("budgets cannot be read, nothing new is disrupted"), "the log says so, too"
            )
            eventually(lambda: any(right in each["note"] for each in unreadable(api)), "and an event")
            assert not seen.most
            proxy.clear()
            eventually(lambda: phases(api, prefix)[f"{prefix}-a"] == "Succeeded", "it goes")
    plane.wipe(prefix)


def unreadable(api: Api) -> list[Json]:
    return [each for each in api.items("events.k8s.io/v1/events") if each["reason"] == "BudgetsUnreadable"]


CONFIG = f"""
intervals: {{requeue: 30s}}
instances:
  check:
  - {{type: hasLabel, name: go, config: {{key: {GO}}}}}
  trigger:
  - {{type: eviction, name: out, config: {{action: cordon}}}}
  - {{type: eviction, name: back, config: {{action: uncordon}}}}
  - {{type: alterLabel, name: done, config: {{key: {GO}, remove: true}}}}
profiles:
- &kernel
  name: kernel
  operational: {{transitions: [{{check: go, next: maintenance-required}}]}}
  maintenance-required: {{transitions: [{{check: go, trigger: out, next: in-maintenance}}]}}
  in-maintenance: {{transitions: [{{check: "!go", trigger: back, next: operational}}]}}
- {{<<: *kernel, name: firmware}}
"""


@pytest.fixture
def profiles(plane: ControlPlane, definitions: None, prefix: str, tmp_path: Path) -> Iterator[Platform]:
    """Five nodes that want maintenance by one profile or the other."""
    wishes = {name: "kernel" if name in "ac" else "firmware" for name in NAMES}
    plane.load(
        node_object(f"{prefix}-{name}", labels={POOL: prefix, PROFILE: profile, GO: "yes"})
        for name, profile in wishes.items()
    )
    create_budget(plane.api(), prefix, maxUnavailable=1)
    with Platform(plane, tmp_path, CONFIG, "leader: {elect: false}") as operator:
        yield operator
    plane.wipe(prefix)


def test_profiles_keep_to_it_and_explain_says_so(plane: ControlPlane, profiles: Platform, prefix: str) -> None:
    api, names = plane.api(), [f"{prefix}-{name}" for name in NAMES]
    with sampled(plane, f"{POOL}={prefix}", Cordoned()) as seen:
        eventually(lambda: told_of(status(api, prefix)) == {"used": 1, "allowed": 1, "waiting": 4}, "four wait")
        (out,) = eventually(seen.inside.copy, "one is out")
        waiting = next(name for name in names if name != out)
        words = [str(HAULOUT), "explain", waiting, "--kubeconfig", str(plane.kubeconfig())]
        explained = subprocess.run(words, cwd=profiles.directory, capture_output=True, text=True, check=False)
        assert explained.returncode == 0, explained.stderr
        assert f"budget {prefix}: at most 1 node may be out at a time" in explained.stdout
        assert f"blocked by:\n  budget {prefix}: {out} is cordoned" in explained.stdout
        done = [work_on(api, seen) for _ in names]
        eventually(lambda: told_of(status(api, prefix)) == {"used": 0, "allowed": 1, "waiting": 0}, "all are back")
    assert sorted(done) == names
    assert seen.most == 1
    assert profiles.metric(f'haulout_node_budget_allowed{{budget="{prefix}"}}') == 1


def work_on(api: Api, seen: Sampled) -> str:
    """End the maintenance of every node that is out of service."""
    (out,) = eventually(seen.inside.copy, "one is out")
    api.patch("nodes", out, {"metadata": {"labels": {GO: None}}})
    eventually(lambda: out not in seen.inside, f"{out} is back")
    return out


@pytest.mark.parametrize(
    "spec",
    [
        {"maxUnavailable": -1},
        {"maxUnavailable": "110%"},
        {"maxDomains": 0},
        {"surfaces": ["ghosts"]},
        {"windows": [{"to": "25:00"}]},
    ],
    ids=str,
)
def test_what_the_server_refuses(plane: ControlPlane, definitions: None, prefix: str, spec: Json) -> None:
    with pytest.raises(ApiError) as refused:
        create_budget(plane.api(), prefix, **spec)
    assert refused.value.code == 422
