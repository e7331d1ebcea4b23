"""The console in a cluster: the role that its own account needs, and roles for the people who use it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from haulout.core.act import Act
from haulout.core.rights import CLUSTER, HOME, Right, Role
from haulout.manifests.rights import Choice, PlacedRole
from haulout.manifests.viewer import viewer_roles
from haulout.surfaces.registry import all_declarations

ACCOUNT = NAME = "haulout-console"
# The acts that let a claim past a limit, or let work begin that waits for a person. Another person than the one who
# asked for the work may have to decide on them.
APPROVALS = frozenset({"approve", "override"})
VIEWER, OPERATOR, APPROVER = "console-viewer", "console-operator", "console-approver"
# The words of `haulout rbac`, with what the role is for.
ROLES = {
    "console": "what the console itself needs in a cluster",
    VIEWER: "see everything",
    OPERATOR: "see everything, and start, pause and end maintenances",
    APPROVER: "see everything, and approve or override",
}
REVIEWS = (
    Right("authentication.k8s.io", ("tokenreviews",), ("create",), "whose token a caller has sent"),
    Right("authorization.k8s.io", ("subjectaccessreviews",), ("create",), "what a caller may read"),
)
SETTINGS = (Right("", ("configmaps",), ("get",), "the operator's settings"),)


def console_roles(word: str, surfaces: Iterable[str], choice: Choice) -> Iterator[PlacedRole]:
    """Yield the roles that a word of `ROLES` names. Those for people have no binding."""
    reading = next(placed.rights for placed in viewer_roles(surfaces, choice) if not placed.namespace)
    if word == "console":
        yield _placed("console", (*reading, *REVIEWS), bound=True)
        home = Role("console", HOME, (), title=NAME)
        yield PlacedRole(home, choice.namespace, SETTINGS)
    else:
        yield _placed(word, (*reading, *act_rights(word)))


def _placed(word: str, rights: tuple[Right, ...], *, bound: bool = False) -> PlacedRole:
    return PlacedRole(Role(word, CLUSTER, (), title=f"haulout-{word}", bound=bound), "", rights)


def act_rights(word: str) -> tuple[Right, ...]:
    """Return the rights for the acts of a role, from what the acts declare to need."""
    acts = [act for each in all_declarations() for act in each.acts]
    if word == OPERATOR:
        return _rights(act for act in acts if act.name not in APPROVALS)
    return _rights(act for act in acts if act.name in APPROVALS) if word == APPROVER else ()


def _rights(acts: Iterable[Act]) -> tuple[Right, ...]:
    verbs: dict[tuple[str, str], dict[str, None]] = {}
    names: dict[tuple[str, str], dict[str, None]] = {}
    for act in acts:
        for need in act.needs:
            resource = f"{need.endpoint.resource}/{need.subresource}" if need.subresource else need.endpoint.resource
            verbs.setdefault((need.endpoint.group, resource), {})[str(need.verb)] = None
            names.setdefault((need.endpoint.group, resource), {})[act.name] = None
    return tuple(
        Right(group, (resource,), tuple(sorted(found)), f"the acts {', '.join(sorted(names[group, resource]))}")
        for (group, resource), found in sorted(verbs.items())
    )


def as_account(choice: Choice) -> Choice:
    """Return the choice with the console's own account, to which its roles are bound."""
    return msgspec.structs.replace(choice, account=ACCOUNT)
