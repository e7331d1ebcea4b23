"""How a NodeMaintenanceSet is shown among the rollouts of `status`."""

from __future__ import annotations

from haulout.cluster.store import Store
from haulout.core.declaration import Rollout
from haulout.surfaces.nodemaintenance.sets.decide import count_states
from haulout.surfaces.nodemaintenance.sets.wire import SetRow
from haulout.surfaces.nodemaintenance.situation import SURFACE


def rollout_of(row: SetRow, store: Store) -> Rollout:
    """Return the progress of a set, from its status."""
    numbers = count_states(row, row.states)
    return Rollout(
        surface=SURFACE,
        object=f"nodemaintenanceset/{row.key.name}",
        state=row.phase.lower() or "new",
        total=numbers["total"],
        done=numbers["done"],
        at_work=numbers["inMaintenance"],
    )
