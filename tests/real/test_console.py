"""The console before a real API server: people with rights of their own, and an API server that goes away."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from haulout.acts.prepare import LONGEST_SHOWN
from haulout.surfaces.registry import definition
from tests.build.console import ConsoleCaller, console_of
from tests.rig.api import Api, Json
from tests.rig.fleet import node_object
from tests.rig.forwarder import Forwarder
from tests.rig.operator import HAULOUT, environment
from tests.rig.plane import ControlPlane
from tests.rig.process import Scratch
from tests.rig.wait import eventually

pytestmark = pytest.mark.tools("etcd", "kube-apiserver", "kubectl")

SETTINGS = {"surfaces": {"nodemaintenance": {}}, "leader": {"elect": False}}
ZONE = "topology.kubernetes.io/zone"
READ = ["get", "list", "watch"]
NODES: Json = {"apiGroups": [""], "resources": ["nodes"], "verbs": READ}
PODS: Json = {"apiGroups": [""], "resources": ["pods"], "verbs": READ}
OURS: Json = {"apiGroups": ["haulout.dev"], "resources": ["*"], "verbs": READ}
MAINTENANCES: Json = {"apiGroups": ["nodemaintenance.medik8s.io"], "resources": ["*"], "verbs": READ}
PDBS: Json = {"apiGroups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": READ}
START: Json = {"apiGroups": ["nodemaintenance.medik8s.io"], "resources": ["nodemaintenances"], "verbs": ["create"]}
BODY = {"act": "start", "target": {"kind": "Node", "name": "free"}, "args": {"with": "nodemaintenance"}}
EVIL = "<img src=x onerror=alert(1)>\x1b]8;;http://evil.example\x07 javascript:alert(2) " + "W" * 300


@pytest.fixture(scope="module")
def site(scratch: Scratch) -> Iterator[ControlPlane]:
    """A control plane with a node in maintenance whose pod a PodDisruptionBudget keeps, and one node that is free."""
    with ControlPlane(scratch.directory("console")) as made:
        api = made.api()
        for name in ("nodemaintenances", "nodedisruptionbudgets", "maintenancerecords"):
            api.create("apiextensions.k8s.io/v1/customresourcedefinitions", yaml.safe_load(definition(name)))
        made.load([node_object("kept", labels={ZONE: "a"}), node_object("free", labels={ZONE: "b"})])
        for name in ("shop", "medik8s-leases"):
            api.create("namespaces", {"metadata": {"name": name}})
        spec = {"nodeName": "kept", "containers": [{"name": "c", "image": "x"}]}
        api.create("pods", {"metadata": {"name": "cart-0", "labels": {"app": "cart"}}, "spec": spec}, "shop")
        budget = {"selector": {"matchLabels": {"app": "cart"}}, "maxUnavailable": 0}
        api.create("policy/v1/poddisruptionbudgets", {"metadata": {"name": "cart"}, "spec": budget}, "shop")
        maintenances = "nodemaintenance.medik8s.io/v1beta1/nodemaintenances"
        eventually(lambda: maintain(api, maintenances), "the definition is served", refused=(Exception,))
        yield made


def maintain(api: Api, path: str) -> bool:
    kind = {"apiVersion": "nodemaintenance.medik8s.io/v1beta1", "kind": "NodeMaintenance"}
    api.create(path, {**kind, "metadata": {"name": "hands-on"}, "spec": {"nodeName": "kept", "reason": EVIL}})
    return True


@pytest.fixture
def start(site: ControlPlane, tmp_path: Path) -> Iterator[Any]:
    (tmp_path / "haulout.yaml").write_text(yaml.safe_dump(SETTINGS))
    with contextlib.ExitStack() as stack:

        def started(*words: str, server: str | None = None) -> ConsoleCaller:
            env = environment(KUBECONFIG=str(site.kubeconfig(server=server)))
            argv = [str(HAULOUT), "console", "--no-open", *words]
            process = subprocess.Popen(
                argv, cwd=tmp_path, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
            return stack.enter_context(console_of(process))

        yield started


def listed(caller: ConsoleCaller) -> Any:
    fleet = caller.read("fleet")
    return fleet if set(fleet["tables"].values()) == {"listed"} and fleet["nodes"] else None


def as_user(door: ConsoleCaller, site: ControlPlane, *rules: Json, shop: list[Json] | None = None) -> ConsoleCaller:
    """Return the console as a new user with these rights sees it. `shop`: further ones in that namespace."""
    user = site.limited_user(list(rules))
    if shop:
        api, group = site.api(), "rbac.authorization.k8s.io"
        api.create(f"{group}/v1/roles", {"metadata": {"name": user}, "rules": shop}, "shop")
        reference = {"apiGroup": group, "kind": "Role", "name": user}
        subjects = [{"apiGroup": group, "kind": "User", "name": user}]
        body = {"metadata": {"name": user}, "roleRef": reference, "subjects": subjects}
        api.create(f"{group}/v1/rolebindings", body, "shop")
    caller = ConsoleCaller(door.port, token=site.token(user))
    if NODES in rules:
        eventually(lambda: caller.get("fleet").status == 200, f"the rights of {user} count")
    return caller


def test_each_kind_of_information_has_its_right(start: Any, site: ControlPlane) -> None:
    door = start("--door", "bearer", "--behind-proxy")
    whole = as_user(door, site, NODES, PODS, OURS, MAINTENANCES, PDBS)
    eventually(lambda: listed(whole), "everything is listed")
    assert [(pod["namespace"], pod["name"]) for pod in whole.read("nodes/kept")["pods"]] == [("shop", "cart-0")]
    nobody = as_user(door, site)
    for path, resource in (("fleet", "nodes"), ("stream", "nodes"), ("causes", "nodes"), ("nodes/kept", "nodes")):
        refused = nobody.get(path)
        assert (refused.status, refused.json["resource"], refused.json["verb"]) == (403, resource, "list")
        assert b"cart" not in refused.body
    assert nobody.get("budgets").json["resource"] == "nodedisruptionbudgets"
    assert nobody.get("records").json["resource"] == "maintenancerecords"
    half = as_user(door, site, NODES, OURS, MAINTENANCES)
    hidden = "a pod that you may not read: needs list pods in shop"
    assert [(pod["name"], pod["text"]) for pod in half.read("nodes/kept")["pods"]] == [("", hidden)]
    for path in ("fleet", "causes", "works", "nodes/kept", "explain/node/kept", "explain/nm/hands-on", "failures"):
        assert b"cart" not in half.get(path).body, path
    there = as_user(door, site, NODES, OURS, MAINTENANCES, PDBS, shop=[PODS])
    assert [pod["name"] for pod in there.read("nodes/kept")["pods"]] == ["cart-0"]
    blind = as_user(door, site, NODES, PODS, PDBS)
    assert b"hands-on" not in blind.get("works").body + blind.get("causes").body
    assert blind.get("explain/nm/hands-on").json["resource"] == "nodemaintenances"


def texts(document: Any) -> Iterator[str]:
    match document:
        case str():
            yield document
        case dict():
            yield from (text for value in document.values() for text in texts(value))
        case list():
            yield from (text for value in document for text in texts(value))


ANSWERS = (
    *("fleet", "causes", "failures", "budgets", "works", "records", "nodes/odd", "explain/node/odd", "explain/nm/odd"),
    *("acts/Node/odd", "acts/NodeMaintenance/odd", "acts"),
)


@contextlib.contextmanager
def odd_objects(api: Api) -> Iterator[None]:
    """Create objects with texts that break careless pages, and delete them afterwards."""
    long = EVIL + "W" * 200_000
    annotations = {"haulout.dev/paused": long, "haulout.dev/paused-by": EVIL}
    api.create("nodes", {"metadata": {"name": "odd", "annotations": annotations}})
    medik8s = "nodemaintenance.medik8s.io/v1beta1"
    body = {"metadata": {"name": "odd", "annotations": annotations}, "spec": {"nodeName": "odd", "reason": EVIL}}
    api.create(f"{medik8s}/nodemaintenances", {"apiVersion": medik8s, "kind": "NodeMaintenance", **body})
    spec = {"nodeName": "odd", "containers": [{"name": "c", "image": "x"}]}
    api.create("pods", {"metadata": {"name": "odd", "annotations": {"example.com/a": long}}, "spec": spec}, "shop")
    api.patch("pods", "odd", {"status": {"message": "M" * 2**20, "reason": EVIL}}, "shop", sub="status")
    times = {"begunAt": "2026-03-01T10:00:00Z"}
    record = {"node": {"name": "odd", "uid": "u"}, "surface": "nodemaintenance", "reason": EVIL, **times}
    group = "haulout.dev/v1alpha1"
    made = {"apiVersion": group, "kind": "MaintenanceRecord", "metadata": {"name": "odd"}, "spec": record}
    api.create(f"{group}/maintenancerecords", made)
    try:
        yield
    finally:
        api.delete(f"{medik8s}/nodemaintenances", "odd")
        api.delete("pods", "odd", "shop")
        api.delete("nodes", "odd")


def test_texts_of_objects_stay_texts_and_have_an_end(start: Any, site: ControlPlane) -> None:
    caller = start()
    caller.login()
    eventually(lambda: listed(caller), "everything is listed")
    events = caller.events(caller.read("fleet")["seq"])
    with odd_objects(site.api()):
        see_odd_objects(caller, events)
    events.close()


def see_odd_objects(caller: ConsoleCaller, events: Iterator[tuple[str, Any]]) -> None:
    eventually(lambda: caller.rows().get("odd", {}).get("cause"), "the cause is known")
    eventually(lambda: [pod for pod in caller.read("nodes/odd")["pods"] if pod["name"] == "odd"], "the pod is known")
    for path in ANSWERS:
        answer = caller.get(path)
        assert answer.status == 200, path
        assert answer.headers["Content-Type"].startswith("application/json")
        assert b"\x1b" not in answer.body, path
        assert max(map(len, texts(answer.json)), default=0) <= LONGEST_SHOWN, path
    reasons = [each["spec"]["reason"] for each in caller.read("records?node=odd")["records"]]
    assert reasons == [EVIL]
    assert any(EVIL in text for text in texts(caller.read("nodes/odd")))
    told = next(data for name, data in events if name == "rows" and "odd" in [row["name"] for row in data["set"]])
    assert max(map(len, texts(told)), default=0) <= LONGEST_SHOWN


def test_an_act_needs_the_right_of_its_caller(start: Any, site: ControlPlane) -> None:
    door = start("--door", "bearer", "--behind-proxy")
    viewer = as_user(door, site, NODES, PODS, OURS, MAINTENANCES)
    doer = as_user(door, site, NODES, PODS, OURS, MAINTENANCES, START)
    refused = viewer.ask("POST", "/api/v1/acts", BODY)
    assert (refused.status, refused.json["code"]) == (403, "missing-right")
    assert (refused.json["verb"], refused.json["resource"]) == ("create", "nodemaintenances")
    assert not viewer.read("whoami")["acts"]["start"]["allowed"]
    assert doer.read("whoami")["acts"]["start"]["allowed"]
    since = site.audit.mark()
    done = doer.ask("POST", "/api/v1/acts", {**BODY, "dryRun": True})
    assert done.status == 200, done.body
    assert site.audit.counts(since=since, user="operator").get("create nodemaintenances", 0) == 0


def test_a_token_that_ends_closes_the_door(start: Any, site: ControlPlane) -> None:
    door = start("--door", "bearer", "--behind-proxy")
    for token in ("", "x", "null", "x" * 20_000, site.token("test")[:-3]):
        caller = ConsoleCaller(door.port, token=token)
        assert caller.get("fleet").status == 401
        assert caller.ask("POST", "/api/v1/login", {"secret": ""}).status in (401, 404)


def test_an_api_server_that_goes_away_leaves_the_last_picture(start: Any, site: ControlPlane) -> None:
    with Forwarder(site.api("operator").server) as between:
        caller = start(server=between.url)
        caller.login()
        before = eventually(lambda: listed(caller), "everything is listed")
        between.refuse()
        between.forget()
        stale = eventually(lambda: None if listed(caller) else caller.read("fleet"), "the outage is shown")
        assert {text.partition(":")[0] for text in stale["tables"].values()} == {"unreadable"}
        assert [row["name"] for row in stale["nodes"]] == [row["name"] for row in before["nodes"]]
        site.api().patch("nodes", "free", {"metadata": {"labels": {ZONE: "c"}}})
        time.sleep(12)
        later = caller.read("fleet")
        assert later["at"] == stale["at"]
        assert all(row["safeToWork"] is not True for row in later["nodes"])
        between.accept()
        again = eventually(lambda: listed(caller), "everything is listed again")
        assert again["at"] > stale["at"]
        assert {row["name"]: row["labels"][ZONE] for row in again["nodes"]}["free"] == "c"
        site.api().patch("nodes", "free", {"metadata": {"labels": {ZONE: "b"}}})


def test_in_an_outage_the_bearer_door_keeps_those_inside_and_lets_no_one_new_in(start: Any, site: ControlPlane) -> None:
    with Forwarder(site.api("operator").server) as between:
        between.refuse()
        # The console starts while nothing answers, and goes on by itself.
        door = start("--door", "bearer", "--behind-proxy", server=between.url)
        known = ConsoleCaller(door.port, token=site.token("test"))
        assert (known.get("fleet").status, known.get("fleet").json["code"]) == (503, "no-answer")
        between.accept()
        eventually(lambda: known.get("fleet").status == 200 and listed(known), "everything is listed")
        assert known.read("whoami")["acts"]["start"]["allowed"] is True
        between.freeze()
        stale = eventually(lambda: None if listed(known) else known.read("fleet"), "the outage is shown")
        assert {row["name"] for row in stale["nodes"]} >= {"free", "kept"}
        assert {each["allowed"] for each in known.read("whoami")["acts"].values()} == {None}
        assert known.read("nodes/kept")["row"]["name"] == "kept"
        assert known.get("records").json["code"] == "no-answer"
        refused = ConsoleCaller(door.port, token=site.token("operator")).get("fleet")
        assert (refused.status, refused.json["code"]) == (503, "no-answer")
        between.thaw()
        eventually(lambda: listed(known), "everything is listed again")
        assert known.read("whoami")["acts"]["start"]["allowed"] is True
