"""A forecast as a chart: text for the terminal, SVG for everything else."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from html import escape

from haulout.core.planned import CHANGING, DRAINING, IN_MAINTENANCE, REQUIRED
from haulout.plan.courses import Course, Forecast, Timetable

MARKS = {REQUIRED: ".", CHANGING: "~", DRAINING: "-", IN_MAINTENANCE: "#"}
COLOURS = {REQUIRED: "#e0b13c", CHANGING: "#4a7fb5", DRAINING: "#d9772b", IN_MAINTENANCE: "#c0392b"}
HEIGHTS = {REQUIRED: 2, CHANGING: 4, DRAINING: 7, IN_MAINTENANCE: 10}
ROW, LEFT, WIDTH, TOP = 14, 180, 900, 62
# Windows have rows of their own above the nodes, and a lighter shade behind them.
WINDOW, SHADE, STRIP = "#5c9960", "#eef5ee", 10
MOST_TIMETABLES = 6
STEPS = tuple(
    timedelta(minutes=minutes) for minutes in (1, 5, 15, 60, 3 * 60, 6 * 60, 12 * 60, 24 * 60, 2 * 24 * 60, 7 * 24 * 60)
)
MOST_STEPS = 9
# What fits beside the chart.
MOST_LETTERS = 26


def text_chart(forecast: Forecast, width: int = 60) -> Iterator[str]:
    """Yield one line for each node that leaves service, in the order in which they do.

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
            # Every span gets at least one cell, however short. A cell in maintenance is not overwritten.
            for cell in range(min(first, width - 1), min(max(last, first + 1), width)):
                cells[cell] = mark if cells[cell] != MARKS[IN_MAINTENANCE] else cells[cell]
    return "".join(cells)


def _place(at: datetime, begins_at: datetime, ends_at: datetime, width: int) -> int:
    return int((at - begins_at) / max(ends_at - begins_at, timedelta(seconds=1)) * width)


def in_order(forecast: Forecast) -> list[Course]:
    """Return the courses of nodes that leave the state operational, in the order in which work on them begins."""
    return sorted((course for course in forecast.courses if course.goes), key=_entered)


def _entered(course: Course) -> tuple[bool, datetime, str]:
    entered = [span.begins_at for span in course.spans if span.state in (IN_MAINTENANCE, CHANGING)]
    return not entered, entered[0] if entered else course.spans[0].begins_at, course.node


def _extent(forecast: Forecast, going: list[Course]) -> tuple[datetime, datetime]:
    """Return the first and the last instant of the chart. If a node does not return, the last is the end of the plan."""
    spans = [span for course in going for span in course.spans if span.state in MARKS]
    ends = [span.ends_at or forecast.ends_at for span in spans]
    return min((span.begins_at for span in spans), default=forecast.begins_at), max(ends, default=forecast.ends_at)


def svg_chart(forecast: Forecast) -> str:
    """Return the forecast as SVG: a row for each node that leaves service, an axis of time, a title and a legend."""
    going = in_order(forecast)
    begins_at, ends_at = _extent(forecast, going)
    timetables = forecast.timetables[:MOST_TIMETABLES]
    top_of_nodes = TOP + ROW * _rows_of_windows(forecast)
    bottom = top_of_nodes + ROW * len(going)
    title = f"Plan for {len(going)} of {len(forecast.courses)} nodes, {begins_at:%Y-%m-%d %H:%M} to {ends_at:%Y-%m-%d %H:%M} UTC"
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 20}" height="{bottom + ROW}" '
            f'font-family="monospace" font-size="11" role="img"><title>{title}</title>'
        ),
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        f'<text x="4" y="16" font-size="14">{title}</text>',
        *_legend(with_windows=bool(timetables)),
        *(band for each in timetables for band in _bands(each, begins_at, ends_at, top_of_nodes, bottom)),
        *_axis(begins_at, ends_at, bottom),
        *(
            part
            for number, each in enumerate(timetables)
            for part in _strip(each, TOP + ROW * number, begins_at, ends_at)
        ),
    ]
    if more := len(forecast.timetables) - len(timetables):
        parts.append(f'<text x="4" y="{top_of_nodes - 4}">and {more} more with windows</text>')
    for number, course in enumerate(going):
        top = top_of_nodes + ROW * number
        parts.append(
            f'<text x="4" y="{top + 10}"><title>{escape(course.node)}</title>{escape(_shortened(course.node))}</text>'
        )
        for span in course.spans:
            if span.state in COLOURS:
                first = LEFT + _place(span.begins_at, begins_at, ends_at, WIDTH)
                last = LEFT + _place(span.ends_at or ends_at, begins_at, ends_at, WIDTH)
                parts.append(
                    _bar(span.state, first, top, max(1, last - first), f"from {span.begins_at:%Y-%m-%d %H:%M}")
                )
    return "\n".join((*parts, "</svg>", ""))


def _bar(state: str, x: int, y: int, width: int, when: str) -> str:
    """Return the bar of a state. States differ in height and in colour, for readers who do not see colours."""
    high = HEIGHTS[state]
    place = f'x="{x}" y="{y + (ROW - high) // 2}" width="{width}" height="{high}"'
    return f'<rect {place} fill="{COLOURS[state]}"><title>{escape(f"{state} {when}".strip())}</title></rect>'


def _rows_of_windows(forecast: Forecast) -> int:
    """Return how many rows the schedules take: one each, and one that counts those that are not shown."""
    return min(len(forecast.timetables), MOST_TIMETABLES + 1)


def _openings(timetable: Timetable, begins_at: datetime, ends_at: datetime) -> Iterator[tuple[int, int, str]]:
    """Yield left edge, width and text of each time at which a schedule is open, within the chart."""
    for span in timetable.openings:
        first, last = max(span.begins_at, begins_at), min(span.ends_at or ends_at, ends_at)
        if first < last:
            x, end = (LEFT + _place(at, begins_at, ends_at, WIDTH) for at in (first, last))
            yield (
                x,
                max(1, end - x),
                f"open from {span.begins_at:%Y-%m-%d %H:%M} to {span.ends_at or ends_at:%Y-%m-%d %H:%M}",
            )


def _bands(timetable: Timetable, begins_at: datetime, ends_at: datetime, top: int, bottom: int) -> Iterator[str]:
    """Yield the shaded areas behind the nodes, one for each time at which a schedule is open."""
    for x, width, _ in _openings(timetable, begins_at, ends_at):
        yield f'<rect x="{x}" y="{top}" width="{width}" height="{bottom - top}" fill="{SHADE}"/>'


def _strip(timetable: Timetable, top: int, begins_at: datetime, ends_at: datetime) -> Iterator[str]:
    """Yield the row of a schedule: its name, and a box for each time at which it is open."""
    name = escape(_shortened(timetable.name))
    yield f'<text x="4" y="{top + 10}" fill="{WINDOW}"><title>{escape(timetable.name)}</title>{name}</text>'
    for x, width, when in _openings(timetable, begins_at, ends_at):
        yield _window_box(x, top + (ROW - STRIP) // 2, width, when)


def _window_box(x: int, y: int, width: int, when: str) -> str:
    place = f'x="{x}" y="{y}" width="{width}" height="{STRIP}"'
    return f'<rect {place} fill="{SHADE}" stroke="{WINDOW}"><title>{escape(when)}</title></rect>'


def _shortened(name: str) -> str:
    return name if len(name) <= MOST_LETTERS else f"{name[: MOST_LETTERS - 1]}…"


def _legend(*, with_windows: bool) -> Iterator[str]:
    x = 4
    for state in COLOURS:
        yield _bar(state, x, 22, 18, "")
        yield f'<text x="{x + 24}" y="33">{state}</text>'
        x += 40 + 7 * len(state)
    if with_windows:
        yield _window_box(x, 24, 18, "")
        yield f'<text x="{x + 24}" y="33">window is open</text>'


def _axis(begins_at: datetime, ends_at: datetime, bottom: int) -> Iterator[str]:
    """Yield a line and a label for each step of the time axis. Steps are days, hours or minutes."""
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
