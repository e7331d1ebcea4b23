"""The declaration of rights: the docs agree with it, and it is complete."""

from __future__ import annotations

import pytest

from haulout.core.rights import CLUSTER, DEFAULT, HOME, Role
from haulout.manifests.rights import all_roles, default_names, options
from tools.rights import PAGE, page

ROLES, OPTIONS = all_roles(), options()
OPERATOR = [role for role in ROLES if role.bound]


def test_the_table_in_the_docs_is_current() -> None:
    """`python -m tools.rights` makes it so."""
    assert PAGE.read_text() == page()


@pytest.mark.parametrize("role", OPERATOR, ids=lambda role: f"{role.name}-{role.place}")
def test_every_right_of_the_operator_has_a_purpose_and_a_known_place(role: Role) -> None:
    assert role.place in (CLUSTER, HOME, DEFAULT, *default_names()) or OPTIONS[role.place].lists
    for right in role.rights:
        assert right.purpose
        assert not {right.option, right.unless} - {"", *OPTIONS}
        assert "*" not in (right.group, *right.resources, *right.verbs)


def test_every_option_gives_or_takes_a_right() -> None:
    used = {name for role in ROLES for right in role.rights for name in (role.option, right.option, right.unless)}
    assert used - {""} == set(OPTIONS)


def test_nothing_that_can_be_misused_everywhere_is_allowed_everywhere() -> None:
    """What is written in every namespace is written by name, by eviction, or on request."""
    always = [right for role in OPERATOR if role.place == CLUSTER for right in role.rights if not right.option]
    written = {
        (resource, verb) for right in always if not right.names for resource in right.resources for verb in right.verbs
    }
    assert {each for each in written if each[1] not in ("get", "list", "watch")} == {
        ("nodes", "patch"),
        ("pods/eviction", "create"),
        ("events", "create"),
        ("events", "patch"),
        ("nodemaintenances", "create"),
        ("nodemaintenances", "delete"),
        ("nodemaintenances", "patch"),
        ("nodemaintenancesets", "delete"),
        ("nodemaintenancesets/status", "patch"),
        ("nodemaintenances/status", "patch"),
        ("nodedisruptionbudgets/status", "patch"),
        ("subjectaccessreviews", "create"),
        ("maintenancerecords", "create"),
        ("maintenancerecords", "patch"),
        ("maintenancerecords", "delete"),
        ("notifymaintenances", "delete"),
        ("notifymaintenances", "patch"),
        ("notifymaintenances/status", "patch"),
        ("machines", "patch"),
        ("nodes/status", "patch"),
        ("skyhooks", "delete"),
        ("skyhooks", "patch"),
        ("skyhooks/status", "patch"),
        ("nodewrights", "delete"),
        ("nodewrights", "patch"),
        ("nodewrights/status", "patch"),
    }
