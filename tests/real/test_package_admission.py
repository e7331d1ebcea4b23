"""Skyhooks and DeploymentPolicies on the real API server: their webhooks, their certificate, columns and command line."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from haulout.app.webhooks import Certificates
from haulout.cli.skyhook.command import main
from haulout.surfaces.packages.admit import webhooks
from haulout.surfaces.packages.groups import GROUPS, NODEWRIGHT
from haulout.surfaces.packages.wire import RESOURCES, skyhook_key
from haulout.surfaces.packages.wire_policy import POLICY_RESOURCES
from tests.rig.api import CRDS, Api, ApiError, Json
from tests.rig.fleet import node_object
from tests.rig.hooks import Hooks
from tests.rig.plane import ControlPlane, tool
from tests.rig.rights import printed
from tests.rig.wait import eventually

pytestmark = pytest.mark.tools("etcd", "kube-apiserver", "kubectl")

SKYHOOKS, POLICIES = (f"skyhook.nvidia.com/v1alpha1/{plural}" for plural in ("skyhooks", "deploymentpolicies"))
NODEWRIGHTS = "nodewright.nvidia.com/v1alpha1/nodewrights"
REGISTRATIONS = {
    kind: f"admissionregistration.k8s.io/v1/{kind.lower()}s"
    for kind in ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")
}
SECRET, SERVICE = "webhook-cert", "skyhook-operator-webhook-service"
P = "skyhook.nvidia.com/"


@pytest.fixture(scope="module")
def definitions(plane: ControlPlane) -> None:
    api = plane.api()
    for crd in printed("crds", "packages"):
        if api.find(CRDS, crd["metadata"]["name"]) is None:
            api.create(CRDS, crd)
    for path in (SKYHOOKS, POLICIES, NODEWRIGHTS):
        eventually(lambda path=path: plane.api().items(path) is not None, f"{path} is served", refused=(ApiError,))  # type: ignore[misc]


@pytest.fixture
def hooks(plane: ControlPlane, namespace: str, definitions: None) -> Iterator[Hooks]:
    """The webhooks, registered as an older operator leaves it: without an authority, and for deletions alone."""
    given = Certificates(skyhook=True, namespace=namespace, service=SERVICE, secret=SECRET)
    resources = (*RESOURCES, *POLICY_RESOURCES)
    made = Hooks(
        plane.kubeconfig(), webhooks(), given, kinds=tuple(each.kind for each in resources), resources=resources
    )
    api = plane.api()
    registered = printed("webhooks", "packages", "--url", made.url)
    registered[1]["webhooks"][1]["rules"][0]["operations"] = ["DELETE"]
    for each in registered:
        api.create(REGISTRATIONS[each["kind"]], each)
    try:
        with made:
            eventually(lambda: "both percent" in refusal(api, SKYHOOKS, bad_skyhook()), "the webhooks are asked")
            yield made
    finally:
        for each in registered:
            api.delete(REGISTRATIONS[each["kind"]], each["metadata"]["name"])


def skyhook(name: str, **spec: Any) -> Json:
    return {"apiVersion": f"{P}v1alpha1", "kind": "Skyhook", "metadata": {"name": name}, "spec": spec}


def bad_skyhook() -> Json:
    return skyhook("bad", interruptionBudget={"percent": 1, "count": 1})


def policy(name: str, **spec: Any) -> Json:
    return {**skyhook(name, **spec), "kind": "DeploymentPolicy"}


def created(api: Api, path: str, body: Json) -> Json:
    """Return the object as the server would store it."""
    answer: Json = api.request("POST", f"/apis/{path}", body, query={"dryRun": "All"})
    return answer


def refusal(api: Api, path: str, body: Json) -> str:
    try:
        created(api, path, body)
    except ApiError as error:
        return f"{error.code} {error.message}"
    return ""


def test_objects_are_completed_and_checked(plane: ControlPlane, hooks: Hooks, namespace: str) -> None:
    api = plane.api()
    package = {"version": "1.0.0", "image": "r.test:5000/x/y:other"}
    stored = created(api, SKYHOOKS, skyhook("good", packages={"aa": package}))
    assert stored["spec"]["packages"]["aa"] == {"name": "aa", "version": "1.0.0", "image": "r.test:5000/x/y"}
    stored = created(api, POLICIES, policy("p", default={"budget": {"count": 1}, "strategy": {"linear": {}}}))
    expected = {"initialBatch": 1, "batchThreshold": 100, "safetyLimit": 50, "delta": 1}
    assert stored["spec"]["default"]["strategy"] == {"linear": expected}
    # The name comes from the mutating webhook, the refusal from the schema.
    assert refusal(api, SKYHOOKS, skyhook("bad", packages={"11": package})).startswith("422 ")
    assert "spec.packages.aa.image" in refusal(api, SKYHOOKS, skyhook("bad", packages={"aa": {"version": "1"}}))
    denied = 'admission webhook "validate-skyhook.nvidia.com" denied the request: '
    missing = refusal(api, SKYHOOKS, skyhook("bad", deploymentPolicy="ghost"))
    assert missing == f'403 {denied}deploymentPolicy "ghost" not found'
    denied = 'admission webhook "validate-deploymentpolicy.nvidia.com" denied the request: '
    eventually(
        lambda: (
            refusal(api, POLICIES, policy("p", default={"strategy": {"fixed": {}}}))
            == f"403 {denied}default budget: exactly one of percent or count must be set"
        ),
        "what is reviewed was put right",
    )


def test_a_policy_in_use_stays(plane: ControlPlane, hooks: Hooks, namespace: str) -> None:
    api, name = plane.api(), f"{namespace}-careful"
    api.create(POLICIES, policy(name, default={"budget": {"count": 1}, "strategy": {"fixed": {}}}))
    # Found although the policy may not have been seen yet.
    api.create(SKYHOOKS, skyhook(f"{namespace}-a", deploymentPolicy=name))
    eventually(lambda: hooks.store.row(skyhook_key(f"{namespace}-a")), "the Skyhook is known")
    with pytest.raises(ApiError, match=rf"still referenced by 1 Skyhook\(s\): \[{namespace}-a\]"):
        api.delete(POLICIES, name)
    api.delete(SKYHOOKS, f"{namespace}-a")
    api.delete(POLICIES, name)


def nodewright(name: str, **spec: Any) -> Json:
    return {"apiVersion": NODEWRIGHT.api_version, "kind": "NodeWright", "metadata": {"name": name}, "spec": spec}


def warnings(plane: ControlPlane, *words: str, stdin: str | None = None) -> str:
    """Run kubectl. Return the warnings of the API server."""
    return plane.kubectl(*words, stdin=stdin).stderr


def test_the_image_of_a_nodewright_has_no_tag_and_that_of_a_skyhook_loses_it(
    plane: ControlPlane, hooks: Hooks, namespace: str
) -> None:
    api = plane.api()
    tagged, bare = ({"aa": {"version": "1.0.0", "image": image}} for image in ("reg:5000/a/b:1", "reg:5000/a/b"))
    eventually(
        lambda: refusal(api, NODEWRIGHTS, nodewright("x", packages=tagged)), "the webhooks of NodeWrights are asked"
    )
    assert refusal(api, NODEWRIGHTS, nodewright("x", packages=tagged)).endswith(
        "denied the request: validating NodeWright \"x\": error package aa's image 'reg:5000/a/b:1' contains an inline tag"
        " '1'. Do not embed a tag in the image; the package version supplies the tag"
    )
    for path, body in ((NODEWRIGHTS, nodewright("x", packages=bare)), (SKYHOOKS, skyhook("x", packages=tagged))):
        assert created(api, path, body)["spec"]["packages"]["aa"]["image"] == "reg:5000/a/b"
    text = warnings(plane, "create", "--dry-run=server", "-f", "-", stdin=json.dumps(skyhook("x", packages=tagged)))
    assert "Warning: error package aa's image tag was set to '1' for 'reg:5000/a/b:1'" in text


def test_each_write_of_an_object_that_is_not_in_force_is_warned_of(
    plane: ControlPlane, hooks: Hooks, namespace: str
) -> None:
    api, name = plane.api(), f"{namespace}-pair"
    packages = {"aa": {"version": "1.0.0", "image": "reg.test/aa"}}
    api.create(SKYHOOKS, skyhook(name, packages=packages))
    api.create(NODEWRIGHTS, nodewright(name, packages={"aa": {**packages["aa"], "version": "1.1.0"}}))
    for group in GROUPS:
        eventually(lambda group=group: hooks.store.row(skyhook_key(name, group)), "both are known")  # type: ignore[misc]
    text = f"Warning: the spec of NodeWright {name} (nodewright.nvidia.com) is in force, which differs from this one"
    assert text in warnings(plane, "annotate", "skyhook", name, "a=b")
    assert text in warnings(plane, "patch", "skyhook", name, "--type=merge", "-p", '{"spec": {"priority": 7}}')
    assert text not in warnings(plane, "annotate", "nodewright", name, "a=b")
    for path in (SKYHOOKS, NODEWRIGHTS):
        api.delete(path, name)


def test_a_policy_that_an_object_of_the_other_group_uses_stays(
    plane: ControlPlane, hooks: Hooks, namespace: str
) -> None:
    api, name = plane.api(), f"{namespace}-careful"
    api.create(POLICIES, policy(name, default={"budget": {"count": 1}, "strategy": {"fixed": {}}}))
    api.create(NODEWRIGHTS, nodewright(f"{namespace}-a", deploymentPolicy=name))
    eventually(lambda: hooks.store.row(skyhook_key(f"{namespace}-a", NODEWRIGHT)), "the NodeWright is known")
    with pytest.raises(ApiError, match=rf"still referenced by 1 NodeWright\(s\): \[{namespace}-a\]"):
        api.delete(POLICIES, name)
    api.delete(NODEWRIGHTS, f"{namespace}-a")
    api.delete(POLICIES, name)


def test_the_certificate_is_kept_as_the_original_does(plane: ControlPlane, hooks: Hooks, namespace: str) -> None:
    api = plane.api()
    secret = api.get("secrets", SECRET, namespace)
    assert (secret["type"], sorted(secret["data"])) == ("Opaque", ["ca.crt", "tls.crt", "tls.key"])
    assert secret["metadata"]["annotations"][f"{P}service"] == SERVICE
    path = REGISTRATIONS["MutatingWebhookConfiguration"]
    bundles = {
        hook["clientConfig"]["caBundle"] for hook in api.get(path, "skyhook-operator-mutating-webhook")["webhooks"]
    }
    assert bundles == {secret["data"]["ca.crt"]}
    assert hooks.handshake(base64.b64decode(secret["data"]["ca.crt"]))
    # An upgrade of the chart empties it.
    emptied = [{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]
    api.patch(path, "skyhook-operator-mutating-webhook", emptied, kind="json")
    eventually(
        lambda: (
            api.get(path, "skyhook-operator-mutating-webhook")["webhooks"][0]["clientConfig"].get("caBundle")
            == secret["data"]["ca.crt"]
        ),
        "the authority is there again",
    )


def test_columns_of_kubectl(plane: ControlPlane, definitions: None, namespace: str) -> None:
    api, name = plane.api(), f"{namespace}-shown"
    api.create(SKYHOOKS, skyhook(name, deploymentPolicy="careful"))
    status = {"status": "complete", "completeNodes": "1/1", "packageList": "aa:1.0.0"}
    api.patch(SKYHOOKS, name, {"status": status}, sub="status")
    head, row = plane.kubectl("get", "skyhook", name).stdout.splitlines()
    assert head.split("  ")[0] == "NAME"
    columns = ["STATUS", "PRIORITY", "AGE", "NODES IN-PROGRESS", "COMPLETE NODES", "PACKAGES", "POLICY"]
    places = [head.index(column) for column in columns]
    assert places == sorted(places)
    assert row.split()[1:3] + row.split()[4:] == ["complete", "200", "0", "1/1", "aa:1.0.0", "careful"]
    api.delete(SKYHOOKS, name)


class TestCommandLine:
    def run(self, kubeconfig: Path, *words: str) -> int:
        return main([*words, "--kubeconfig", str(kubeconfig)])

    def test_switches_and_resets(
        self, plane: ControlPlane, definitions: None, namespace: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        api, name, node = plane.api(), f"{namespace}-x", f"{namespace}-n1"
        api.create(SKYHOOKS, skyhook(name))
        stopped = {"matched": 1, "ceiling": 1, "inProgress": 0, "completed": 0, "progressPercent": 0}
        batch = {"currentBatch": 3, "shouldStop": True, "failedNodes": 2, "lastBatchFailed": True}
        body = {"status": {"nodeOrderOffset": 2, "compartmentStatuses": {"gpu": {**stopped, "batchState": batch}}}}
        api.patch(SKYHOOKS, name, body, sub="status")
        made = node_object(node)
        marks = {f"{P}nodeState_{name}": "{}", f"{P}cordon_{name}": "true"}
        made["metadata"]["annotations"] = {**made["metadata"].get("annotations", {}), **marks}
        made["spec"] = {**made.get("spec", {}), "unschedulable": True}
        api.create("nodes", made)
        kubeconfig = plane.kubeconfig()
        assert self.run(kubeconfig, "pause", name, "-y") == 0
        assert api.get(SKYHOOKS, name)["metadata"]["annotations"][f"{P}pause"] == "true"
        assert self.run(kubeconfig, "resume", name, "-y") == 0
        assert f"{P}pause" not in api.get(SKYHOOKS, name)["metadata"].get("annotations", {})
        assert self.run(kubeconfig, "reset", name, "-y") == 0
        assert f'Successfully reset 1 node(s) for Skyhook "{name}"' in capsys.readouterr().out
        found = api.get("nodes", node)
        assert not found["spec"].get("unschedulable")
        assert not set(marks) & set(found["metadata"].get("annotations", {}))
        status = api.get(SKYHOOKS, name)["status"]
        assert status["compartmentStatuses"]["gpu"]["batchState"] == {"currentBatch": 1}
        assert "nodeOrderOffset" not in status
        assert self.run(kubeconfig, "node", "ignore", node) == 0
        assert api.get("nodes", node)["metadata"]["labels"][f"{P}ignore"] == "true"
        api.delete("nodes", node)
        api.delete(SKYHOOKS, name)

    def test_what_one_may_not_do_is_listed(
        self, plane: ControlPlane, definitions: None, namespace: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        node = f"{namespace}-n2"
        plane.api().create("nodes", node_object(node))
        reader = plane.limited_user([{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"]}])
        kubeconfig = plane.kubeconfig(reader)
        eventually(lambda: self.run(kubeconfig, "node", "status") == 0, "the role counts")
        capsys.readouterr()
        assert self.run(kubeconfig, "node", "ignore", node) == 0
        shown = capsys.readouterr().out
        assert f"\nErrors updating some nodes:\n  - {node}: " in shown
        assert "Successfully" not in shown
        assert self.run(kubeconfig, "pause", "x", "-y") == 1
        assert "forbidden" in capsys.readouterr().err
        plane.api().delete("nodes", node)

    def test_kubectl_finds_it_as_a_plugin(self, plane: ControlPlane, definitions: None, tmp_path: Path) -> None:
        folder = Path(sys.executable).parent
        path = f"{folder}:{os.environ['PATH']}"
        done = subprocess.run(
            [tool("kubectl"), "skyhook", "node", "status", "-o", "json", "--kubeconfig", plane.kubeconfig()],
            env={"PATH": path, "HOME": str(tmp_path)},
            text=True,
            capture_output=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout == "No Skyhook activity found on specified nodes\n"
