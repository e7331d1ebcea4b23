"""How gates steer a rollout: it waits for a gate, or is halted, and the last complete version may be restored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from haulout.cluster.view import View
from haulout.core.decision import earliest
from haulout.model.meta import wire_time
from haulout.surfaces.packages.node.standing import NodeStanding
from haulout.surfaces.packages.skyhook import wave_gates
from haulout.surfaces.packages.skyhook.batches import CompartmentBatch
from haulout.surfaces.packages.skyhook.wave_gates import GateFailed, GatePending
from haulout.surfaces.packages.wire import Package, SkyhookRow, normalised_package
from haulout.surfaces.packages.wire_policy import WaveGate
from haulout.surfaces.packages.wire_status import DONE, PENDING, RUNNING, AwaitedGate, Halt, LastComplete

replace = msgspec.structs.replace
# The most bytes of packages that the status keeps for a rollback. The status also has to hold the states of the nodes.
LARGEST_PACKAGES = 128 * 1024


class GateWait(msgspec.Struct, frozen=True):
    """A wave that has not passed its gate yet. `why`: what the gate waits for."""

    compartment: str
    wave: AwaitedGate
    why: GatePending


class GateCourse(msgspec.Struct, frozen=True):
    """How a rollout continues.

    `waiting`: the waves that wait for their gates.
    `halt`: why the rollout is halted; None if it is not.
    `is_restoring`: a rollback picks nodes although the rollout is halted.
    """

    waiting: tuple[GateWait, ...] = ()
    halt: Halt | None = None
    is_restoring: bool = False

    @property
    def until(self) -> datetime | None:
        return earliest(*(each.why.until for each in self.waiting))

    def holds(self, compartment: str) -> bool:
        """Whether no node of the compartment may be picked now."""
        if self.halt is not None:
            return not self.is_restoring
        return any(each.compartment == compartment for each in self.waiting)

    def gate(self, compartment: str) -> AwaitedGate | None:
        return next((each.wave for each in self.waiting if each.compartment == compartment), None)


def halt_of(row: SkyhookRow) -> Halt | None:
    """Return the halt that is in force; None if there is none, or if the spec has changed since."""
    halt = row.status.halt
    return halt if halt is not None and halt.generation == row.generation else None


def restored(row: SkyhookRow) -> dict[str, Package] | None:
    """Return the packages that a rollback restores; None while the packages of the spec are in force."""
    halt = halt_of(row)
    return last_complete(row) if halt is not None and halt.rollback in (RUNNING, DONE) else None


def desired_skyhook(row: SkyhookRow) -> SkyhookRow:
    """Return the Skyhook with the packages that its nodes should have: those of its spec, or restored ones."""
    packages = restored(row)
    return row if packages is None else replace(row, spec=replace(row.spec, packages=packages))


def last_complete(row: SkyhookRow) -> dict[str, Package] | None:
    stored = row.status.last_complete
    if stored is None:
        return None
    try:
        found = msgspec.convert(stored.packages, dict[str, Package])
    except (msgspec.ValidationError, RecursionError):
        return None
    return {name: normalised_package(name, package) for name, package in found.items()}


def complete_record(row: SkyhookRow, packages: Mapping[str, Package]) -> LastComplete | None:
    """Return the record of packages that are complete on all nodes, for a later rollback.

    It is the stored record if that has the same packages, and None if they are too large to be stored.
    """
    if last_complete(row) == packages:
        return row.status.last_complete
    written = {name: _written(package) for name, package in packages.items()}
    if len(msgspec.json.encode(written)) > LARGEST_PACKAGES:
        return None
    return LastComplete(row.generation, written)


def _written(package: Package) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(package))
    return {name: _without_nulls(value) for name, value in fields.items() if value not in (None, "", {}, [])}


def _without_nulls(value: Any) -> Any:
    """Return a value without null members, which a merge patch would take as deletions."""
    if isinstance(value, dict):
        return {name: _without_nulls(each) for name, each in value.items() if each is not None}
    return value


def course_of(
    row: SkyhookRow,
    gate: WaveGate | None,
    batches: Sequence[CompartmentBatch],
    view: View,
    now: datetime,
    *,
    acts: bool,
    is_changing: bool,
) -> GateCourse:
    """Return how the rollout continues.

    `acts`: the Skyhook may act; it is not paused, for instance.
    `is_changing`: a new configuration has not reached all nodes.
    """
    halt = halt_of(row)
    if halt is not None:
        return _halted(row, _advanced(row, halt, batches, is_changing=is_changing) if acts else halt)
    if gate is None:
        return GateCourse()
    waiting: list[GateWait] = []
    for batch in batches:
        stored = _stored(row, batch)
        wave = stored or _ended(row, batch, now)
        if wave is None:
            continue
        outcome = wave_gates.judge_gate(gate, wave, batch.members, now, view, is_stored=stored is not None)
        if isinstance(outcome, GateFailed) and acts:
            return _halted(
                row, _advanced(row, _begun(row, gate, batch, wave, outcome, now), batches, is_changing=is_changing)
            )
        if isinstance(outcome, GateFailed):
            waiting.append(GateWait(batch.name, wave, GatePending(outcome.reason, outcome.text)))
        elif isinstance(outcome, GatePending):
            waiting.append(GateWait(batch.name, wave, outcome))
    return GateCourse(tuple(waiting))


def _halted(row: SkyhookRow, halt: Halt) -> GateCourse:
    # A new halt or a new step of its rollback is stored before any node is picked under it.
    return GateCourse(halt=halt, is_restoring=halt == row.status.halt and restored(row) is not None)


def _stored(row: SkyhookRow, batch: CompartmentBatch) -> AwaitedGate | None:
    status = row.status.compartment_statuses.get(batch.name)
    gate = status.gate if status is not None else None
    return gate if gate is not None and gate.generation == row.generation and not batch.ended else None


def _ended(row: SkyhookRow, batch: CompartmentBatch, now: datetime) -> AwaitedGate | None:
    if not batch.ended:
        return None
    status = row.status.compartment_statuses.get(batch.name)
    state = status.batch_state if status is not None else None
    return wave_gates.begin_gate(state.current_batch if state is not None else 1, batch.ended, row.generation, now)


def _begun(
    row: SkyhookRow, gate: WaveGate, batch: CompartmentBatch, wave: AwaitedGate, failed: GateFailed, now: datetime
) -> Halt:
    message = f"wave {wave.wave} of compartment {batch.name} has failed its gate: {failed.text}"
    rollback = ""
    if gate.rollback:
        target = last_complete(row)
        if target is None:
            message += "; no earlier version is recorded as complete on all nodes, so nothing is restored"
        elif target == row.spec.packages:
            message += "; this version was itself the last that was complete on all nodes, so nothing is restored"
        else:
            rollback = PENDING
    return Halt(row.generation, batch.name, wave.wave, failed.reason, message, wire_time(now), rollback)


def _advanced(row: SkyhookRow, halt: Halt, batches: Sequence[CompartmentBatch], *, is_changing: bool) -> Halt:
    """Return the halt with its rollback advanced.

    It begins when no node is being changed, and ends when all are complete.
    """
    if halt.rollback == PENDING and not any(batch.is_flying for batch in batches):
        return replace(halt, rollback=RUNNING)
    if halt.rollback == RUNNING and halt == row.status.halt and _is_complete(batches) and not is_changing:
        return replace(halt, rollback=DONE)
    return halt


def _is_complete(batches: Sequence[CompartmentBatch]) -> bool:
    nodes: list[NodeStanding] = [node for batch in batches for node in batch.members]
    return bool(nodes) and all(node.is_complete for node in nodes)


def resumes(row: SkyhookRow) -> str:
    """Return the text that says how a halted rollout can go on."""
    return f"a new spec, or `skyhook deployment-policy reset {row.name}`, starts the rollout again"


def account(row: SkyhookRow, halt: Halt) -> str:
    """Return the text that says why a rollout is halted, what is restored on its nodes, and how it can go on."""
    names = ", ".join(f"{each.name} {each.version}" for _, each in sorted((last_complete(row) or {}).items()))
    done = {
        PENDING: f"; {names} will be restored once the nodes in work have ended",
        RUNNING: f"; {names} is being restored",
        DONE: f"; {names} was restored on all nodes",
    }
    return f"{halt.message}{done.get(halt.rollback, '; no new node begins')}; {resumes(row)}"
