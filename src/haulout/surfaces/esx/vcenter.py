"""The probe and the messages of ESX maintenance to a vCenter: host states, starting and stopping virtual machines."""

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
# The channel that starts and stops virtual machines.
CHANNEL = "esx-virtual-machines"
# The name of an unknown alarm, if only the node's label says that there is one.
ANY_ALARM = ""


class HostState(msgspec.Struct, frozen=True):
    """The state of an ESX host, from its vCenter.

    `entering`: it is entering maintenance. `alarms`: the names of the triggered alarms, in order.
    """

    version: str = ""
    in_maintenance: bool = False
    entering: bool = False
    alarms: tuple[str, ...] = ()


class StartVirtualMachine(msgspec.Struct, frozen=True):
    """A message to a vCenter: start the virtual machine of a node. `zone`: selects the vCenter."""

    name: str
    zone: str


class StopVirtualMachine(msgspec.Struct, frozen=True):
    """A message to a vCenter: stop the virtual machine of a node.

    The guest is asked to shut down and looked at every `poll_for`. After `give_up_for` the virtual machine is switched off.
    """

    name: str
    zone: str
    poll_for: timedelta
    give_up_for: timedelta


def last_seen(node: NodeRow) -> tuple[FactDemand, HostState] | None:
    """Return the state of the host according to its node's labels, for callers that cannot ask the vCenter.

    None if the node has not been labelled yet.
    """
    host, zone, state = (node.labels.get(name, "") for name in (HOST_LABEL, ZONE_LABEL, STATE_LABEL))
    if not host or not zone or state not in (WORKING, IN_MAINTENANCE, ALARM):
        return None
    demand = FactDemand(HOST_PROBE, (host, zone[-1:]), SHORTEST_FOR)
    alarms = (ANY_ALARM,) if state == ALARM else ()
    return demand, HostState(node.labels.get(VERSION_LABEL, ""), state == IN_MAINTENANCE, alarms=alarms)
