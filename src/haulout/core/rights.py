"""The rights that a surface needs in a cluster, as data: roles, and the choices of an installation that add to them."""

from __future__ import annotations

import msgspec

COORDINATION = "coordination.k8s.io"
EVENTS = "events.k8s.io"

READ = ("get", "list", "watch")
FOLLOW = ("list", "watch")
TELL = ("create", "patch")

# The place of a Role. Any other word is a Name that is a namespace, or an Option that lists namespaces.
CLUSTER, HOME, DEFAULT = "cluster", "home", "default"
# A placeholder in the names of a right: the object names that the option lists for the namespace.
EACH = "{each}"


class Option(msgspec.Struct, frozen=True):
    """A choice of the administrator that adds rights.

    `lists`: what its values are, NAMESPACE or NAMESPACE/NAME; it may be given any number of times. Empty: it is a flag.
    `setting`: the line of the surface's block in `haulout.yaml` that needs the right, where there is such a line.
    """

    name: str
    help: str
    lists: str = ""
    setting: str = ""
    default: bool = False

    @property
    def has_names(self) -> bool:
        return "/" in self.lists


class Name(msgspec.Struct, frozen=True):
    """The name of an object that roles refer to and that a setting may change.

    `setting`: the path of the setting in `haulout.yaml`.
    `is_namespace`: it is the name of a namespace, which has to exist before its roles are made.
    """

    name: str
    default: str
    setting: str
    is_namespace: bool = False


class Right(msgspec.Struct, frozen=True):
    """One rule of a role.

    `option`: the rule is there only with this option. `unless`: only without that one.
    `urls`: paths of the API server that are no resources.
    """

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    purpose: str = ""
    names: tuple[str, ...] = ()
    option: str = ""
    unless: str = ""
    urls: tuple[str, ...] = ()


class Role(msgspec.Struct, frozen=True):
    """Rights that hold in one place.

    `option`: the role is there only with this option.
    `title`: its name, where that does not follow from the surface.
    `bound`: the operator has the role. Off for roles of people: the cluster's administrator decides which users have
    them.
    """

    surface: str
    place: str
    rights: tuple[Right, ...]
    suffix: str = ""
    option: str = ""
    title: str = ""
    bound: bool = True

    @property
    def name(self) -> str:
        return self.title or "-".join(filter(None, ("haulout", self.surface, self.suffix)))

    @property
    def kind(self) -> str:
        return "ClusterRole" if self.place == CLUSTER else "Role"


def drain_rights() -> tuple[Right, ...]:
    """Return the rights of a surface that cordons and drains nodes."""
    return (
        Right("", ("nodes",), (*READ, "patch"), "follow nodes, cordon, label, annotate and taint them"),
        Right("", ("pods",), READ, "know which pods run where"),
        Right("", ("pods/eviction",), ("create",), "drain: evict pods, as their budgets allow"),
        Right("", ("pods",), ("delete",), "drain past budgets where that is asked for", option="delete_pods"),
        Right(EVENTS, ("events",), TELL, "events about pods, in their namespaces"),
    )


def people_roles(surface: str, word: str, group: str, plural: str, *, has_status: bool = True) -> tuple[Role, ...]:
    """Return the roles of people who edit or look at objects of a custom resource.

    `has_status`: the status of the resource is a subresource.
    """
    status = (Right(group, (f"{plural}/status",), ("get",)),) if has_status else ()
    return tuple(
        Role(
            surface,
            CLUSTER,
            (Right(group, (plural,), verbs), *status),
            title=f"{word}-{role}-role",
            bound=False,
        )
        for role, verbs in (("editor", (*READ, "create", "delete", "patch", "update")), ("viewer", READ))
    )


def certificate_role(surface: str) -> Role:
    """Return the role with which the webhooks' certificate is made and renewed.

    It cannot create the Secret, which an installation brings: with it a thief of the token could choose the type.
    """
    verbs = ("get", "watch", "update")
    right = Right("", ("secrets",), verbs, "make and keep the webhook's certificate", ("{webhook_secret}",))
    return Role(surface, HOME, (right,), "webhooks", "own_certificates")


def registration_right(*names: str, mutating: bool = False) -> Right:
    """Return the right to write the CA of the webhooks' certificate into their registrations."""
    return Right(
        "admissionregistration.k8s.io",
        (f"{'mutating' if mutating else 'validating'}webhookconfigurations",),
        ("get", "watch", "patch"),
        "register the authority of the webhook's certificate",
        names,
        option="own_certificates",
    )


def original_role(surface: str, lease: str) -> Role:
    """Return the role with which a surface holds the Lease of its original."""
    rights = (
        # A rule cannot limit `create` by name: the object has no name yet when the rule is checked.
        Right(COORDINATION, ("leases",), ("create",), "hold the original's Lease beside it"),
        Right(COORDINATION, ("leases",), ("get", "update"), "hold the original's Lease beside it", (lease,)),
    )
    return Role(surface, "original_lease", rights, "original", "original_lease")
