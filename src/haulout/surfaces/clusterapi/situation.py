"""The inputs of a decision about a Machine."""

from __future__ import annotations

from datetime import datetime

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.rows import NodeRow
from haulout.core.action import Step
from haulout.surfaces.clusterapi.link import Link
from haulout.surfaces.clusterapi.memory import Memory
from haulout.surfaces.clusterapi.options import Options
from haulout.surfaces.clusterapi.wire import MachineRow


class Situation(msgspec.Struct, frozen=True):
    """The inputs of one decision about a Machine.

    `node`: None if it is not known. `others`: the other Machines that name the same Node.
    """

    machine: MachineRow
    link: Link
    node: NodeRow | None
    options: Options
    memory: Memory
    now: datetime
    paused: bool
    others: tuple[MachineRow, ...] = ()

    @property
    def key(self) -> Key:
        return self.machine.key


def steps_of(*steps: Step) -> tuple[Step, ...]:
    """Return the steps that are not empty."""
    return tuple(step for step in steps if step)
