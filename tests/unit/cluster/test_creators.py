"""Which client created an object, by what the API server notes of all that have written it."""

from __future__ import annotations

from haulout.model.meta import FIELD_MANAGER, ManagedBy, creator_of

SOON, LATER = "2026-03-01T10:00:00Z", "2026-03-01T10:00:05Z"


def test_the_first_client_that_wrote_more_than_the_status_created_it() -> None:
    found = (
        ManagedBy("kubectl-edit", "Update", LATER),
        ManagedBy("kubectl-create", "Update", SOON),
        ManagedBy("controller", "Update", "2026-03-01T09:00:00Z", "status"),
    )
    assert creator_of(found) == "kubectl-create"


def test_the_operator_that_writes_within_the_same_second_did_not_create_it() -> None:
    found = (ManagedBy(FIELD_MANAGER, "Update", SOON), ManagedBy("kubectl-create", "Update", SOON))
    assert creator_of(found) == "kubectl-create"
    assert creator_of(found[:1]) == FIELD_MANAGER
    assert creator_of(()) == ""
