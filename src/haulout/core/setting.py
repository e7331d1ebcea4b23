"""The description of a setting beside its type (decision 0063).

One struct per surface is its block, its flags and what its decisions read.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Annotated, Any, TypeVar, get_args, get_origin

import msgspec

from haulout.base.duration import to_text

S = TypeVar("S", bound=msgspec.Struct)


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """The description of a setting, in the annotation of its field, as in `Annotated[int, Setting(help="...")]`.

    `help`: what it is for, in the reference of settings and in the usage of the original.
    `has_flag`: whether the command line of the original has a flag for it.
    `flag`: the name of that flag, where it does not follow from the field's.
    `right`: what would be right, for error messages.
    `check`: raises ValueError for a value that the type allows and the setting does not; for a list, it is called with
    each entry.
    `words`: the only values that are allowed.
    `is_public`: a support archive may contain its value. It may always contain one of `words`.
    `at_start`: it is read when the surface begins. A change of it begins the surface anew.
    """

    help: str = ""
    has_flag: bool = True
    flag: str = ""
    right: str = ""
    check: Callable[[Any], object] | None = None
    words: tuple[str, ...] = ()
    at_start: bool = False
    is_public: bool = False


class Described(msgspec.Struct, frozen=True):
    """A field of a settings struct.

    `path`: the names of the fields that lead to it. `name`: its name in `haulout.yaml`.
    """

    path: tuple[str, ...]
    name: str
    kind: Any
    default: Any
    setting: Setting


def describe(struct: type[msgspec.Struct], path: tuple[str, ...] = ()) -> Iterator[Described]:
    """Yield the settings of a struct and of the structs in it, in their order."""
    for field in msgspec.structs.fields(struct):
        kind, setting = split(field.type)
        inner = (*path, field.name)
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            yield from describe(kind, inner)
        else:
            yield Described(inner, field.encode_name, kind, field.default, setting)


def make_struct(struct: type[S], by_path: Mapping[str, Any]) -> S:
    """Return a struct with these fields set. Each is named by its path with dots."""
    values: dict[str, Any] = {}
    for field in msgspec.structs.fields(struct):
        inner = {
            path.removeprefix(f"{field.name}."): by_path[path] for path in by_path if path.startswith(f"{field.name}.")
        }
        if inner:
            values[field.name] = make_struct(field.type, inner)
        elif field.name in by_path:
            values[field.name] = by_path[field.name]
    return struct(**values)


def split(annotation: Any) -> tuple[Any, Setting]:
    """Return the type and the description that an annotation contains."""
    if get_origin(annotation) is not Annotated:
        return annotation, Setting()
    kind, *others = get_args(annotation)
    return kind, next((each for each in others if isinstance(each, Setting)), Setting())


def not_empty(text: str) -> None:
    """Refuse a text that is empty or has only white space."""
    if not text.strip():
        raise ValueError("empty")


def not_negative(value: int | timedelta) -> None:
    """Refuse a number or a duration below zero."""
    if isinstance(value, timedelta) and value < timedelta():
        raise ValueError(f"{to_text(value)!r} is negative")
    if isinstance(value, int) and value < 0:
        raise ValueError(f"{value} is negative")


def more_than_zero(value: int | timedelta) -> None:
    """Refuse a number or a duration of zero or below."""
    if isinstance(value, timedelta) and value <= timedelta():
        raise ValueError(f"{to_text(value)!r} is not more than 0")
    if isinstance(value, int) and value <= 0:
        raise ValueError(f"{value} is not more than 0")


def a_second_or_more(value: timedelta) -> None:
    """Refuse a duration of less than a second, in which nothing can be renewed."""
    if value < timedelta(seconds=1):
        raise ValueError(f"{to_text(value)!r} is too short")


def network(text: str) -> None:
    """Refuse what is not a network such as 10.0.0.0/8."""
    try:
        ipaddress.ip_network(text)
    except ValueError:
        raise ValueError(f"{text!r} is no network") from None


class OriginalLease(msgspec.Struct, frozen=True):
    """The place of the Lease of a surface's original. If it is set, the surface acts only while that Lease is held."""

    namespace: Annotated[
        str,
        Setting(
            help="The namespace of the original's Lease, which then has to be held as well.",
            has_flag=False,
            check=not_empty,
            right="where the original's Lease is",
        ),
    ] = ""
