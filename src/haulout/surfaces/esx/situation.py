"""The inputs of a decision about a node on an ESX host."""

from __future__ import annotations

import zlib
from datetime import datetime, timedelta

import msgspec

from haulout.cluster.rows import NodeRow
from haulout.cluster.view import View
from haulout.core.emptying import node_claim
from haulout.core.holds import Claim
from haulout.surfaces.esx.options import Options
from haulout.surfaces.esx.vcenter import ANY_ALARM, HostState
from haulout.surfaces.esx.wire import (
    ALARM,
    HOST_LABEL,
    IN_MAINTENANCE,
    INITIATED_ANNOTATION,
    OK_LABEL,
    WORKING,
    ZONE_LABEL,
)


class HostPlace(msgspec.Struct, frozen=True):
    """The name of an ESX host, and the letter or digit of its zone."""

    host: str
    zone: str


class Situation(msgspec.Struct, frozen=True):
    """The inputs of one decision about a node. `state`: the state of the host, as a value of its label."""

    node: NodeRow
    place: HostPlace
    state: str
    options: Options
    view: View
    now: datetime

    @property
    def is_initiated(self) -> bool:
        """Whether the virtual machine was stopped, or is being stopped, for its host's maintenance."""
        return is_initiated(self.node)

    @property
    def is_to_stop(self) -> bool:
        """Whether the host is out of service, and the node's label allows to stop the virtual machine."""
        return self.state in (IN_MAINTENANCE, ALARM) and self.node.labels.get(OK_LABEL) == "true"

    @property
    def is_to_start(self) -> bool:
        """Whether the host works again after the virtual machine was stopped."""
        return self.is_initiated and self.state == WORKING

    @property
    def pace_for(self) -> timedelta:
        """How long to wait after a message about the virtual machine before the next one."""
        return pace(self.options, self.place.zone)


def place_of(node: NodeRow) -> HostPlace:
    """Return the host and zone that the labels name. An empty label gives an empty part."""
    return HostPlace(node.labels[HOST_LABEL], node.labels[ZONE_LABEL][-1:])


def pace(options: Options, zone: str) -> timedelta:
    """Return how often the hosts of a zone are probed.

    It differs between zones, so that they are not all probed at once. It is the same for all hosts of one zone, so that
    they share a session.
    """
    return options.pace_for * (1 + options.jitter * zlib.crc32(zone.encode()) / 2**32)


def host_state(host: HostState, options: Options) -> str:
    """Return the state of the host as a value of its label."""
    if options.alarms.intersection(host.alarms) or ANY_ALARM in host.alarms:
        return ALARM
    return IN_MAINTENANCE if host.in_maintenance or host.entering else WORKING


def is_initiated(node: NodeRow) -> bool:
    """Whether the node's annotation says that its virtual machine was stopped, or is being stopped."""
    return node.annotations.get(INITIATED_ANNOTATION) == "true"


def claim_of(node: NodeRow) -> Claim:
    """Return the claim on a node whose virtual machine is to be stopped."""
    return node_claim(node, begun=is_initiated(node), slot="esx-maintenance")
