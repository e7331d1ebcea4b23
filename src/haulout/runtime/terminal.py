"""The streams on which commands print. They show the control characters of foreign texts, which a terminal would obey.

See decision 0163.
"""

from __future__ import annotations

import codecs
import io
import sys
from typing import Any

from haulout.base.visible import visible


class VisibleStream(io.TextIOWrapper):
    """A text stream that escapes what cannot be seen. `beneath`: the stream that it writes to."""

    def __init__(self, beneath: io.TextIOWrapper) -> None:
        # click would go around a stream that cannot write every character.
        is_narrow = codecs.lookup(beneath.encoding).name == "ascii"
        super().__init__(
            beneath.buffer,
            encoding="utf-8" if is_narrow else beneath.encoding,
            errors=beneath.errors,
            line_buffering=beneath.line_buffering,
            write_through=beneath.write_through,
        )
        self.beneath = beneath

    def write(self, text: str) -> int:
        super().write(visible(text))
        return len(text)

    @property
    def buffer(self) -> Any:
        """Return where bytes are written, such as the lines of a log. Only a terminal needs them escaped."""
        return _VisibleBytes(self) if self.isatty() else super().buffer


class _VisibleBytes(io.RawIOBase):
    """A stream of bytes that are shown as text."""

    def __init__(self, stream: VisibleStream) -> None:
        self._stream = stream

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._stream.write(bytes(data).decode(errors="backslashreplace"))
        return len(data)

    def flush(self) -> None:
        self._stream.flush()


def guard_streams() -> None:
    """Escape everything that the process prints from now on, by whatever library."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        # A process may have been started without streams.
        if isinstance(stream, io.TextIOWrapper) and not isinstance(stream, VisibleStream):
            setattr(sys, name, VisibleStream(stream))
