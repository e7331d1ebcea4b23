"""Prints a forecast as JSON and as text."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import msgspec

from haulout.base.spans import span_text
from haulout.core.planned import PodRun
from haulout.explain.kinds import not_served_text
from haulout.explain.operators import OperatorState
from haulout.model.meta import wire_micro_time
from haulout.plan.chart import in_order, text_chart
from haulout.plan.courses import Choice, Course, Forecast, Span
from haulout.plan.document import (
    Cause,
    ChoiceMade,
    Document,
    Extent,
    NodeCourse,
    Rival,
    Run,
    StateExtent,
    Windows,
)

MOST_SHOWN = 5
# The plan makes the others from their owners.
POD_TEXT = "pods other than those of Deployments, StatefulSets and DaemonSets"


class Gaps(msgspec.Struct):
    """What a plan could not read.

    `lacks`: what could not be taken into account, a line each.
    `not_served`: kinds that the cluster does not serve. `not_in_snapshot`: kinds without an object in the snapshot. Both
    are names of definitions; or "pods", of which the plan makes those that Deployments, StatefulSets and DaemonSets have.
    """

    lacks: list[str]
    not_served: list[str] = []
    not_in_snapshot: list[str] = []


def as_text(forecast: Forecast, gaps: Gaps) -> list[str]:
    """Return a forecast and its gaps as lines of text."""
    absent = [not_served_text(gaps.not_served)] if gaps.not_served else []
    if gaps.not_in_snapshot:
        names = (POD_TEXT if name == "pods" else name for name in gaps.not_in_snapshot)
        absent.append(f"Not in the snapshot, and not counted: {', '.join(names)}")
    return [*absent, *_incomplete(gaps.lacks), *_forecast_lines(forecast)]


def _incomplete(lacks: list[str]) -> Iterator[str]:
    if lacks:
        yield (
            f"INCOMPLETE: {len(lacks)} things are not taken into account:"
            if len(lacks) > 1
            else ("INCOMPLETE: one thing is not taken into account:")
        )
        yield from (f"  {text}" for text in lacks)


def _forecast_lines(forecast: Forecast) -> Iterator[str]:
    going = [course for course in forecast.courses if course.goes]
    if not going:
        yield f"None of {len(forecast.courses)} nodes needs maintenance until {_time_text(forecast.ends_at)}."
        return
    yield from _guesses(forecast.guesses)
    yield from text_chart(forecast)
    yield ""
    if forecast.runs:
        yield from _table(forecast)
        yield ""
    yield from _choice_lines(forecast)
    stuck = [course for course in going if course.returns_at is None]
    finished = forecast.finished_at
    back = len(going) - len(stuck)
    within = span_text(forecast.ends_at - forecast.begins_at)
    yield f"{back} of {len(going)} nodes finish within {within}" + (
        f", the last {_time_text(finished)}" if finished else ""
    )
    if forecast.cordoned_for:
        whole, most = span_text(forecast.cordoned_for), forecast.most_cordoned
        yield f"cordoned time, summed over nodes: {whole}; most at once: {most}"
    for course in stuck[:MOST_SHOWN]:
        yield f"  {course.node} never finishes, still {course.spans[-1].state} at the end: {course.waits_for}"
    if len(stuck) > MOST_SHOWN:
        yield f"  and {len(stuck) - MOST_SHOWN} more"
    if forecast.kept:
        yield "waited for, summed over nodes:"
        for text, span in forecast.kept[:MOST_SHOWN]:
            yield f"  {_span(span)}: {text}"


def _choice_lines(forecast: Forecast) -> Iterator[str]:
    """Yield lines about the choices of schedulers: the node that is next and why, then some later ones."""
    choices = forecast.choices
    if not choices:
        return
    first = choices[0]
    yield f"next: node {first.node} for {first.object}, {_time_text(first.at)}: {first.pick.why}"
    for node, why in first.pick.before:
        yield f"  before {node}: {why}"
    more = first.pick.waiting - len(first.pick.before)
    if more > 0:
        yield f"  and before {more} more"
    for choice in choices[1:MOST_SHOWN]:
        yield f"then: node {choice.node} for {choice.object}, {_time_text(choice.at)}: {choice.pick.why}"
    if len(choices) > MOST_SHOWN:
        yield f"and {len(choices) - MOST_SHOWN} more (-o json has them all)"


def _guesses(guesses: tuple[PodRun, ...]) -> Iterator[str]:
    if guesses:
        yield "GUESS: no node has recorded yet how long this takes, so it counts as:"
        for run in guesses[:MOST_SHOWN]:
            yield f"  {_span(run.runs_for)}: {run.what}"
        if len(guesses) > MOST_SHOWN:
            yield f"  and {len(guesses) - MOST_SHOWN} more"


def _table(forecast: Forecast) -> Iterator[str]:
    """Yield a line for each node that leaves service: when work begins, when and how long it is cordoned, when it returns."""
    courses = in_order(forecast)
    longest = max(len("NODE"), *(len(course.node) for course in courses))
    times = [at for course in courses for at in (course.begins_at, course.returns_at) if at is not None]
    form = "%H:%M:%S" if {at.date() for at in times} <= {forecast.begins_at.date()} else "%m-%d %H:%M"
    rows = [("BEGINS", "CORDONED", "UNTIL", "FOR", "DONE"), *(_row(forecast, course, form) for course in courses)]
    for name, row in zip(["NODE", *(course.node for course in courses)], rows, strict=True):
        cells = "  ".join(f"{cell:{width}}" for cell, width in zip(row, (11, 11, 11, 12, 11), strict=True))
        yield f"{name:{longest}}  {cells}".rstrip()


def _row(forecast: Forecast, course: Course, form: str) -> tuple[str, str, str, str, str]:
    spans = course.cordons
    first = spans[0].begins_at.strftime(form) if spans else "-"
    last = _instant(spans[-1].ends_at, form) if spans else "-"
    lasts = sum(((span.ends_at or forecast.ends_at) - span.begins_at for span in spans), timedelta())
    return (
        _instant(course.begins_at, form),
        first,
        last,
        _span(lasts) if spans else "-",
        _instant(course.returns_at, form),
    )


def _instant(at: datetime | None, form: str) -> str:
    return at.strftime(form) if at is not None else "never"


def _time_text(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"


def _span(span: timedelta) -> str:
    hours, seconds = divmod(int(span.total_seconds()), 3600)
    return f"{hours} h {seconds // 60} min" if hours else f"{seconds // 60} min {seconds % 60} s"


def as_json(forecast: Forecast, gaps: Gaps, origin: str, operator: OperatorState | None = None) -> str:
    """Return a forecast and its gaps as the JSON document of `haulout plan -o json`."""
    document = msgspec.structs.replace(as_document(forecast, gaps, origin), operator=operator)
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()


def as_document(forecast: Forecast, gaps: Gaps, origin: str) -> Document:
    """Return a forecast and its gaps as data. `origin`: where the settings come from."""
    return Document(
        settings=origin,
        incomplete=tuple(gaps.lacks),
        not_served=tuple(gaps.not_served),
        not_in_snapshot=tuple(gaps.not_in_snapshot),
        guesses=tuple(run.what for run in forecast.guesses),
        runs=tuple(Run(run.what, run.runs_for.total_seconds(), run.count) for run in forecast.runs),
        begins_at=wire_micro_time(forecast.begins_at),
        ends_at=wire_micro_time(forecast.ends_at),
        finished_at=_time(forecast.finished_at),
        cordoned_seconds=forecast.cordoned_for.total_seconds(),
        most_cordoned=forecast.most_cordoned,
        waited_for=tuple(Cause(int(span.total_seconds()), cause) for cause, span in forecast.kept),
        choices=tuple(map(_choice, forecast.choices)),
        windows=tuple(Windows(each.name, tuple(map(_extent, each.openings))) for each in forecast.timetables),
        nodes=tuple(map(_node, forecast.courses)),
    )


def _choice(choice: Choice) -> ChoiceMade:
    return ChoiceMade(
        at=wire_micro_time(choice.at),
        node=choice.node,
        object=choice.object,
        why=choice.pick.why,
        before=tuple(Rival(node, why) for node, why in choice.pick.before),
        waiting=choice.pick.waiting,
    )


def _node(course: Course) -> NodeCourse:
    states = (StateExtent(span.state, wire_micro_time(span.begins_at), _time(span.ends_at)) for span in course.spans)
    return NodeCourse(
        name=course.node,
        begins_at=_time(course.begins_at),
        done_at=_time(course.returns_at),
        states=tuple(states),
        cordoned=tuple(map(_extent, course.cordons)),
        waits_for=course.waits_for,
    )


def _extent(span: Span) -> Extent:
    return Extent(wire_micro_time(span.begins_at), _time(span.ends_at))


def _time(at: datetime | None) -> str | None:
    return wire_micro_time(at) if at is not None else None
