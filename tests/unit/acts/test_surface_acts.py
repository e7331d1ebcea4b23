"""What the acts of each surface write, by the state of their object."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from haulout.acts.declared import acts_for, acts_named, declared_acts
from haulout.core.act import Act, ActInput, ActPlan, NotPossible
from haulout.surfaces.clusterapi import acts as machine_acts
from haulout.surfaces.clusterapi import wire as machine_wire
from haulout.surfaces.nodemaintenance import acts as maintenance_acts
from haulout.surfaces.nodemaintenance import wire as maintenance_wire
from haulout.surfaces.notify import acts as notice_acts
from haulout.surfaces.notify import wire as notice_wire
from haulout.surfaces.registry import load

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
Meta = Mapping[str, Any]


def planned(
    act: str,
    kind: str,
    way: str = "",
    *,
    spec: Meta | None = None,
    status: Meta | None = None,
    args: Meta | None = None,
    **meta: Any,
) -> ActPlan | NotPossible:
    (found,) = [each.act for each in acts_named(act, kind) if each.act.way == way]
    namespace = {"namespace": "fleet"} if found.targets[0].is_namespaced else {}
    metadata = {"name": "x", "uid": "u", "resourceVersion": "7", **namespace, **meta}
    target = {"metadata": metadata, "spec": spec or {}, "status": status or {}}
    answer = load(found.plan)(ActInput(target, args or {}, "", "jane", NOW))
    assert isinstance(answer, ActPlan | NotPossible)
    return answer


def change(answer: ActPlan | NotPossible) -> Any:
    """Return what the one write of an act changes."""
    assert isinstance(answer, ActPlan), answer
    (write,) = answer.writes
    return write.body.get("metadata", {})


def notice(act: str, status: str, **more: Any) -> ActPlan | NotPossible:
    return planned(act, "NotifyMaintenance", status={"maintenanceStatus": status}, **more)


def why(answer: ActPlan | NotPossible) -> str:
    assert isinstance(answer, NotPossible), answer
    return answer.why


STATE = "cloud.sap/maintenance-state"
PROFILE = "cloud.sap/maintenance-profile"


@pytest.mark.parametrize(
    ("labels", "wanted"),
    [({}, "os"), ({PROFILE: "a"}, "a--os"), ({PROFILE: "a--b"}, "a--b--os")],
)
def test_a_profile_is_attached_beside_the_others(labels: Meta, wanted: str) -> None:
    answer = planned("start", "Node", "profile", labels=labels, args={"profile": "os"})
    assert change(answer) == {"labels": {PROFILE: wanted}}


@pytest.mark.parametrize(
    ("labels", "profile"),
    [
        pytest.param({PROFILE: "os"}, "os", id="attached"),
        pytest.param({PROFILE: "a" * 61}, "os", id="no room"),
        pytest.param({}, "a--b", id="a separator"),
        pytest.param({}, "a b", id="a space"),
        pytest.param({}, "-", id="no name"),
    ],
)
def test_a_profile_that_cannot_be_attached(labels: Meta, profile: str) -> None:
    assert why(planned("start", "Node", "profile", labels=labels, args={"profile": profile}))


@pytest.mark.parametrize(("label", "left"), [("os", None), ("a--os--b", "a--b")])
def test_a_profile_is_detached(label: str, left: str | None) -> None:
    answer = planned("cancel", "Node", "profile", labels={PROFILE: label}, args={"profile": "os"})
    assert change(answer) == {"labels": {PROFILE: left}}
    assert isinstance(answer, ActPlan)
    assert answer.undo == f"kubectl label nodes x {PROFILE}={label} --overwrite"


def test_a_profile_is_approved_and_finished_in_its_state_alone() -> None:
    approved = planned("approve", "Node", "profile", labels={STATE: "maintenance-required"})
    assert change(approved) == {"labels": {"cloud.sap/maintenance-approved": "true"}}
    assert isinstance(approved, ActPlan)
    assert approved.undo == "kubectl label nodes x cloud.sap/maintenance-approved-"
    finished = planned("finish", "Node", "profile", labels={STATE: "in-maintenance", "a": "b"}, args={"label": "a-"})
    assert change(finished) == {"labels": {"a": None}}
    assert why(planned("approve", "Node", "profile", labels={STATE: "operational"}))
    assert why(planned("finish", "Node", "profile", args={"label": "a=b"}))


@pytest.mark.parametrize("text", ["", "x", "=", "a b=c", f"{STATE}=operational", f"{PROFILE}-", "a=b c", "a=b"])
def test_labels_that_no_profile_waits_for(text: str) -> None:
    assert why(planned("finish", "Node", "profile", labels={STATE: "in-maintenance", "a": "b"}, args={"label": text}))


def test_a_notice_is_requested() -> None:
    answer = planned("start", "Node", "notify", args={"namespace": "fleet", "id": "fw-7", "type": "unplanned"})
    assert isinstance(answer, ActPlan)
    (write,) = answer.writes
    assert write.body["spec"] == {
        "nodeObject": "x",
        "maintenanceID": "fw-7",
        "maintenanceType": "unplanned",
        "owner": "jane",
    }
    assert answer.undo == "haulout cancel notifymaintenance/fleet/x-fw-7"
    assert why(planned("start", "Node", "notify", args={"id": "fw-7"}, labels={"maintenance/fw-7": ""}))


@pytest.mark.parametrize(
    ("act", "status", "args", "annotations"),
    [
        ("approve", "MaintenanceStarted", {}, {notice_wire.READY: "true"}),
        ("approve", "SLAExpired", {}, {notice_wire.READY: "true"}),
        ("finish", "ObjectsDrained", {}, {notice_wire.CLIENT: "complete"}),
        ("finish", "ObjectsDrained", {"result": "failure"}, {notice_wire.CLIENT: "incomplete"}),
        ("finish", "Validating", {}, {notice_wire.VALIDATION: "validated"}),
        ("finish", "Validating", {"result": "failure"}, {notice_wire.VALIDATION: "failed"}),
        ("retry", "MaintenanceIncomplete", {}, {notice_wire.RETRY: "2026-03-01T12:00:00Z"}),
    ],
)
def test_a_step_of_a_notice(act: str, status: str, args: Meta, annotations: Meta) -> None:
    assert change(notice(act, status, args=args)) == {"annotations": annotations}


@pytest.mark.parametrize(
    ("act", "status"),
    [
        ("approve", ""),
        ("approve", "Validating"),
        ("finish", "MaintenanceStarted"),
        ("finish", "MaintenanceIncomplete"),
        ("retry", "ObjectsDrained"),
    ],
)
def test_a_step_that_a_notice_is_not_at(act: str, status: str) -> None:
    assert why(notice(act, status))


def test_a_held_notice_is_let_go_on() -> None:
    answer = notice("approve", "MaintenanceScheduled", annotations={notice_wire.HOLD: "true"})
    assert change(answer) == {"annotations": {notice_wire.HOLD: None}}
    assert isinstance(answer, ActPlan)
    assert answer.undo == (
        "kubectl -n fleet annotate notifymaintenances.ngn2.nvidia.com x haulout.dev/hold=true --overwrite"
    )


def test_a_notice_is_cancelled_once() -> None:
    spec = {"nodeObject": "n1", "maintenanceID": "7", "maintenanceType": "planned"}
    answer = notice("cancel", "ObjectsDrained", spec=spec)
    assert isinstance(answer, ActPlan)
    assert answer.writes[0].uid == "u"
    assert answer.warnings
    assert answer.undo == "haulout start node/n1 --with notify --namespace fleet --id 7 --type planned"
    assert why(notice("cancel", "Validating", deletionTimestamp="2026-01-01T00:00:00Z"))


@pytest.mark.parametrize(
    ("act", "before", "after"),
    [
        ("start", None, "requested"),
        ("cancel", "requested", None),
        ("approve", "requested", "approved"),
        ("finish", "approved", None),
    ],
)
def test_a_maintenance_of_a_machine(act: str, before: str | None, after: str | None) -> None:
    labels = {machine_wire.ENABLED: "true", **({machine_wire.REQUEST: before} if before else {})}
    assert change(planned(act, "Machine", labels=labels)) == {"labels": {machine_wire.REQUEST: after}}


@pytest.mark.parametrize(
    ("act", "labels"),
    [
        ("start", {}),
        ("start", {machine_wire.ENABLED: "true", machine_wire.REQUEST: "approved"}),
        ("cancel", {machine_wire.REQUEST: "approved"}),
        ("cancel", {}),
        ("approve", {machine_wire.REQUEST: "approved"}),
        ("finish", {machine_wire.REQUEST: "requested"}),
    ],
)
def test_a_machine_whose_state_does_not_allow_it(act: str, labels: Meta) -> None:
    assert why(planned(act, "Machine", labels=labels))


def test_a_node_consents_to_what_it_is_asked() -> None:
    answer = planned("approve", "Node", "machine", labels={machine_wire.MAINTENANCE: "true"})
    assert change(answer) == {"labels": {machine_wire.MAINTENANCE_APPROVED: "true"}}
    assert why(planned("approve", "Node", "machine"))


ENTRY = '{"name":"%s","version":"1.0.0","image":"i","stage":"apply","state":"%s"}'
NODE_STATE = "skyhook.nvidia.com/nodeState_"


def state(**packages: str) -> str:
    entries = ",".join(f'"{name}|1.0.0":{ENTRY % (name, state)}' for name, state in packages.items())
    return f"{{{entries}}}"


def test_the_package_that_fails_runs_again() -> None:
    annotations = {f"{NODE_STATE}tune": state(a="complete", b="erroring")}
    found = change(planned("retry", "Node", "package", annotations=annotations))["annotations"]
    assert list(found) == [f"{NODE_STATE}tune"]
    assert '"a|1.0.0"' in found[f"{NODE_STATE}tune"]
    assert '"b|1.0.0"' not in found[f"{NODE_STATE}tune"]


def test_a_package_runs_again_with_all_its_steps() -> None:
    annotations = {f"{NODE_STATE}tune": state(a="complete")}
    answer = planned("rerun", "Node", "package", annotations=annotations, args={"skyhook": "tune", "package": "a"})
    assert change(answer) == {"annotations": {f"{NODE_STATE}tune": None, "haulout.dev/rerun": "tune/a"}}


@pytest.mark.parametrize(
    "annotations",
    [
        pytest.param({}, id="nothing"),
        pytest.param({f"{NODE_STATE}tune": state(a="complete")}, id="nothing fails"),
        pytest.param({f"{NODE_STATE}tune": state(a="erroring", b="erroring")}, id="several"),
        pytest.param({f"{NODE_STATE}tune": "{"}, id="unreadable"),
    ],
)
def test_no_single_package_is_meant(annotations: Meta) -> None:
    assert why(planned("retry", "Node", "package", annotations=annotations))


def test_the_names_are_those_of_the_surfaces() -> None:
    assert maintenance_wire.DRAIN_TAINT.key == maintenance_acts.DRAIN_TAINT_KEY
    for kind, resource in (
        (maintenance_acts.MAINTENANCES, maintenance_wire.RESOURCE),
        (notice_acts.NOTICES, notice_wire.RESOURCE),
    ):
        assert (kind.kind, kind.path(), kind.is_namespaced) == (resource.kind, resource.path, resource.namespaced)
    assert machine_acts.CONSENTS == {
        machine_wire.DELETED: machine_wire.DELETION_APPROVED,
        machine_wire.MAINTENANCE: machine_wire.MAINTENANCE_APPROVED,
    }
    for name in ("ENABLED", "REQUEST", "REQUESTED", "APPROVED"):
        assert getattr(machine_acts, name) == getattr(machine_wire, name)
    for name in ("READY", "CLIENT", "VALIDATION", "HOLD", "RETRY", "SCHEDULED", "STARTED", "SLA_EXPIRED"):
        assert getattr(notice_acts, name) == getattr(notice_wire, name)


@pytest.mark.parametrize("act", [each.act for each in declared_acts()], ids=lambda act: f"{act.name}-{act.way}")
def test_a_declaration_is_whole(act: Act) -> None:
    assert callable(load(act.plan))
    assert act.needs
    assert act.help
    required = [argument for argument in act.arguments if argument.required]
    assert all(argument.example or argument.choices or argument.picks for argument in required)


@pytest.mark.parametrize("kind", ["", "Node", "NodeMaintenance", "NotifyMaintenance", "Machine", "Skyhook"])
def test_acts_of_one_name_differ_in_their_way(kind: str) -> None:
    names = [(each.act.name, each.act.way) for each in acts_for(kind)]
    assert len(names) == len(set(names))
