"""The progress bar of `haulout plan`, on stderr if that is a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from haulout.runtime.live_console import LiveConsole

# Called with what is being done, and the share of it that is done; None if the share is unknown.
OnProgress = Callable[[str, float | None], None]


@contextmanager
def progress_bar(console: Console | None = None) -> Iterator[OnProgress]:
    """Yield a function that shows the progress of the plan. It does nothing if stderr is not a terminal."""
    console = console or LiveConsole(stderr=True)
    if not console.is_terminal:
        yield lambda what, share: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None)

        def show(what: str, share: float | None) -> None:
            bar.update(task, description=what, total=None if share is None else 1.0, completed=share or 0.0)

        yield show
