"""The entries of packages on a node: one JSON object in an annotation, byte for byte as the original prints it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from haulout.base import bounds

UNINSTALL, UPGRADE, APPLY, CONFIG = "uninstall", "upgrade", "apply", "config"
INTERRUPT, POST_INTERRUPT, UNINSTALL_INTERRUPT = "interrupt", "post-interrupt", "uninstall-interrupt"
STAGES = (UNINSTALL, UPGRADE, APPLY, CONFIG, INTERRUPT, POST_INTERRUPT, UNINSTALL_INTERRUPT)

COMPLETE, IN_PROGRESS, SKIPPED, ERRORING, UNKNOWN = "complete", "in_progress", "skipped", "erroring", "unknown"
STATES = (COMPLETE, IN_PROGRESS, SKIPPED, ERRORING, UNKNOWN)


class PackageEntry(Struct, frozen=True, gc=False):
    """The progress of one package version on a node: its stage, the state of that stage, and its restarts."""

    name: str = ""
    version: str = ""
    image: str = ""
    container_sha: str = msgspec.field(default="", name="containerSHA")
    stage: str = ""
    state: str = ""
    restarts: int = 0

    @property
    def key(self) -> str:
        return entry_key(self.name, self.version)


# The entries of one node by `name|version`.
NodeState = Mapping[str, PackageEntry]
NO_ENTRIES: NodeState = {}


class MalformedNodeState(ValueError):
    """An annotation that is not a node state."""


_DECODER = msgspec.json.Decoder(dict[str, PackageEntry])
# The longest texts of an entry in the status of a Skyhook, as its definition has them.
LONGEST_WORD, LONGEST_IMAGE = 1024, 4096
# Characters that Go's encoder escapes, so that JSON can be embedded in HTML.
_ESCAPED = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})


def entry_key(name: str, version: str) -> str:
    return f"{name}|{version}"


def parse(text: str) -> dict[str, PackageEntry]:
    """Return the entries of an annotation. Raises `MalformedNodeState`."""
    try:
        found = _DECODER.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise MalformedNodeState(str(error)) from error
    for entry in found.values():
        # The status of the Skyhook repeats these words, and the API server would refuse the whole status for one that is
        # unknown or too long.
        if entry.stage not in STAGES or (entry.state and entry.state not in STATES):
            raise MalformedNodeState(f"no such stage or state: {entry.stage[:63]}/{entry.state[:63]}")
        if max(len(entry.name), len(entry.version), len(entry.container_sha)) > LONGEST_WORD:
            raise MalformedNodeState(f"a name, version or digest has more than {LONGEST_WORD} characters")
        if len(entry.image) > LONGEST_IMAGE:
            raise MalformedNodeState(f"an image has more than {LONGEST_IMAGE} characters")
    return {key: msgspec.structs.replace(entry, restarts=bounds.count(entry.restarts)) for key, entry in found.items()}


def to_text(state: NodeState) -> str:
    """Return the annotation for these entries, as Go prints them: compact, sorted by key, without empty members."""
    return go_json({key: entry_members(state[key]) for key in sorted(state)})


def entry_members(entry: PackageEntry) -> dict[str, object]:
    """Return the members of an entry's JSON object, in the original's order."""
    members: dict[str, object] = {"name": entry.name, "version": entry.version, "image": entry.image}
    members |= {"containerSHA": entry.container_sha} if entry.container_sha else {}
    members["stage"] = entry.stage
    members |= {"state": entry.state} if entry.state else {}
    members |= {"restarts": entry.restarts} if entry.restarts else {}
    return members


def go_json(value: object) -> str:
    """Return a value as Go's `json.Marshal` prints it. Members keep their order."""
    return msgspec.json.encode(value).decode().translate(_ESCAPED)


def with_entry(state: NodeState, entry: PackageEntry) -> dict[str, PackageEntry]:
    return {**state, entry.key: entry}


def without(state: NodeState, key: str) -> dict[str, PackageEntry]:
    return {name: entry for name, entry in state.items() if name != key}
