"""The role `viewer` for people: the rights that `explain`, `status`, `plan` and `bundle` need to read, and no others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from haulout.core.rights import CLUSTER, COORDINATION, READ, Right, Role
from haulout.manifests.rights import Choice, PlacedRole, options, placed_roles
from haulout.surfaces.registry import all_declarations

NAME = "viewer"
# Secrets hold credentials of other clusters, so viewers may not read them. Commands say what they could not read.
HIDDEN = frozenset({"secrets", "secrets/status"})
EVERYWHERE = (
    Right("", ("nodes", "pods", "namespaces", "events"), READ, "the fleet, its pods and what happened"),
    Right("events.k8s.io", ("events",), READ, "what happened"),
    Right("apps", ("deployments", "statefulsets", "daemonsets"), READ, "whose pods a plan moves; the operator itself"),
    Right("policy", ("poddisruptionbudgets",), READ, "which pods may be evicted"),
    Right(COORDINATION, ("leases",), READ, "who leads"),
    Right("apiextensions.k8s.io", ("customresourcedefinitions",), READ, "which definitions are installed"),
    Right(
        "admissionregistration.k8s.io",
        ("validatingwebhookconfigurations", "mutatingwebhookconfigurations"),
        READ,
        "which webhooks are registered",
    ),
    Right("rbac.authorization.k8s.io", ("clusterroles",), READ, "which roles are installed"),
)
AT_HOME = (
    Right("", ("configmaps",), ("get",), "the operator's settings"),
    Right("", ("pods/log",), ("get",), "the operator's log"),
)


def viewer_roles(surfaces: Iterable[str], choice: Choice) -> Iterator[PlacedRole]:
    """Yield the roles of viewers: one for the cluster, and one for each namespace in which the operator reads something.

    The ClusterRole covers all surfaces, because `bundle` reads the objects of all. `surfaces`: the surfaces whose
    namespaces exist.
    """
    everything = msgspec.structs.replace(choice, flags=frozenset(options()), lists={})
    found: dict[str, list[Right]] = {"": [*EVERYWHERE], choice.namespace: [*AT_HOME]}
    for name in (each.name for each in all_declarations()):
        for placed in placed_roles(name, everything):
            if placed.role.bound and (name in surfaces or not placed.namespace):
                found.setdefault(placed.namespace, []).extend(filter(None, map(_readable, placed.rights)))
    covered = {(right.group, each) for right in EVERYWHERE for each in right.resources}
    for namespace, rights in found.items():
        kept = [right for right in _distinct(rights) if right in (*EVERYWHERE, *AT_HOME) or not _is_in(right, covered)]
        if kept:
            place = namespace or CLUSTER
            yield PlacedRole(Role(NAME, place, (), title=f"haulout-{NAME}", bound=False), namespace, tuple(kept))


def _readable(right: Right) -> Right | None:
    """Return the right to read what one of the operator's rights lets it watch; None if that is nothing or hidden."""
    resources = tuple(each for each in right.resources if each not in HIDDEN)
    if not resources or not {"list", "watch"} & {*right.verbs}:
        return None
    return msgspec.structs.replace(right, resources=resources, verbs=READ, names=(), option="", unless="")


def _is_in(right: Right, covered: set[tuple[str, str]]) -> bool:
    return all((right.group, each) in covered for each in right.resources)


def _distinct(rights: Iterable[Right]) -> list[Right]:
    """Leave out rights whose resources an earlier right has."""
    found: dict[tuple[str, tuple[str, ...]], Right] = {}
    for right in rights:
        found.setdefault((right.group, right.resources), right)
    return list(found.values())
