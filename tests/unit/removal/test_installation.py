"""The objects of an installation are removed with it; a running operator and missing rights stop the removal."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import yaml

from haulout.cli.root import main
from haulout.embedded import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, NODES, Json, Resource
from haulout.removal.command import Refused, Removal
from haulout.removal.stopping import StillRunning
from haulout.removal.survey import Wanted
from tests.build.acting import Desk
from tests.build.workloads import node

HOME = "haulout-system"
LEASES, MAPS = Resource("coordination.k8s.io", "v1", "leases"), Resource("", "v1", "configmaps")
DEPLOYMENTS = Resource("apps", "v1", "deployments")
SURFACES = ("profiles", "nodemaintenance", "notify", "packages", "clusterapi")
LABELS = {"app.kubernetes.io/name": "haulout"}
NOTHING = ["nothing of Haulout is left here"]


@pytest.fixture
def desk(capsys: pytest.CaptureFixture[str]) -> Desk:
    """An installation of all surfaces, as `haulout manifests` makes it, and a tenant who uses its labels."""
    found = Desk()
    assert main(("manifests", *SURFACES)) == 0
    for body in yaml.safe_load_all(capsys.readouterr().out):
        if body["kind"] == "CustomResourceDefinition":
            found.server.create(CUSTOM_RESOURCE_DEFINITIONS, body)
        else:
            found.make(body)
    tenant = {"name": "tenant", "namespace": "default", "labels": LABELS}
    found.server.create(MAPS, {"metadata": tenant})
    return found


def removal(desk: Desk, *surfaces: str, lines: list[str] | None = None, **more: Any) -> Removal:
    timers: Any = desk.server.timers

    async def sleep(seconds: float) -> None:
        timers.run_for(timedelta(seconds=seconds))

    say = (lines if lines is not None else []).append
    return Removal(desk, Wanted(surfaces, HOME, **more), timers, lambda: True, say, sleep)


def present(desk: Desk) -> list[str]:
    """Return every object that carries our name, apart from definitions."""
    return sorted(
        f"{kind.kind} {each['metadata']['name']}"
        for kind in desk.server.catalog
        if kind.kind not in ("CustomResourceDefinition", "Event")
        for each in desk.server.list(kind.resource)
        if "haulout" in str(each["metadata"].get("labels")) or "haulout" in each["metadata"]["name"]
    )


def hold(desk: Desk, *, renewed: str = "2026-01-01T00:00:00.000000Z", surfaces: str = "profiles,notify") -> None:
    notes = {"haulout.dev/surfaces": surfaces}
    meta = {"name": "haulout", "namespace": HOME, "labels": LABELS, "annotations": notes}
    spec = {"holderIdentity": "haulout-0_1", "leaseDurationSeconds": 15, "renewTime": renewed}
    desk.server.create(LEASES, {"metadata": meta, "spec": spec})


async def test_the_whole_installation_goes(desk: Desk) -> None:
    assert len(present(desk)) > 40
    lines: list[str] = []
    assert await removal(desk, lines=lines).run(dry_run=False) == 0
    # The controller of namespaces needs its time.
    desk.server.timers.run_for(timedelta(minutes=1))  # type: ignore[attr-defined]
    assert present(desk) == ["ConfigMap tenant"]
    assert lines.index("the operator, which is stopped first:") < lines.index("the installation:")
    again: list[str] = []
    assert await removal(desk, lines=again).run(dry_run=False) == 0
    assert again == NOTHING


async def test_definitions_go_on_request(desk: Desk) -> None:
    await removal(desk, definitions=True).run(dry_run=False)
    assert desk.server.list(CUSTOM_RESOURCE_DEFINITIONS) == []


async def test_roles_and_registrations_of_one_surface_go_with_it(desk: Desk) -> None:
    assert any("nodemaintenance" in line for line in present(desk))
    await removal(desk, "nodemaintenance").run(dry_run=False)
    left = present(desk)
    assert not [line for line in left if "haulout-nodemaintenance" in line and "viewer" not in line]
    assert "Deployment haulout" in left
    assert "ClusterRole haulout-packages" in left


async def test_a_dead_operators_lease_is_waited_for(desk: Desk) -> None:
    hold(desk)
    began = desk.server.timers.now()
    await removal(desk).run(dry_run=False)
    assert timedelta(seconds=15) < desk.server.timers.now() - began < timedelta(seconds=30)
    assert desk.server.list(LEASES) == []


async def test_an_operator_that_goes_on_stops_the_removal(desk: Desk) -> None:
    hold(desk)
    timers: Any = desk.server.timers

    def renew() -> None:
        desk.server.patch(LEASES, HOME, "haulout", {"spec": {"renewTime": f"{timers.now():%Y-%m-%dT%H:%M:%S.%fZ}"}})
        timers.at(timers.now() + timedelta(seconds=2), renew)

    renew()
    with pytest.raises(
        StillRunning, match="an operator is still running: haulout-0_1 holds Lease haulout-system/haulout"
    ):
        await removal(desk).run(dry_run=False)
    assert [line for line in present(desk) if line.startswith("ValidatingWebhook")]


async def test_a_surface_that_is_served_does_not_go(desk: Desk) -> None:
    hold(desk)
    timers: Any = desk.server.timers
    timers.at(
        timers.now() + timedelta(seconds=3),
        lambda: desk.server.patch(LEASES, HOME, "haulout", {"spec": {"renewTime": "2026-01-01T00:00:03.000000Z"}}),
    )
    with pytest.raises(
        StillRunning, match=r"an operator still serves notify: .* Remove it from `surfaces` in haulout.yaml"
    ):
        await removal(desk, "notify").run(dry_run=False)
    await removal(desk, "packages").run(dry_run=False)
    assert not [line for line in present(desk) if line.startswith("ClusterRole haulout-packages")]


@pytest.mark.parametrize("right", ["delete clusterroles", "patch nodes", "patch deployments"])
async def test_missing_rights_are_named_before_anything_is_written(desk: Desk, right: str) -> None:
    body = node("n1")
    body["metadata"]["annotations"] = {"haulout.dev/cordon": '{"before":false,"by":["profiles"]}'}
    desk.make(body)
    desk.denied.add(right)
    with pytest.raises(Refused, match=f"nothing was written, because rights are missing:\n  .*{right.split()[1]}"):
        await removal(desk).run(dry_run=False)
    assert desk.writes == []


async def test_what_cannot_be_listed_is_not_taken_for_absent(desk: Desk) -> None:
    desk.denied.add("get nodes")
    with pytest.raises(Refused, match="nodes"):
        await removal(desk).run(dry_run=False)
    assert desk.writes == []


async def test_a_no_writes_nothing(desk: Desk) -> None:
    lines: list[str] = []
    asked = removal(desk, lines=lines)
    asked._ask = lambda: False
    assert await asked.run(dry_run=False) == 1
    assert (lines[-1], desk.writes) == ("nothing was written", [])


async def test_a_release_of_helm_is_named(desk: Desk) -> None:
    desk.server.patch(
        DEPLOYMENTS, HOME, "haulout", {"metadata": {"annotations": {"meta.helm.sh/release-name": "night"}}}
    )
    lines: list[str] = []
    await removal(desk, lines=lines).run(dry_run=False)
    assert lines[-1].endswith("Remove that, too: helm uninstall night --namespace haulout-system")


async def test_a_namespace_that_others_have_made_stays(desk: Desk) -> None:
    desk.server.patch(
        NAMESPACES,
        "",
        HOME,
        {"metadata": {"labels": {"app.kubernetes.io/name": None, "app.kubernetes.io/part-of": None}}},
    )
    await removal(desk).run(dry_run=False)
    assert desk.server.get(NAMESPACES, "", HOME) is not None
    assert present(desk) == ["ConfigMap tenant", f"Namespace {HOME}"]


async def test_machines_and_hosts_lose_what_holds_them(desk: Desk) -> None:
    for group, kind, version in (
        ("cluster.x-k8s.io", "Machine", "v1beta2"),
        ("metal3.io", "BareMetalHost", "v1alpha1"),
    ):
        desk.server.create(CUSTOM_RESOURCE_DEFINITIONS, definition(group, kind, version))
    original = "runtime-extension-maintenance-controller"
    hook = "pre-drain.delete.hook.machine.cluster.x-k8s.io/maintenance-controller"
    labels = {f"{original}.cloud.sap/enabled": "true", f"{original}.cloud.sap/maintenance": "approved"}
    notes = {hook: original, "haulout.dev/node-cleanup": "x", "cluster.x-k8s.io/skip-remediation": "", "other": "stays"}
    desk.make(
        {
            "apiVersion": "cluster.x-k8s.io/v1beta2",
            "kind": "Machine",
            "metadata": {"name": "m", "namespace": "default", "labels": labels, "annotations": notes},
        },
        {
            "apiVersion": "metal3.io/v1alpha1",
            "kind": "BareMetalHost",
            "metadata": {"name": "h", "namespace": "default", "annotations": {f"reboot.metal3.io/{original}": "{}"}},
        },
    )
    await removal(desk).run(dry_run=False)
    found = await desk.get("/apis/cluster.x-k8s.io/v1beta2/namespaces/default/machines/m")
    assert found["metadata"]["labels"] == {f"{original}.cloud.sap/enabled": "true"}
    # Another client had asked to skip the remediation.
    assert found["metadata"]["annotations"] == {"cluster.x-k8s.io/skip-remediation": "", "other": "stays"}
    assert (
        "annotations"
        not in (await desk.get("/apis/metal3.io/v1alpha1/namespaces/default/baremetalhosts/h"))["metadata"]
    )


async def test_a_virtual_machine_that_may_be_off_is_named(desk: Desk) -> None:
    body = node("n1")
    body["metadata"]["labels"]["cloud.sap/esx-in-maintenance"] = "true"
    body["metadata"]["annotations"] = {"cloud.sap/esx-reboot-initiated": "true"}
    desk.make(body)
    lines: list[str] = []
    await removal(desk, lines=lines).run(dry_run=False)
    assert "Warning: node n1: its virtual machine may be powered off: power it on in vCenter" in lines
    assert not [name for name in desk.server.get(NODES, "", "n1")["metadata"]["labels"] if "esx" in name]  # type: ignore[index]


def definition(group: str, kind: str, version: str) -> Json:
    plural = f"{kind.lower()}s"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
            "scope": "Namespaced",
            "versions": [{"name": version, "served": True, "storage": True, "schema": schema}],
        },
    }


async def test_what_an_original_serves_is_left_alone(desk: Desk) -> None:
    now = f"{desk.server.timers.now():%Y-%m-%dT%H:%M:%S.%fZ}"
    spec = {"holderIdentity": "manager-0", "leaseDurationSeconds": 15, "renewTime": now}
    desk.server.create(LEASES, {"metadata": {"name": "135b1886.medik8s.io", "namespace": "default"}, "spec": spec})
    body = node("n1")
    body["spec"]["taints"] = [{"key": "medik8s.io/drain", "effect": "NoSchedule"}]
    body["metadata"]["labels"]["maintenance/x"] = ""
    body["metadata"]["annotations"] = {"haulout.dev/cordon": '{"before":false,"by":["notify"]}'}
    desk.make(body)
    lines: list[str] = []
    await removal(desk, lines=lines).run(dry_run=False)
    assert lines[0] == (
        "surface nodemaintenance is left alone, because another operator serves its objects:"
        " manager-0 holds Lease default/135b1886.medik8s.io"
    )
    found = desk.server.get(NODES, "", "n1")
    assert found is not None
    assert "medik8s.io/drain" in [each["key"] for each in found["spec"]["taints"]]
    assert "maintenance/x" not in found["metadata"]["labels"]


async def test_a_registration_that_an_original_has_made_stays(desk: Desk) -> None:
    hooks = Resource("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations")
    name = "pika-validating-webhook-configuration"
    (hook,) = desk.server.get(hooks, "", name)["webhooks"]  # type: ignore[index]
    hook["clientConfig"]["service"]["namespace"] = "pika-system"
    desk.server.patch(hooks, "", name, {"metadata": {"labels": None}, "webhooks": [hook]})
    await removal(desk).run(dry_run=False)
    assert [each["metadata"]["name"] for each in desk.server.list(hooks)] == [name]


async def test_roles_of_a_release_of_another_name_go(desk: Desk) -> None:
    roles = Resource("rbac.authorization.k8s.io", "v1", "roles")
    notes = {"meta.helm.sh/release-name": "night", "meta.helm.sh/release-namespace": HOME}
    for name, own in (("night-events", notes), ("tenant", {})):
        meta = {"name": name, "namespace": "default", "labels": LABELS, "annotations": own}
        desk.server.create(roles, {"metadata": meta})
    await removal(desk).run(dry_run=False)
    assert [each["metadata"]["name"] for each in desk.server.list(roles, "default")] == ["tenant"]


async def test_labels_of_other_programs_stay(desk: Desk) -> None:
    body = node("n1")
    body["metadata"]["labels"]["maintenance/team"] = "web"
    desk.make(body)
    await removal(desk).run(dry_run=False)
    found = desk.server.get(NODES, "", "n1")
    assert found is not None
    assert found["metadata"]["labels"]["maintenance/team"] == "web"
