"""The managers of an object's fields: who wrote which field, what an apply changes, and which fields others hold."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from haulout.embedded.interfaces import Json
from haulout.embedded.rules import refusals
from haulout.embedded.store import field_sets
from haulout.embedded.store.field_sets import Path, Shape, field_in_words
from haulout.embedded.store.kinds import Kind
from haulout.kube.errors import ApiError, StatusCause

BEFORE_APPLY = "before-first-apply"
# Fields that belong to no manager.
_STRIPPED_META = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "generation",
    "resourceVersion",
    "selfLink",
    "managedFields",
)
_STRIPPED = frozenset({("f:apiVersion",), ("f:kind",), ("f:metadata",)})
_SERVERS = tuple(("f:metadata", f"f:{name}") for name in _STRIPPED_META)


class Writer(NamedTuple):
    """Who writes, by which operation, version and subresource."""

    manager: str
    operation: str
    api_version: str
    subresource: str = ""


class Held(NamedTuple):
    """The fields of one manager, and since when it has them."""

    paths: frozenset[Path]
    at: str


Managers = dict[Writer, Held]


def managers_of(obj: Json) -> Managers:
    """Return the managers that an object notes. Entries that have another form are left out."""
    found: Managers = {}
    entries = obj["metadata"].get("managedFields")
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict):
            names = ("manager", "operation", "apiVersion", "subresource")
            writer = Writer(*(str(entry.get(name) or "") for name in names))
            found[writer] = Held(frozenset(field_sets.paths_of(entry.get("fieldsV1"))), str(entry.get("time") or ""))
    return found


def written(managers: Managers) -> list[Json]:
    """Return managers as an object notes them: those who apply first, then by time and name."""
    order = sorted(managers.items(), key=lambda each: (each[0].operation, each[1].at, each[0]))
    return [_entry(writer, held) for writer, held in order if held.paths]


def _entry(writer: Writer, held: Held) -> Json:
    entry = {
        "manager": writer.manager,
        "operation": writer.operation,
        "apiVersion": writer.api_version,
        "time": held.at,
        "fieldsType": "FieldsV1",
        "fieldsV1": field_sets.fields_v1(held.paths),
    }
    return {**entry, "subresource": writer.subresource} if writer.subresource else entry


class Ledger:
    """The managers of one object while a client writes it.

    `writer`: the client. `at`: the time of the write.
    """

    def __init__(self, kind: Kind, writer: Writer, at: str) -> None:
        self._kind = kind
        self._writer = writer
        self._at = at
        self._shape: Shape = field_sets.shape_of(kind.type, kind.schema)

    def updated(self, old: Json | None, new: Json) -> list[Json]:
        """Return the managers after an update. The client holds what it has changed, and no other does."""
        changed, removed = self._changes(old or {}, new)
        managers = managers_of(old) if old is not None else {}
        for writer, held in managers.items():
            lost = removed if writer == self._writer else removed | changed
            managers[writer] = Held(held.paths - lost, held.at)
        mine = managers.get(self._writer, Held(frozenset(), ""))
        if changed:
            managers[self._writer] = Held(mine.paths | changed, self._at)
        return written(managers)

    def first_applied(self, config: Json) -> list[Json]:
        """Return the managers of an object that is created by an apply."""
        return written({self._writer: Held(self._own(config), self._at)})

    def applied(self, live: Json, config: Json, *, is_forced: bool) -> tuple[Json, list[Json]]:
        """Return the live object with the configuration applied, and its managers then.

        Raises the conflict if the configuration changes fields of others, unless `is_forced`.
        """
        managers = managers_of(live)
        if not managers:
            everything = Writer(BEFORE_APPLY, "Update", self._kind.api_version)
            managers[everything] = Held(self._own(live), live["metadata"].get("creationTimestamp", ""))
        before = managers.get(self._writer, Held(frozenset(), ""))
        others = {writer: held for writer, held in managers.items() if writer != self._writer}
        mine = self._own(config)
        merged = field_sets.apply_config(self._shape, live, _without_system(config))
        kept = mine.union(*(held.paths for held in others.values()))
        merged = field_sets.without(self._shape, merged, _with_parents(before.paths) - _with_parents(kept))
        changed, removed = self._changes(live, merged)
        conflicts = [(writer, path) for writer, held in others.items() for path in sorted(held.paths & changed)]
        if conflicts and not is_forced:
            raise _conflict(conflicts)
        others = {writer: Held(held.paths - changed - removed, held.at) for writer, held in others.items()}
        is_same = before.paths == mine and not changed and not removed
        return merged, written({**others, self._writer: before if is_same else Held(mine, self._at)})

    def _own(self, obj: Json) -> frozenset[Path]:
        return frozenset(path for path, _ in field_sets.fields(self._shape, obj) if self._is_owned(path))

    def _changes(self, old: Json, new: Json) -> tuple[set[Path], set[Path]]:
        changed, removed = field_sets.changes(self._shape, old, new)
        return {path for path in changed if self._is_owned(path)}, removed

    def _is_owned(self, path: Path) -> bool:
        """Whether a field has managers: not those of the server, nor the other half of an object with a status."""
        if path in _STRIPPED or path[:2] in _SERVERS:
            return False
        is_status = path[0] == "f:status"
        if self._writer.subresource == "status":
            return is_status
        return not (is_status and self._kind.has_status)


def _without_system(config: Json) -> Json:
    """Return a configuration without the metadata that only the server writes."""
    meta = config.get("metadata")
    if not isinstance(meta, dict):
        return config
    return {**config, "metadata": {name: part for name, part in meta.items() if name not in _STRIPPED_META}}


def _with_parents(paths: Iterable[Path]) -> set[Path]:
    """Return fields with all that contain them. What contains no field of any manager any more goes, too."""
    return {path[:length] for path in paths for length in range(1, len(path) + 1)} - _STRIPPED


def _conflict(conflicts: list[tuple[Writer, Path]]) -> ApiError:
    named = [(_named(writer), field_in_words(path)) for writer, path in conflicts]
    if len(named) == 1:
        ((name, field),) = named
        text = f"Apply failed with 1 conflict: conflict with {name}: {field}"
    else:
        by_name: dict[str, list[str]] = {}
        for name, field in named:
            by_name.setdefault(name, []).append(field)
        lines = [
            line
            for name in sorted(by_name)
            for line in (f"conflicts with {name}:", *(f"- {each}" for each in by_name[name]))
        ]
        text = f"Apply failed with {len(named)} conflicts: " + "\n".join(lines)
    causes = tuple(StatusCause("FieldManagerConflict", f"conflict with {name}", field) for name, field in named)
    return refusals.refusal(409, "Conflict", text, details=refusals.Details(causes=causes))


def _named(writer: Writer) -> str:
    name = msgspec.json.encode(writer.manager).decode()
    if writer.subresource:
        name = f'{name} with subresource "{writer.subresource}"'
    if writer.operation != "Update":
        return name
    return f"{name} using {writer.api_version}"


def edited_managers(old: Json, sent: Json) -> list[Json] | None:
    """Return the managers that a client has written itself, as kubectl does when it goes over to server-side apply."""
    meta = sent.get("metadata")
    entries = meta.get("managedFields") if isinstance(meta, dict) else None
    if not isinstance(entries, list) or entries == old["metadata"].get("managedFields"):
        return None
    return written(managers_of({"metadata": {"managedFields": entries}}))


def checked_config(sent: Any) -> Json:
    """Return the configuration of an apply. Raises the refusal if it is none."""
    if not isinstance(sent, dict):
        why = refusals.cannot_unmarshal(sent, "map[string]interface {}")
        raise refusals.bad_request(f"error decoding YAML: error unmarshaling JSON: while decoding JSON: {why}")
    meta: Any = sent.get("metadata")
    if isinstance(meta, dict) and meta.get("managedFields"):
        raise refusals.bad_request("metadata.managedFields must be nil")
    return sent
