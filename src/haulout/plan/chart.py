"""A forecast as a chart: text for the terminal, SVG for everything else."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from html import escape

from haulout.core.planned import CHANGING, DRAINING, IN_MAINTENANCE, REQUIRED
from haulout.plan.courses import Course, Forecast

MARKS = {REQUIRED: ".", CHANGING: "~", DRAINING: "-", IN_MAINTENANCE: "#"}
COLOURS = {REQUIRED: "#e0b13c", CHANGING: "#4a7fb5", DRAINING: "#d9772b", IN_MAINTENANCE: "#c0392b"}
HEIGHTS = {REQUIRED: 2, CHANGING: 6, DRAINING: 6, IN_MAINTENANCE: 10}
ROW, LEFT, WIDTH, TOP = 14, 180, 900, 62
STEPS = tuple(
    timedelta(minutes=minutes) for minutes in (1, 5, 15, 60, 3 * 60, 6 * 60, 12 * 60, 24 * 60, 2 * 24 * 60, 7 * 24 * 60)
)
MOST_STEPS = 9


def text_chart(forecast: Forecast, width: int = 60) -> Iterator[str]:
    """Yield one line for each node that goes anywhere, in the order in which they go.

    `.` waits, `~` is changed in service, `-` is drained, `#` is in maintenance.
    """
    going = in_order(forecast)
    longest = max((len(course.node) for course in going), default=0)
    begins_at, ends_at = _extent(forecast, going)
    first, last = (f"{at:%Y-%m-%d %H:%M}" for at in (begins_at, ends_at))
    yield f"{'':{longest}}  {first}{last:>{width - len(first)}}"
    for course in going:
        yield f"{course.node:{longest}}  {_line(course, begins_at, ends_at, width)}".rstrip()


def _line(course: Course, begins_at: datetime, ends_at: datetime, width: int) -> str:
    cells = [" "] * width
    for span in course.spans:
        if mark := MARKS.get(span.state):
            first = _place(span.begins_at, begins_at, ends_at, width)
            last = _place(span.ends_at or ends_at, begins_at, ends_at, width)
            # What is too short for a cell is shown all the same, and what matters more is shown over what less.
            for cell in range(min(first, width - 1), min(max(last, first + 1), width)):
                cells[cell] = mark if cells[cell] != MARKS[IN_MAINTENANCE] else cells[cell]
    return "".join(cells)


def _place(at: datetime, begins_at: datetime, ends_at: datetime, width: int) -> int:
    return int((at - begins_at) / max(ends_at - begins_at, timedelta(seconds=1)) * width)


def in_order(forecast: Forecast) -> list[Course]:
    """Return the nodes that leave operational, in the order in which something is done to them."""
    return sorted((course for course in forecast.courses if course.goes), key=_entered)


def _entered(course: Course) -> tuple[bool, datetime, str]:
    entered = [span.begins_at for span in course.spans if span.state in (IN_MAINTENANCE, CHANGING)]
    return not entered, entered[0] if entered else course.spans[0].begins_at, course.node


def _extent(forecast: Forecast, going: list[Course]) -> tuple[datetime, datetime]:
    """Return the span from the first that happens to the last; where something never ends, to the end of the plan."""
    spans = [span for course in going for span in course.spans if span.state in MARKS]
    ends = [span.ends_at or forecast.ends_at for span in spans]
    return min((span.begins_at for span in spans), default=forecast.begins_at), max(ends, default=forecast.ends_at)


def svg_chart(forecast: Forecast) -> str:
    """Return the forecast as a picture: a row for each node that goes, over an axis of time, with title and legend."""
    going = in_order(forecast)
    begins_at, ends_at = _extent(forecast, going)
    bottom = TOP + ROW * len(going)
    title = f"Plan for {len(going)} of {len(forecast.courses)} nodes, {begins_at:%Y-%m-%d %H:%M} to {ends_at:%Y-%m-%d %H:%M} UTC"
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 20}" height="{bottom + ROW}" '
            f'font-family="monospace" font-size="11" role="img"><title>{title}</title>'
        ),
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        f'<text x="4" y="16" font-size="14">{title}</text>',
        *_legend(),
        *_axis(begins_at, ends_at, bottom),
    ]
    for number, course in enumerate(going):
        top = TOP + ROW * number
        parts.append(f'<text x="4" y="{top + 10}">{escape(course.node)}</text>')
        for span in course.spans:
            if span.state in COLOURS:
                first = LEFT + _place(span.begins_at, begins_at, ends_at, WIDTH)
                last = LEFT + _place(span.ends_at or ends_at, begins_at, ends_at, WIDTH)
                parts.append(
                    _bar(span.state, first, top, max(1, last - first), f"from {span.begins_at:%Y-%m-%d %H:%M}")
                )
    return "\n".join((*parts, "</svg>", ""))


def _bar(state: str, x: int, y: int, width: int, when: str) -> str:
    """Return a bar. States differ in height as well as in colour, for those who do not see the colours."""
    high = HEIGHTS[state]
    place = f'x="{x}" y="{y + (ROW - high) // 2}" width="{width}" height="{high}"'
    return f'<rect {place} fill="{COLOURS[state]}"><title>{escape(f"{state} {when}".strip())}</title></rect>'


def _legend() -> Iterator[str]:
    x = 4
    for state in COLOURS:
        yield _bar(state, x, 22, 18, "")
        yield f'<text x="{x + 24}" y="33">{state}</text>'
        x += 40 + 7 * len(state)


def _axis(begins_at: datetime, ends_at: datetime, bottom: int) -> Iterator[str]:
    """Yield a line and a time for each step of the axis: days where there are several, else hours or minutes."""
    length = ends_at - begins_at
    step = next(
        (step for step in STEPS if length / step <= MOST_STEPS),
        STEPS[-1] * max(1, int(length / STEPS[-1] / MOST_STEPS) + 1),
    )
    midnight = begins_at.replace(hour=0, minute=0, second=0, microsecond=0)
    at = midnight + step * -(-(begins_at - midnight) // step)
    while at <= ends_at:
        x = LEFT + _place(at, begins_at, ends_at, WIDTH)
        text = f"{at:%m-%d}" if step >= timedelta(days=1) else f"{at:%m-%d %H:%M}"
        yield f'<line x1="{x}" y1="{TOP - 4}" x2="{x}" y2="{bottom}" stroke="#dddddd"/>'
        yield f'<text x="{x}" y="{TOP - 8}" text-anchor="middle" fill="#555555">{text}</text>'
        at += step
