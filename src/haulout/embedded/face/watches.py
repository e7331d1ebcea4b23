"""Watches: the changes of one kind as lines, from a revision on or after an initial list."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta

import msgspec

from haulout.embedded.face.list_options import ListOptions, read_version
from haulout.embedded.interfaces import Json, Timers
from haulout.embedded.rules import refusals
from haulout.embedded.store.kinds import Kind
from haulout.embedded.store.selectors import Filter, find
from haulout.embedded.store.storage import ADDED, DELETED, MODIFIED, Entry, Storage, Table, with_version
from haulout.kube.errors import ApiError

# A watch gets bookmarks at this interval, and a last one so long before its end, as from the real server's cache.
BOOKMARK_EVERY = timedelta(minutes=1)
LAST_BOOKMARK_BEFORE = timedelta(seconds=2)
# The real server ends a watch after half an hour to an hour, unless the client sets a timeout.
DEFAULT_TIMEOUT = timedelta(minutes=45)
# A watch ends when its reader is this many lines behind. The reader then has to list again.
MAX_BEHIND = 100_000

INITIAL_EVENTS_END = "k8s.io/initial-events-end"

_encode = msgspec.json.encode


def nothing() -> None: ...


class Watch:
    """The lines of one watch, in order. `on_line` is called when there are new ones, and at the end."""

    def __init__(self, show: Callable[[Json], Json], kind: Kind, chosen: Filter, namespace: str) -> None:
        self.lines: deque[bytes] = deque()
        self.ended = False
        self.on_line: Callable[[], None] = nothing
        self._show = show
        self._kind = kind
        self._chosen = chosen
        self._namespace = namespace
        self._cleanup: list[Callable[[], None]] = []

    def close(self) -> None:
        self.ended = True
        for act in self._cleanup:
            act()
        self._cleanup.clear()
        self.on_line()

    def on_close(self, act: Callable[[], None]) -> None:
        self._cleanup.append(act)

    def take(self, entry: Entry) -> None:
        """Add a line for one change of the table, if the change concerns this watch."""
        if self._namespace and entry.object["metadata"].get("namespace") != self._namespace:
            return
        if self._chosen.everything:
            self.say(entry.type, entry.object)
            return
        is_match = entry.type != DELETED and self._chosen.matches(entry.object)
        was_match = entry.old is not None and self._chosen.matches(entry.old)
        if is_match:
            self.say(MODIFIED if was_match else ADDED, entry.object)
        elif was_match:
            assert entry.old is not None
            # An object that leaves the selection is reported as deleted, with its last state, at the revision at which
            # it left.
            self.say(DELETED, with_version(entry.old, entry.revision))

    def say(self, event: str, obj: Json) -> None:
        self.lines.append(_encode({"type": event, "object": self._show(obj)}) + b"\n")
        if len(self.lines) > MAX_BEHIND:
            self.close()
        else:
            self.on_line()

    def bookmark(self, revision: int, *, ends_list: bool = False) -> None:
        meta: Json = {"resourceVersion": str(revision)}
        if ends_list:
            meta["annotations"] = {INITIAL_EVENTS_END: "true"}
        mark = self._kind.decode({}, None, [])
        mark |= {"kind": self._kind.kind, "apiVersion": self._kind.api_version, "metadata": meta}
        self.lines.append(_encode({"type": "BOOKMARK", "object": mark}) + b"\n")
        self.on_line()

    def fail(self, error: ApiError) -> None:
        self.lines.append(_encode({"type": "ERROR", "object": refusals.body(error)}) + b"\n")
        self.close()


def open_watch(
    storage: Storage,
    timers: Timers,
    table: Table,
    watch: Watch,
    namespace: str,
    chosen: Filter,
    wanted: ListOptions,
) -> None:
    """Connect a watch to its table. Raises where the real server responds with a refusal instead of a stream."""
    version = read_version(wanted.version)
    initial = version == 0 if wanted.initial is None else wanted.initial
    if initial:
        if version > storage.revision:
            raise refusals.too_large(version, storage.revision)
        for obj in find(table, namespace, chosen):
            watch.say(ADDED, obj)
        if wanted.bookmarks:
            watch.bookmark(storage.revision, ends_list=True)
    elif version:
        try:
            late = table.since(version)
        except ApiError as error:
            watch.fail(error)
            return
        for entry in late:
            watch.take(entry)
    _follow(storage, timers, table, watch, wanted, version)


def _follow(storage: Storage, timers: Timers, table: Table, watch: Watch, wanted: ListOptions, version: int) -> None:
    def listen(entry: Entry) -> None:
        # A watch from a future revision receives nothing until that revision is reached.
        if entry.revision > version:
            watch.take(entry)

    table.listeners.append(listen)
    watch.on_close(lambda: table.listeners.remove(listen))
    lives = DEFAULT_TIMEOUT if wanted.timeout is None else timedelta(seconds=wanted.timeout)
    ends_at = timers.now() + lives
    watch.on_close(timers.at(ends_at, watch.close))
    if wanted.bookmarks:
        _mark(storage, timers, watch, version, ends_at)


def _mark(storage: Storage, timers: Timers, watch: Watch, version: int, ends_at: datetime) -> None:
    cancel = nothing

    def mark() -> None:
        if not watch.ended:
            if storage.revision >= version:
                watch.bookmark(storage.revision)
            plan()

    def plan() -> None:
        nonlocal cancel
        now, last_at = timers.now(), ends_at - LAST_BOOKMARK_BEFORE
        next_at = now + BOOKMARK_EVERY
        cancel = timers.at(min(next_at, last_at) if last_at > now else next_at, mark)

    def stop() -> None:
        cancel()

    plan()
    watch.on_close(stop)
