"""Works out the writes by which a person makes a package run again on a node."""

from __future__ import annotations

from haulout.core.act import NODES, ActInput, ActPlan, NotPossible
from haulout.surfaces.packages.entries.entry import (
    ERRORING,
    MalformedNodeState,
    NodeState,
    PackageEntry,
    parse,
    to_text,
    without,
)
from haulout.surfaces.packages.groups import GROUPS
from haulout.surfaces.packages.node.names import NODE_STATE_PREFIX, node_state
from haulout.surfaces.packages.node.reruns import RERUN

Found = tuple[str, PackageEntry]


def retry(given: ActInput) -> ActPlan | NotPossible:
    """Return the write that removes the entry of a package, so that the operator runs it again."""
    found = _chosen(given)
    if isinstance(found, NotPossible):
        return found
    owner, entry = found
    # A node has the entries under the prefix of each group that has an object of the name.
    names = [name for group in GROUPS if (name := group.named(node_state(owner))) in given.annotations]
    left = without(parse(given.annotations[names[0]]), entry.key)
    write = given.patch_metadata(NODES, annotations=dict.fromkeys(names, to_text(left) if left else None))
    return ActPlan((write,), given.restore("annotate", NODES, names[0]) if len(names) == 1 else "")


def rerun(given: ActInput) -> ActPlan | NotPossible:
    """Return the write that removes the entry of a package, and asks the agent to run all its steps again."""
    found, plan = _chosen(given), retry(given)
    if isinstance(found, NotPossible) or isinstance(plan, NotPossible):
        return plan
    listed = [each for each in given.annotations.get(RERUN, "").split(",") if each]
    wish = f"{found[0]}/{found[1].name}"
    annotations = {**plan.writes[0].body["metadata"]["annotations"], RERUN: ",".join((*listed, wish))}
    if wish in listed:
        return NotPossible(f"package {found[1].name} of Skyhook {found[0]} runs again already (annotation {RERUN})")
    return ActPlan((given.patch_metadata(NODES, annotations=annotations),), given.restore("annotate", NODES, RERUN))


def _chosen(given: ActInput) -> Found | NotPossible:
    """Return the entry that the arguments name; without them, the only one that fails."""
    skyhook, package = given.args.get("skyhook", ""), given.args.get("package", "")
    try:
        entries = [(owner, entry) for owner, state in _states(given) for entry in state.values()]
    except MalformedNodeState as error:
        return NotPossible(f"the state of packages on node {given.name} cannot be read: {error}")
    found = [each for each in entries if skyhook in ("", each[0]) and package in ("", each[1].name)]
    if not (skyhook and package):
        found = [each for each in found if each[1].state == ERRORING]
    match found:
        case [one]:
            return one
        case []:
            what = "no such package" if skyhook and package else "no package that fails"
            return NotPossible(f"node {given.name} has {what}")
        case _:
            there = ", ".join(f"{owner}/{entry.name} {entry.version}" for owner, entry in found)
            return NotPossible(f"several packages of node {given.name} are meant: {there}")


def _states(given: ActInput) -> list[tuple[str, NodeState]]:
    names = {group.inner(name): text for group in GROUPS[::-1] for name, text in sorted(given.annotations.items())}
    return [
        (name.removeprefix(NODE_STATE_PREFIX), parse(text))
        for name, text in sorted(names.items())
        if name.startswith(NODE_STATE_PREFIX)
    ]
