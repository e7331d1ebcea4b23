"""The streams of open pages: each change is encoded once for all callers who may see the same, and sent to each."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

import msgspec

from haulout.console.picture import Changes, Picture
from haulout.console.sight import Sight

# A page that is this far behind gets everything anew, which is shorter.
MOST_WAITING = 2**20
# How many streams there may be, and how many of one caller. Beyond that the oldest of a caller ends, and connects again.
MOST_STREAMS, MOST_OF_CALLER = 160, 100
# How many pictures back a page may ask for the changes since one.
REMEMBERED = 256
COMMENT = b": still here\n\n"

# Returns a part of a picture as JSON, as a caller of this sight may see it.
Encode = Callable[[Any, Sight], bytes]


class Stream:
    """One open page. `ended`: it has to be closed, because its place is needed or the console ends."""

    def __init__(self, caller: str, sight: Sight) -> None:
        self.caller = caller
        self.sight = sight
        self.ended = False
        self._waiting: deque[bytes] = deque()
        self._length = 0
        self._news = asyncio.Event()

    def put(self, events: bytes, seq: int) -> None:
        """Add events. If the page is too far behind, replace everything that waits for it by one word: begin again."""
        if self._length + len(events) > MOST_WAITING:
            events = self.begin_again(seq)
        self._waiting.append(events)
        self._length += len(events)
        self._news.set()

    def begin_again(self, seq: int) -> bytes:
        """Drop what waits, and return the event that makes the page ask for everything anew."""
        self._waiting.clear()
        self._length = 0
        return event("resync", msgspec.json.encode({"seq": seq}))

    def end(self) -> None:
        self.ended = True
        self._news.set()

    async def next(self, within: float) -> bytes:
        """Return the events that wait, or a comment if none come within so many seconds; empty if the stream ends."""
        try:
            async with asyncio.timeout(within):
                await self._news.wait()
        except TimeoutError:
            return COMMENT
        self._news.clear()
        found = b"".join(self._waiting)
        self._waiting.clear()
        self._length = 0
        return b"" if self.ended else found


class Streams:
    """All open streams, and the changes of the last pictures."""

    def __init__(self, encode: Encode) -> None:
        self._encode = encode
        self._open: dict[Stream, None] = {}
        self._past: deque[tuple[int, int, Changes]] = deque(maxlen=REMEMBERED)

    def __len__(self) -> int:
        return len(self._open)

    def open(self, caller: str, sight: Sight, picture: Picture, since: int | None) -> Stream:
        """Open a stream, which begins with what changed since the picture of that number."""
        self._make_room(caller)
        stream = Stream(caller, sight)
        self._open[stream] = None
        if since is not None and since != picture.seq:
            changes = self._since(since)
            everything = event("resync", msgspec.json.encode({"seq": picture.seq}))
            stream.put(everything if changes is None else self._events(picture, changes, sight), picture.seq)
        return stream

    def close(self, stream: Stream) -> None:
        self._open.pop(stream, None)

    def end_all(self) -> None:
        for stream in self._open:
            stream.end()

    def published(self, old: Picture, new: Picture, changes: Changes) -> None:
        """Send the changes to every stream. Those of equal sight share the bytes."""
        self._past.append((old.seq, new.seq, changes))
        encoded: dict[Sight, bytes] = {}
        for stream in self._open:
            if stream.sight not in encoded:
                encoded[stream.sight] = self._events(new, changes, stream.sight)
            stream.put(encoded[stream.sight], new.seq)

    def _since(self, since: int) -> Changes | None:
        """Return what changed since a picture; None if that is not remembered."""
        found = Changes()
        for old, _, changes in reversed(self._past):
            found |= changes
            if old == since:
                return found
        return None

    def _events(self, picture: Picture, changes: Changes, sight: Sight) -> bytes:
        parts = []
        if changes.rows:
            rows = [row for name in sorted(changes.rows) if (row := picture.rows.get(name)) is not None]
            gone = sorted(name for name in changes.rows if name not in picture.rows)
            parts.append(event("rows", self._encode({"seq": picture.seq, "set": rows, "gone": gone}, sight)))
        for name in sorted(changes.parts):
            at = {"at": picture.at} if name == "tables" else {}
            parts.append(event(name, self._encode({"seq": picture.seq, **at, name: getattr(picture, name)}, sight)))
        return b"".join(parts)

    def _make_room(self, caller: str) -> None:
        of = Counter(stream.caller for stream in self._open)
        crowded = caller if of[caller] >= MOST_OF_CALLER else ""
        if not crowded and len(self._open) >= MOST_STREAMS:
            crowded = of.most_common(1)[0][0]
        if oldest := next((stream for stream in self._open if crowded and stream.caller == crowded), None):
            oldest.end()
            self.close(oldest)


def event(name: str, data: bytes) -> bytes:
    """Return one server-sent event. JSON has no line breaks, so its data is one line."""
    return b"event: " + name.encode() + b"\ndata: " + data + b"\n\n"
