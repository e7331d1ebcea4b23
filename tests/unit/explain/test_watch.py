"""What the keys of `haulout status --watch` do, and the colors of what commands print."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from haulout.explain.fleet import Cause, Failure, Fleet, NodeState, Work
from haulout.explain.keys import names_of
from haulout.explain.paint import style_of
from haulout.explain.watch_state import WatchState

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
FLEET = Fleet(
    NOW,
    tuple(NodeState(name, "z", "in service") for name in ("a1", "a2", "b1")),
    (Work("s", "nm/y", "b1", "draining"), Work("s", "nm/x", "a2", "waiting", NOW)),
    (),
    (Cause("c", "why", ("a2",)),),
    failures=(Failure("f", "nm/y", "b1", "it failed"),),
)


def after(state: WatchState, *keys: str) -> WatchState:
    for key in keys:
        following = state.after(key, state.shown_nodes(state.applied(FLEET)))
        assert following is not None
        state = following
    return state


def test_a_filter_keeps_what_is_about_the_nodes() -> None:
    state = after(WatchState(), "/", "a", "2", "erase", "1", "enter")
    assert (state.wanted, state.is_typing) == ("a1", False)
    shown = state.applied(FLEET)
    assert [each.name for each in shown.nodes] == ["a1"]
    assert (shown.works, shown.causes, shown.failures) == ((), (), ())
    assert after(state, "escape").wanted == ""


def test_what_fails_or_waits_is_selected_first() -> None:
    assert WatchState().shown_nodes(FLEET) == ["b1", "a2", "a1"]
    assert after(WatchState(), "enter").opened == "b1"
    opened = after(WatchState(), "down", "enter")
    assert opened.opened == "a2"
    assert after(opened, "b").opened == ""


def test_only_nodes_that_the_filter_keeps_are_selected() -> None:
    state = after(WatchState(), "/", "a", "2", "enter")
    shared = msgspec.structs.replace(FLEET, causes=(Cause("c", "why", ("a1", "a2")),))
    assert state.shown_nodes(state.applied(shared)) == ["a2"]


def test_the_order_of_maintenances() -> None:
    state = WatchState()
    orders = []
    for _ in range(3):
        orders.append((state.order, [each.node for each in state.applied(FLEET).works]))
        state = after(state, "s")
    assert orders == [("node", ["a2", "b1"]), ("state", ["b1", "a2"]), ("age", ["a2", "b1"])]


def test_q_quits_but_is_a_letter_in_a_filter() -> None:
    assert WatchState().after("q", []) is None
    assert after(WatchState(), "/", "q").wanted == "q"


@pytest.mark.parametrize(
    ("typed", "names"),
    [("q", ["q"]), ("\x1b[A", ["up"]), ("\x1b", ["escape"]), ("ab\r", ["a", "b", "enter"]), ("\x1b[5~", [])],
)
def test_the_names_of_keys(typed: str, names: list[str]) -> None:
    assert list(names_of(typed)) == names


@pytest.mark.parametrize(
    ("line", "style"),
    [
        ("NO OPERATOR IS RUNNING: nothing below will move", "bold red"),
        ("failed:", "bold red"),
        ("    what would help: kubectl delete nm a", "bold green"),
        ("maintenances:", "bold"),
        ("  pod default/web: is being evicted", ""),
        ("haulout.yaml:3:1: error: surfaces: unknown", "red"),
    ],
)
def test_the_style_of_a_line(line: str, style: str) -> None:
    assert style_of(line) == style
