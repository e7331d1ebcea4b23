"""The deletion of our leases without a maintenance, which would keep other operators off the node for an hour."""

from __future__ import annotations

from datetime import datetime

from haulout.cluster.key import Key
from haulout.cluster.rows import LeaseRow
from haulout.cluster.view import View
from haulout.core.decision import NOTHING, Decision
from haulout.surfaces.nodemaintenance.counts import has_drain_taint
from haulout.surfaces.nodemaintenance.lease import lease_key
from haulout.surfaces.nodemaintenance.options import Options
from haulout.surfaces.nodemaintenance.release import give_up_lease
from haulout.surfaces.nodemaintenance.situation import SURFACE
from haulout.surfaces.nodemaintenance.wire import LEASE_HOLDER, MAINTENANCES_OF_NODE, SEEN_ANNOTATION, MaintenanceRow


def decide(key: Key, view: View, now: datetime) -> Decision:
    """Decide about one node.

    Such a lease comes from a creation that timed out for us and succeeded later.
    """
    setting = view.config(SURFACE)
    if setting is None:
        return NOTHING
    assert isinstance(setting.value, Options)
    lease = view.get(lease_key(key.name, setting.value), LeaseRow)
    # A lease without our annotation was created by the original or by hand. The next maintenance takes it over.
    if lease is None or lease.holder != LEASE_HOLDER or SEEN_ANNOTATION not in lease.annotations:
        return NOTHING
    if view.rows(MAINTENANCES_OF_NODE, key.name, MaintenanceRow):
        return NOTHING
    node = view.node(key.name)
    # A node with the taint is in maintenance, even if the API server does not serve NodeMaintenances at the moment.
    if node is None or has_drain_taint(node):
        return NOTHING
    return Decision(actions=(give_up_lease(lease, view),))
