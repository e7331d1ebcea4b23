"""Which entries on nodes are left alone when a Skyhook is taken over."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from haulout.core.action import Annotate, Edit
from haulout.model.meta import Condition
from haulout.surfaces.packages.entries.entry import PackageEntry
from haulout.surfaces.packages.groups import NODEWRIGHT, SKYHOOK
from haulout.surfaces.packages.node.standing import NodeStanding, standing_key
from haulout.surfaces.packages.units.remains import is_note_due, note_of_remains, note_without_installed, removal_of
from haulout.surfaces.packages.units.unit import Unit
from haulout.surfaces.packages.wire import LEFT_ALONE, Package, SkyhookRow, Spec, skyhook_key
from haulout.surfaces.packages.wire_status import SkyhookStatus

READY = SkyhookStatus(
    status="complete", observed_generation=1, conditions=(Condition("Ready", "True", "x", "", None, None),)
)
AT = datetime(2026, 10, 1, tzinfo=UTC)
ALPHA = Package("alpha", "1.0.0", "reg.test/alpha")
OLD, NEW = ({"skyhook.nvidia.com/version": version} for version in ("v0.13.0", "v0.17.1"))


def unit(group: Any = SKYHOOK, **row: Any) -> Unit:
    base = {"spec": Spec(packages={"alpha": ALPHA}), "generation": 1, "annotations": OLD}
    made = SkyhookRow(key=skyhook_key("demo", group), **{**base, **row})
    return Unit(made, made, source=group)


def standing(*entries: PackageEntry) -> NodeStanding:
    state = {entry.key: entry for entry in entries}
    return NodeStanding(key=standing_key("demo", "n"), skyhook="demo", node="n", state=state)


def text_of(edits: tuple[Edit, ...]) -> str | None:
    (edit,) = edits
    assert isinstance(edit, Annotate)
    return edit.value


def entry(name: str, version: str = "1.0.0", stage: str = "config", state: str = "complete") -> PackageEntry:
    return PackageEntry(name, version, "x", "", stage, state)


@pytest.mark.parametrize(
    ("found", "is_due"),
    [
        (unit(), False),
        (unit(annotations=NEW), True),
        (unit(annotations={**NEW, LEFT_ALONE: ""}), False),
        (unit(status=READY, written_at=AT), True),
        (unit(status=READY), False),
        (unit(written_at=AT), False),
        (unit(status=READY, written_at=AT, annotations={LEFT_ALONE: "2026-10-01T00:00:00Z,beta|1.0.0"}), False),
        (unit(status=READY, written_at=AT, annotations={LEFT_ALONE: "2026-09-01T00:00:00Z"}), True),
        (unit(NODEWRIGHT, status=READY, written_at=AT), False),
    ],
    ids=["v0.13", "v0.17", "noted", "its condition", "ours", "no condition", "noted then", "again", "NodeWright"],
)
def test_a_note_is_due_once_for_each_stay_with_an_original_that_leaves_entries_behind(
    found: Unit, is_due: bool
) -> None:
    assert is_note_due(found) is is_due


def test_what_no_package_has_and_what_a_lower_version_has_replaced_is_noted() -> None:
    found = standing(
        entry("alpha"), entry("alpha", "1.1.0"), entry("beta"), entry("gamma", stage="uninstall", state="in_progress")
    )
    assert text_of(note_of_remains(unit(written_at=AT), [found])) == "2026-10-01T00:00:00Z,alpha|1.1.0,beta|1.0.0"


def test_a_downgrade_that_has_not_begun_is_no_remainder() -> None:
    assert text_of(note_of_remains(unit(), [standing(entry("alpha", "1.1.0"))])) == ""


def test_only_entries_of_the_note_are_left_alone() -> None:
    notes = {**NEW, LEFT_ALONE: "2026-10-01T00:00:00Z,beta|1.0.0"}
    assert removal_of(unit(annotations=notes)).left_alone == {"beta|1.0.0"}


def test_a_package_that_the_skyhook_installs_again_is_taken_out_of_the_note() -> None:
    notes = {**NEW, LEFT_ALONE: "2026-10-01T00:00:00Z,alpha|1.0.0,beta|1.0.0"}
    found = unit(annotations=notes, status=READY).stored
    assert text_of(note_without_installed(found)) == "2026-10-01T00:00:00Z,beta|1.0.0"
    under_way = msgspec.structs.replace(found, status=SkyhookStatus(status="in_progress"))
    assert note_without_installed(under_way) == ()
