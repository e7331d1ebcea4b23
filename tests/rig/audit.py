"""What the API server was asked, by whom, read from its audit log."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections import Counter
from collections.abc import Callable, Collection
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.rig.api import Json
from tests.rig.wait import eventually

MARK = "audit-mark-"


@dataclasses.dataclass(frozen=True)
class Entry:
    """One request. A watch appears when it has been opened, everything else when it has been answered.

    A write has the place at which it was received.
    """

    id: str
    user: str
    acting_as: str
    verb: str
    resource: str
    subresource: str
    ns: str
    name: str
    code: int
    uri: str
    agent: str
    received_at: datetime
    body: Any = None

    @property
    def what(self) -> str:
        """`pods/eviction`, or the path of what is not a resource."""
        if not self.resource:
            return self.uri.partition("?")[0]
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource

    @property
    def act(self) -> str:
        """One word for a request, as `counts` counts it: `list nodes`, `create pods/eviction`."""
        return f"{self.verb} {self.what}"

    @property
    def of(self) -> str:
        """The object it was about: `shop/web-0`, `node-1`."""
        return f"{self.ns}/{self.name}" if self.ns else self.name

    @property
    def writes(self) -> bool:
        return self.verb not in {"get", "list", "watch", "head", "options"}


class AuditLog:
    """Reads on from where it was; `leave_mark` makes a request whose path contains the given word."""

    def __init__(self, path: Path, leave_mark: Callable[[str], None]) -> None:
        self.path = path
        self._leave_mark = leave_mark
        self._numbers = itertools.count(1)
        self._read_to = 0
        self._entries: dict[str, Entry | None] = {}
        self._seen_marks: dict[str, int] = {}

    def mark(self) -> int:
        """Waits until all that was answered before is in the log; the position can be given as `since`.

        What a write has changed can be read before the write is answered, so writes under way are waited for, too.
        """
        word = f"{MARK}{next(self._numbers)}"
        self._leave_mark(word)
        eventually(lambda: self._read(word), f"audit log has {word}")
        position = self._seen_marks.pop(word)
        under_way = [key for key, entry in itertools.islice(self._entries.items(), position) if entry is None]
        eventually(lambda: self._read() and all(map(self._entries.get, under_way)), "writes under way are answered")
        return position

    def entries(
        self,
        *,
        since: int = 0,
        user: str | Collection[str] | None = None,
        verb: str | Collection[str] | None = None,
        what: str | Collection[str] | None = None,
    ) -> list[Entry]:
        """The requests answered after the position `since` and before now."""
        self.mark()
        found = [entry for entry in itertools.islice(self._entries.values(), since, None) if entry is not None]
        return [
            entry
            for entry in found
            if chosen(entry.user, user) and chosen(entry.verb, verb) and chosen(entry.what, what)
        ]

    def counts(self, *, since: int = 0, user: str | Collection[str] | None = None) -> Counter[str]:
        """How often each act was asked for, as `{"list nodes": 1, "create pods/eviction": 3}`."""
        return Counter(entry.act for entry in self.entries(since=since, user=user))

    def _read(self, awaited: str = "") -> bool:
        with self.path.open("rb") as log:
            log.seek(self._read_to)
            for line in log:
                if not line.endswith(b"\n"):
                    break
                self._read_to += len(line)
                self._take(json.loads(line))
        return not awaited or awaited in self._seen_marks

    def _take(self, line: Json) -> None:
        entry = entry_of(line)
        if entry.name.startswith(MARK):
            self._seen_marks[entry.name] = len(self._entries)
        elif line["stage"] == "RequestReceived":
            self._entries[entry.id] = None
        elif self._entries.get(entry.id) is None:
            # A watch comes twice, opened and ended; it keeps its place and its first code.
            self._entries[entry.id] = entry


def entry_of(line: Json) -> Entry:
    ref = line.get("objectRef", {})
    return Entry(
        id=line["auditID"],
        user=line["user"].get("username", ""),
        acting_as=line.get("impersonatedUser", {}).get("username", ""),
        verb=line["verb"],
        resource=ref.get("resource", ""),
        subresource=ref.get("subresource", ""),
        ns=ref.get("namespace", ""),
        name=ref.get("name", ""),
        code=line.get("responseStatus", {}).get("code", 0),
        uri=line["requestURI"],
        agent=line.get("userAgent", ""),
        received_at=datetime.fromisoformat(line["requestReceivedTimestamp"]),
        body=line.get("requestObject"),
    )


def chosen(value: str, wanted: str | Collection[str] | None) -> bool:
    if wanted is None:
        return True
    return value == wanted if isinstance(wanted, str) else value in wanted
