"""Which nodes still have the configuration that a change replaces. A rollback of that change runs nothing on them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from haulout.cluster.rows import NodeRow
from haulout.surfaces.packages.entries.changes import CONFIGURED, with_new_config
from haulout.surfaces.packages.entries.entry import NodeState, PackageEntry, go_json
from haulout.surfaces.packages.entries.stages import as_complete, is_package_complete
from haulout.surfaces.packages.node import names as node_names
from haulout.surfaces.packages.pods.config_maps import config_digest
from haulout.surfaces.packages.skyhook.intent import Intent

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


def untouched_packages(intent: Intent, kept: KeptConfigs) -> frozenset[str]:
    """Return the packages whose configuration a rollback restores and which still have it on the node."""
    if not intent.is_restored:
        return frozenset()
    return frozenset(
        name for name in intent.changing if kept.get(name) == config_digest(intent.packages[name].config_map)
    )


def apply_config_changes(intent: Intent, state: NodeState, kept: KeptConfigs) -> dict[str, PackageEntry]:
    """Return the entries after the announced changes of configuration, which send packages back to `config`."""
    changed, spared = dict(state), untouched_packages(intent, kept)
    for name in sorted(intent.changing):
        package = intent.packages[name]
        entry = changed.get(package.key)
        if name not in spared:
            changed = with_new_config(changed, package)
        elif entry is not None and entry.stage in CONFIGURED:
            changed[package.key] = as_complete(entry, package, intent.updates)
    return changed


def kept_digests(intent: Intent, kept: KeptConfigs, state: NodeState, started: Collection[str]) -> str | None:
    """Return the annotation with the kept digests; None if there are none. `started`: packages that get a pod now."""
    found = dict(kept)
    for name in intent.changing:
        entry = state.get(intent.packages[name].key)
        if entry is not None and entry.stage in CONFIGURED:
            found.setdefault(name, intent.replaced[name])
    awaited = {
        name: digest
        for name, digest in sorted(found.items())
        if name not in started and (name in intent.changing or _awaits_change(intent, name, state))
    }
    return go_json(awaited) if awaited and intent.defers_changes else None


def _awaits_change(intent: Intent, name: str, state: NodeState) -> bool:
    package = intent.packages.get(name)
    return package is not None and not is_package_complete(package, state, intent.updates)
