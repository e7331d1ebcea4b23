"""A console for live pictures: its own colors and movements reach the terminal, those within foreign texts are escaped."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, TextIO

from rich.console import Console, ConsoleOptions
from rich.segment import Segment

from haulout.base.visible import visible
from haulout.runtime.terminal import VisibleStream


class LiveConsole(Console):
    """A console that escapes what cannot be seen in the texts that it draws."""

    def __init__(self, *, stderr: bool = False, **options: Any) -> None:
        super().__init__(file=_beneath(sys.stderr if stderr else sys.stdout), **options)

    def render(self, renderable: Any, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=visible(segment.text))


def _beneath(stream: TextIO) -> TextIO:
    """Return the stream that takes control sequences."""
    return stream.beneath if isinstance(stream, VisibleStream) else stream
