"""Reads from the API server's audit log which user has sent which requests."""

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
    """One request in the audit log. A watch appears when it is opened, every other request when it is answered.

    A write also has the position in the log at which it was received.
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
        """The resource of the request, such as `pods/eviction`, or its path if it is about no resource."""
        if not self.resource:
            return self.uri.partition("?")[0]
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource

    @property
    def act(self) -> str:
        """The request in short, as `counts` counts it: `list nodes`, `create pods/eviction`."""
        return f"{self.verb} {self.what}"

    @property
    def of(self) -> str:
        """The object of the request: `shop/web-0`, `node-1`."""
        return f"{self.ns}/{self.name}" if self.ns else self.name

    @property
    def writes(self) -> bool:
        return self.verb not in {"get", "list", "watch", "head", "options"}


class AuditLog:
    """A reader of the audit log. `leave_mark` sends a request whose path contains the given word."""

    def __init__(self, path: Path, leave_mark: Callable[[str], None]) -> None:
        self.path = path
        self._leave_mark = leave_mark
        self._numbers = itertools.count(1)
        self._read_to = 0
        self._entries: dict[str, Entry | None] = {}
        self._seen_marks: dict[str, int] = {}

    def mark(self) -> int:
        """Wait until all earlier requests are in the log. Return the position, for `since`.

        A change can be read before its write is answered, so writes under way are waited for, too.
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
        """Return the requests that were answered after the position `since`."""
        self.mark()
        found = [entry for entry in itertools.islice(self._entries.values(), since, None) if entry is not None]
        return [
            entry
            for entry in found
            if chosen(entry.user, user) and chosen(entry.verb, verb) and chosen(entry.what, what)
        ]

    def counts(self, *, since: int = 0, user: str | Collection[str] | None = None) -> Counter[str]:
        """Return how often each act was requested, as `{"list nodes": 1, "create pods/eviction": 3}`."""
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
            # A watch is logged twice, when it is opened and when it ends. It keeps its first position and code.
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
