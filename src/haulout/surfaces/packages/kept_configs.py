"""Which nodes still have the configuration that a change replaces. A rollback of that change runs nothing on them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from haulout.cluster.rows import NodeRow
from haulout.surfaces.packages import node_names
from haulout.surfaces.packages.changes import CONFIGURED, with_new_config
from haulout.surfaces.packages.config_maps import config_digest
from haulout.surfaces.packages.node_state import Entry, NodeState, go_json
from haulout.surfaces.packages.plan import PlanRow
from haulout.surfaces.packages.stages import as_complete, is_package_complete

# For each package, the digest of the configuration that the node still has while a new one waits to be applied.
KeptConfigs = Mapping[str, str]
_DECODER = msgspec.json.Decoder(dict[str, str])


def kept_configs(node: NodeRow, skyhook: str) -> KeptConfigs:
    """Return the digests that are noted on a node.

    A package without a note is configured again in a rollback, which is always correct but costs a run.
    """
    try:
        return _DECODER.decode(node.annotations.get(node_names.kept_config(skyhook), "{}"))
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return {}


def untouched(plan: PlanRow, kept: KeptConfigs) -> frozenset[str]:
    """Return the packages whose configuration a rollback restores and which still have it on the node."""
    if not plan.is_restored:
        return frozenset()
    return frozenset(name for name in plan.changing if kept.get(name) == config_digest(plan.packages[name].config_map))


def configured(plan: PlanRow, state: NodeState, kept: KeptConfigs) -> dict[str, Entry]:
    """Return the entries after the announced changes of configuration, which send packages back to `config`."""
    changed, spared = dict(state), untouched(plan, kept)
    for name in sorted(plan.changing):
        package = plan.packages[name]
        entry = changed.get(package.key)
        if name not in spared:
            changed = with_new_config(changed, package)
        elif entry is not None and entry.stage in CONFIGURED:
            changed[package.key] = as_complete(entry, package, plan.updates)
    return changed


def noted(plan: PlanRow, kept: KeptConfigs, state: NodeState, started: Collection[str]) -> str | None:
    """Return the annotation with the kept digests; None if there are none. `started`: packages that get a pod now."""
    found = dict(kept)
    for name in plan.changing:
        entry = state.get(plan.packages[name].key)
        if entry is not None and entry.stage in CONFIGURED:
            found.setdefault(name, plan.replaced[name])
    awaited = {
        name: digest
        for name, digest in sorted(found.items())
        if name not in started and (name in plan.changing or _awaits_change(plan, name, state))
    }
    return go_json(awaited) if awaited and plan.defers_changes else None


def _awaits_change(plan: PlanRow, name: str, state: NodeState) -> bool:
    package = plan.packages.get(name)
    return package is not None and not is_package_complete(package, state, plan.updates)
