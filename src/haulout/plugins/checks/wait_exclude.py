"""waitExclude: passes once the node has been in its state for longer than a given time, some weekdays not counted."""

from datetime import UTC, datetime, timedelta

from haulout.base.clock import after
from haulout.base.spans import span_text
from haulout.base.weekday import parse_weekday
from haulout.plugins.api import CheckInput, Config, Verdict, check
from haulout.plugins.config import ConfigProblem, GoDurationText

_DAY = timedelta(days=1)
_WEEK = timedelta(days=7)


class WaitExclude(Config, frozen=True, kw_only=True):
    """The settings of a `waitExclude` check.

    - `duration`: the time for which the node must have been in its state.
    - `exclude`: weekdays (UTC) that do not count, as `sat`.

    - {type: waitExclude, name: two-working-days, config: {duration: 48h, exclude: [sat, sun]}}
    """

    duration: GoDurationText
    exclude: tuple[str, ...]

    def validate(self) -> None:
        try:
            self.counted_days()
        except ValueError as error:
            raise ConfigProblem(str(error)) from None

    def counted_days(self) -> frozenset[int]:
        return frozenset(range(7)) - frozenset(map(parse_weekday, self.exclude))


@check("waitExclude", WaitExclude)
def wait_exclude(config: WaitExclude, inputs: CheckInput) -> Verdict:
    days = config.counted_days()
    waited_for = counted(inputs.last_transition, inputs.now, days)
    span, uncounted = span_text(config.duration), ", ".join(config.exclude)
    if waited_for > config.duration:
        return Verdict(
            passed=True, finding=f"the node has been {inputs.state} for more than {span}, {uncounted} not counted"
        )
    remaining_for = config.duration - waited_for
    info = {"remaining_seconds": remaining_for.total_seconds()}
    if not days:
        finding, act = "no weekday counts", "take a weekday out of `exclude` of the check"
        return Verdict(passed=False, info=info, finding=finding, act=act)
    until = counted_after(inputs.last_transition, config.duration, days)
    finding = f"the node has not been {inputs.state} for {span} yet, {uncounted} not counted"
    return Verdict(passed=False, until=until, info=info, finding=finding)


def counted(start: datetime, end: datetime, days: frozenset[int]) -> timedelta:
    """Return how much of the time from `start` to `end` falls on these weekdays (UTC)."""
    if end <= start:
        return end - start
    weeks, rest_for = divmod(end - start, _WEEK)
    total_for = weeks * len(days) * _DAY
    at = end - rest_for
    while at < end:
        stop = min(end, _midnight_after(at) or end)
        if at.astimezone(UTC).weekday() in days:
            total_for += stop - at
        at = stop
    return total_for


def counted_after(start: datetime, span: timedelta, days: frozenset[int]) -> datetime | None:
    """Return the last instant up to which no more than `span` falls on these weekdays; None if there is none."""
    if span < timedelta(0):
        return after(start, span)
    if not days:
        return None
    weeks, rest_for = divmod(span, len(days) * _DAY)
    at = after(start, weeks * _WEEK)
    while at is not None:
        stop = _midnight_after(at)
        is_counted = at.astimezone(UTC).weekday() in days
        if is_counted and (stop is None or at + rest_for < stop):
            return after(at, rest_for)
        rest_for -= stop - at if is_counted and stop else timedelta(0)
        at = stop
    return None


def _midnight_after(at: datetime) -> datetime | None:
    return after(at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0), _DAY)
