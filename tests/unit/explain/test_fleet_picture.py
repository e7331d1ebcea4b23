"""The picture of a fleet in a terminal: what is cut off is counted, and no two states look alike."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from haulout.explain.fleet import STATES, BudgetState, Cause, Fleet, NodeState, Work
from haulout.explain.fleet_picture import MARKS, fleet_lines, installation_lines
from haulout.explain.installation import Installation, Replica, Webhook

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def fleet(nodes: int = 3, works: int = 0, causes: int = 0) -> Fleet:
    return Fleet(
        NOW,
        tuple(NodeState(f"n{number}", f"zone-{number % 2}", STATES[number % len(STATES)]) for number in range(nodes)),
        tuple(Work("profiles", f"node/n{number}", f"n{number}", "waiting") for number in range(works)),
        (BudgetState("few", 1, 2, 1, NOW + timedelta(days=4, hours=9)),),
        tuple(Cause("no-room", f"cause {number}", ("n1",), "do this") for number in range(causes)),
    )


def test_every_state_has_a_letter_of_its_own() -> None:
    assert len({*MARKS.values()}) == len(STATES) == len(MARKS)


def test_a_small_fleet_is_drawn_node_by_node() -> None:
    lines = fleet_lines(fleet(4), 80)
    assert lines[0] == "4 nodes: 1 in service (.), 1 waiting (w), 1 draining (d), 1 in maintenance (M)"
    assert "zone-0  1/2 out  .d" in lines
    assert "few: 1 of 2 out, 1 left, opens Thu 2026-03-05 21:00 UTC (in 4 d 9 h)" in lines


def test_a_group_that_is_too_long_for_the_line_is_counted() -> None:
    (line,) = [line for line in fleet_lines(fleet(1000), 60) if line.startswith("zone-0")]
    assert line == "zone-0  357/500 out  .x72 wx71 dx72 Mx71 rx72 cx71 !x71"


def test_at_80_by_24_everything_is_folded_and_counted() -> None:
    lines = fleet_lines(fleet(100, works=50, causes=20), 80, 24)
    assert len(lines) <= 24
    assert all(len(line) <= 80 for line in lines)
    assert sum("more (-o json has all)" in line for line in lines) == 2


def test_a_cause_is_folded_with_its_act_and_has_more_room_than_the_list_of_maintenances() -> None:
    lines = fleet_lines(fleet(10, works=50, causes=20), 80, 24)
    causes = lines[lines.index("what waits, by cause:") + 1 : lines.index("budgets:") - 1]
    works = lines[lines.index("maintenances:") + 1 :]
    assert len(causes) > len(works)
    assert causes[-2:] == ["    what would help: do this", f"... and {20 - len(causes) // 2} more (-o json has all)"]


def test_a_cause_that_is_longer_than_its_room_is_shown_in_part() -> None:
    found = Fleet(NOW, (), (), (), (Cause("c", "word " * 100, ("n1",), "do this"),))
    lines = fleet_lines(found, 80, 8)
    assert len(lines) <= 8
    assert lines[-2] == "    what would help: do this"
    assert lines[-1] == "... and the rest of it (-o json has all)"


def test_printed_once_long_lines_are_wrapped_and_nothing_is_cut() -> None:
    work = Work("profiles", "node/n1", "n1", "waiting", waits_for=("word " * 40 + "end",))
    lines = fleet_lines(Fleet(NOW, (), (work,), (), ()), 80)
    assert all(len(line) <= 80 for line in lines)
    assert lines[-1].endswith("end")


def test_what_may_not_be_read_of_the_installation_is_not_said_to_be_absent() -> None:
    found = Installation(version="1.2.3", unread=("you may not list pods",))
    assert installation_lines(found, NOW)[1] == "leader: unknown; replicas: unknown"


def test_what_cannot_be_read_stands_first() -> None:
    found = Fleet(NOW, (), (), (), (), ("NodeMaintenance: forbidden",))
    assert fleet_lines(found, 100)[:2] == ["INCOMPLETE, this could not be read:", "  NodeMaintenance: forbidden"]


def test_the_installation() -> None:
    found = Installation(
        version="1.2.3",
        replicas=(
            Replica("a", "ns", "haulout:1", ready=True, leads=True),
            Replica("b", "ns", "haulout:1", ready=False),
        ),
        leader="a_x",
        surfaces=("profiles",),
        missing_definitions=("skyhooks.skyhook.nvidia.com",),
        webhooks=(
            Webhook("w", has_authority=True, authority_ends_at=NOW + timedelta(days=3)),
            Webhook(
                "v",
                has_authority=True,
                authority_ends_at=NOW + timedelta(days=3650),
                certificate_ends_at=NOW + timedelta(days=80),
            ),
            Webhook("u", has_authority=True, authority_ends_at=NOW + timedelta(days=3), certificate_ends_at=NOW),
            Webhook("x", has_authority=False),
        ),
        last_error="ConfigInvalid: no",
        unread=("list pods: forbidden",),
    )
    assert installation_lines(found, NOW) == [
        "haulout 1.2.3; surfaces: profiles",
        "leader: a_x; replicas: 1 of 2 ready",
        "last error: ConfigInvalid: no",
        "Skyhooks are not installed (`haulout crds packages | kubectl apply -f -`)",
        "webhook w: its authority ends in 3 d",
        "webhook v: its certificate ends in 80 d, its authority ends in 3650 d",
        "webhook u: its certificate has ended, its authority ends in 3 d",
        "webhook x: trusts no certificate yet",
        "not read: list pods: forbidden",
    ]
