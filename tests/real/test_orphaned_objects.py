"""What a thief of the operator's token has the garbage collector and the eviction by taints do, with and without the policy for the account."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from haulout.manifests.account_policy import POLICY
from haulout.manifests.workload import ACCOUNT
from tests.build.thefts import CORE, HOOK, OWN
from tests.rig.api import CRDS, Api, ApiError, Json
from tests.rig.clusterapi import define_all, machine_object
from tests.rig.fleet import node_object, pod_object
from tests.rig.maintenances import BUDGETS, budget
from tests.rig.plane import ControlPlane
from tests.rig.process import Scratch
from tests.rig.rights import grant, printed
from tests.rig.wait import eventually

pytestmark = pytest.mark.tools("etcd", "kube-apiserver", "kube-controller-manager")

ADMISSION = "admissionregistration.k8s.io/v1"
REGISTRATIONS = f"{ADMISSION}/validatingwebhookconfigurations"
MACHINES = "cluster.x-k8s.io/v1beta2/machines"
# The eviction by taints uses an index of pods that the controller of DaemonSets makes.
CONTROLLERS = (
    *("garbage-collector-controller", "taint-eviction-controller", "disruption-controller"),
    "daemonset-controller",
)
WORDS = ("kernel", "nodemaintenance", "clusterapi")
# The accounts of the thieves: the policy is for that of the manifests.
FREE, LIMITED = "free", ACCOUNT
REFUSED = f"ValidatingAdmissionPolicy '{POLICY}' with binding '{POLICY}' denied request"


class Prey(NamedTuple):
    """An object that the roles allow to change and not to delete. `kind`, `ns`: of an owner that it could have."""

    path: str
    name: str
    body: Json
    kind: str = "Namespace"
    ns: str | None = None


PREY = (
    Prey("nodes", "prey", {}),
    Prey(MACHINES, "prey", machine_object("prey", OWN), "ConfigMap", OWN),
    Prey("secrets", HOOK, {"type": "Opaque"}, "ConfigMap", OWN),
)
REGISTRATION = Prey(REGISTRATIONS, "node-maintenance-operator-validating-webhook-configuration", {})


class Thieves(NamedTuple):
    """A cluster, with an administrator's client and those of the thieves by their account."""

    plane: ControlPlane
    api: Api
    clients: dict[str, Api]


PLANES = itertools.count(1)


@pytest.fixture(scope="module")
def thieves(scratch: Scratch) -> Iterator[Thieves]:
    # The tests of a worker may come back to this module after those of another one.
    with ControlPlane(scratch.directory(f"collecting-plane-{next(PLANES)}")) as plane:
        plane.start_controllers(CONTROLLERS)
        api = plane.api()
        define_all(api)
        for crd in printed("crds", "kernel", "nodemaintenance"):
            api.create(CRDS, crd)
        api.create("namespaces", {"metadata": {"name": OWN}})
        clients = {}
        for name in (FREE, LIMITED):
            api.create("serviceaccounts", {"metadata": {"name": name}}, OWN)
            places = ("-n", OWN, "--service-account", name, "--lease-namespace", OWN)
            grant(plane, name, *WORDS, *places, account=f"system:serviceaccount:{OWN}:{name}")
            token = api.request("POST", f"{CORE}/namespaces/{OWN}/serviceaccounts/{name}/token", {"spec": {}})
            clients[name] = Api(api.server, token["status"]["token"])
        kinds = {
            "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
            "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
        }
        for each in printed("manifests", "nodemaintenance", "-n", OWN):
            if each["metadata"]["name"] == POLICY:
                api.create(f"{ADMISSION}/{kinds[each['kind']]}", each)
        found = Thieves(plane, api, clients)
        eventually(lambda: restored(found, PREY[0]) and REFUSED in orphaned(found, LIMITED, PREY[0]), "it is in force")
        yield found
        for client in clients.values():
            client.close()


def restored(thieves: Thieves, prey: Prey) -> Json:
    """Return the object as it was before any theft, without finalizers that keep it after its deletion."""
    if (found := thieves.api.find(prey.path, prey.name, prey.ns)) is not None:
        return found
    return thieves.api.create(prey.path, {**prey.body, "metadata": {"name": prey.name}}, prey.ns)


def orphaned(thieves: Thieves, account: str, prey: Prey) -> str:
    """Have a thief give an object an owner that does not exist. Return the refusal; empty if there is none."""
    owner = {"apiVersion": "v1", "kind": prey.kind, "name": "none", "uid": str(uuid.uuid4())}
    return written(thieves.clients[account], prey, {"metadata": {"ownerReferences": [owner]}})


def written(client: Api, prey: Prey, change: Json) -> str:
    """Change an object in the way that the roles allow. Return the refusal; empty if there is none."""
    try:
        if prey.path == "secrets":
            found = client.get(prey.path, prey.name, prey.ns)
            meta = {**found["metadata"], **change.get("metadata", {})}
            path = f"{CORE}/namespaces/{prey.ns}/secrets/{prey.name}"
            client.request("PUT", path, {**found, **change, "metadata": meta})
        else:
            client.patch(prey.path, prey.name, change, prey.ns)
    except ApiError as error:
        return f"{error.code} {error.message}"
    return ""


def names(prey: Prey) -> str:
    return prey.path.rpartition("/")[2]


@pytest.mark.parametrize("prey", [*PREY, REGISTRATION], ids=names)
def test_what_may_be_changed_may_be_orphaned_and_is_collected_without_the_policy(thieves: Thieves, prey: Prey) -> None:
    restored(thieves, prey)
    assert orphaned(thieves, FREE, prey) == ""
    eventually(lambda: thieves.api.find(prey.path, prey.name, prey.ns) is None, "it is collected")


@pytest.mark.parametrize("prey", PREY, ids=names)
def test_the_policy_keeps_owners_and_finalizers(thieves: Thieves, prey: Prey) -> None:
    before = restored(thieves, prey)
    assert orphaned(thieves, LIMITED, prey).startswith("403")
    finalizers = {"metadata": {"finalizers": ["a.test/stays"]}}
    assert REFUSED in written(thieves.clients[LIMITED], prey, finalizers)
    assert thieves.api.get(prey.path, prey.name, prey.ns)["metadata"].get("ownerReferences") is None
    assert thieves.api.get(prey.path, prey.name, prey.ns)["metadata"]["uid"] == before["metadata"]["uid"]


def test_no_policy_can_keep_the_owners_of_a_registration(thieves: Thieves) -> None:
    """The API server exempts webhook configurations from admission policies."""
    restored(thieves, REGISTRATION)
    assert orphaned(thieves, LIMITED, REGISTRATION) == ""
    eventually(lambda: thieves.api.find(REGISTRATION.path, REGISTRATION.name) is None, "it is collected")


@pytest.mark.parametrize("account", [FREE, LIMITED])
def test_a_secret_that_was_collected_is_made_by_no_token(thieves: Thieves, account: str) -> None:
    """As one of the type that Kubernetes fills with a token of a service account."""
    secret = PREY[2]
    restored(thieves, secret)
    assert orphaned(thieves, FREE, secret) == ""
    eventually(lambda: thieves.api.find("secrets", HOOK, OWN) is None, "it is collected")
    notes = {"kubernetes.io/service-account.name": ACCOUNT}
    body: Json = {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/service-account-token",
        "metadata": {"name": HOOK, "annotations": notes},
    }
    collection = f"{CORE}/namespaces/{OWN}/secrets"
    applied = {"query": {"fieldManager": "thief"}, "content_type": "application/apply-patch+yaml"}
    for method, path, how in (
        ("POST", collection, {}),
        ("PATCH", f"{collection}/{HOOK}", applied),
        ("PUT", f"{collection}/{HOOK}", {}),
    ):
        with pytest.raises(ApiError) as refused:
            thieves.clients[account].request(method, path, body, **how)  # type: ignore[arg-type]
        assert refused.value.code in (403, 404), method
    assert thieves.api.find("secrets", HOOK, OWN) is None


@pytest.mark.parametrize("key", ["thief.test/any", "node.kubernetes.io/out-of-service"])
def test_a_taint_ends_pods_past_their_budgets_without_the_policy(thieves: Thieves, key: str) -> None:
    name = f"tainted-{key.partition('/')[0].replace('.', '-')}"
    thieves.plane.load([node_object(name), pod_object(name, OWN, name)])
    thieves.api.create(BUDGETS, budget(name, name, minAvailable=1), OWN)
    node = Prey("nodes", name, {})
    taints = {"spec": {"taints": [{"key": key, "effect": "NoExecute"}]}}
    assert "which end pods past disruption budgets" in written(thieves.clients[LIMITED], node, taints)
    assert "deletionTimestamp" not in thieves.api.get("pods", name, OWN)["metadata"]
    assert written(thieves.clients[FREE], node, taints) == ""
    gone = {"deletionTimestamp": "now"}
    eventually(
        lambda: "deletionTimestamp" in (thieves.api.find("pods", name, OWN) or {"metadata": gone})["metadata"],
        "it ends",
    )
    # What another has set stays, beside what the operator sets.
    own = {"key": "medik8s.io/drain", "effect": "NoSchedule"}
    more = {"spec": {"unschedulable": True, "taints": [*taints["spec"]["taints"], own]}}
    assert written(thieves.clients[LIMITED], node, more) == ""


@pytest.mark.parametrize(
    ("prey", "change"),
    [
        (PREY[0], {"spec": {"providerID": "cloud://gone"}}),
        (PREY[1], {"spec": {"clusterName": "other"}}),
        (PREY[1], {"metadata": {"annotations": {"cluster.x-k8s.io/delete-machine": ""}}}),
        (PREY[2], {"immutable": True}),
    ],
    ids=["providerID", "spec of a Machine", "deletion of a Machine", "immutable Secret"],
)
def test_the_policy_refuses_what_the_operator_never_writes(thieves: Thieves, prey: Prey, change: Json) -> None:
    restored(thieves, prey)
    assert REFUSED in written(thieves.clients[LIMITED], prey, change)


def test_the_policy_lets_the_operator_do_its_work(thieves: Thieves) -> None:
    node, machine, secret = PREY
    for prey in PREY:
        restored(thieves, prey)
    work: tuple[tuple[Prey, Json], ...] = (
        (node, {"spec": {"unschedulable": True, "taints": [{"key": "medik8s.io/drain", "effect": "NoSchedule"}]}}),
        (node, {"metadata": {"labels": {"a": "b"}, "annotations": {"haulout.dev/c": "d"}}}),
        (machine, {"metadata": {"annotations": {"pre-drain.delete.hook.machine.cluster.x-k8s.io/x": ""}}}),
        (secret, {"data": {"tls.key": "eA=="}}),
    )
    assert [written(thieves.clients[LIMITED], prey, change) for prey, change in work] == [""] * len(work)
