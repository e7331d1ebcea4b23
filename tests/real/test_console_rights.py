"""What each role of people may see and do through each door of the console, on a real API server."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from haulout.acts.declared import act_names, declared_acts
from haulout.surfaces.registry import definition
from tests.build.console import Answer, ConsoleCaller, console_of
from tests.rig.api import Api, ApiError, Json
from tests.rig.clusterapi import MACHINE_DEFINITION, define
from tests.rig.fleet import node_object
from tests.rig.operator import HAULOUT, environment
from tests.rig.plane import ControlPlane
from tests.rig.process import Scratch
from tests.rig.wait import eventually

pytestmark = pytest.mark.tools("etcd", "kube-apiserver", "kubectl")

ROLES = ("viewer", "operator", "approver")
MEDIK8S, HAULOUT_DEV = "nodemaintenance.medik8s.io/v1beta1", "haulout.dev/v1alpha1"
SKYHOOK, NOTIFY = "skyhook.nvidia.com/v1alpha1", "ngn2.nvidia.com/v1alpha1"
MACHINE, CAPI = "cluster.x-k8s.io/v1beta2", "runtime-extension-maintenance-controller.cloud.sap/"
PAUSED = {"haulout.dev/paused": "noise"}
REFERENCE: Json = {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "Metal3Machine", "name": "one"}
MACHINE_SPEC: Json = {
    "clusterName": "one",
    "bootstrap": {"dataSecretName": "one"},
    "infrastructureRef": REFERENCE,
}


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """An object whose state allows some acts. `place`: its address in the API of the cluster. `status`: of NotifyMaintenances."""

    kind: str
    place: str
    spec: Json
    name: str = "one"
    ns: str = ""
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    status: str = ""

    @property
    def target(self) -> str:
        return "/".join(filter(None, (self.kind, self.ns, self.name)))


NO_NOTES: Mapping[str, str] = {}


def notice(name: str, status: str, annotations: Mapping[str, str] = NO_NOTES) -> Made:
    spec = {"nodeObject": "free", "maintenanceID": name, "maintenanceType": "planned"}
    return Made(
        kind="NotifyMaintenance",
        place=f"{NOTIFY}/notifymaintenances",
        spec=spec,
        name=name,
        ns="default",
        annotations=annotations,
        status=status,
    )


def machine(name: str, **labels: str) -> Made:
    marks = {f"{CAPI}{name}": text for name, text in labels.items()}
    place = f"{MACHINE}/machines"
    return Made(kind="Machine", place=place, spec=MACHINE_SPEC, name=name, ns="default", labels=marks)


OBJECTS = (
    Made(kind="NodeMaintenance", place=f"{MEDIK8S}/nodemaintenances", spec={"nodeName": "kept"}),
    Made(kind="NodeMaintenanceSet", place=f"{HAULOUT_DEV}/nodemaintenancesets", spec={"nodes": ["kept"]}),
    Made(
        kind="NodeDisruptionBudget",
        place=f"{HAULOUT_DEV}/nodedisruptionbudgets",
        spec={"nodeSelector": {}, "maxUnavailable": 1},
        name="night",
    ),
    Made(
        kind="NodeDisruptionBudget",
        place=f"{HAULOUT_DEV}/nodedisruptionbudgets",
        spec={"paused": {"reason": "noise", "by": "jo", "at": "2026-03-01T10:00:00Z"}},
        name="haulout-paused-noise",
    ),
    Made(kind="Skyhook", place=f"{SKYHOOK}/skyhooks", spec={"nodeSelectors": {}, "packages": {}}),
    notice("started", "MaintenanceStarted"),
    notice("drained", "ObjectsDrained"),
    notice("failed", "MaintenanceIncomplete", PAUSED),
    machine("plain", enabled="true"),
    machine("requested", enabled="true", maintenance="requested"),
    machine("approved", enabled="true", maintenance="approved"),
)
STATE = "cloud.sap/maintenance-state"
PACKAGE = {"name": "tune", "version": "1.0", "image": "i", "stage": "apply", "state": "erroring"}
# Nodes by name, with the labels and annotations that show what is going on.
NODES: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "free": ({}, {}),
    "kept": ({}, {}),
    "asked": ({STATE: "maintenance-required", f"{CAPI}machine-maintenance": "true"}, PAUSED),
    "working": (
        {STATE: "in-maintenance", "cloud.sap/maintenance-profile": "os"},
        {"skyhook.nvidia.com/nodeState_one": json.dumps({"tune|1.0": PACKAGE})},
    ),
    "left": ({}, {"haulout.dev/cordon": json.dumps({"before": False, "by": []})}),
}
# The empty target: acts about the whole cluster.
TARGETS = (*(each.target for each in OBJECTS), *(f"Node/{name}" for name in NODES), "")
# Arguments with which an act that needs some can be tried.
ARGUMENTS = {"limit": "night", "for": "1h", "profile": "os", "label": "done=yes", "nodes": "free", "max": "1"}
OF_ACT = {"start": {"profile": "fresh"}}
BUDGETS, MAINTENANCES = "nodedisruptionbudgets", "nodemaintenances"
# Kinds of information: the path, and the resources that a caller has to be allowed to list.
INFORMATION = {
    **{path: {"nodes"} for path in ("fleet", "causes", "failures", "rollouts", "installation", "works", "stream")},
    "nodes/free": {"nodes"},
    "explain/node/free": {"nodes"},
    "budgets": {BUDGETS},
    "calendar": {BUDGETS},
    "records": {"maintenancerecords"},
    "explain/ndb/night": {"nodes", BUDGETS},
    "explain/nm/one": {"nodes", MAINTENANCES},
    "explain/notifymaintenance/default/started": {"nodes", "notifymaintenances"},
}
LISTED = sorted(set[str]().union(*INFORMATION.values()))


@pytest.fixture(scope="module")
def site(scratch: Scratch) -> Iterator[ControlPlane]:
    """A control plane with objects in states that allow every act, and the roles that `haulout rbac` prints."""
    with ControlPlane(scratch.directory("console-rights")) as made:
        api = made.api()
        names = (
            "nodemaintenances",
            "nodemaintenancesets",
            BUDGETS,
            "maintenancerecords",
            "skyhooks",
            "notifymaintenances",
        )
        define(api, *(yaml.safe_load(definition(name)) for name in names), MACHINE_DEFINITION)
        made.load([node_object(name, labels=labels, annotations=notes) for name, (labels, notes) in NODES.items()])
        api.patch("nodes", "left", {"spec": {"unschedulable": True}})
        for each in OBJECTS:
            metadata = {"name": each.name, "labels": each.labels, "annotations": each.annotations}
            body = {
                "apiVersion": each.place.rpartition("/")[0],
                "kind": each.kind,
                "metadata": metadata,
                "spec": each.spec,
            }
            store(api, each.place, body, each.ns or None)
            if each.status:
                api.patch(each.place, each.name, {"status": {"maintenanceStatus": each.status}}, each.ns, sub="status")
        for role in granted_roles():
            api.create("rbac.authorization.k8s.io/v1/clusterroles", role)
        yield made


def store(api: Api, path: str, body: Json, ns: str | None) -> None:
    """Create an object as soon as its kind is served."""
    eventually(lambda: api.create(path, body, ns), f"{path} is served", refused=(ApiError,))


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
    surfaces: Json = {"nodemaintenance": {}, "packages": {}, "notify": {"config": "notify.yaml"}}
    (tmp_path / "haulout.yaml").write_text(yaml.safe_dump({"surfaces": surfaces, "leader": {"elect": False}}))
    (tmp_path / "notify.yaml").write_text(yaml.safe_dump({"slaPeriod": "1h", "operators": {}}))
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
    kind, _, place = target.partition("/")
    namespace, _, name = place.rpartition("/")
    known = {**ARGUMENTS, **OF_ACT.get(offer["act"], {})}
    needed = {each["name"]: known[each["name"]] for each in offer["arguments"] if each["required"]}
    args = {**needed, **({"with": offer["with"]} if offer["with"] else {})}
    body = {
        "act": offer["act"],
        "target": {"kind": kind, "namespace": namespace, "name": name},
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
        for offer in caller.read(f"acts/{target}".rstrip("/"))["acts"]:
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
    assert {act for act, _ in seen} == set(act_names())
    statuses = {status for _, status in seen}
    assert statuses == {403} if role == "viewer" else 200 in statuses
    acts = caller.read("whoami")["acts"]
    assert not [name for name, each in acts.items() if each["allowed"]] or role != "viewer"
    assert {name: each["allowed"] for name, each in acts.items()}["override"] is (role == "approver")
    assert not [each for each in site.audit.counts(since=since) if each.startswith("impersonate")]
    for each in OBJECTS:
        assert "deletionTimestamp" not in site.api().get(each.place, each.name, each.ns or None)["metadata"]


def await_rights(caller: ConsoleCaller) -> None:
    eventually(lambda: caller.get("nodes/free").status == 200, "the rights of a new user count")


def expanded(rights: set[tuple[str, str, str]]) -> list[Json]:
    return [{"apiGroups": [group], "resources": [resource], "verbs": [verb]} for group, resource, verb in rights]


# Every right that an act needs, except for the kind that this cluster does not serve.
NEEDED = {
    (need.endpoint.group, need.endpoint.resource, need.verb)
    for each in declared_acts()
    for need in each.act.needs
    if need.endpoint.resource != "nodewrights"
}


def test_who_lacks_one_right_lacks_the_acts_that_need_it_and_no_others(enter: Any, site: ControlPlane) -> None:
    everything = granted("operator") | granted("approver")
    caller = enter("test", "bearer")
    eventually(lambda: caller.get("nodes/free").status == 200, "the fleet is known")
    assert everything >= NEEDED
    refused = set()
    for lacking in sorted(NEEDED):
        user = site.limited_user(expanded(everything - {lacking}))
        one = ConsoleCaller(caller.port, token=site.token(user))
        await_rights(one)
        for target in TARGETS:
            for offer in one.read(f"acts/{target}".rstrip("/"))["acts"]:
                if offer["why"] or offer["allowed"]:
                    continue
                missing = offer["missing"]
                assert (missing["group"], missing["resource"], missing["verb"]) == lacking, (target, offer)
                answer = tried(one, target, offer)
                assert (answer.status, answer.json["code"]) == (403, "missing-right"), (target, offer, answer.body)
                refused.add(lacking)
    assert refused == NEEDED


@pytest.mark.parametrize("door", ["local", "bearer"])
def test_a_role_of_people_sees_everything(door: str, enter: Any, site: ControlPlane) -> None:
    caller = enter(person(site, "viewer"), door)
    eventually(lambda: caller.get("nodes/free").status == 200, "the fleet is known")
    found = {path: caller.get(path).status for path in INFORMATION if path != "stream"}
    assert set(found.values()) == {200}, found


@pytest.mark.parametrize("lacking", LISTED)
def test_who_may_not_list_a_kind_is_refused_by_its_name_and_sees_the_rest(
    lacking: str, enter: Any, site: ControlPlane
) -> None:
    rights = {right for right in granted("viewer") if right[1:] != (lacking, "list")}
    caller = enter(site.limited_user(expanded(rights)), "bearer")
    # These answer once everything is listed.
    settled = {"nodes": "calendar"}.get(lacking, "nodes/free")
    eventually(lambda: caller.get(settled).status == 200, "the rights count, and the fleet is known")
    for path, wanted in INFORMATION.items():
        if path == "stream" and lacking not in wanted:
            continue
        answer = caller.get(path)
        assert answer.status == (403 if lacking in wanted else 200), (path, answer.body)
        if lacking in wanted:
            assert (answer.json["verb"], answer.json["resource"]) == ("list", lacking), path
            assert lacking in answer.json["detail"]


def test_who_may_do_nothing_is_told_the_first_right_that_is_missing(enter: Any, site: ControlPlane) -> None:
    nobody = enter(site.limited_user([]), "bearer")
    for path, wanted in INFORMATION.items():
        refused = nobody.get(path)
        assert refused.status == 403, path
        assert refused.json["resource"] in wanted, path


def test_an_account_that_is_deleted_loses_its_open_stream(enter: Any, site: ControlPlane) -> None:
    api, group = site.api(), "rbac.authorization.k8s.io"
    api.create("serviceaccounts", {"metadata": {"name": "guest"}}, "default")
    subject = {"kind": "ServiceAccount", "name": "guest", "namespace": "default"}
    role = {"apiGroup": group, "kind": "ClusterRole", "name": "haulout-console-viewer"}
    api.create(
        f"{group}/v1/clusterrolebindings", {"metadata": {"name": "guest"}, "roleRef": role, "subjects": [subject]}
    )
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = api.request("POST", "/api/v1/namespaces/default/serviceaccounts/guest/token", asked)["status"]["token"]
    caller = ConsoleCaller(enter("test", "bearer").port, token=token)
    eventually(lambda: caller.get("fleet").status == 200, "the account may look")
    events = caller.events()
    next(events)
    api.delete("serviceaccounts", "guest", "default")
    # Without an end of the stream, this would not return.
    deque(events, maxlen=0)
    assert caller.get("fleet").status == 401
