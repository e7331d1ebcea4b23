"""waitExclude and timeWindow."""

from __future__ import annotations

from datetime import UTC, datetime, time

import pytest

from tests.build.checks import judged, refusal

# The first of June 2026 is a Monday.
DAYS = {day: number for number, day in enumerate(("mon", "tue", "wed", "thu", "fri", "sat", "sun"), 1)}


def on(text: str) -> datetime:
    """Return the instant of `tue 17:00` in one of three weeks that begin with this weekday; `+tue` is a week later."""
    day, clock = text.split(" ")
    date = datetime(2026, 6, DAYS[day.lstrip("+")] + 7 * day.count("+"), tzinfo=UTC)
    return datetime.combine(date, time.fromisoformat(clock), UTC)


class TestWaitExclude:
    @pytest.mark.parametrize(
        ("duration", "exclude", "start", "now", "passes"),
        [
            pytest.param("30h", "[mon, wed]", "sun 12:00", "+tue 17:00", False, id="a monday between, too early"),
            pytest.param("30h", "[mon, wed]", "sun 12:00", "+tue 18:10", True, id="a monday between"),
            pytest.param("30h", "[mon, wed]", "mon 12:00", "thu 05:00", False, id="from an excluded day, too early"),
            pytest.param("30h", "[mon, wed]", "mon 12:00", "thu 06:10", True, id="from an excluded day"),
            pytest.param("30h", "[mon, wed]", "sat 22:00", "+mon 17:00", False, id="on an excluded day"),
            pytest.param("1s", "[mon, wed]", "sun 12:00:00", "sun 12:00:02", True, id="two seconds"),
            pytest.param("24h", "[wed]", "mon 10:00", "tue 10:01", True, id="over"),
            pytest.param("24h", "[wed]", "mon 10:00", "wed 11:00", True, id="stays over on an excluded day"),
            pytest.param("24h", "[mon]", "mon 10:00", "tue 23:59:59", False, id="not before a whole day"),
            pytest.param("24h", "[mon]", "mon 10:00", "wed 00:00", False, id="exactly"),
            pytest.param("1h", "[mon, tue, wed, thu, fri, sat, sun]", "mon 10:00", "+sun 10:00", False, id="no days"),
        ],
    )
    def test_counts_days_that_are_not_excluded(
        self, duration: str, exclude: str, start: str, now: str, passes: bool
    ) -> None:
        config = f"{{duration: {duration}, exclude: {exclude}}}"
        assert judged("waitExclude", config, last_transition=on(start), now=on(now)).passed is passes

    def test_says_how_long_it_takes_and_until_when(self) -> None:
        config = "{duration: 30h, exclude: [mon, wed]}"
        verdict = judged("waitExclude", config, last_transition=on("sun 12:00"), now=on("sun 18:00"))
        assert verdict.info == {"remaining_seconds": 24 * 3600.0}
        assert verdict.until == on("+tue 18:00")

    def test_a_transition_before_history_is_long_ago(self) -> None:
        long_ago = datetime.min.replace(tzinfo=UTC)
        assert judged("waitExclude", "{duration: 30h, exclude: [mon]}", last_transition=long_ago).passed

    @pytest.mark.parametrize(
        ("config", "what"),
        [
            pytest.param("{duration: 1h, exclude: []}", "empty array", id="no days"),
            pytest.param("{duration: 1h}", "missing required field", id="none"),
            pytest.param("{duration: 60, exclude: [mon]}", 'time: missing unit in duration "60"', id="a number"),
            pytest.param("{duration: 1h, exclude: [someday]}", "'someday' is not a known weekday", id="no weekday"),
        ],
    )
    def test_refuses(self, config: str, what: str) -> None:
        assert refusal("check", "waitExclude", config) == what


WINDOW = '{start: "10:00", end: "17:30", weekdays: [tue, Thursday], exclude: ["jun 4", "Feb 29"]}'
OVERNIGHT = '{start: "22:00", end: "04:00", weekdays: [tue], exclude: ["Jun 16"], allowOvernight: true}'


class TestTimeWindow:
    @pytest.mark.parametrize(
        ("now", "passes", "reason", "until"),
        [
            pytest.param("tue 10:00", False, None, "tue 10:00", id="opens just after its start"),
            pytest.param("tue 10:00:01", True, None, "tue 17:30", id="open"),
            pytest.param("tue 17:30", False, None, "+tue 10:00", id="closes at its end; the next day is excluded"),
            pytest.param("mon 12:00", False, "current day of week forbidden", "tue 10:00", id="another weekday"),
            pytest.param("thu 12:00", False, "day/month forbidden", "+tue 10:00", id="an excluded day"),
        ],
    )
    def test_is_open(self, now: str, passes: bool, reason: str | None, until: str) -> None:
        verdict = judged("timeWindow", WINDOW, now=on(now))
        assert verdict.passed is passes
        assert verdict.info == ({"reason": reason} if reason else {})
        assert verdict.until == on(until)

    @pytest.mark.parametrize(
        ("now", "passes", "until"),
        [
            pytest.param("tue 23:00", True, "wed 04:00", id="before midnight"),
            pytest.param("wed 00:00", True, "wed 04:00", id="at midnight"),
            pytest.param("wed 03:59", True, "wed 04:00", id="after midnight"),
            pytest.param("wed 04:00", False, "+tue 22:00", id="at its end"),
            pytest.param("wed 23:00", False, "+tue 22:00", id="a night of another day"),
            pytest.param("tue 03:00", False, "tue 22:00", id="the night before"),
        ],
    )
    def test_over_midnight_the_day_of_the_start_counts(self, now: str, passes: bool, until: str) -> None:
        verdict = judged("timeWindow", OVERNIGHT, now=on(now))
        assert (verdict.passed, verdict.until) == (passes, on(until))

    def test_an_excluded_day_excludes_its_night(self) -> None:
        # The 16th is a Tuesday, too.
        assert not judged("timeWindow", OVERNIGHT, now=datetime(2026, 6, 17, 1, tzinfo=UTC)).passed

    def test_in_another_time_zone(self) -> None:
        config = '{start: "10:00", end: "12:00", weekdays: [tue], timezone: Asia/Tokyo}'
        verdict = judged("timeWindow", config, now=on("tue 01:30"))
        assert (verdict.passed, verdict.until) == (True, on("tue 03:00"))

    def test_a_start_that_clocks_skip_is_passed_when_they_are_changed(self) -> None:
        config = '{start: "02:30", end: "05:00", weekdays: [sun], timezone: Europe/Berlin}'
        verdict = judged("timeWindow", config, now=datetime(2026, 3, 29, 0, 30, tzinfo=UTC))
        assert (verdict.passed, verdict.until) == (False, datetime(2026, 3, 29, 1, tzinfo=UTC))

    def test_no_time_at_all(self) -> None:
        verdict = judged("timeWindow", '{start: "10:00", end: "10:00", weekdays: [mon]}', now=on("mon 10:00"))
        assert (verdict.passed, verdict.until) == (False, None)

    @pytest.mark.parametrize(
        ("config", "what"),
        [
            pytest.param(
                '{start: "18:00", end: "17:30", weekdays: [mon]}',
                "the end time '0000-01-01 17:30:00 +0000 UTC' should be after the start time"
                " '0000-01-01 18:00:00 +0000 UTC'",
                id="over midnight",
            ),
            pytest.param(
                '{start: "10:00", end: "11:00"}', "a timewindow needs to have weekdays specified", id="no days"
            ),
            pytest.param(
                '{start: "10:00", end: "11:00", weekdays: [m]}', "'m' is not a known weekday", id="an unknown day"
            ),
            pytest.param(
                '{end: "11:00", weekdays: [mon]}',
                'parsing time "" as "15:04": cannot parse "" as "15"',
                id="no start",
            ),
            pytest.param(
                '{start: "10:00", end: "11:00", weekdays: [mon], exclude: [Feb 30]}',
                'parsing time "Feb 30": day out of range',
                id="no such date",
            ),
            pytest.param(
                '{start: "10:00", end: "11:00", weekdays: [mon], exclude: [24 Dec]}',
                'parsing time "24 Dec" as "Jan 2": cannot parse "24 Dec" as "Jan"',
                id="a date the other way round",
            ),
            pytest.param(
                '{start: "10:00", end: "11:00", weekdays: [mon], timezone: Mars/Base}',
                "unknown time zone Mars/Base",
                id="no such time zone",
            ),
        ],
    )
    def test_refuses(self, config: str, what: str) -> None:
        assert refusal("check", "timeWindow", config) == what
