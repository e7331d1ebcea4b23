"""Notifications of profiles: when they are sent, what is stored about them, and that none is sent twice."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec
import pytest

from haulout.cluster.key import node_key
from haulout.cluster.rows import NodeRow
from haulout.core.action import Send
from haulout.kernel.requests import Done, Refused, Request
from haulout.kernel.rooms import Subject
from haulout.plugins.api import CheckInput, Config, Verdict, check
from haulout.surfaces.profiles.messages import Notice
from haulout.surfaces.profiles.wire import DATA_ANNOTATION, NEVER, parse_data, stamp
from tests.build.profiles import OPERATIONAL, REQUIRED, Profiles, config_text, worker
from tests.build.rows import START, at

NOTIFY = """
- {type: slack, name: hourly, config: {hook: h, channel: c, message: m}, schedule: {type: periodic, config: {}}}
- {type: slack, name: other, config: {hook: h, channel: c, message: m}, schedule: {type: periodic, config: {interval: 3h}}}
- {type: slack, name: once, config: {hook: h, channel: c, message: m}, schedule: {type: oneshot, config: {delay: 5m}}}
- {type: slack, name: daily, config: {hook: h, channel: c, message: m}, schedule: {type: scheduled, config: {instant: "11:00", weekdays: [sun, mon]}}}
- {type: slack, name: always, config: {hook: h, channel: c, message: m}, schedule: {type: periodic, config: {interval: 0s}}}
"""
# To maintenance-required by the label a, back by b; p and q alike.
BACK_AND_FORTH = """
- name: p
  operational: {{notify: "{chain}", transitions: [{{check: a && !b, next: maintenance-required}}]}}
  maintenance-required: {{notify: "{chain}", enter: "{enter}", transitions: [{{check: b, next: operational}}]}}
- name: q
  operational: {{notify: "{chain}", transitions: [{{check: a && !b, next: maintenance-required}}]}}
  maintenance-required: {{notify: "{chain}", transitions: [{{check: b, next: operational}}]}}
"""


class Empty(Config, frozen=True, kw_only=True):
    pass


@check("broken", Empty, takes_null=True)
def broken(config: Empty, given: CheckInput) -> Verdict:
    return Verdict(passed=False, error="it is broken")


class Office:
    """Profiles that notify, and the delivery of their messages. Those of `refused` instances fail."""

    def __init__(
        self, chain: str = "hourly", *nodes: NodeRow, enter: str = "", text: str = "", earlier: Office | None = None
    ) -> None:
        self.text = text or config_text(BACK_AND_FORTH.format(chain=chain, enter=enter), notify=NOTIFY)
        self.profiles = Profiles(self.text, *(nodes or (worker("n", a=""),)), more=(broken,))
        self.desk = self.profiles.desk
        self.refused: set[str] = set()
        if earlier is not None:
            self.desk.now = earlier.desk.now
        self.desk.run()

    def restart(self) -> Office:
        """Start another process on what is stored by now."""
        rows = [row for row in self.desk.world.objects.values() if isinstance(row, NodeRow)]
        after = Office("", *(msgspec.structs.replace(row) for row in rows), text=self.text, earlier=self)
        after.refused = self.refused
        return after

    def write(self) -> Office:
        """Carry out all writes, but deliver no message."""
        while writes := [request for request in self.desk.tray if not isinstance(request.body, Send)]:
            for request in writes:
                self.desk.meet(request)
        return self

    def deliver(self, most: int = 100) -> Office:
        """Carry out all writes, and deliver the messages that can be delivered."""
        for _ in range(most):
            self.write()
            sends = self.letters()
            if not sends:
                return self
            refused = _notice(sends[0]).instance in self.refused
            self.desk.answer(sends[0], Refused(0, "no") if refused else Done())
        raise AssertionError("it does not come to rest")

    def wait(self, **span: float) -> Office:
        """Let time pass from one due instant to the next, and deliver everything."""
        end = self.desk.now + timedelta(**span)
        while (instant := self.desk.kernel.next_instant()) is not None and instant <= end:
            self.desk.now = max(self.desk.now, instant)
            self.desk.run()
            self.deliver()
        self.desk.now = end
        self.desk.run()
        return self.deliver()

    def letters(self) -> list[Request]:
        return [request for request in self.desk.tray if isinstance(request.body, Send)]

    def label(self, name: str = "n", **labels: str | None) -> Office:
        self.profiles.label(name, **labels)
        return self

    @property
    def posted(self) -> list[tuple[float, str, str, str]]:
        """Return when each message was handed out, and for which node, profile and instance."""
        sent = [(instant, body.payload) for instant, body in self.desk.handed_out if isinstance(body, Send)]
        return [
            ((instant - START).total_seconds(), notice.node.name, notice.profile, notice.instance)
            for instant, notice in sent
        ]

    @property
    def whom(self) -> list[str]:
        return [f"{profile}:{instance}" for _, _, profile, instance in self.posted]

    @property
    def sent(self) -> dict[str, datetime]:
        return {name: known.at for name, known in self.data.notifications.items()}

    @property
    def data(self):  # type: ignore[no-untyped-def]
        return parse_data(self.profiles.row().annotations[DATA_ANNOTATION])


def _notice(request: Request) -> Notice:
    assert isinstance(request.body, Send)
    assert isinstance(request.body.payload, Notice)
    return request.body.payload


def test_a_change_of_state_is_told_once_and_costs_one_more_patch() -> None:
    office = Office().deliver()
    assert office.whom == ["p:hourly"]
    assert office.profiles.current() == {"p": REQUIRED}
    assert office.sent == {"hourly": START}
    # The state, then that it has been told.
    assert len(office.profiles.writes) == 2
    office.wait(minutes=59)
    assert office.whom == ["p:hourly"]
    assert len(office.profiles.writes) == 2


def test_nothing_is_stored_before_it_is_delivered_and_nothing_is_sent_twice_meanwhile() -> None:
    office = Office().write()
    for number in range(5):
        office.label(other=str(number)).write()
    assert office.whom == ["p:hourly"]
    assert office.data.profiles["p"].previous == OPERATIONAL
    office.deliver()
    assert office.data.profiles["p"].previous == REQUIRED


def test_a_periodic_one_is_repeated_in_each_interval_and_told_once_on_the_way_back() -> None:
    office = Office().deliver().wait(hours=2, minutes=30)
    assert [instant for instant, *_ in office.posted] == pytest.approx([0, 3600, 7200], abs=0.1)
    office.label(b="").deliver().wait(hours=5)
    assert len(office.posted) == 4
    assert office.profiles.state() == OPERATIONAL


def test_an_interval_costs_one_patch() -> None:
    office = Office().deliver().wait(minutes=30)
    before = len(office.profiles.writes)
    office.wait(hours=1)
    assert len(office.profiles.writes) == before + 1
    assert office.sent["hourly"] == pytest.approx(at(3600), abs=timedelta(seconds=0.1))


def test_there_is_silence_in_operational() -> None:
    office = Office("hourly", worker("n")).deliver().wait(hours=5)
    assert office.posted == []
    # Considered, but never sent: written with the entry of the profile.
    assert office.data.notifications == {"hourly": NEVER}
    assert len(office.profiles.writes) == 1


def test_the_first_that_fails_stops_the_chain_and_the_profile() -> None:
    office = Office("hourly && other && once")
    office.refused = {"other"}
    office.deliver().label(b="").deliver()
    assert office.whom == ["p:hourly", "p:other"]
    assert office.profiles.current() == {"p": REQUIRED}
    note = "At least one notification plugin failed for profile p: Will stay in maintenance-required state"
    assert office.profiles.notes[-1] == note
    line = office.profiles.lines[-1]
    assert line.message == "At least one notification plugin failed"
    assert dict(line.fields)["error"] == "Notification instance other failed: no"


def test_one_that_failed_is_tried_at_once_with_other_settings() -> None:
    office = Office()
    office.refused = {"hourly"}
    office.deliver()
    office.profiles.configure(office.text)
    office.desk.run()
    assert (office.deliver().whom, office.data.profiles["p"].previous) == (["p:hourly"], OPERATIONAL)
    office.refused = set()
    office.profiles.configure(office.text.replace("name: hourly, config: {hook: h,", "name: hourly, config: {hook: g,"))
    office.desk.run()
    office.deliver()
    assert [instant for instant, *_ in office.posted] == [0, 0]
    assert office.data.profiles["p"].previous == REQUIRED


def test_what_went_out_before_a_failure_is_recorded_and_not_repeated() -> None:
    office = Office("hourly && other")
    office.refused = {"other"}
    office.deliver()
    assert office.sent == {"hourly": START, "other": NEVER.at}
    assert office.data.profiles["p"].previous == OPERATIONAL
    office.wait(minutes=5)
    # Tried again at the pace of `intervals.requeue`.
    assert office.whom == ["p:hourly", *["p:other"] * 10]
    assert len(office.profiles.writes) == 2
    counted = [body.counter for body in office.profiles.counted]
    assert counted == ["maintenance_controller_transition_failure_count"] * 10
    assert len(office.profiles.events) == 2
    office.refused = set()
    office.wait(seconds=31)
    assert office.whom.count("p:hourly") == 1
    assert office.data.profiles["p"].previous == REQUIRED
    assert office.sent["other"] > at(300)
    assert len(office.profiles.writes) == 3


def test_a_check_that_fails_afterwards_repeats_nothing() -> None:
    text = config_text(
        """
        - name: p
          operational: {transitions: [{check: a, next: maintenance-required}]}
          maintenance-required: {notify: hourly, enter: mark, transitions: [{check: boom, next: operational}]}
        """,
        checks="- {type: broken, name: boom}",
        notify=NOTIFY,
    )
    office = Office(text=text).deliver()
    for number in range(10):
        office.label(other=str(number)).deliver()
    assert office.whom == ["p:hourly"]
    assert office.data.profiles["p"].previous == REQUIRED


def test_what_is_done_on_entering_and_what_is_told_is_one_patch() -> None:
    office = Office(enter="mark").write()
    assert "marked" not in office.profiles.row().labels
    # The message shows the node as it will be.
    assert _notice(office.letters()[0]).changes == {"metadata": {"labels": {"marked": "yes"}}}
    office.deliver()
    assert office.profiles.row().labels["marked"] == "yes"
    assert len(office.profiles.writes) == 2


def test_a_slow_peer_blocks_no_other_node() -> None:
    office = Office("hourly", worker("slow", a=""), worker("quick", a="")).write()
    slow, quick = sorted(office.letters(), key=lambda request: _notice(request).node.name == "quick")
    office.desk.answer(quick, Done())
    office.write()
    assert parse_data(office.profiles.row("quick").annotations[DATA_ANNOTATION]).profiles["p"].previous == REQUIRED
    assert office.letters() == [slow]


def test_after_a_crash_between_sending_and_storing_it_is_told_once_more() -> None:
    office = Office().write()
    office.desk.answer(office.letters()[0], Done())
    after = office.restart().deliver()
    assert after.whom == ["p:hourly"]
    assert after.restart().deliver().wait(minutes=30).whom == []


def test_after_a_crash_what_was_recorded_before_a_failure_is_not_repeated() -> None:
    office = Office("hourly && other")
    office.desk.now = at(1)
    office.refused = {"other"}
    office.deliver()
    after = office.restart()
    after.refused = set()
    after.deliver()
    assert after.whom == ["p:other"]
    assert after.data.profiles["p"].previous == REQUIRED


def test_each_profile_tells_of_its_own_change_and_one_of_the_time_that_has_passed() -> None:
    office = Office("hourly", worker("n", "p--q", a="")).deliver()
    assert office.whom == ["p:hourly", "q:hourly"]
    office.wait(minutes=61)
    assert office.whom == ["p:hourly", "q:hourly", "p:hourly"]


def test_the_last_delivery_of_an_instance_is_stored_whoever_made_it() -> None:
    text = config_text(
        """
        - name: p
          operational: {transitions: [{check: a, next: maintenance-required}]}
          maintenance-required: {notify: hourly && other, transitions: [{check: d, next: operational}]}
        - name: q
          operational: {transitions: [{check: b, next: maintenance-required}]}
          maintenance-required: {notify: hourly, transitions: [{check: d, next: operational}]}
        """,
        notify=NOTIFY,
    )
    office = Office("", worker("n", "p--q", a=""), text=text)
    office.refused = {"other"}
    office.deliver().wait(seconds=10)
    office.label(b="").deliver()
    assert office.sent["hourly"] == at(10)
    writes = len(office.profiles.writes)
    office.wait(minutes=5)
    assert office.sent["hourly"] == at(10)
    assert len(office.profiles.writes) == writes
    assert office.whom.count("p:hourly") == office.whom.count("q:hourly") == 1


def test_one_that_fails_keeps_only_its_own_profile() -> None:
    text = config_text(
        """
        - name: p
          operational: {transitions: [{check: a, next: maintenance-required}]}
          maintenance-required: {notify: hourly, transitions: [{check: b, next: operational}]}
        - name: q
          operational: {transitions: [{check: a, next: maintenance-required}]}
          maintenance-required: {notify: other, transitions: [{check: b, next: operational}]}
        """,
        notify=NOTIFY,
    )
    office = Office("", worker("n", "p--q", a=""), text=text)
    office.refused = {"hourly"}
    office.deliver().label(a=None, b="").deliver()
    assert office.profiles.current() == {"p": REQUIRED, "q": OPERATIONAL}


def test_a_oneshot_goes_out_once_a_state_some_time_after() -> None:
    office = Office("once").deliver().wait(minutes=4)
    assert office.posted == []
    # Nothing is told of the change itself, so that it costs no patch of its own.
    assert len(office.profiles.writes) == 1
    office.wait(hours=5)
    assert [instant for instant, *_ in office.posted] == pytest.approx([300], abs=0.1)
    assert len(office.profiles.writes) == 2
    office.label(b="").deliver().wait(hours=1)
    assert len(office.posted) == 2


def test_a_scheduled_one_goes_out_once_a_day() -> None:
    office = Office("daily", worker("n")).deliver().wait(days=8)
    # START is a Sunday, 10:00.
    hours = [round(instant / 3600) for instant, *_ in office.posted]
    assert hours == [1, 25, 7 * 24 + 1]


def test_an_interval_of_nothing_is_once_a_second() -> None:
    office = Office("always").deliver().wait(seconds=10)
    assert 9 <= len(office.posted) <= 11


def test_what_is_told_is_what_is_known() -> None:
    office = Office("hourly", worker("n", "p--q", a="", labels={"cloud.sap/maintenance-log-details": "true"})).write()
    notice = _notice(office.letters()[0])
    known = (notice.state, notice.profile, notice.in_maintenance, notice.log_details, notice.transition)
    assert known == (REQUIRED, "p", False, True, stamp(START))


def test_a_configuration_without_the_notification_forgets_it() -> None:
    office = Office().write()
    office.profiles.configure(config_text(BACK_AND_FORTH.format(chain="", enter=""), notify=NOTIFY))
    office.desk.run()
    office.deliver()
    assert office.data.profiles["p"].previous == REQUIRED
    assert office.sent == {"hourly": NEVER.at}


def explained(office: Office) -> list[str]:
    decision = office.desk.kernel.loop.explain(Subject("profiles", node_key("n")), office.desk.now)
    return [reason.text for reason in decision.reasons[0].because]


def test_explain_shows_what_is_under_way_and_what_failed() -> None:
    office = Office().write()
    assert explained(office) == ["notification hourly is being delivered, and transitions wait for it"]
    office.refused = {"hourly"}
    office.deliver()
    assert explained(office)[0] == ("At least one notification plugin failed: Notification instance hourly failed: no")
