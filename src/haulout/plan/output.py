"""What comes of a plan, as JSON and as text."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import msgspec

from haulout.model.meta import wire_micro_time
from haulout.plan.chart import text_chart
from haulout.plan.forecast import Choice, Forecast

MOST_SHOWN = 5


def as_text(forecast: Forecast, lacks: list[str]) -> list[str]:
    """Return the lines of a forecast. `lacks`: what could not be taken into account."""
    return [*_incomplete(lacks), *_forecast_lines(forecast)]


def _incomplete(lacks: list[str]) -> Iterator[str]:
    if lacks:
        yield (
            f"INCOMPLETE: {len(lacks)} things could not be taken into account:"
            if len(lacks) > 1
            else ("INCOMPLETE: one thing could not be taken into account:")
        )
        yield from (f"  {text}" for text in lacks)


def _forecast_lines(forecast: Forecast) -> Iterator[str]:
    going = [course for course in forecast.courses if course.goes]
    if not going:
        yield f"None of {len(forecast.courses)} nodes leaves operational until {_shown(forecast.ends_at)}."
        return
    yield from text_chart(forecast)
    yield ""
    yield from _choice_lines(forecast)
    stuck = [course for course in going if course.returns_at is None]
    finished = forecast.finished_at
    back = len(going) - len(stuck)
    yield f"{back} of {len(going)} nodes go and come back" + (f", the last {_shown(finished)}" if finished else "")
    for course in stuck[:MOST_SHOWN]:
        yield f"  {course.node} is {course.spans[-1].state} until the end: {course.waits_for}"
    if len(stuck) > MOST_SHOWN:
        yield f"  and {len(stuck) - MOST_SHOWN} more"
    if forecast.kept:
        yield "waited for, all nodes together:"
        for text, span in forecast.kept[:MOST_SHOWN]:
            yield f"  {_span(span)}: {text}"


def _choice_lines(forecast: Forecast) -> Iterator[str]:
    """Yield which node is chosen next and why, and the choices after it."""
    choices = forecast.choices
    if not choices:
        return
    first = choices[0]
    yield f"next: node {first.node} for {first.object}, {_shown(first.at)}: {first.pick.why}"
    for node, why in first.pick.before:
        yield f"  before {node}: {why}"
    more = first.pick.waiting - len(first.pick.before)
    if more > 0:
        yield f"  and before {more} more"
    for choice in choices[1:MOST_SHOWN]:
        yield f"then: node {choice.node} for {choice.object}, {_shown(choice.at)}: {choice.pick.why}"
    if len(choices) > MOST_SHOWN:
        yield f"and {len(choices) - MOST_SHOWN} more (-o json has them all)"


def _choice(choice: Choice) -> dict[str, object]:
    before = [{"node": node, "why": why} for node, why in choice.pick.before]
    return {
        "at": wire_micro_time(choice.at),
        "node": choice.node,
        "object": choice.object,
        "why": choice.pick.why,
        "before": before,
        "waiting": choice.pick.waiting,
    }


def _shown(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"


def _span(span: timedelta) -> str:
    hours, seconds = divmod(int(span.total_seconds()), 3600)
    return f"{hours} h {seconds // 60} min" if hours else f"{seconds // 60} min {seconds % 60} s"


def as_json(forecast: Forecast, lacks: list[str]) -> str:
    body = {
        "incomplete": lacks,
        "beginsAt": wire_micro_time(forecast.begins_at),
        "endsAt": wire_micro_time(forecast.ends_at),
        "finishedAt": wire_micro_time(forecast.finished_at) if forecast.finished_at else None,
        "waitedFor": [{"seconds": int(span.total_seconds()), "cause": text} for text, span in forecast.kept],
        "choices": [_choice(choice) for choice in forecast.choices],
        "nodes": [
            {
                "name": course.node,
                "states": [
                    {
                        "state": span.state,
                        "from": wire_micro_time(span.begins_at),
                        "to": wire_micro_time(span.ends_at) if span.ends_at else None,
                    }
                    for span in course.spans
                ],
                "waitsFor": course.waits_for,
            }
            for course in forecast.courses
        ],
    }
    return msgspec.json.format(msgspec.json.encode(body), indent=2).decode()
