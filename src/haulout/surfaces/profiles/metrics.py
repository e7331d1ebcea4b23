"""The gauges of the profiles surface: the state of each profile of each node, and its age."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from haulout.cluster.rows import NodeRow
from haulout.surfaces.profiles.wire import DATA_ANNOTATION, PROFILE_LABEL, DataError, attached_profiles, parse_data

STATE_GAUGE = "maintenance_controller_profile_state"
SECONDS_GAUGE = "maintenance_controller_profile_state_seconds"

Sample = tuple[str, tuple[tuple[str, str], ...], float]


def samples(nodes: Iterable[NodeRow], now: datetime) -> Iterator[Sample]:
    """Yield the state of each profile and its age. A node whose data cannot be read has no gauges."""
    for node in nodes:
        try:
            entries = parse_data(node.annotations.get(DATA_ANNOTATION)).profiles
        except DataError:
            continue
        for name in attached_profiles(node.labels.get(PROFILE_LABEL)):
            if name in entries:
                labels, entry = (("node", node.key.name), ("profile", name)), entries[name]
                yield STATE_GAUGE, (*labels, ("state", entry.current)), 1.0
                yield SECONDS_GAUGE, labels, (now - entry.transition.at).total_seconds()
