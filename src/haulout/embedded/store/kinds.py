"""The description of a kind: how the server addresses, decodes, completes, checks and selects its objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

import msgspec

from haulout.embedded.interfaces import Json, Resource
from haulout.embedded.rules import fields, metadata
from haulout.embedded.rules.refusals import Problem

# Returns the object in its wire form, given the previous object. Unknown fields are added to the list.
Decode = Callable[[Any, Json | None, list[str]], Json]
Select = Callable[[Json], str]

Default = Callable[[Json, Json | None], None]


def _leave(obj: Json, old: Json | None) -> None: ...


def _ready(obj: Json) -> None: ...


def _keep(obj: Json, old: Json) -> None: ...


def _fine(obj: Json) -> list[Problem]:
    return []


def _unchanged(obj: Json, old: Json) -> list[Problem]:
    return []


class Column(msgspec.Struct, frozen=True):
    """One column of `kubectl get`; `path` is a JSON path, for custom kinds."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0
    path: str = ""


class Kind(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One kind in one version, with the functions that apply its rules.

    The functions may change the top level of the object that they get. Everything below it is shared with other objects
    and must be copied before a change.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    singular: str = ""
    # The table of the objects. Two kinds that show the same objects, such as both kinds of events, name the same table.
    table: str = ""
    # The Go type; custom kinds have none.
    type: str = ""
    decode: Decode
    # Decodes only the status. Kinds have it if their status has a Go type and is stored in the form of this version.
    decode_status: Decode | None = None
    has_status: bool = False
    # The Go type of the empty status that a new object gets, whatever status was sent; "" if `prepare` sets the status.
    status_type: str = ""
    has_scale: bool = False
    verbs: tuple[str, ...] = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
    name_rule: metadata.NameRule = metadata.subdomain
    # Fills in missing fields, also of changed objects.
    default: Default = _leave
    # Sets values that must be unique, such as addresses, in a new or changed object. It gets the other objects, too.
    allocate: Callable[[Json, Iterable[Json]], None] | None = None
    # Rules for new objects, beyond `check`.
    check_new: Callable[[Json], list[Problem]] = _fine
    # Set the fields that the client does not decide, before a new (`prepare`) or changed object is checked.
    prepare: Callable[[Json], None] = _ready
    reprepare: Callable[[Json, Json], None] = _keep
    reprepare_status: Callable[[Json, Json], None] = _keep
    check: Callable[[Json], list[Problem]] = _fine
    recheck: Callable[[Json, Json], list[Problem]] = _unchanged
    recheck_status: Callable[[Json, Json], list[Problem]] = _unchanged
    # Whether a change counts as a change of the spec, which increases the generation; None for kinds without one.
    respecified: Callable[[Json, Json], bool] | None = None
    selectable: dict[str, Select] = {}
    unconditional_update: bool = True
    create_on_update: bool = False
    # The default for dependents of a deleted object: "Background", "Orphan", or "" where it has none.
    propagation: str = "Background"
    returns_deleted: bool = False
    graceful: Callable[[Json, int | None], int] | None = None
    # Convert an object from the stored form to this version, and back.
    to_wire: Callable[[Json], Json] | None = None
    to_stored: Callable[[Json], Json] | None = None
    columns: tuple[Column, ...] = ()
    custom: bool = False
    # The structural schema; only custom kinds have one.
    schema: Json = {}
    # The warning that clients of this version get.
    deprecation: str = ""
    # Computed from group and version, because every write needs it.
    api_version: str = ""

    def __post_init__(self) -> None:
        api_version = f"{self.group}/{self.version}" if self.group else self.version
        msgspec.structs.force_setattr(self, "api_version", api_version)

    @property
    def resource(self) -> Resource:
        return Resource(self.group, self.version, self.plural)

    @property
    def one(self) -> str:
        return self.singular or self.kind.lower()

    @property
    def table_name(self) -> str:
        return self.table or (f"{self.plural}.{self.group}" if self.group else self.plural)


def decoder(type_name: str) -> Decode:
    return cast("Decode", fields.converter(type_name))


def status_decoder(type_name: str) -> Decode:
    """Return a decoder for only the status of a type."""
    return decoder(fields.fields_of(type_name)["status"].type)


def parts_differ(obj: Json, old: Json, ignored: frozenset[str]) -> bool:
    """Whether two objects differ in a part that is not ignored. A missing part is equal to null."""
    for name, part in obj.items():
        before = old.get(name)
        if part is not before and name not in ignored and part != before:
            return True
    for name, before in old.items():  # noqa: SIM110 - a generator would cost as much as the comparison
        if name not in obj and name not in ignored and before is not None:
            return True
    return False


def path_selector(*steps: str, empty: str = "") -> Select:
    def select(obj: Json) -> str:
        value: Any = obj
        for step in steps:
            value = value.get(step) if isinstance(value, dict) else None
        if isinstance(value, bool):
            return "true" if value else "false"
        return empty if value is None else str(value)

    return select


class Catalog:
    """The kinds that the server serves at the moment."""

    def __init__(self, kinds: Iterable[Kind]) -> None:
        self._kinds: dict[Resource, Kind] = {}
        # Returns the kind of a resource, or None. Each request calls it, so it is the dictionary's own method.
        self.get: Callable[[Resource], Kind | None] = self._kinds.get
        # Grows with each change, for callers that cache what they compute from the kinds.
        self.edition = 0
        for kind in kinds:
            self.add(kind)

    def add(self, kind: Kind) -> None:
        self._kinds[kind.resource] = kind
        self.edition += 1

    def remove(self, resource: Resource) -> None:
        if self._kinds.pop(resource, None):
            self.edition += 1

    def __iter__(self) -> Iterator[Kind]:
        return iter(self._kinds.values())
