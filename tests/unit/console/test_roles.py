"""The roles of the console: people may do what their role names, and the console itself may change nothing."""

from __future__ import annotations

import pytest
import yaml

from haulout.cli.root import main
from haulout.core.act import Act
from haulout.core.rights import READ
from haulout.manifests.console import APPROVALS, APPROVER, OPERATOR, REVIEWS, VIEWER, act_rights
from haulout.surfaces.registry import all_declarations

ACTS = [act for surface in all_declarations() for act in surface.acts]


def rules(*words: str, capsys: pytest.CaptureFixture[str]) -> list[dict[str, list[str]]]:
    assert main(["rbac", *words]) == 0
    documents = yaml.safe_load_all(capsys.readouterr().out)
    return [rule for document in documents if document["kind"].endswith("Role") for rule in document["rules"]]


@pytest.mark.parametrize("act", ACTS, ids=lambda act: f"{act.name}-{act.way}")
def test_every_act_belongs_to_one_role_of_people(act: Act) -> None:
    word = APPROVER if act.name in APPROVALS else OPERATOR
    granted = {
        (right.group, each, verb) for right in act_rights(word) for each in right.resources for verb in right.verbs
    }
    for need in act.needs:
        resource = "/".join(filter(None, (need.endpoint.resource, need.subresource)))
        assert (need.endpoint.group, resource, str(need.verb)) in granted


def test_a_viewer_may_change_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert act_rights(VIEWER) == ()
    assert all({*rule["verbs"]} <= {*READ} for rule in rules(VIEWER, capsys=capsys))


def test_the_console_itself_reads_and_reviews(capsys: pytest.CaptureFixture[str]) -> None:
    writing = [rule for rule in rules("console", capsys=capsys) if not {*rule["verbs"]} <= {*READ}]
    assert [rule["resources"] for rule in writing] == [list(right.resources) for right in REVIEWS]
    assert not any("secrets" in rule["resources"] for rule in rules("console", capsys=capsys))


def test_roles_of_people_are_bound_to_no_user(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rbac", VIEWER, OPERATOR, APPROVER]) == 0
    found = list(yaml.safe_load_all(capsys.readouterr().out))
    assert [(each["kind"], each["metadata"]["name"]) for each in found] == [
        ("ClusterRole", f"haulout-{word}") for word in (VIEWER, OPERATOR, APPROVER)
    ]
