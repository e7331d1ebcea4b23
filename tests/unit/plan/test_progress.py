"""The progress of a plan for people who wait for it, and the garbage collector, which is off meanwhile."""

from __future__ import annotations

import gc
import io
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console

from haulout.base.collector import without_collector
from haulout.embedded import NODES
from haulout.plan.forecast import Simulation
from haulout.plan.progress import progress_bar


def bar(*, terminal: bool) -> str:
    written = io.StringIO()
    with progress_bar(Console(file=written, force_terminal=terminal, width=80)) as show:
        show("placing pods", None)
        show("day 12 of 30", 0.4)
    return written.getvalue()


def test_the_bar_is_shown_on_a_terminal() -> None:
    text = bar(terminal=True)
    assert "day 12 of 30" in text
    assert "40%" in text


def test_nothing_is_written_where_nobody_looks() -> None:
    assert bar(terminal=False) == ""


def test_a_simulation_tells_how_far_it_is() -> None:
    shown: list[tuple[str, float | None]] = []
    begins_at = datetime(2026, 4, 1, tzinfo=UTC)
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    simulation = Simulation(
        (), [(NODES, node)], begins_at=begins_at, on_progress=lambda what, share: shown.append((what, share))
    )
    simulation._time.at(begins_at + timedelta(hours=36), lambda: None)
    simulation.run(timedelta(days=2))
    assert (shown[0], shown[-1]) == (("placing the pods of 1 objects", None), ("day 2 of 2", 0.75))


def test_the_collector_is_off_while_a_plan_runs_and_on_again_after_it_has_failed() -> None:
    def fail() -> None:
        with without_collector():
            assert not gc.isenabled()
            raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        fail()
    assert gc.isenabled()
