"""The status of a Skyhook: what is left out if it grows too large, and its patches."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from haulout.base.patch import merge
from haulout.surfaces.packages.entries.entry import PackageEntry
from haulout.surfaces.packages.node.standing import NodeStanding, standing_key
from haulout.surfaces.packages.skyhook import status_size
from haulout.surfaces.packages.skyhook.status_size import node_states
from haulout.surfaces.packages.skyhook.writes import mirror_delay
from haulout.surfaces.packages.wire_status import SkyhookStatus, status_patch

BASE = PackageEntry("base", "1.0.0", "reg.test/base", stage="apply", state="in_progress")
ON_WIRE = (
    '"n0":{"base|1.0.0":{"name":"base","version":"1.0.0","image":"reg.test/base",'
    '"stage":"apply","state":"in_progress","restarts":0}}'
)


def standings(*complete: bool) -> list[NodeStanding]:
    state = {BASE.key: BASE}
    return [
        NodeStanding(
            key=standing_key("demo", f"n{number}"), skyhook="demo", node=f"n{number}", state=state, is_complete=done
        )
        for number, done in enumerate(complete)
    ]


@pytest.mark.parametrize(
    ("room", "kept", "left_out"),
    [
        pytest.param(4, ["n0", "n1", "n2", "n3"], "", id="all"),
        pytest.param(3, ["n0", "n2", "n3"], "complete nodes", id="incomplete"),
        pytest.param(2, ["n0", "n2"], "complete nodes and some others", id="as many as fit"),
    ],
)
def test_states_are_left_out_where_there_is_no_room(
    monkeypatch: pytest.MonkeyPatch, room: int, kept: list[str], left_out: str
) -> None:
    monkeypatch.setattr(status_size, "LARGEST_NODE_STATE", room * (len(ON_WIRE) + 2))
    found, without = node_states(standings(False, True, False, False))
    assert (list(found), without) == (kept, left_out)


def test_long_entries_of_one_node_leave_out_only_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_size, "LARGEST_NODE_STATE", 2 * (len(ON_WIRE) + 2))
    first, *others = standings(False, False, False)
    long = msgspec.structs.replace(BASE, image="x" * 10_000)
    found, _ = node_states([msgspec.structs.replace(first, state={BASE.key: long}), *others])
    assert list(found) == ["n1", "n2"]


PATCHES = {
    "nothing": (SkyhookStatus(), {}),
    "a node that changes": (
        SkyhookStatus(node_status={"a": "complete", "b": "waiting"}, node_boot_ids={"a": "1", "b": "2"}),
        {"nodeStatus": {"a": "complete"}},
    ),
    "a node that goes": (
        SkyhookStatus(node_status={"a": "waiting"}, node_boot_ids={"a": "1"}),
        {"nodeStatus": {"b": None}, "nodeBootIds": {"b": None}},
    ),
    "all that go": (SkyhookStatus(node_boot_ids={"a": "1", "b": "2"}), {"nodeStatus": None}),
}
STORED = SkyhookStatus(node_status={"a": "waiting", "b": "waiting"}, node_boot_ids={"a": "1", "b": "2"})


@pytest.mark.parametrize(("wanted", "changes"), PATCHES.values(), ids=PATCHES.keys())
def test_a_patch_names_only_the_nodes_that_differ(wanted: SkyhookStatus, changes: dict[str, object]) -> None:
    stored = STORED if changes else SkyhookStatus()
    assert status_patch(stored, wanted) == ({"status": changes} if changes else {})


def test_the_entries_of_a_node_are_patched_one_by_one() -> None:
    more = PackageEntry("more", "2.0.0", "reg.test/more", stage="config", state="complete")
    stored = SkyhookStatus(node_state={"a": {BASE.key: BASE, more.key: more}})
    done = PackageEntry("base", "1.0.0", "reg.test/base", stage="apply", state="complete")
    wanted = SkyhookStatus(node_state={"a": {BASE.key: done}})
    patch = status_patch(stored, wanted)
    assert patch == {"status": {"nodeState": {"a": {BASE.key: {"state": "complete"}, more.key: None}}}}
    whole = status_patch(SkyhookStatus(), stored)
    assert merge(whole, patch) == status_patch(SkyhookStatus(), wanted)


@pytest.mark.parametrize(("nodes", "seconds"), [(0, 0), (500, 0), (1000, 1), (5000, 9)])
def test_a_status_that_only_mirrors_its_nodes_waits_longer_where_these_are_many(nodes: int, seconds: int) -> None:
    assert mirror_delay(nodes) == timedelta(seconds=seconds)
