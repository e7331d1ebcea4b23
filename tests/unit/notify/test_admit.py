"""What the webhook allows and refuses: the order of the checks, their messages and codes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from haulout.cluster.key import Key, node_key
from haulout.cluster.rows import NodeRow
from haulout.cluster.store import Store
from haulout.cluster.view import View
from haulout.core.admission import AdmissionRequest, Items, Question, Unanswered, Unreadable, Verdict
from haulout.model.meta import PartialObject
from haulout.surfaces.notify.admit import LIST, ReviewedNotice, admit, webhooks
from haulout.surfaces.notify.wire import KIND, NoticeRow

READY, CLIENT, VALIDATION = (
    "maintenance/readyForMaintenance",
    "maintenance/maintenanceClient",
    "maintenance/validationClient",
)


def body(annotations: dict[str, str] | None = None, **spec: str) -> ReviewedNotice:
    wanted = {"nodeObject": "n0", "maintenanceID": "id", "maintenanceType": "planned", **spec}
    return msgspec.convert({"metadata": {"annotations": annotations}, "spec": wanted}, ReviewedNotice)


def view(*others: tuple[str, str]) -> View:
    store = Store()
    for kind in ("Node", KIND):
        store.begin_list("", kind)
        store.end_list("", kind, 1)
    store.put(NodeRow(key=node_key("n0"), uid="u", version=1))
    for number, (node, mid) in enumerate(others):
        store.put(
            NoticeRow(key=Key("", KIND, "x", f"o{number}"), uid=f"o{number}", version=1, node=node, maintenance=mid)
        )
    return View(store)


CONFIGMAP = Question("/api/v1/namespaces/fleet/configmaps/c", PartialObject)


def created(new: Any, known: View | None = None, **answers: Any) -> Verdict:
    given = {LIST: answers.get("listed", Items()), CONFIGMAP: answers.get("configmap", PartialObject())}
    request = AdmissionRequest(uid="1", operation="CREATE", namespace="fleet", object=new, answers=given)
    return admit(request, known or view())


def updated(old: ReviewedNotice, new: ReviewedNotice) -> Verdict:
    return admit(AdmissionRequest(uid="1", operation="UPDATE", object=new, old_object=old), view())


SPECS = [
    ({"maintenanceID": ""}, "please specify a MaintenanceID in .spec.MaintenanceID"),
    ({"maintenanceID": "", "nodeObject": ""}, "please specify a MaintenanceID in .spec.MaintenanceID"),
    ({"nodeObject": "", "maintenanceType": "x"}, "please specify an object in .spec.objects"),
    ({"maintenanceType": "Planned"}, "MaintenanceType can only be planned or unplanned in .spec.MaintenanceType"),
]


@pytest.mark.parametrize(("spec", "message"), SPECS)
def test_the_spec_is_checked_first(spec: dict[str, str], message: str) -> None:
    wrong = body({READY: "perhaps"}, **spec)
    for verdict in (created(wrong), updated(body(), wrong)):
        assert (verdict.allowed, verdict.code, verdict.message) == (False, 403, message)


@pytest.mark.parametrize("name", ["a b/c", "a" * 64, "-a", "a-"])
def test_an_id_that_cannot_be_a_label_is_refused_at_creation_alone(name: str) -> None:
    verdict = created(body(maintenanceID=name))
    assert verdict.message.startswith(f'spec.maintenanceID "{name}" is not a valid label name: it must be at most 63')
    assert updated(body(maintenanceID=name), body(maintenanceID=name)).allowed


@pytest.mark.parametrize("name", ["A.b_c-9", "a" * 63, "7"])
def test_an_id_that_can_be_a_label_passes(name: str) -> None:
    assert created(body(maintenanceID=name)).allowed


def test_annotation_values_are_checked_in_their_order() -> None:
    wrong = body({READY: "x", VALIDATION: "y", CLIENT: "z"})
    assert created(wrong).message == f"annotation value z is not allowed for key {CLIENT}"
    wrong = body({READY: "x", VALIDATION: "y", CLIENT: "complete"})
    assert created(wrong).message == f"annotation value y is not allowed for key {VALIDATION}"
    assert updated(body(), body({READY: ""})).message == f"annotation value  is not allowed for key {READY}"


@pytest.mark.parametrize(
    ("key", "final", "other"),
    [
        (READY, "true", "false"),
        (CLIENT, "complete", "inprogress"),
        (CLIENT, "incomplete", "complete"),
        (VALIDATION, "validated", "failed"),
        (VALIDATION, "failed", "inprogress"),
    ],
)
def test_a_final_value_stays_or_goes(key: str, final: str, other: str) -> None:
    verdict = updated(body({key: final}), body({key: other}))
    assert verdict.message == (
        f"annotation value for {key} cannot be modified from a final state value. "
        f"Final State value: {final}. Attempted to set value: {other}"
    )
    assert updated(body({key: final}), body()).allowed, "removing is allowed"
    assert updated(body({key: other}), body({key: final})).allowed == (other in ("false", "inprogress"))


def test_node_and_id_cannot_be_changed() -> None:
    assert (
        updated(body(), body(nodeObject="n1")).message == "change of .spec.object in NotifyMaintenance is not allowed"
    )
    verdict = updated(body(), body(maintenanceID="other"))
    assert verdict.message == "change of .spec.maintenanceID in NotifyMaintenance is not allowed"
    assert updated(body(), body(maintenanceType="unplanned", owner="x", metadataConfigmap="missing")).allowed


def test_annotations_of_others_are_not_decoded() -> None:
    crowded = body({**{f"k{number}": "v" for number in range(1000)}, READY: "perhaps", CLIENT: "complete"})
    assert crowded.annotations == {READY: "perhaps", CLIENT: "complete"}


DUPLICATE = "nofityMainenance objects with the same maintenanceID (id) cannot have the same nodeObject (n0)"


def test_duplicates_are_found_in_the_live_list() -> None:
    assert created(body(), listed=Items((body(),))).message == DUPLICATE
    assert created(body(), view(("n0", "id"))).allowed, "what is known may be old"
    assert created(body(), listed=Items((body(nodeObject="n1"), body(maintenanceID="2")))).allowed


@pytest.mark.parametrize(("count", "allowed"), [(99, True), (100, False)])
def test_a_node_has_a_bounded_number_of_maintenances(count: int, allowed: bool) -> None:
    others = tuple(body(maintenanceID=str(number)) for number in range(count))
    elsewhere = tuple(body(maintenanceID=str(number), nodeObject="n1") for number in range(count))
    known = view(*(("n0", str(number)) for number in range(count)))
    verdicts = [
        created(body(), listed=Items((*others, *elsewhere))),
        created(body(), known, listed=Unanswered(503, "")),
    ]
    assert [each.allowed for each in verdicts] == [allowed, allowed]
    assert [each.message for each in verdicts if each.message] == [
        "node n0 has 100 maintenances already, and may have 100"
    ] * (0 if allowed else 2)


def test_without_a_list_what_is_known_counts() -> None:
    lost = Unanswered(0, "no answer")
    assert created(body(), view(("n0", "id")), listed=lost).message == DUPLICATE
    assert created(body(), view(("n0", "2")), listed=lost).allowed


def test_a_configmap_must_be_there_unless_it_may_not_be_read() -> None:
    wanted = body(metadataConfigmap="c")
    missing = created(wanted, configmap=None)
    assert (missing.code, missing.reason, missing.message) == (404, "NotFound", 'ConfigMap "c" not found')
    assert created(wanted, configmap=Unanswered(403, "forbidden")).allowed
    assert created(body(metadataConfigmap="../secrets/x")).code == 404, "no such name leads anywhere"


def test_a_node_must_be_there_and_is_looked_at_before_it_is_refused() -> None:
    verdict = created(body(nodeObject="n9"))
    assert (verdict.code, verdict.message, verdict.doubts) == (404, 'Node "n9" not found', (node_key("n9"),))


def test_questions_come_before_a_verdict() -> None:
    request = AdmissionRequest(uid="1", operation="CREATE", namespace="fleet", object=body(metadataConfigmap="c"))
    assert admit(request, view()).questions == (LIST, CONFIGMAP)
    assert not admit(msgspec.structs.replace(request, object=body(maintenanceType="x")), view()).questions


def test_what_cannot_be_decoded_is_a_bad_request() -> None:
    assert created(Unreadable("expected object")).code == 400


def test_deletions_are_never_looked_at() -> None:
    assert admit(AdmissionRequest(uid="1", operation="DELETE"), view()).allowed


def test_the_handler_for_defaults_is_served_and_changes_nothing() -> None:
    validating, defaulting = webhooks()
    assert (validating.mutates, defaulting.mutates) == (False, True)
    assert defaulting.path == "/mutate-ngn2-nvidia-com-v1alpha1-notifymaintenance"
    # No configuration object of that name exists, so that there is none to write an authority into.
    assert (validating.registration != "", defaulting.registration) == (True, "")
    for wrong in (body(maintenanceType="sometimes"), Unreadable("not an object"), None):
        assert defaulting.rule(AdmissionRequest(uid="u", operation="CREATE", object=wrong), view()) == Verdict(
            allowed=True
        )
