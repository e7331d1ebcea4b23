"""Who asked for a maintenance: admission's note is proven, everything else is claimed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.json import encode

from haulout.cluster.key import Key
from haulout.cluster.rows import AskedRow, LabelAuthor, NodeRow, Value
from haulout.cluster.store import Store
from haulout.cluster.view import CONFIG, View
from haulout.core.admission import AdmissionRequest
from haulout.core.logbook.admit import ReviewedObject, judge
from haulout.core.logbook.options import KEY_NAME, NAME, LogbookOptions, People
from haulout.core.logbook.requester import note_of, requester_of, shown_name
from haulout.core.logbook.wire import REQUEST_PROOF, REQUESTED_BY, How
from haulout.serve.reviews import read_review

NOW = datetime(2026, 3, 1, 10, tzinfo=UTC)
SECRET = b"k" * 32
SUBJECT = ("NodeMaintenance", "", "a")


def row(annotations: dict[str, str], created_at: datetime = NOW, name: str = "a", creator: str = "") -> AskedRow:
    key = Key("", "NodeMaintenance", "", name)
    return AskedRow(key=key, uid="u", annotations=annotations, created_at=created_at, creator=creator)


def asked(
    found: AskedRow | NodeRow, request: tuple[str, str] | None = None, people: People = People.FULL
) -> tuple[str, str]:
    who = requester_of(found, request, SECRET, people)
    return who.name, who.how.value


def test_a_note_of_admission_is_proven() -> None:
    assert asked(row(note_of(SECRET, SUBJECT, "", "alice", NOW))) == ("alice", How.ADMISSION)


@pytest.mark.parametrize(
    "found",
    [
        row({REQUESTED_BY: "alice"}),
        row({REQUESTED_BY: "alice", REQUEST_PROOF: "2026-03-01T10:00:00Z abc"}),
        row({**note_of(SECRET, SUBJECT, "", "alice", NOW), REQUESTED_BY: "mallory"}),
        row(note_of(SECRET, SUBJECT, "", "alice", NOW), name="b"),
        row(note_of(SECRET, SUBJECT, "", "alice", NOW), created_at=NOW + timedelta(hours=1)),
        row(note_of(b"other", SUBJECT, "", "alice", NOW)),
    ],
    ids=["no proof", "an invented proof", "another name", "copied to another object", "copied later", "another key"],
)
def test_what_admission_did_not_write_is_claimed(found: AskedRow) -> None:
    assert asked(found)[1] == How.CLAIMED


def test_without_a_note_the_client_that_created_the_object_is_named() -> None:
    assert asked(row({}, creator="kubectl-create")) == ("kubectl-create", How.CLAIMED)
    assert asked(row({})) == ("", How.UNKNOWN)


def test_a_label_of_a_node_is_proven_for_its_value_and_time_alone() -> None:
    request = ("cloud.sap/maintenance-profile", "os")
    note = note_of(SECRET, ("Node", "", "n"), "cloud.sap/maintenance-profile=os", "alice", NOW)
    author = LabelAuthor("cloud.sap/maintenance-profile", "kubectl-label", NOW)
    node = NodeRow(key=Key("", "Node", "", "n"), annotations=note, authors=(author,))
    assert asked(node, request) == ("alice", How.ADMISSION)
    assert asked(node, (request[0], "kernel"))[1] == How.CLAIMED
    later = LabelAuthor(author.label, "kubectl-label", NOW + timedelta(hours=2))
    again = NodeRow(key=node.key, annotations=note, authors=(later,))
    assert asked(again, request)[1] == How.CLAIMED


def test_where_the_api_server_notes_no_clients_the_label_is_proven_for_the_time_of_the_beginning() -> None:
    """A Node that was created without any label, annotation or spec never gets managedFields."""
    request = ("cloud.sap/maintenance-profile", "os")
    note = note_of(SECRET, ("Node", "", "n"), "cloud.sap/maintenance-profile=os", "alice", NOW)
    node = NodeRow(key=Key("", "Node", "", "n"), annotations=note)
    soon, later = NOW + timedelta(seconds=20), NOW + timedelta(hours=2)
    assert requester_of(node, request, SECRET, People.FULL, soon).how == How.ADMISSION
    assert requester_of(node, request, SECRET, People.FULL, later).how == How.CLAIMED


def test_names_are_recorded_as_the_settings_say() -> None:
    assert shown_name("alice", People.NONE) == ""
    hashed = shown_name("alice", People.HASH)
    assert hashed.startswith("sha256:")
    assert "alice" not in hashed
    assert shown_name(hashed, People.HASH) == hashed


def test_a_hash_of_a_name_cannot_be_compared_without_the_key_of_the_installation() -> None:
    hashed = {shown_name("alice", People.HASH, key) for key in (SECRET, b"other", b"")}
    assert len(hashed) == 3
    assert shown_name("alice", People.HASH, SECRET) in hashed


def view(people: People = People.FULL) -> View:
    store = Store()
    store.write(Value(key=Key("", CONFIG, "", NAME), value=LogbookOptions(people)))
    store.write(Value(key=Key("", CONFIG, "", KEY_NAME), value=SECRET))
    return View(store)


def review(kind: str, operation: str, after: dict[str, Any], before: dict[str, Any] | None = None) -> AdmissionRequest:
    request = {"uid": "1", "operation": operation, "kind": {"kind": kind}, "name": "a", "userInfo": {"username": "bob"}}
    objects = {"object": {"metadata": after}, "oldObject": {"metadata": before} if before is not None else None}
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {**request, **objects}}
    return read_review(encode(body), ReviewedObject)


def patched(request: AdmissionRequest, people: People = People.FULL) -> dict[str, Any]:
    """Return what the verdict writes, by path."""
    verdict = judge(request, view(people), NOW)
    assert verdict.allowed
    return {each["path"].rpartition("/")[2].replace("~1", "/"): each.get("value") for each in verdict.patch}


def test_the_user_is_noted_in_place_of_what_was_written() -> None:
    found = patched(review("NodeMaintenance", "CREATE", {"annotations": {REQUESTED_BY: "queen"}}))
    assert found[REQUESTED_BY] == "bob"
    assert asked(row({REQUESTED_BY: "bob", REQUEST_PROOF: found[REQUEST_PROOF]})) == ("bob", How.ADMISSION)


def test_a_note_cannot_be_changed_later() -> None:
    before = {"annotations": {REQUESTED_BY: "bob", REQUEST_PROOF: "p"}}
    changed = review("NodeMaintenance", "UPDATE", {"annotations": {REQUESTED_BY: "queen", REQUEST_PROOF: "p"}}, before)
    assert patched(changed) == {REQUESTED_BY: "bob"}
    added = review("NodeMaintenance", "UPDATE", {"annotations": {REQUESTED_BY: "queen"}}, {})
    assert patched(added) == {REQUESTED_BY: None}


def test_a_label_of_a_node_is_noted_and_forgotten() -> None:
    label = {"labels": {"cloud.sap/maintenance-profile": "os"}}
    assert patched(review("Node", "UPDATE", label, {}))[REQUESTED_BY] == "bob"
    gone = review(
        "Node", "UPDATE", {"annotations": {REQUESTED_BY: "bob"}}, {**label, "annotations": {REQUESTED_BY: "bob"}}
    )
    assert patched(gone) == {REQUESTED_BY: None}
    assert patched(review("Node", "UPDATE", {**label, "annotations": {}}, label)) == {}


def test_nothing_is_noted_where_no_names_are_to_be_recorded() -> None:
    found = patched(review("NodeMaintenance", "CREATE", {"annotations": {REQUESTED_BY: "queen"}}), People.NONE)
    assert found == {REQUESTED_BY: None}
