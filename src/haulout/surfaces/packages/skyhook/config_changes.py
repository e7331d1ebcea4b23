"""Creation, deletion and change of the ConfigMaps of a Skyhook's packages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from haulout.core.action import Create, Delete, Patch
from haulout.surfaces.packages.entries.changes import CONFIGURED, is_settled, with_versions
from haulout.surfaces.packages.entries.entry import COMPLETE, ERRORING, entry_key
from haulout.surfaces.packages.entries.stages import LEAVING, ConfigUpdates, is_package_complete
from haulout.surfaces.packages.node.standing import NodeStanding
from haulout.surfaces.packages.pods.bodies import PodPlace
from haulout.surfaces.packages.pods.config_maps import CHANGING, PackageConfigRow, config_key, package_config
from haulout.surfaces.packages.skyhook.intent import Intent
from haulout.surfaces.packages.wire import Package


class ConfigChanges(msgspec.Struct, frozen=True):
    """The next writes to the ConfigMaps of a Skyhook's packages.

    A change has two steps: it is announced, then published when every node's entry shows it.
    `updates`: the changed keys of each package. The status stores them before `announced` is written.
    `announced`: the patches that mark a ConfigMap as changing, after which nodes change their entries.
    `published`: the writes that need not wait.
    `is_queued`: a change waits until the package is done on its nodes.
    """

    updates: ConfigUpdates
    announced: tuple[Patch, ...] = ()
    published: tuple[Create | Patch | Delete, ...] = ()
    is_queued: bool = False


def config_changes(
    intent: Intent,
    place: PodPlace,
    configs: Sequence[PackageConfigRow],
    nodes: Sequence[NodeStanding],
    updates: ConfigUpdates,
) -> ConfigChanges:
    """Return the next writes to the packages' ConfigMaps.

    A change waits until the package is done on every node that has it, or fails on one of them.
    """
    known = {(each.package, each.package_version): each for each in configs}
    leaving = _leaving(intent, nodes)
    changed, announced, is_queued = dict(updates), list[Patch](), False
    published: list[Create | Patch | Delete] = [
        Delete(each.key, each.uid)
        for each in configs
        if not _is_current(each, intent)
        and entry_key(each.package, each.package_version) not in leaving
        and each.deleting_at is None
    ]
    published += [
        Create(config_key(place.options.namespace, intent.skyhook, package), package_config(place, package))
        for package in leaving.values()
        if (package.name, package.version) not in known
    ]
    for package in intent.packages.values():
        live = known.get((package.name, package.version))
        if not package.config_map and (live is None or not live.is_changing):
            continue
        if live is None:
            key = config_key(place.options.namespace, intent.skyhook, package)
            published.append(Create(key, package_config(place, package)))
        elif live.is_changing:
            changed[package.name] = _merged(changed.get(package.name, ()), changed_keys(live, package))
            if all(_has_heard(node, package) for node in nodes if not node.is_malformed):
                published.append(_publication(live, package))
        elif dict(live.data) == package.config_map:
            continue
        elif not (reason := _may_change(package, intent, nodes)):
            is_queued = True
        else:
            kept = () if reason == "complete" else changed.get(package.name, ())
            changed[package.name] = _merged(kept, changed_keys(live, package))
            announced.append(Patch(live.key, {"metadata": {"annotations": {CHANGING: "true"}}}))
    kept_updates = {name: keys for name, keys in changed.items() if keys}
    return ConfigChanges(kept_updates, tuple(announced), tuple(published), is_queued)


def _leaving(intent: Intent, nodes: Sequence[NodeStanding]) -> dict[str, Package]:
    """Return the packages, by entry key, that a node still has to uninstall with their old configuration."""
    found = {}
    for node in nodes if intent.departed else ():
        for key, entry in with_versions(node.state, intent.packages, intent.removal).items():
            package = intent.departed.get(key)
            if package is not None and package.config_map and entry.stage in LEAVING:
                found[key] = package
    return found


def changed_keys(live: PackageConfigRow, package: Package) -> tuple[str, ...]:
    """Return the keys that are new or have another value. Deleted keys are not among them."""
    return tuple(sorted(key for key, value in package.config_map.items() if live.data.get(key) != value))


def _has_heard(node: NodeStanding, package: Package) -> bool:
    """Whether the node's entry of the package already shows that its configuration changes."""
    entry = node.state.get(package.key)
    is_spared = package.name in node.untouched and entry is not None and entry.state == COMPLETE
    return is_spared or is_settled(node.state, package)


def _may_change(package: Package, intent: Intent, nodes: Sequence[NodeStanding]) -> str:
    """Return why a change of configuration may begin: `complete`, `failing` or `restored`; empty if it must wait.

    A rollback begins only when no node is being worked on, so it does not wait for nodes that were still to change.
    """
    if intent.is_restored:
        return "restored"
    having = [node for node in nodes if package.key in node.state or package.name in node.pods]
    if all(_is_done(node, package, intent) for node in having):
        return "complete"
    return "failing" if any(_fails(node, package) for node in having) else ""


def _is_done(node: NodeStanding, package: Package, intent: Intent) -> bool:
    return package.name not in node.pods and is_package_complete(package, node.state, intent.updates)


def _fails(node: NodeStanding, package: Package) -> bool:
    entry = node.state.get(package.key)
    return entry is not None and entry.state == ERRORING and entry.stage in CONFIGURED


def _is_current(config: PackageConfigRow, intent: Intent) -> bool:
    package = intent.packages.get(config.package)
    return package is not None and package.version == config.package_version


def _publication(live: PackageConfigRow, package: Package) -> Patch:
    data: dict[str, Any] = dict.fromkeys(key for key in live.data if key not in package.config_map)
    changes: Mapping[str, Any] = {**data, **package.config_map}
    return Patch(live.key, {"metadata": {"annotations": {CHANGING: None}}, "data": changes})


def _merged(one: Iterable[str], other: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({*one, *other}))
