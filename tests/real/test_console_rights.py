"""What each role of people may see and do through each door of the console, on a real API server."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from haulout.core.cordon import ANNOTATION as LEDGER
from haulout.core.pause import ANNOTATION
from haulout.surfaces.packages.node import names
from haulout.surfaces.profiles.wire import STATE_LABEL
from haulout.surfaces.registry import definition
from tests.build.console import Answer, ConsoleCaller, console_of
from tests.rig.api import Api, ApiError, Json
from tests.rig.fleet import node_object
from tests.rig.operator import HAULOUT, environment
from tests.rig.plane import ControlPlane
from tests.rig.process import Scratch
from tests.rig.wait import eventually

pytestmark = pytest.mark.tools("etcd", "kube-apiserver", "kubectl")

ROLES = ("viewer", "operator", "approver")
READERS: Json = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]}
MEDIK8S, HAULOUT_DEV = "nodemaintenance.medik8s.io/v1beta1", "haulout.dev/v1alpha1"
SKYHOOK, NOTIFY = "skyhook.nvidia.com/v1alpha1", "ngn2.nvidia.com/v1"
FAILING = {"name": "base", "version": "1.0", "image": "registry.example/base", "stage": "apply", "state": "erroring"}
# Kind, address in the API of the cluster, and specification.
OBJECTS: tuple[tuple[str, str, Json], ...] = (
    ("NodeMaintenance", f"{MEDIK8S}/nodemaintenances", {"nodeName": "kept"}),
    ("NodeMaintenanceSet", f"{HAULOUT_DEV}/nodemaintenancesets", {"nodes": ["kept"]}),
    ("NodeDisruptionBudget", f"{HAULOUT_DEV}/nodedisruptionbudgets", {"nodeSelector": {}, "maxUnavailable": 1}),
    ("Skyhook", f"{SKYHOOK}/skyhooks", {"nodeSelectors": {}, "packages": {}}),
)
# What a node shows for which an act is possible, by the name of the node.
NODES: dict[str, Json] = {
    "kept": {},
    "free": {},
    "asked": {"labels": {STATE_LABEL: "maintenance-required"}},
    "worked": {"labels": {STATE_LABEL: "in-maintenance"}},
    "halted": {"annotations": {ANNOTATION: "disk"}},
    "left": {"annotations": {LEDGER: "{}"}, "unschedulable": True},
    "failing": {"annotations": {names.node_state("one"): json.dumps({"base|1.0": FAILING})}},
}
TARGETS = (*(f"{kind}/one" for kind, _, _ in OBJECTS), *(f"Node/{name}" for name in NODES if name != "kept"))
ACTS = {"start", "pause", "resume", "approve", "finish", "retry", "rerun", "cancel", "override", "let-go"}
# Arguments with which an act that needs some can be tried.
ARGUMENTS = {"limit": "one", "for": "1h", "profile": "os", "label": "approved=yes", "nodes": "free", "max": "1"}
# Kinds of information: the path, and the resource that a caller has to be allowed to list.
INFORMATION = {
    "fleet": "nodes",
    "causes": "nodes",
    "failures": "nodes",
    "rollouts": "nodes",
    "installation": "nodes",
    "works": "nodes",
    "stream": "nodes",
    "nodes/free": "nodes",
    "explain/node/free": "nodes",
    "budgets": "nodedisruptionbudgets",
    "calendar": "nodedisruptionbudgets",
    "records": "maintenancerecords",
    "explain/ndb/one": "nodedisruptionbudgets",
    "explain/nm/one": "nodemaintenances",
}


@pytest.fixture(scope="module")
def site(scratch: Scratch) -> Iterator[ControlPlane]:
    """A control plane with one object of each kind that has acts, and the roles that `haulout rbac` prints."""
    with ControlPlane(scratch.directory("console-rights")) as made:
        api = made.api()
        for name in (
            "nodemaintenances",
            "nodemaintenancesets",
            "nodedisruptionbudgets",
            "maintenancerecords",
            "skyhooks",
        ):
            api.create("apiextensions.k8s.io/v1/customresourcedefinitions", yaml.safe_load(definition(name)))
        made.load([node_object(name, **fields) for name, fields in NODES.items()])
        for kind, path, spec in OBJECTS:
            store(
                api,
                path,
                {"apiVersion": path.rpartition("/")[0], "kind": kind, "metadata": {"name": "one"}, "spec": spec},
            )
        for role in granted_roles():
            api.create("rbac.authorization.k8s.io/v1/clusterroles", role)
        yield made


def store(api: Api, path: str, body: Json) -> None:
    """Create an object as soon as its kind is served."""
    eventually(lambda: api.create(path, body), f"{path} is served", refused=(ApiError,))


def granted_roles() -> list[Json]:
    words = [f"console-{role}" for role in ROLES]
    done = subprocess.run([str(HAULOUT), "rbac", *words], text=True, capture_output=True, check=True, timeout=60)
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def granted(role: str) -> set[tuple[str, str, str]]:
    """Return the rights of a role, each as group, resource and verb."""
    (found,) = (each for each in granted_roles() if each["metadata"]["name"] == f"haulout-console-{role}")
    return {
        (group, resource, verb)
        for rule in found["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def person(site: ControlPlane, role: str) -> str:
    """Return a new user who has the role and nothing else."""
    user = site.limited_user([])
    group = "rbac.authorization.k8s.io"
    body = {
        "metadata": {"name": f"{user}-{role}"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": f"haulout-console-{role}"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    }
    site.api().create(f"{group}/v1/clusterrolebindings", body)
    return user


@pytest.fixture
def enter(site: ControlPlane, tmp_path: Path) -> Iterator[Any]:
    """Let a user into a console through a door."""
    (tmp_path / "haulout.yaml").write_text(
        yaml.safe_dump({"surfaces": {"nodemaintenance": {}, "packages": {}}, "leader": {"elect": False}})
    )
    with contextlib.ExitStack() as stack:

        def started(user: str, *words: str) -> ConsoleCaller:
            env = environment(KUBECONFIG=str(site.kubeconfig(user)))
            argv = [str(HAULOUT), "console", "--no-open", *words]
            process = subprocess.Popen(
                argv, cwd=tmp_path, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
            return stack.enter_context(console_of(process))

        def entered(user: str, door: str) -> ConsoleCaller:
            if door == "local":
                caller = started(user)
                caller.login()
                return caller
            own = started("operator", "--door", "bearer", "--behind-proxy")
            return ConsoleCaller(own.port, token=site.token(user))

        yield entered


def tried(caller: ConsoleCaller, target: str, offer: Json) -> Answer:
    """Try an act that is offered for an object, without storing anything."""
    kind, name = target.split("/")
    needed = {each["name"]: ARGUMENTS[each["name"]] for each in offer["arguments"] if each["required"]}
    args = {**needed, **({"with": offer["with"]} if offer["with"] else {})}
    body = {
        "act": offer["act"],
        "target": {"kind": kind, "name": name},
        "args": args,
        "reason": "a try",
        "dryRun": True,
    }
    return caller.ask("POST", "/api/v1/acts", body)


@pytest.mark.parametrize("door", ["local", "bearer"])
@pytest.mark.parametrize("role", ROLES)
def test_an_act_is_done_with_its_right_and_refused_by_name_without(
    role: str, door: str, enter: Any, site: ControlPlane
) -> None:
    caller, rights = enter(person(site, role), door), granted(role)
    eventually(lambda: caller.get("nodes/free").status == 200, "the fleet is known")
    seen, since = set(), site.audit.mark()
    for target in TARGETS:
        for offer in caller.read(f"acts/{target}")["acts"]:
            if not offer["allowed"]:
                missing = offer["missing"]
                assert (missing["group"], missing["resource"], missing["verb"]) not in rights, (target, offer)
            if offer["why"]:
                continue
            answer = tried(caller, target, offer)
            seen.add((offer["act"], answer.status))
            if offer["allowed"]:
                assert answer.status == 200, (target, offer, answer.body)
            else:
                assert (answer.status, answer.json["code"]) == (403, "missing-right"), (target, offer, answer.body)
                named = {name: answer.json[name] for name in ("verb", "group", "resource", "namespace")}
                assert named == offer["missing"]
                assert named["verb"] in answer.json["detail"]
                assert named["resource"] in answer.json["detail"]
    assert {act for act, _ in seen} == ACTS
    statuses = {status for _, status in seen}
    assert statuses == {403} if role == "viewer" else 200 in statuses
    acts = caller.read("whoami")["acts"]
    assert not [name for name, each in acts.items() if each["allowed"]] or role != "viewer"
    assert {name: each["allowed"] for name, each in acts.items()}["override"] is (role == "approver")
    assert not [each for each in site.audit.counts(since=since) if each.startswith("impersonate")]
    assert [site.api().get(path, "one")["metadata"]["name"] for _, path, _ in OBJECTS] == ["one"] * len(OBJECTS)


@pytest.mark.parametrize("door", ["local", "bearer"])
def test_a_role_of_people_sees_everything(door: str, enter: Any, site: ControlPlane) -> None:
    caller = enter(person(site, "viewer"), door)
    eventually(lambda: caller.get("nodes/free").status == 200, "the fleet is known")
    found = {path: caller.get(path).status for path in INFORMATION if path != "stream"}
    assert set(found.values()) == {200}, found


def test_each_kind_of_information_names_the_right_that_is_missing(enter: Any, site: ControlPlane) -> None:
    nobody = enter(site.limited_user([]), "bearer")
    for path, resource in INFORMATION.items():
        refused = nobody.get(path)
        assert refused.status == 403, path
        assert refused.json["verb"] == "list"
        assert refused.json["resource"] in (resource, "nodes"), path
        assert resource in refused.json["detail"] or "nodes" in refused.json["detail"]
