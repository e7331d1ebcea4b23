"""A forecast as a chart: text for the terminal, SVG for everything else."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from html import escape

from haulout.core.planned import CHANGING, DRAINING, IN_MAINTENANCE, REQUIRED
from haulout.plan.courses import Course, Forecast

MARKS = {REQUIRED: ".", CHANGING: "~", DRAINING: "-", IN_MAINTENANCE: "#"}
COLOURS = {REQUIRED: "#e0b13c", CHANGING: "#4a7fb5", DRAINING: "#d9772b", IN_MAINTENANCE: "#c0392b"}
ROW, LEFT, WIDTH = 14, 180, 900


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
    going = in_order(forecast)
    begins_at, ends_at = _extent(forecast, going)
    height = ROW * (len(going) + 2)
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 20}" height="{height}" '
            'font-family="monospace" font-size="11">'
        ),
        f'<rect width="100%" height="100%" fill="#ffffff"/><text x="{LEFT}" y="11">{begins_at:%Y-%m-%d %H:%M}</text>',
        f'<text x="{LEFT + WIDTH}" y="11" text-anchor="end">{ends_at:%Y-%m-%d %H:%M}</text>',
    ]
    for number, course in enumerate(going):
        top = ROW * (number + 1) + 4
        parts.append(f'<text x="4" y="{top + 9}">{escape(course.node)}</text>')
        for span in course.spans:
            if colour := COLOURS.get(span.state):
                first = LEFT + _place(span.begins_at, begins_at, ends_at, WIDTH)
                last = LEFT + _place(span.ends_at or ends_at, begins_at, ends_at, WIDTH)
                title = f"{span.state} from {span.begins_at:%Y-%m-%d %H:%M}"
                parts.append(
                    f'<rect x="{first}" y="{top}" width="{max(1, last - first)}" height="{ROW - 4}" fill="{colour}">'
                    f"<title>{escape(title)}</title></rect>"
                )
    return "\n".join((*parts, "</svg>", ""))
