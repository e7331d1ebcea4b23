"""The mark of a node for other nodes' decisions: facts from several tables in one row that can be counted.

See decision 0007.
"""

from __future__ import annotations

from datetime import datetime

from haulout.cluster.key import Key
from haulout.cluster.rows import NodeRow, Value
from haulout.cluster.view import MARK, View
from haulout.core.decision import NOTHING, Decision
from haulout.plugins.checks.affinity import AFFINITY_PODS
from haulout.surfaces.profiles.counts import FREE_TO_GO, required_profiles
from haulout.surfaces.profiles.load import Configuration

SURFACE = "profiles"


def mark(key: Key, view: View, now: datetime) -> Decision:
    """Mark the profiles in maintenance-required for which the node has no pod that prefers operational nodes."""
    setting = view.config(SURFACE)
    config = setting.value if setting is not None else None
    if not isinstance(config, Configuration) or not any(
        AFFINITY_PODS.kind in check.plugin.needs(check.config) for check in config.checks.values()
    ):
        return NOTHING
    node = view.get(key, NodeRow)
    if node is None:
        return NOTHING
    profiles = required_profiles(node)
    if not profiles or view.at_least(AFFINITY_PODS, key.name, 1):
        return NOTHING
    return Decision(marks=(Value(key=Key(key.cluster, MARK, FREE_TO_GO, key.name), value=profiles),))
