"""The roles of an installation, from what surfaces declare and what the installation chooses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from haulout.core.rights import CLUSTER, DEFAULT, EACH, HOME, Name, Option, Right, Role, original_role
from haulout.surfaces.registry import declared, surface


def options() -> dict[str, Option]:
    """Return the choices that add rights, of all surfaces, by their names."""
    return {option.name: option for each in declared() for option in each.options}


def object_names() -> dict[str, Name]:
    """Return the names of objects that settings may change, of all surfaces."""
    return {name.name: name for each in declared() for name in each.names}


def default_names() -> dict[str, str]:
    """Return the default names."""
    return {name.name: name.default for name in object_names().values()}


def roles_of(name: str) -> tuple[Role, ...]:
    """Return the roles of a surface. They are enough together with the kernel's."""
    found = surface(name)
    original = (original_role(name, found.original.lease),) if found.original else ()
    return (*found.roles, *original)


def all_roles() -> tuple[Role, ...]:
    """Return the roles of all surfaces."""
    return tuple(role for each in declared() for role in roles_of(each.name))


class Choice(msgspec.Struct, frozen=True):
    """What an installation says: where it runs, which options it takes, and what these list (namespace to names)."""

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
    """A role in its namespace, which is empty for the whole cluster; its rights have the names that count there."""

    role: Role
    namespace: str
    rights: tuple[Right, ...]


def placed_roles(surface: str, choice: Choice, *, every_right: bool = False) -> Iterator[PlacedRole]:
    """Return the roles of a surface as an installation needs them; with `every_right` whatever the options say."""
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
