"""Windows and blackouts: whether a planned maintenance may start on a node, and until when that stays so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from functools import lru_cache, partial
from typing import TypeVar

import msgspec

from haulout.base.weekday import parse_time_of_day, parse_weekday
from haulout.base.windows import Weekly, Windows
from haulout.base.windows import Window as Recurring
from haulout.core.decision import earliest
from haulout.core.planned import Schedule
from haulout.surfaces.notify.config_file.rules import moment, selector
from haulout.surfaces.notify.options import Blackout, Scheduler, Window

Rule = TypeVar("Rule", Window, Blackout)


class Opening(msgspec.Struct, frozen=True):
    """Whether windows and blackouts allow a start.

    `reason`: why not; empty if they allow it.
    `until`: the instant before which time alone does not change the answer. `closes_at`: when the open window closes.
    """

    reason: str = ""
    until: datetime | None = None
    closes_at: datetime | None = None


@lru_cache(maxsize=256)
def _recurring(window: Window) -> Recurring:
    days = frozenset(map(parse_weekday, window.days)) or frozenset(range(7))
    return Recurring(Weekly(days, parse_time_of_day(window.start), parse_time_of_day(window.end)), window.timezone)


def opening(settings: Scheduler, labels: Mapping[str, str], now: datetime) -> Opening:
    """Return whether windows and blackouts allow a planned maintenance to start on a node with these labels."""
    concerned = [window for window in settings.windows if _selects(window.node_selector, labels)]
    windows = Windows(tuple(map(_recurring, concerned)))
    blackouts = [each for each in settings.blackouts if _selects(each.node_selector, labels)]
    ends_at, begins_at = _blackout(blackouts, now)
    changes_at = windows.changes_at(now) if concerned else None
    if concerned and not windows.is_open(now):
        return Opening("OutsideWindow", changes_at)
    if ends_at is not None:
        return Opening("Blackout", earliest(ends_at, changes_at))
    closes_at = earliest(changes_at, begins_at)
    return Opening("", closes_at, closes_at)


def schedules(settings: Scheduler) -> Iterator[Schedule]:
    """Yield the schedule of starts for each node selector of windows and blackouts, for forecasts."""
    named = [*(each.node_selector for each in settings.windows), *(each.node_selector for each in settings.blackouts)]
    for chosen in dict.fromkeys(named):
        limited = msgspec.structs.replace(
            settings,
            windows=tuple(_for_all(each) for each in settings.windows if each.node_selector in ("", chosen)),
            blackouts=tuple(_for_all(each) for each in settings.blackouts if each.node_selector in ("", chosen)),
        )
        answer = partial(opening, limited, {})
        name = f"notify, {chosen}" if chosen else "notify"
        yield Schedule(name, lambda at, ask=answer: not ask(at).reason, lambda at, ask=answer: ask(at).until)  # type: ignore[misc]


def _for_all(rule: Rule) -> Rule:
    return msgspec.structs.replace(rule, node_selector="")


def _blackout(blackouts: Iterable[Blackout], now: datetime) -> tuple[datetime | None, datetime | None]:
    """Return the end of the current blackout, and the start of the next one."""
    spans = [(moment(each.since), moment(each.to)) for each in blackouts]
    known = [(since, to) for since, to in spans if since is not None and to is not None]
    standing = [to for since, to in known if since <= now < to]
    return max(standing, default=None), min((since for since, _ in known if since > now), default=None)


def _selects(text: str, labels: Mapping[str, str]) -> bool:
    return not text or selector(text).matches(labels)
