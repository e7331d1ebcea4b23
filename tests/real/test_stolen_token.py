"""What a thief of the operator's token tries on the real API server: every attempt is allowed or denied as docs/security.md says."""

from __future__ import annotations

from collections.abc import Iterator
from secrets import token_hex
from typing import Any

import pytest

from haulout.cli.rbac import rule
from tests.build.thefts import (
    ADMITS,
    ATTEMPTS,
    CORE,
    ELSEWHERE,
    GROUP,
    HOOK,
    LEASES,
    NODE,
    OWN,
    PACKAGES,
    THING,
    TOKENS,
    WAY_BACK,
    Attempt,
    named,
)
from tests.rig.api import CRDS, Api, ApiError
from tests.rig.clusterapi import define_all
from tests.rig.fleet import node_object, pod_object
from tests.rig.plane import ControlPlane
from tests.rig.rights import grant, printed
from tests.rig.wait import eventually
from tools.skyhook_chart import ORIGINAL_RIGHTS

pytestmark = pytest.mark.tools("etcd", "kube-apiserver", "kubectl")

WITH_WAY_BACK = "way-back"


@pytest.fixture(scope="module")
def thieves(plane: ControlPlane) -> Iterator[dict[str, Api]]:
    """A client for each stolen token, on a cluster with something to steal."""
    api = plane.api()
    define_all(api)
    for crd in printed("crds", "kernel", "nodemaintenance", "packages", "notify"):
        if api.find(CRDS, crd["metadata"]["name"]) is None:
            api.create(CRDS, crd)
    for ns in (OWN, PACKAGES, ELSEWHERE):
        api.create("namespaces", {"metadata": {"name": ns}})
        api.create("secrets", named({}, THING), ns)
        api.create("configmaps", named({}, THING), ns)
        plane.load([pod_object(THING, ns, NODE)])
    api.create("secrets", named({}, HOOK), OWN)
    plane.load([node_object(NODE)])
    made = {}
    for name, words in (*TOKENS.items(), (WITH_WAY_BACK, TOKENS["packages"])):
        api.create("serviceaccounts", {"metadata": {"name": name}}, OWN)
        places = ("-n", OWN, "--service-account", name, "--packages-namespace", PACKAGES, "--lease-namespace", LEASES)
        # Where another process takes over tests of this file and gives them back, this is made twice.
        grant(plane, f"{name}-{token_hex(3)}", *words, *places, account=f"system:serviceaccount:{OWN}:{name}")
        if name == WITH_WAY_BACK:
            bind_the_way_back(api, name)
        token = api.request("POST", f"{CORE}/namespaces/{OWN}/serviceaccounts/{name}/token", {"spec": {}})
        made[name] = Api(api.server, token["status"]["token"])
    yield made
    for client in made.values():
        client.close()
    plane.wipe("thief-")


def bind_the_way_back(api: Api, account: str) -> None:
    """Bind the role with which the charts of packages let the image of the original run as the same account."""
    name = f"thief-{token_hex(3)}"
    api.create(f"{GROUP}/v1/clusterroles", {"metadata": {"name": name}, "rules": [*map(rule, ORIGINAL_RIGHTS)]})
    subject = {"kind": "ServiceAccount", "name": account, "namespace": OWN}
    reference = {"apiGroup": GROUP, "kind": "ClusterRole", "name": name}
    body = {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
    api.create(f"{GROUP}/v1/clusterrolebindings", body)


def is_allowed(thief: Api, attempt: Attempt) -> bool:
    """Try it, without lasting effects. What is allowed may be refused for another reason than the thief's rights."""
    query = {"dryRun": "All"} if attempt.method != "GET" else {}
    kind: dict[str, Any] = {"content_type": "application/merge-patch+json"} if attempt.method == "PATCH" else {}
    try:
        thief.request(attempt.method, attempt.path, attempt.body, headers=dict(attempt.headers), query=query, **kind)
    except ApiError as error:
        return error.code != 403
    return True


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: attempt.what.replace(" ", "-"))
def test_a_stolen_token_allows_what_is_written_and_no_more(thieves: dict[str, Api], attempt: Attempt) -> None:
    assert [name for name in TOKENS if is_allowed(thieves[name], attempt)] == [
        name for name in TOKENS if name in attempt.allowed
    ]


def test_the_role_for_the_way_back_allows_what_is_written_and_no_more(thieves: dict[str, Api]) -> None:
    others = [each for each in ATTEMPTS if "packages" not in each.allowed]
    eventually(lambda: is_allowed(thieves[WITH_WAY_BACK], others[0]), "the role is in force")
    assert sorted(each.what for each in others if is_allowed(thieves[WITH_WAY_BACK], each)) == sorted(WAY_BACK)


def test_the_webhooks_secret_does_not_become_one_for_a_token(thieves: dict[str, Api], plane: ControlPlane) -> None:
    """A thief may replace what is in the Secret of the certificate. Its type cannot be changed."""
    path = f"{CORE}/namespaces/{OWN}/secrets/{HOOK}"
    metadata: dict[str, Any] = {"annotations": {"kubernetes.io/service-account.name": "kernel"}, "name": HOOK}
    body = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token", "metadata": metadata}
    applied: dict[str, Any] = {
        "query": {"fieldManager": "thief", "force": "true"},
        "content_type": "application/apply-patch+yaml",
    }
    codes = {}
    for name in ADMITS:
        for method, how in (("PATCH", applied), ("PUT", {})):
            with pytest.raises(ApiError) as refused:
                thieves[name].request(method, path, body, **how)
            codes[name, method] = refused.value.code
    assert codes == {(name, method): code for name in ADMITS for method, code in (("PATCH", 403), ("PUT", 422))}
    assert plane.api().get("secrets", HOOK, OWN)["type"] == "Opaque"
