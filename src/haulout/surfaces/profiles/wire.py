"""Names and formats of sapcc/maintenance-controller, spelled as on the wire."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Any

import msgspec

from haulout.base import bounds
from haulout.base.small_cache import short_text_cache
from haulout.surfaces.profiles import acts

SURFACE = "profiles"
PROFILE_LABEL = acts.PROFILE_LABEL
STATE_LABEL = acts.STATE_LABEL
LOG_DETAILS_LABEL = "cloud.sap/maintenance-log-details"
HOST_LABEL = "kubernetes.cloud.sap/host"
ZONE_LABEL = "failure-domain.beta.kubernetes.io/zone"

DATA_ANNOTATION = "cloud.sap/maintenance-data"

CONFIG_FILE = "./config/maintenance.yaml"

DEFAULT_PROFILE = "default"
PROFILE_SEPARATOR = "--"
LONGEST_CACHED = 4096


_STAMP = re.compile(
    r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})T(?P<time>[0-9]{2}:[0-9]{2}:[0-9]{2})(?:[.,](?P<fraction>[0-9]+))?"
    r"(?:Z|(?P<sign>[+-])(?P<hours>[0-9]{2}):(?P<minutes>[0-9]{2}))"
)
# Go's JSON escapes characters that could end a script in HTML. Text that must equal Go's is escaped the same way.
_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})
_OLD = frozenset(
    (
        "lasttransition",
        "lastnotification",
        "lastnotificationstate",
        "lastnotificationtimes",
        "lastprofile",
        "profilestates",
        "previousstates",
    )
)


class State(StrEnum):
    """The states of a node's maintenance, as spelt in the label `cloud.sap/maintenance-state`."""

    OPERATIONAL = "operational"
    REQUIRED = "maintenance-required"
    IN_MAINTENANCE = "in-maintenance"


# The longest state, and the longest error of data, that are shown. Kubelets may write any text into the annotation.
LONGEST_WORD = 256


class DataError(ValueError):
    """The error of a data annotation that cannot be read. The node is left alone until it is repaired."""


class Stamp(msgspec.Struct, frozen=True):
    """An instant in the maintenance data of a node.

    `text`: as it is written, so that an unchanged instant is written back to the last digit.
    """

    text: str
    at: datetime


class Entry(msgspec.Struct, frozen=True):
    """The state of one profile of a node.

    The states are texts, so that an unknown one fails the profile, not the whole annotation.
    """

    transition: Stamp
    current: str
    previous: str


class MaintenanceData(msgspec.Struct, frozen=True):
    """The content of a node's data annotation.

    `profiles`: the state of each profile, and since when.
    `notifications`: when each notification was last sent.
    """

    profiles: Mapping[str, Entry] = {}
    notifications: Mapping[str, Stamp] = {}


def stamp(at: datetime) -> Stamp:
    """Return an instant as Go's RFC3339Nano writes it, in UTC."""
    at = at.astimezone(UTC)
    fraction = f".{at.microsecond:06}".rstrip("0") if at.microsecond else ""
    return Stamp(f"{at.isoformat()[:19]}{fraction}Z", at)


_FIRST = datetime.min.replace(tzinfo=UTC)
_LAST = datetime.max.replace(tzinfo=UTC)

NEVER = stamp(_FIRST)
"""Go's zero time: the notification was never sent, or the transition never happened."""


def lease_name(prefix: str, number: int) -> str:
    """Return the name of one Lease of a `stagger` check."""
    return f"{prefix}-{number}"


def listed_profiles(label: str | None) -> tuple[str, ...]:
    """Return the names in the profile label, in its order; a node without one has the default profile."""
    return tuple((label or DEFAULT_PROFILE).split(PROFILE_SEPARATOR))


@lru_cache(maxsize=256)
def attached_profiles(label: str | None) -> tuple[str, ...]:
    """Return the names in the profile label, each once.

    A profile makes one step in a pass, however often it is named.
    """
    return tuple(dict.fromkeys(listed_profiles(label)))


def is_listed(profile: str, label: str | None) -> bool:
    """Whether the label itself lists the profile. A missing or empty label does not list the default profile either."""
    return label is not None and profile in label.split(PROFILE_SEPARATOR)


def known_state(word: str) -> State:
    try:
        return State(word)
    except ValueError:
        raise ValueError(f'node state "{word}" is not known') from None


# The same text is parsed several times for a node, and nodes that moved together have the same text.
@short_text_cache(1024, LONGEST_CACHED)
def parse_data(text: str | None) -> MaintenanceData:
    """Return the data of an annotation in any format since 2020.

    Keys match in any case, unknown keys are refused, and null counts as absent.
    """
    if not text:
        return MaintenanceData()
    try:
        value, _ = _DECODER.raw_decode(text.lstrip(" \t\n\r"))
        fields = _members(value, "Data")
        if any(name.lower() in _OLD for name, _ in fields):
            return _parse_old(fields)
        return _parse(fields)
    except RecursionError:
        raise DataError("failed to parse json value in data annotation: exceeded max depth") from None
    except ValueError as error:
        why = bounds.text(str(error), LONGEST_WORD)
        raise DataError(f"failed to parse json value in data annotation: {why}") from None


def write_data(data: MaintenanceData) -> str:
    profiles = ",".join(f"{_quoted(name)}:{_written(entry)}" for name, entry in sorted(data.profiles.items()))
    sent = ",".join(f"{_quoted(name)}:{_quoted(at.text)}" for name, at in sorted(data.notifications.items()))
    return f'{{"Profiles":{{{profiles}}},"Notifications":{{{sent}}}}}'


# Nodes whose text is the same share the answer, as they share the parsed data.
@short_text_cache(1024, LONGEST_CACHED)
def is_canonical(text: str | None) -> bool:
    """Whether a readable annotation is the text that `write_data` returns for its data."""
    return text is not None and write_data(parse_data(text)) == text


def _no_constant(word: str) -> Any:
    raise ValueError(f"invalid character '{word[0]}' looking for beginning of value")


class _Object(list[tuple[str, Any]]):
    """The members of a JSON object in order, including repetitions."""


_ENCODER = json.JSONEncoder(ensure_ascii=False)
# The format has no numbers, so they need not be exact.
_DECODER = json.JSONDecoder(object_pairs_hook=_Object, parse_int=float, parse_constant=_no_constant)


def _parse(fields: _Object) -> MaintenanceData:
    profiles: dict[str, Entry] = {}
    notifications: dict[str, Stamp] = {}
    for name, value in fields:
        match name.lower():
            case "profiles":
                profiles |= {key: _entry(entry) for key, entry in _map(value, name) if entry is not None}
            case "notifications":
                notifications |= {key: _stamp(at) for key, at in _map(value, name)}
            case _:
                raise _unknown(name)
    return MaintenanceData(profiles, notifications)


def _parse_old(fields: _Object) -> MaintenanceData:
    """Return the data of a format until mid 2023. Without states by profile, every profile starts as operational."""
    transition, notifications, current, previous = NEVER, {}, {}, {}
    for name, value in fields:
        match name.lower():
            case "lasttransition":
                transition = _stamp(value)
            case "lastnotificationtimes":
                notifications = {key: _stamp(at) for key, at in _map(value, name)}
            case "profilestates":
                current = {key: _word(state, name) for key, state in _map(value, name) if state is not None}
            case "previousstates":
                previous = {key: _word(state, name) for key, state in _map(value, name) if state is not None}
            case old if old not in _OLD:
                raise _unknown(name)
    profiles = {name: Entry(transition, state, previous.get(name, state)) for name, state in current.items()}
    return MaintenanceData(profiles, notifications)


def _entry(value: Any) -> Entry:
    transition, current, previous = NEVER, "", ""
    for name, member in _members(value, "ProfileData"):
        match name.lower():
            case "transition":
                transition = _stamp(member) if member is not None else transition
            case "current":
                current = _word(member, name) if member is not None else current
            case "previous":
                previous = _word(member, name) if member is not None else previous
            case _:
                raise _unknown(name)
    return Entry(transition, current, previous)


def _members(value: Any, kind: str) -> _Object:
    if value is None:
        return _Object()
    if not isinstance(value, _Object):
        raise _mismatch(value, f"Go value of type state.{kind}")
    return value


def _map(value: Any, field: str) -> list[tuple[str, Any]]:
    if value is None:
        return []
    if not isinstance(value, _Object):
        raise _mismatch(value, f"Go struct field {field}")
    return [(_whole(name), member) for name, member in value]


def _word(value: Any, field: str) -> str:
    if not isinstance(value, str):
        raise _mismatch(value, f"Go struct field {field} of type state.NodeStateLabel")
    return bounds.text(_whole(value), LONGEST_WORD)


def _stamp(value: Any) -> Stamp:
    if value is None:
        return NEVER
    if not isinstance(value, str):
        raise _mismatch(value, "Go value of type time.Time")
    found = _STAMP.fullmatch(value)
    if not found:
        raise _no_time(value)
    try:
        year, rest = found["date"].split("-", 1)
        # Python's first year is 1. Go's year 0 is treated as the year 1.
        local = datetime.fromisoformat(f"{max(year, '0001')}-{rest}T{found['time']}").replace(tzinfo=UTC)
    except ValueError:
        raise _no_time(value) from None
    microseconds = int((found["fraction"] or "")[:6].ljust(6, "0"))
    return Stamp(value, _shifted(local.replace(microsecond=microseconds), _offset(found)))


def _offset(found: re.Match[str]) -> timedelta:
    hours, minutes = int(found["hours"] or 0), int(found["minutes"] or 0)
    if hours > 23 or minutes > 59:
        raise _no_time(found[0])
    offset = timedelta(hours=hours, minutes=minutes)
    return -offset if found["sign"] == "-" else offset


def _shifted(local: datetime, offset: timedelta) -> datetime:
    """Return an instant in UTC. At the limits of `datetime` it is clamped, and only the text keeps the difference."""
    try:
        return local - offset
    except OverflowError:
        return _FIRST if offset > timedelta(0) else _LAST


def _whole(text: str) -> str:
    """Replace half of a surrogate pair, which is no character, by the replacement character, as Go does."""
    # Text in ASCII has no surrogates.
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _written(entry: Entry) -> str:
    return (
        f'{{"Transition":{_quoted(entry.transition.text)},"Current":{_quoted(entry.current)},'
        f'"Previous":{_quoted(entry.previous)}}}'
    )


@short_text_cache(1024, LONGEST_CACHED)
def _quoted(text: str) -> str:
    return _ENCODER.encode(text).translate(_ESCAPES)


def _json_type(value: Any) -> str:
    match value:
        case bool():
            return "bool"
        case int() | float():
            return "number"
        case str():
            return "string"
        case _Object():
            return "object"
        case _:
            return "array"


def _unknown(name: str) -> ValueError:
    return ValueError(f"json: unknown field {json.dumps(_whole(name), ensure_ascii=False)}")


def _mismatch(value: Any, target: str) -> ValueError:
    return ValueError(f"json: cannot unmarshal {_json_type(value)} into {target}")


def _no_time(value: str) -> ValueError:
    written = json.dumps(_whole(value), ensure_ascii=False)
    return ValueError(f'parsing time {written} as "2006-01-02T15:04:05Z07:00": not such a timestamp')
