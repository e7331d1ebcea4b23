"""What ESX maintenance asks of a vCenter: the state of a host, and that a virtual machine is switched on or off."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from haulout.cluster.rows import NodeRow
from haulout.cluster.view import FactDemand
from haulout.surfaces.esx.options import SHORTEST_FOR
from haulout.surfaces.esx.wire import (
    ALARM,
    HOST_LABEL,
    IN_MAINTENANCE,
    STATE_LABEL,
    VERSION_LABEL,
    WORKING,
    ZONE_LABEL,
)

# The probe that returns the HostState of a host, given its name and zone.
HOST_PROBE = "esx-host"
# The channel that switches virtual machines on and off.
CHANNEL = "esx-virtual-machines"
# Stands for the name of a configured alarm, where only the node's label says that there is one.
ANY_ALARM = ""


class HostState(msgspec.Struct, frozen=True):
    """The state of a host, by its vCenter. `alarms` are the names of those that are triggered, in order."""

    version: str = ""
    in_maintenance: bool = False
    entering: bool = False
    alarms: tuple[str, ...] = ()


class StartVirtualMachine(msgspec.Struct, frozen=True):
    """A message to a vCenter: switch on the virtual machine of a node. `zone` says which vCenter."""

    name: str
    zone: str


class StopVirtualMachine(msgspec.Struct, frozen=True):
    """A message to a vCenter: shut down the virtual machine of a node.

    The guest is asked to shut down and looked at every `poll_for`; after `give_up_for` it is switched off.
    """

    name: str
    zone: str
    poll_for: timedelta
    give_up_for: timedelta


def last_seen(node: NodeRow) -> tuple[FactDemand, HostState] | None:
    """Return the state of the host when its node was labelled, for callers that cannot ask the vCenter.

    None: the node has not been labelled yet.
    """
    host, zone, state = (node.labels.get(name, "") for name in (HOST_LABEL, ZONE_LABEL, STATE_LABEL))
    if not host or not zone or state not in (WORKING, IN_MAINTENANCE, ALARM):
        return None
    demand = FactDemand(HOST_PROBE, (host, zone[-1:]), SHORTEST_FOR)
    alarms = (ANY_ALARM,) if state == ALARM else ()
    return demand, HostState(node.labels.get(VERSION_LABEL, ""), state == IN_MAINTENANCE, alarms=alarms)
