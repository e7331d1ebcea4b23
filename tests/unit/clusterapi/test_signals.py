"""The function that maps signals between Machine and Node, by the tables of the contract."""

from __future__ import annotations

from itertools import product

import pytest

from haulout.surfaces.clusterapi.options import Options
from haulout.surfaces.clusterapi.signals import Signals, Targets, signals, targets_of
from tests.build.machines import MACHINES, ask, edits, linked, machine, node

# D (deleting), A (approved): the hook, machine-deleted.
DELETION = {
    (False, False): (True, False),
    (False, True): (False, False),
    (True, False): (True, True),
    (True, True): (False, True),
}
# R (the request), V (approved): machine-maintenance, whether the request is approved now.
MAINTENANCE = {
    (None, False): (False, False),
    (None, True): (False, False),
    ("requested", False): (True, False),
    ("requested", True): (True, True),
    ("approved", False): (True, False),
    ("approved", True): (True, False),
    ("in-progress", False): (False, False),
    ("in-progress", True): (False, False),
    ("Approved", True): (False, False),
    ("", True): (False, False),
}
BOTH = [
    pytest.param(*deletion, *request, id=f"{deletion}-{request}")
    for deletion, request in product(DELETION, MAINTENANCE)
]


@pytest.mark.parametrize("deleting, approved, request_, consent", BOTH)
def test_deletion_and_maintenance_do_not_depend_on_each_other(
    deleting: bool, approved: bool, request_: str | None, consent: bool
) -> None:
    hook, deleted = DELETION[deleting, approved]
    maintenance, approve = MAINTENANCE[request_, consent]
    heard = Signals(True, True, deleting, approved, request_, consent)
    assert targets_of(heard) == Targets(hook, deleted, maintenance, approve)


@pytest.mark.parametrize("managed, enabled", [(False, True), (True, False), (False, False)])
@pytest.mark.parametrize("deleting, approved, request_, consent", BOTH)
def test_without_both_sides_nothing_is_wanted(
    managed: bool, enabled: bool, deleting: bool, approved: bool, request_: str | None, consent: bool
) -> None:
    assert targets_of(Signals(managed, enabled, deleting, approved, request_, consent)) == Targets()


@pytest.mark.parametrize("state", ["operational", "in-maintenance", ""])
def test_a_node_is_looked_after_whatever_its_state(state: str) -> None:
    assert signals(machine(), node(state=state), Options()).managed


def test_a_node_without_a_state_is_not_looked_after() -> None:
    assert not signals(machine(), node(state=None), Options()).managed


@pytest.mark.parametrize("enabled", [None, "True", "1", "", "false", "true "])
def test_only_the_exact_word_enables(enabled: str | None) -> None:
    assert not signals(machine(enabled=enabled), node(), Options()).enabled


@pytest.mark.parametrize("value", [None, "True", "1", "", "yes"])
def test_only_the_exact_word_approves(value: str | None) -> None:
    heard = signals(machine(), node(approve_deletion=value, approve_maintenance=value), Options())
    assert not heard.deletion_approved
    assert not heard.maintenance_approved


def test_the_exact_word_approves() -> None:
    heard = signals(machine(), node(approve_deletion="true", approve_maintenance="true"), Options())
    assert heard.deletion_approved
    assert heard.maintenance_approved


@pytest.mark.parametrize("deleted, counts", [(None, False), ("true", True), ("", True)])
def test_with_hygiene_an_approval_counts_only_while_the_deletion_is_announced(
    deleted: str | None, counts: bool
) -> None:
    heard = signals(machine(), node(approve_deletion="true", deleted=deleted), Options(approval_hygiene=True))
    assert heard.deletion_approved is counts


# The whole table through the decision, whatever stood there before

VALUES = (None, "true", "foreign")


@pytest.mark.parametrize("before", VALUES)
@pytest.mark.parametrize("managed", [True, False])
@pytest.mark.parametrize("deleting, approved, request_, consent", BOTH)
def test_what_stands_wrong_is_set_right_and_what_stands_right_is_left_alone(
    managed: bool, deleting: bool, approved: bool, request_: str | None, consent: bool, before: str | None
) -> None:
    hook, deleted = DELETION[deleting, approved] if managed else (False, False)
    maintenance, approve = MAINTENANCE[request_, consent] if managed else (False, False)
    hook_before = "runtime-extension-maintenance-controller" if before == "true" else before
    asked = machine(request=request_, deleting=-60 if deleting else None, hook=hook_before)
    about = node(
        state="operational" if managed else None,
        deleted=before,
        maintenance=before,
        approve_deletion="true" if approved else None,
        approve_maintenance="true" if consent else "no",
    )
    expected = [
        *change("n: machine-deleted", before, "true" if deleted else None),
        *change("n: machine-maintenance", before, "true" if maintenance else None),
        *change("m: hook", hook_before, "runtime-extension-maintenance-controller" if hook else None),
        *(["m: maintenance=approved"] if approve else []),
    ]
    assert edits(ask(MACHINES, linked(asked, about))) == expected


def change(name: str, before: str | None, after: str | None) -> list[str]:
    gone = name.replace(": ", ": -")
    return [] if before == after else [gone] if after is None else [f"{name}={after}"]
