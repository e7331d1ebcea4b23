"""The state of connections to other clusters, as rows; and the writes that are tried again after a reconnection."""

from __future__ import annotations

from datetime import timedelta

import pytest

from haulout.cluster.key import Key, node_key
from haulout.cluster.rows import Connection
from haulout.cluster.store import Store
from haulout.core.action import Label
from haulout.kernel.requests import Refused
from haulout.runtime.connections import Connections
from haulout.runtime.pump import AWAY
from tests.build.clock import ManualClock
from tests.build.desk import Cluster, Desk, Script, steps
from tests.build.rows import START, at, node

FAR = "far"


class Line:
    def __init__(self) -> None:
        self.store, self.clock = Store(), ManualClock(START)
        self.reconnects: list[tuple[str, str]] = []
        self.on = Connections(self.store, self.clock, lambda *told: self.reconnects.append(told))

    def after(self, seconds: float) -> Connections:
        self.clock.move_to(self.clock.now() + timedelta(seconds=seconds))
        return self.on

    @property
    def row(self) -> Connection | None:
        row = self.store.row(Key(FAR, Connection.KIND, "", ""))
        return row if isinstance(row, Connection) else None

    @property
    def said(self) -> tuple[str, float, str, object]:
        """Return the state of a connection, since when in seconds, its error and its access."""
        assert self.row is not None
        assert self.row.since is not None
        return self.row.state, (self.row.since - START).total_seconds(), self.row.error, self.row.access


@pytest.fixture
def line() -> Line:
    made = Line()
    made.on.opened(FAR, "access")
    return made


def test_one_that_is_opened_has_not_answered_yet(line: Line) -> None:
    assert line.said == (Connection.CONNECTING, 0, "it has not answered yet", "access")


def test_the_first_answer_is_no_reconnect(line: Line) -> None:
    line.after(3).fine(FAR)
    assert line.said == (Connection.FINE, 3, "", "access")
    line.after(3).fine(FAR)
    assert line.said == (Connection.FINE, 3, "", "access")
    assert line.reconnects == []


def test_trouble_before_the_first_answer_is_no_reconnect_either(line: Line) -> None:
    line.after(3).trouble(FAR, "unreachable", "refused")
    assert line.said == ("unreachable", 3, "refused", "access")
    line.after(3).fine(FAR)
    assert line.reconnects == []


@pytest.mark.parametrize(
    "code, reason",
    [("unreachable", "network"), ("failing", "network"), ("unreadable", "network"), ("unauthorized", "unauthorized")],
)
def test_after_trouble_it_is_there_again(line: Line, code: str, reason: str) -> None:
    line.on.fine(FAR)
    line.after(5).trouble(FAR, code, "one")
    line.after(5).trouble(FAR, code, "two")
    assert line.said == (code, 5, "one", "access"), "each attempt fails in other words"
    line.after(5).fine(FAR)
    assert line.said == (Connection.FINE, 15, "", "access")
    assert line.reconnects == [(FAR, reason)]


def test_another_trouble_is_news(line: Line) -> None:
    line.on.fine(FAR)
    line.after(5).trouble(FAR, "unreachable", "one")
    line.after(5).trouble(FAR, "unauthorized", "two")
    assert line.said == ("unauthorized", 10, "two", "access")
    line.on.fine(FAR)
    assert line.reconnects == [(FAR, "unauthorized")]


def test_a_version_that_grew_old_is_no_trouble(line: Line) -> None:
    line.on.fine(FAR)
    line.on.trouble(FAR, "expired", "410")
    assert line.said[0] == Connection.FINE


def test_another_access_that_takes_over_is_a_reconnect(line: Line) -> None:
    line.on.fine(FAR)
    line.after(5).rotated(FAR, "other")
    assert line.said == (Connection.FINE, 0, "", "other")
    assert line.reconnects == [(FAR, "rotated")]


def test_one_that_takes_over_after_trouble_counts_once(line: Line) -> None:
    line.on.fine(FAR)
    line.on.trouble(FAR, "unauthorized", "401")
    line.after(5).rotated(FAR, "other")
    line.on.fine(FAR)
    assert line.said == (Connection.FINE, 5, "", "other")
    assert line.reconnects == [(FAR, "rotated")]


def test_a_refused_access_is_said_and_the_other_stays(line: Line) -> None:
    line.on.fine(FAR)
    line.after(5).refused(FAR, Connection.REJECTED, "runs a program")
    assert line.said == (Connection.REJECTED, 5, "runs a program", "access")


def test_a_refusal_outlives_trouble_with_the_access_that_is_used(line: Line) -> None:
    line.on.fine(FAR)
    line.on.refused(FAR, Connection.REJECTED, "runs a program")
    line.after(5).trouble(FAR, "unreachable", "refused")
    assert line.said == ("unreachable", 5, "refused", "access")
    line.after(5).fine(FAR)
    assert line.said == (Connection.REJECTED, 10, "runs a program", "access")
    assert line.reconnects == [(FAR, "network")]
    line.after(5).fine(FAR)
    assert line.reconnects == [(FAR, "network")]


def test_a_refusal_that_is_over_leaves_what_stood_before(line: Line) -> None:
    line.on.fine(FAR)
    line.on.refused(FAR, Connection.REJECTED, "runs a program")
    line.after(5).accepted(FAR)
    assert line.said == (Connection.FINE, 5, "", "access")
    line.on.trouble(FAR, "unreachable", "refused")
    line.on.accepted(FAR)
    assert line.said[0] == "unreachable"
    line.on.fine(FAR)
    assert line.said[0] == Connection.FINE


def test_what_works_is_not_worse_for_an_access_that_leads_nowhere(line: Line) -> None:
    line.on.fine(FAR)
    line.after(5).astray(FAR, "refused")
    assert line.said == (Connection.ASTRAY, 5, "refused", "access")
    line.after(5).fine(FAR)
    assert line.said == (Connection.ASTRAY, 5, "refused", "access")
    line.after(5).accepted(FAR)
    assert line.said == (Connection.FINE, 15, "", "access")
    assert line.reconnects == []


def test_where_nothing_works_an_access_that_leads_nowhere_makes_it_no_better(line: Line) -> None:
    line.on.fine(FAR)
    line.after(5).trouble(FAR, "unreachable", "refused")
    line.after(5).astray(FAR, "refused, too")
    assert line.said == ("unreachable", 5, "refused", "access")
    line.after(5).fine(FAR)
    assert line.said == (Connection.ASTRAY, 15, "refused, too", "access")


def test_one_that_never_answered_is_not_fine_because_a_refusal_is_over(line: Line) -> None:
    line.on.refused(FAR, Connection.REJECTED, "runs a program")
    line.on.accepted(FAR)
    assert line.said[0] == Connection.CONNECTING


def test_one_that_answers_after_a_refusal_is_fine_once_that_is_over(line: Line) -> None:
    line.on.refused(FAR, Connection.REJECTED, "runs a program")
    line.on.fine(FAR)
    assert line.said[0] == Connection.REJECTED
    line.on.accepted(FAR)
    assert line.said[0] == Connection.FINE


def test_a_refusal_ends_when_another_access_takes_over(line: Line) -> None:
    line.on.fine(FAR)
    line.on.refused(FAR, Connection.REJECTED, "runs a program")
    line.on.rotated(FAR, "other")
    line.on.trouble(FAR, "unreachable", "refused")
    line.on.fine(FAR)
    assert line.said[0] == Connection.FINE


def test_a_refusal_ends_when_it_is_closed(line: Line) -> None:
    line.on.fine(FAR)
    line.on.refused(FAR, Connection.REJECTED, "runs a program")
    line.on.closed(FAR)
    line.on.opened(FAR, "access")
    line.on.trouble(FAR, "unreachable", "refused")
    line.on.fine(FAR)
    assert line.said[0] == Connection.FINE


def test_what_was_refused_first_of_all_has_no_access() -> None:
    line = Line()
    line.on.refused(FAR, Connection.INVALID, "no YAML")
    assert line.said == (Connection.INVALID, 0, "no YAML", None)


def test_of_one_that_is_closed_nothing_is_left(line: Line) -> None:
    line.on.fine(FAR)
    line.on.closed(FAR)
    assert line.row is None
    line.on.trouble(FAR, "unreachable", "late")
    line.on.fine(FAR)
    assert line.row is None, "what was under way when it was closed opens nothing"
    line.on.opened(FAR, "access")
    line.on.fine(FAR)
    assert line.reconnects == []


# What was put off


def writing(*clusters: str) -> tuple[Desk, Script]:
    """Return a desk with a script that writes to each of the clusters."""
    script = Script(cluster=None)
    rows = [node("a", cluster=cluster) for cluster in clusters]
    desk = Desk(script.decider, world=Cluster(*rows))
    for row in rows:
        script.wishes[row.key] = steps(Label(row.key, "x", "1"))
        desk.store.begin_list(row.key.cluster, "Node")
        desk.store.put(row)
        desk.store.end_list(row.key.cluster, "Node", 1)
    desk.run()
    return desk, script


def failing(*clusters: str) -> tuple[Desk, Script]:
    """Return a desk with a script whose writes to each of the clusters have failed four times."""
    desk, script = writing(*clusters)
    for _ in range(3):
        for request in list(desk.tray):
            desk.answer(request, Refused(0, "connection refused"))
        desk.wait(20)
    for request in list(desk.tray):
        desk.answer(request, Refused(0, "connection refused"))
    assert not desk.tray
    return desk, script


def test_what_was_put_off_is_tried_at_once_when_the_cluster_is_there_again() -> None:
    desk, _ = failing(FAR, "other")
    now = desk.now
    desk.kernel.actor.on_reconnect(FAR)
    desk.run()
    assert [request.body.target for request in desk.tray] == [node_key("a", FAR)]  # type: ignore[union-attr]
    assert desk.now == now


def test_it_begins_anew_with_short_waits() -> None:
    desk, _ = failing(FAR)
    desk.kernel.actor.on_reconnect(FAR)
    desk.run()
    desk.answer(desk.only(), Refused(0, "connection refused"))
    desk.wait(5.1)
    assert len(desk.tray) == 1


def test_what_a_cluster_says_when_it_is_back_is_heard_within_a_minute_and_a_half() -> None:
    longest = AWAY.backoff_to * AWAY.backoff_share[1] + AWAY.patience
    assert longest < 90, "whatever Retry-After says"


@pytest.mark.parametrize(
    "cluster, waits", [("", [1, 2, 4, 8, 16, 32, 60, 60]), (FAR, [5, 10, 20, 40, 80, 160, 300, 300])]
)
def test_what_fails_is_tried_again_less_and_less_often(cluster: str, waits: list[int]) -> None:
    desk, _ = writing(cluster)
    for wait in waits:
        desk.answer(desk.only(), Refused(500, "no"))
        desk.wait(wait - 0.1)
        assert not desk.tray
        desk.wait(0.2)


def test_what_a_server_asked_to_wait_for_is_forgotten_too() -> None:
    desk, _ = failing(FAR)
    desk.kernel.actor.on_reconnect(FAR)
    desk.run()
    desk.answer(desk.only(), Refused(429, "slow down", retry_after=200.0))
    desk.wait(10)
    assert not desk.tray
    desk.kernel.actor.on_reconnect(FAR)
    desk.run()
    assert len(desk.tray) == 1


def test_a_cluster_in_which_nothing_was_put_off_wakes_nobody() -> None:
    desk, script = failing(FAR)
    asked = len(script.asked)
    desk.kernel.actor.on_reconnect("nowhere")
    desk.run()
    assert len(script.asked) == asked
    assert desk.now > at(0)
