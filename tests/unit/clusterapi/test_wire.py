"""Objects as they come over the wire, of either version of Cluster API, and what is kept of them."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest

from haulout.base.yaml import FOREIGN
from haulout.cluster.project import Keep, Projector, kind_of_one
from haulout.cluster.rows import ObjectRow
from haulout.surfaces.clusterapi.wire import (
    CLEANUP,
    CLUSTER,
    CONNECTED_MACHINES,
    HOOK,
    HOST,
    HOST_KEEP,
    LIMITED_SECRET,
    MACHINE,
    MACHINE_KEEP,
    OWN_KINDS,
    PAUSED,
    REBOOT,
    SECRET,
    ClusterRow,
    Host,
    HostRow,
    MachineRow,
    SecretRow,
    Workload,
    workload_of,
)
from tests.build.machines import machine

KINDS = {resource.kind: resource for resource in OWN_KINDS}


def row(kind: str, obj: dict[str, Any], keep: Keep | None = None) -> ObjectRow:
    resource = KINDS[kind]
    body = {"metadata": {"name": "x", "namespace": "fleet", "resourceVersion": "7"}, **obj}
    decoded = msgspec.json.decode(msgspec.json.encode(body), type=resource.model)
    return Projector(resource, "", keep or Keep()).row(decoded)


NODE_REFS = {
    "v1beta1": {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"},
    "v1beta2": {"name": "n"},
}


@pytest.mark.parametrize("reference", NODE_REFS.values(), ids=NODE_REFS.keys())
def test_a_machine_of_either_version(reference: dict[str, str]) -> None:
    spec = {"clusterName": "alpha", "providerID": "metal3://fleet/h/m", "bootstrap": {}, "infrastructureRef": {}}
    found = row(MACHINE, {"spec": spec, "status": {"nodeRef": reference, "conditions": []}})
    assert isinstance(found, MachineRow)
    assert (found.cluster_name, found.node, found.host) == ("alpha", "n", Host("fleet", "h", "m"))
    assert found.workload == Workload("fleet", "alpha")


@pytest.mark.parametrize("obj", [{}, {"spec": {}}, {"spec": {"providerID": None}, "status": {"nodeRef": None}}])
def test_a_machine_that_says_little(obj: dict[str, Any]) -> None:
    found = row(MACHINE, obj)
    assert isinstance(found, MachineRow)
    assert (found.cluster_name, found.node, found.host, found.enabled, found.hooked) == ("", "", None, False, False)


def test_of_annotations_only_those_that_are_read_are_kept() -> None:
    foreign = "pre-drain.delete.hook.machine.cluster.x-k8s.io/another"
    metadata = {"name": "x", "namespace": "fleet", "annotations": {HOOK: "", foreign: "", "note": "long"}}
    found = row(MACHINE, {"metadata": metadata}, MACHINE_KEEP)
    assert isinstance(found, MachineRow)
    assert (dict(found.annotations), found.hooked) == ({HOOK: ""}, True)


@pytest.mark.parametrize("paused, expected", [(True, True), (False, False), (None, False)])
def test_a_cluster(paused: bool | None, expected: bool) -> None:
    metadata = {"name": "x", "namespace": "fleet", "annotations": {PAUSED: "", "note": "long"}}
    found = row(CLUSTER, {"metadata": metadata, "spec": {"paused": paused}})
    assert isinstance(found, ClusterRow)
    assert (found.paused, dict(found.annotations)) == (expected, {})


def test_a_host() -> None:
    spec = {"online": True, "consumerRef": {"kind": "Metal3Machine", "name": "m3", "namespace": "fleet"}}
    metadata = {"name": "x", "namespace": "fleet", "annotations": {REBOOT: "", "reboot.metal3.io": ""}}
    found = row(HOST, {"metadata": metadata, "spec": spec | {"disablePowerOff": True}}, HOST_KEEP)
    assert isinstance(found, HostRow)
    assert (found.consumer, found.consumer_namespace, found.stays_on) == ("m3", "fleet", True)
    assert dict(found.annotations) == {REBOOT: ""}
    bare = row(HOST, {"spec": {"consumerRef": None}})
    assert isinstance(bare, HostRow)
    assert (bare.consumer, bare.consumer_namespace, bare.stays_on) == ("", "", False)


@pytest.mark.parametrize(
    "data, value",
    [
        ({"value": base64.b64encode(b"text").decode(), "relative": "eA=="}, b"text"),
        ({"value": ""}, b""),
        ({"other": "eA=="}, None),
        (None, None),
        ({"value": "no base64!"}, None),
    ],
    ids=["there", "empty", "another key", "no data", "broken"],
)
def test_a_kubeconfig_stands_under_its_key(data: dict[str, str] | None, value: bytes | None) -> None:
    found = row(SECRET, {"data": data, "type": "Opaque"})
    assert isinstance(found, SecretRow)
    assert found.value == value
    assert "text" not in repr(found)


def test_one_secret_is_watched_by_its_name_and_limited_ones_by_their_label() -> None:
    one = KINDS[SECRET].within("fleet", "alpha-kubeconfig")
    assert one.kind == kind_of_one(SECRET, "fleet", "alpha-kubeconfig")
    assert (one.path, one.fields, one.labels) == (
        "/api/v1/namespaces/fleet/secrets",
        "metadata.name=alpha-kubeconfig",
        "",
    )
    assert KINDS[SECRET].within("fleet", "a,b=c\\d").fields == r"metadata.name=a\,b\=c\\d", "whatever it is called"
    label = "runtime-extension-maintenance-controller.cloud.sap/kubeconfig=true"
    assert (KINDS[LIMITED_SECRET].path, KINDS[LIMITED_SECRET].labels) == ("/api/v1/secrets", label)


def test_which_versions_are_looked_for() -> None:
    capi = ("/apis/cluster.x-k8s.io/v1beta2", "/apis/cluster.x-k8s.io/v1beta1")
    assert {kind: resource.versions for kind, resource in KINDS.items() if resource.versions} == {
        MACHINE: capi,
        CLUSTER: capi,
        HOST: ("/apis/metal3.io/v1alpha1",),
    }
    assert [kind for kind, resource in KINDS.items() if resource.optional] == [CLUSTER]


@pytest.mark.parametrize(
    "provider, expected",
    [
        ("metal3://metal3/host-0/worker-abc", Host("metal3", "host-0", "worker-abc")),
        ("metal3://metal3/host-0", Host("metal3", "host-0", "")),
        ("metal3://metal3/host-0/worker/more", Host("metal3", "host-0", "worker")),
        ("metal3://5f1c2d3e-uid", None),
        ("aws:///eu-central-1/i-0abc", None),
        ("", None),
    ],
)
def test_provider_ids(provider: str, expected: Host | None) -> None:
    assert machine(provider=provider).host == expected


def test_the_names_of_workload_clusters_lead_back() -> None:
    assert workload_of(Workload("a-b", "c.d").cluster) == Workload("a-b", "c.d")


def test_machines_are_counted_by_the_cluster_that_they_name() -> None:
    assert [each.group for each in CONNECTED_MACHINES.groups(machine())] == [Workload("fleet", "alpha")]
    assert list(CONNECTED_MACHINES.groups(machine(enabled=None, notes={CLEANUP: ""}))), "it is not done with its Node"
    assert not list(CONNECTED_MACHINES.groups(machine(enabled="True")))


def test_of_a_kubeconfig_that_is_too_long_only_so_much_is_kept_that_its_reader_sees_it() -> None:
    text = base64.b64encode(b"a" * 700_000).decode()
    found = row(SECRET, {"data": {"value": text}})
    assert isinstance(found, SecretRow)
    assert found.value is not None
    assert FOREIGN.size < len(found.value) < FOREIGN.size + 10
