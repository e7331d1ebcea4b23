"""The decision about an object that follows: it shows the leader's status, and is let go when it is deleted."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec

from haulout.base.patch import merge_diff
from haulout.cluster.key import Key
from haulout.cluster.project import within
from haulout.cluster.view import View
from haulout.core.action import Finalize, Patch, Step
from haulout.core.decision import NOTHING, Decision
from haulout.model.meta import Condition
from haulout.surfaces.packages.options import Options
from haulout.surfaces.packages.pods.config_maps import (
    NODE_METADATA,
    PACKAGE_CONFIG,
    MetadataRow,
    PackageConfigRow,
    configs_of_owner,
    metadata_of_owner,
)
from haulout.surfaces.packages.pods.jobs import jobs_of_owner
from haulout.surfaces.packages.pods.rows import PACKAGE_POD, PackagePodRow, pods_of_owner
from haulout.surfaces.packages.present import follower_reason
from haulout.surfaces.packages.skyhook.applied import APPLIED, AppliedRow, applied_key
from haulout.surfaces.packages.skyhook.conditions import Conditions
from haulout.surfaces.packages.specs.skyhook_problems import tag_problem
from haulout.surfaces.packages.units.hand_over import has_keys_on_nodes
from haulout.surfaces.packages.units.translation import SUPERSEDED, translate_status
from haulout.surfaces.packages.units.unit import Unit, has_equal_spec, superseded_text
from haulout.surfaces.packages.wire import MIRRORED_FROM, MIRRORED_GENERATION, SURFACE, SkyhookRow
from haulout.surfaces.packages.wire_status import SkyhookStatus, status_patch

replace = msgspec.structs.replace


def follow(unit: Unit, key: Key, view: View, now: datetime) -> Decision:
    """Decide about the object of a unit that does not lead."""
    row, setting = unit.other, view.config(SURFACE)
    if row is None or row.key != key or setting is None:
        return NOTHING
    assert isinstance(setting.value, Options)
    if row.deleting_at is not None:
        return _released(unit, row, view, setting.value)
    steps: list[Step] = []
    if row.group.finalizer not in row.finalizers:
        steps.append((Finalize(row.key, row.group.finalizer, present=True),))
    if unit.is_settled:
        steps += _synced(unit, row)
        wanted = status_of(unit, row, now)
        body = status_patch(row.status, wanted)
        if body:
            steps.append((Patch(row.key, body, "status", becomes=replace(row, status=wanted)),))
    reasons = (follower_reason(unit.stored, row),) if view.explaining else ()
    return Decision(actions=tuple(steps), reasons=reasons)


def status_of(unit: Unit, row: SkyhookRow, now: datetime) -> SkyhookStatus:
    """Return the status of a follower: that of the leader, and whether its own spec is not the one in force."""
    status = translate_status(unit.stored, row, follows=True)
    stored = {each.type: each for each in row.status.conditions}
    conditions = Conditions([stored[SUPERSEDED]] if SUPERSEDED in stored else [], row.generation, now)
    if has_equal_spec(row, unit.stored):
        conditions.remove(SUPERSEDED)
    else:
        conditions.set(SUPERSEDED, True, "SameNameInOtherGroup", superseded_text(unit.stored))
    known: tuple[Condition, ...] = conditions.all()
    return replace(status, conditions=(*status.conditions, *known))


def _synced(unit: Unit, row: SkyhookRow) -> Iterator[Step]:
    """Yield the write that gives an untouched mirror the spec of its Skyhook.

    A mirror that another client manages is left alone, and so is one that would be refused because of an image.
    """
    leader = unit.stored
    mirrors = row.annotations.get(MIRRORED_FROM) == leader.name
    if not mirrors or row.has_manager or has_equal_spec(row, leader) or tag_problem(leader.spec):
        return
    changes = merge_diff(_written(row), _written(leader))
    # The row has no tags, but the stored mirror may have some, with which it would be refused.
    for name in set(row.tagged) & set(leader.spec.packages):
        changes.setdefault("packages", {}).setdefault(name, {})["image"] = leader.spec.packages[name].image
    stamp: dict[str, Any] = {"annotations": {MIRRORED_GENERATION: str(leader.generation)}}
    yield (Patch(row.key, {"spec": changes, "metadata": stamp}),)


def _written(row: SkyhookRow) -> dict[str, Any]:
    """Return a spec as JSON, without members that have no value."""
    form: dict[str, Any] = _without_nulls(msgspec.json.decode(msgspec.json.encode(row.spec)))
    return form


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(each) for name, each in value.items() if each is not None}
    return value


def _released(unit: Unit, row: SkyhookRow, view: View, options: Options) -> Decision:
    """Remove the finalizer of a deleted follower once the leader has taken over everything that it had."""
    if row.group.finalizer not in row.finalizers or not unit.is_settled or _owns_something(row, view, options):
        return NOTHING
    if not has_keys_on_nodes(unit, view):
        return NOTHING
    return Decision(actions=((Finalize(row.key, row.group.finalizer, present=False),),))


def _owns_something(row: SkyhookRow, view: View, options: Options) -> bool:
    """Whether a pod or ConfigMap belongs to the object, which would be deleted together with it."""
    namespace = options.namespace
    for kind in (PACKAGE_POD, NODE_METADATA, PACKAGE_CONFIG, APPLIED):
        view.require(within(kind, namespace))
    record = view.get(applied_key(namespace, row.name), AppliedRow)
    return bool(
        view.rows(pods_of_owner(namespace), row.uid, PackagePodRow)
        or view.rows(configs_of_owner(namespace), row.uid, PackageConfigRow)
        or view.rows(metadata_of_owner(namespace), row.uid, MetadataRow)
        or jobs_of_owner(view, namespace, row.uid)
        or (record is not None and record.owner == row.uid)
    )
