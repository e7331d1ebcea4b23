"""Makes the roles of an installation from the rights that surfaces declare and the options that the user chooses.

See decision 0028.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from haulout.core.rights import CLUSTER, DEFAULT, EACH, HOME, Name, Option, Right, Role, original_role
from haulout.surfaces.registry import all_declarations, surface


def options() -> dict[str, Option]:
    """Return the options of all surfaces that add rights, by name."""
    return {option.name: option for each in all_declarations() for option in each.options}


def object_names() -> dict[str, Name]:
    """Return the object names of all surfaces that settings may change, such as that of a namespace."""
    return {name.name: name for each in all_declarations() for name in each.names}


def default_names() -> dict[str, str]:
    """Return the defaults of `object_names`."""
    return {name.name: name.default for name in object_names().values()}


def roles_of(name: str) -> tuple[Role, ...]:
    """Return the roles that a surface needs beside those of the kernel."""
    found = surface(name)
    original = (original_role(name, found.original.lease),) if found.original else ()
    return (*found.roles, *original)


def all_roles() -> tuple[Role, ...]:
    """Return the roles of all surfaces."""
    return tuple(role for each in all_declarations() for role in roles_of(each.name))


class Choice(msgspec.Struct, frozen=True):
    """The choices of an installation.

    `namespace`, `account`: where it runs, and as which ServiceAccount. `names`: the object names that settings change.
    `flags`: the options that are switched on. `lists`: for each option with a list, names by namespace.
    """

    namespace: str
    account: str
    names: Mapping[str, str]
    flags: frozenset[str]
    lists: Mapping[str, Mapping[str, tuple[str, ...]]]

    def has(self, option: str) -> bool:
        return option in self.flags or bool(self.lists.get(option))

    def wants(self, what: Right | Role) -> bool:
        unless = what.unless if isinstance(what, Right) else ""
        return (not what.option or self.has(what.option)) and not (unless and self.has(unless))


class PlacedRole(msgspec.Struct, frozen=True):
    """A role in a namespace, with the object names of this installation in its rights. Empty: a ClusterRole."""

    role: Role
    namespace: str
    rights: tuple[Right, ...]


def placed_roles(surface: str, choice: Choice, *, every_right: bool = False) -> Iterator[PlacedRole]:
    """Yield the roles of a surface for an installation. `every_right`: with rights that no chosen option asks for, too."""
    for role in roles_of(surface):
        if choice.wants(role):
            for namespace, names in _places(role, choice):
                wanted = [right for right in role.rights if every_right or choice.wants(right)]
                yield PlacedRole(role, namespace, tuple(_named(right, choice, names) for right in wanted))


def _places(role: Role, choice: Choice) -> Iterator[tuple[str, tuple[str, ...]]]:
    fixed = {CLUSTER: "", HOME: choice.namespace, DEFAULT: DEFAULT, **choice.names}
    if role.place in fixed:
        yield fixed[role.place], ()
    else:
        yield from choice.lists.get(role.place, {}).items()


def _named(right: Right, choice: Choice, each: tuple[str, ...]) -> Right:
    names = [
        name for template in right.names for name in (each if template == EACH else (template.format(**choice.names),))
    ]
    return msgspec.structs.replace(right, names=tuple(names))
