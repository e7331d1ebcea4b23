"""From steps to requests: which edits of one object are merged."""

from __future__ import annotations

from haulout.cluster.key import Key, node_key
from haulout.core.action import Annotate, Cordon, Patch
from haulout.kernel.jobs import plan

NODE, CUSTOM = node_key("a"), Key("", "Custom", "", "a")


def subresources(*edits: Annotate | Cordon | Patch) -> list[str]:
    (batch,) = plan([edits])
    return [job.subresource for job in batch.jobs]


def test_metadata_of_a_node_go_with_its_status() -> None:
    status = Patch(NODE, {"status": {"x": 1}}, "status", strategic=True)
    assert subresources(Annotate(NODE, "k", "v"), status) == ["status"]


def test_the_spec_of_a_node_is_written_apart_from_its_status() -> None:
    status = Patch(NODE, {"status": {"x": 1}}, "status", strategic=True)
    assert subresources(Annotate(NODE, "k", "v"), Cordon(NODE, True), status) == ["", "status"]


def test_metadata_of_a_custom_resource_are_written_apart_from_its_status() -> None:
    """Its server drops them from a patch of the status."""
    status = Patch(CUSTOM, {"status": {"x": 1}}, "status")
    assert subresources(Annotate(CUSTOM, "k", "v"), status) == ["", "status"]
