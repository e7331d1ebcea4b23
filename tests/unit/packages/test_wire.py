"""Skyhooks and DeploymentPolicies as they are decoded."""

import msgspec
import pytest

from haulout.cluster.project import Keep, Projector
from haulout.surfaces.packages.skyhook.intent import problem_of
from haulout.surfaces.packages.wire import PAUSE, RESOURCE, Skyhook, SkyhookRow, without_tag
from haulout.surfaces.packages.wire_policy import (
    POLICY_RESOURCE,
    DeploymentPolicy,
    PolicyRow,
    Strategy,
)
from haulout.surfaces.packages.wire_status import BatchState, CompartmentStatus, SkyhookStatus, status_patch


def _skyhook(**spec: object) -> SkyhookRow:
    body = {"metadata": {"name": "demo", "annotations": {PAUSE: "true"}}, "spec": spec}
    row = Projector(RESOURCE, "", Keep(frozenset({PAUSE}))).row(msgspec.convert(body, Skyhook))
    assert isinstance(row, SkyhookRow)
    return row


def _policy(**spec: object) -> PolicyRow:
    body = {"metadata": {"name": "careful"}, "spec": spec}
    row = Projector(POLICY_RESOURCE, "", Keep()).row(msgspec.convert(body, DeploymentPolicy))
    assert isinstance(row, PolicyRow)
    return row


IMAGES = [
    ("registry.local:5000/pkgs/base", "registry.local:5000/pkgs/base"),
    ("registry.local:5000/pkgs/base:9", "registry.local:5000/pkgs/base"),
    ("base:9", "base"),
    ("base@sha256:12", "base@sha256:12"),
    ("reg:1/base:9@sha256:12", "reg:1/base:9@sha256:12"),
]


@pytest.mark.parametrize(("image", "repository"), IMAGES, ids=[image for image, _ in IMAGES])
def test_only_a_tag_is_cut_off(image: str, repository: str) -> None:
    assert without_tag(image) == repository


def test_a_package_is_named_by_its_key() -> None:
    row = _skyhook(packages={"base": {"version": "1", "image": "r:5000/base:3"}})
    assert (row.spec.packages["base"].key, row.spec.packages["base"].image) == ("base|1", "r:5000/base")


def test_an_empty_spec_has_the_defaults_and_selects_every_node() -> None:
    row = _skyhook()
    assert (row.spec.priority, row.spec.sequencing, row.is_paused, row.protected) == (200, "node", True, None)
    assert row.selector is not None
    assert row.selector.matches({})


def test_a_selector_that_cannot_be_read_is_a_problem_of_its_skyhook() -> None:
    row = _skyhook(nodeSelectors={"matchExpressions": [{"key": "a", "operator": "Near"}]})
    assert row.selector is None
    assert problem_of(row).startswith("node selectors are not valid: ")


def test_labels_of_protected_pods_that_cannot_be_read_leave_the_node_selector_alone() -> None:
    bad = {"matchExpressions": [{"key": "a", "operator": "Near"}]}
    row = _skyhook(nodeSelectors={"matchLabels": {"a": "b"}}, podNonInterruptLabels=bad)
    assert row.selector is not None
    assert (row.selector.matches({"a": "b"}), row.selector.matches({})) == (True, False)
    assert problem_of(row).startswith("pod non-interrupt labels are not valid: ")


def test_a_compartment_without_a_strategy_inherits_the_default_one() -> None:
    row = _policy(
        default={"budget": {"percent": 20}, "strategy": {"linear": {}}},
        compartments=[{"name": "gpu", "selector": {"matchLabels": {"a": "b"}}, "budget": {"count": 2}}],
    )
    assert row.compartments[0].strategy == row.default.strategy == Strategy("linear")
    assert row.resets


def test_a_status_patch_removes_what_is_zero_again() -> None:
    stopped = CompartmentStatus(matched=2, batch_state=BatchState(current_batch=3, should_stop=True))
    fresh = CompartmentStatus(matched=2, batch_state=BatchState(current_batch=1))
    patch = status_patch(
        SkyhookStatus(compartment_statuses={"a": stopped}), SkyhookStatus(compartment_statuses={"a": fresh})
    )
    assert patch == {"status": {"compartmentStatuses": {"a": {"batchState": {"shouldStop": None, "currentBatch": 1}}}}}


def test_an_equal_status_needs_no_patch() -> None:
    assert status_patch(SkyhookStatus(), SkyhookStatus()) == {}


def test_the_client_that_created_it_is_kept() -> None:
    """The record of a maintenance names it where admission has noted no user."""
    about = {"manager": "kubectl-create", "operation": "Update", "time": "2026-01-01T00:00:00Z", "fieldsV1": {}}
    body = {"metadata": {"name": "demo", "managedFields": [about]}, "spec": {}}
    row = Projector(RESOURCE, "", Keep()).row(msgspec.convert(body, Skyhook))
    assert isinstance(row, SkyhookRow)
    assert row.creator == "kubectl-create"
