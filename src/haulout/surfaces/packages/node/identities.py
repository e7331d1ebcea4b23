"""The identities of entries that were begun for another object of the unit.

The agent keeps its record of a package under a resource id, and the package in a directory; both end with UID and
generation of the Skyhook. When another object of the unit takes the lead, an entry that is under way keeps those of its
first pod until it is complete. Otherwise the agent would do again what it has done, such as a reboot.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from haulout.cluster.rows import NodeRow
from haulout.surfaces.packages.entries.entry import NodeState, entry_key, go_json
from haulout.surfaces.packages.entries.stages import is_package_complete
from haulout.surfaces.packages.node import names as node_names
from haulout.surfaces.packages.node.prefixes import Home, source_on
from haulout.surfaces.packages.pods.bodies import identity_of
from haulout.surfaces.packages.pods.rows import PackagePodRow
from haulout.surfaces.packages.skyhook.intent import Intent

_DECODER = msgspec.json.Decoder(dict[str, str])


def noted_identities(node: NodeRow, skyhook: str) -> dict[str, str]:
    try:
        return _DECODER.decode(node.annotations.get(node_names.resource_ids(skyhook), "{}"))
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return {}


def identities_of(
    intent: Intent, node: NodeRow, stored: NodeRow, state: NodeState, pods: Iterable[PackagePodRow]
) -> Mapping[str, str]:
    """Return the identities of the entries that are under way, by entry key.

    `node`: the node in its inner form. `stored`: the same as it is stored.
    `state`: its entries. `pods`: the Skyhook's pods on it.
    Without another object of the name only what is noted already counts.
    """
    noted = noted_identities(node, intent.skyhook)
    if not noted and not intent.former:
        return {}
    under_way = {
        package.key
        for package in intent.packages.values()
        if package.key in state and not is_package_complete(package, state, intent.updates)
    }
    found = {key: identity for key, identity in noted.items() if key in under_way}
    if not intent.former:
        return found
    running = {entry_key(pod.about.name, pod.about.version): pod.identity for pod in pods if pod.about and pod.identity}
    own = identity_of(intent.uid, intent.generation)
    usual = intent.former_identity if _is_taken_over(stored, intent) else own
    return {key: found.get(key) or running.get(key) or usual for key in sorted(under_way)}


def _is_taken_over(stored: NodeRow, intent: Intent) -> bool:
    """Whether the entries of a node are still those of the other object: the leader's prefix has none there."""
    return source_on(stored, intent.skyhook, Home(intent.group, ())) is not intent.group


def identities_text(intent: Intent, identities: Mapping[str, str], state: NodeState) -> str | None:
    """Return the annotation with the identities to keep; None if there are none.

    An entry whose configuration is about to change runs its steps again, so that it gets a new identity.
    """
    changing = {intent.packages[name].key for name in intent.changing}
    kept = {key: identity for key, identity in sorted(identities.items()) if key in state and key not in changing}
    done = {each.key for each in intent.packages.values() if is_package_complete(each, state, intent.updates)}
    remaining = {key: identity for key, identity in kept.items() if key not in done}
    return go_json(remaining) if remaining else None
