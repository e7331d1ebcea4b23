"""The status of one object of a unit as that of the other: with the other's prefixes and generations."""

from __future__ import annotations

import msgspec

from haulout.model.meta import Condition
from haulout.surfaces.packages.specs.equality import are_equal
from haulout.surfaces.packages.wire import SkyhookRow
from haulout.surfaces.packages.wire_status import AwaitedGate, CompartmentStatus, SkyhookStatus

replace = msgspec.structs.replace
# The condition that only a follower has.
SUPERSEDED = "Superseded"


def translate_status(source: SkyhookRow, target: SkyhookRow, *, follows: bool = False) -> SkyhookStatus:
    """Return the status of `source` as the status of `target`.

    A generation of an equal spec becomes the target's generation. If the specs differ, that of the target is new.
    `follows`: the target only shows the status. Then what the source has observed of its own spec counts as observed of the
    target's, or clients that wait for that would wait for ever.
    """
    is_equal = are_equal(source.spec, target.spec)

    def generation(stored: int) -> int:
        if is_equal and stored == source.generation:
            return target.generation
        return min(stored, target.generation - 1)

    def observed(stored: int) -> int:
        return target.generation if follows and stored == source.generation else generation(stored)

    def condition(each: Condition) -> Condition:
        kind = target.group.named(source.group.inner(each.type))
        at = each.observed_generation
        return replace(each, type=kind, observed_generation=observed(at) if at is not None else None)

    def gate(each: AwaitedGate | None) -> AwaitedGate | None:
        return replace(each, generation=generation(each.generation)) if each is not None else None

    def compartment(each: CompartmentStatus) -> CompartmentStatus:
        return replace(each, gate=gate(each.gate))

    status = source.status
    kept = tuple(condition(each) for each in status.conditions if each.type != SUPERSEDED)
    halt, last = status.halt, status.last_complete
    return replace(
        status,
        observed_generation=observed(status.observed_generation) if status.observed_generation else 0,
        conditions=kept,
        compartment_statuses={name: compartment(each) for name, each in status.compartment_statuses.items()},
        halt=replace(halt, generation=generation(halt.generation)) if halt is not None else None,
        last_complete=replace(last, generation=generation(last.generation)) if last is not None else None,
    )
