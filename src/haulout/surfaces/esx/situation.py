"""A node on an ESX host and everything that a decision about it reads."""

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
    """The name of a host, and the letter or digit of its zone."""

    host: str
    zone: str


class Situation(msgspec.Struct, frozen=True):
    """A node with its host, as a decision reads them. `state`: that of the host, as its label says it."""

    node: NodeRow
    place: HostPlace
    state: str
    options: Options
    view: View
    now: datetime

    @property
    def is_initiated(self) -> bool:
        """Whether the virtual machine goes down, or is down, for the sake of its host."""
        return is_initiated(self.node)

    @property
    def is_to_stop(self) -> bool:
        """Whether the host is out of service, and the virtual machine may go down."""
        return self.state in (IN_MAINTENANCE, ALARM) and self.node.labels.get(OK_LABEL) == "true"

    @property
    def is_to_start(self) -> bool:
        """Whether the host works again, after its virtual machine went down."""
        return self.is_initiated and self.state == WORKING

    @property
    def pace_for(self) -> timedelta:
        """Return how long the virtual machine is left alone after a message."""
        return pace(self.options, self.place.zone)


def place_of(node: NodeRow) -> HostPlace:
    """Return the place that the labels name; a part of it is empty where its label is."""
    return HostPlace(node.labels[HOST_LABEL], node.labels[ZONE_LABEL][-1:])


def pace(options: Options, zone: str) -> timedelta:
    """Return how often the hosts of a zone are asked for.

    It differs between zones, so that they are not asked all at once, and is the same for all hosts of one, so that
    these share a session.
    """
    return options.pace_for * (1 + options.jitter * zlib.crc32(zone.encode()) / 2**32)


def host_state(host: HostState, options: Options) -> str:
    """Return the value of the label that shows the state of the host."""
    if options.alarms.intersection(host.alarms) or ANY_ALARM in host.alarms:
        return ALARM
    return IN_MAINTENANCE if host.in_maintenance or host.entering else WORKING


def is_initiated(node: NodeRow) -> bool:
    """Whether the annotation on the node says that its virtual machine goes down or is down."""
    return node.annotations.get(INITIATED_ANNOTATION) == "true"


def claim_of(node: NodeRow) -> Claim:
    """Return the claim to take the node down with its virtual machine."""
    return node_claim(node, begun=is_initiated(node), slot="esx-maintenance")
