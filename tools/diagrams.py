"""Draws the diagrams of the documentation: `python -m tools.diagrams` writes them into docs/diagrams.

A diagram is data: boxes on a grid, and arrows between them. So a diff of this file shows what changed in a picture.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import escape

FOLDER = Path(__file__).parents[1] / "docs" / "diagrams"
# In pixels: a place of the grid, the gap around a box in it, and the height of a line of text.
WIDE, HIGH, GAP, LINE = 204, 92, 18, 17
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1c2733 }
.title { font-weight: 600 }
.note { fill: #5b6875; font-size: 12px }
rect { fill: #ffffff; stroke: #9aa7b4 }
.strong rect { fill: #dff1ee; stroke: #2a7f74 }
.outside rect { fill: #f1f4f7; stroke-dasharray: 4 3 }
path { fill: none; stroke: #5b6875; stroke-width: 1.4 }
marker path { fill: #5b6875; stroke: none }
@media (prefers-color-scheme: dark) {
text { fill: #e3e9ef } .note { fill: #9fb0bf }
rect { fill: #1b242d; stroke: #50606f }
.strong rect { fill: #16352f; stroke: #46a698 }
.outside rect { fill: #141b22 }
path { stroke: #9fb0bf } marker path { fill: #9fb0bf }
}
""".replace("\n", " ").strip()


@dataclasses.dataclass(frozen=True)
class Box:
    """A box at a place of the grid. `lines`: notes below its title. `look`: `strong`, `outside` or empty."""

    name: str
    column: float
    row: float
    title: str
    lines: tuple[str, ...] = ()
    look: str = ""
    span: float = 1

    @property
    def left(self) -> float:
        return self.column * WIDE + GAP

    @property
    def top(self) -> float:
        return self.row * HIGH + GAP

    @property
    def width(self) -> float:
        return self.span * WIDE - 2 * GAP

    @property
    def height(self) -> float:
        return HIGH - 2 * GAP

    @property
    def middle(self) -> tuple[float, float]:
        return self.left + self.width / 2, self.top + self.height / 2


@dataclasses.dataclass(frozen=True)
class Arrow:
    """An arrow from one box to another one beside, above or below it. `text`: what goes along it."""

    begin: str
    end: str
    text: str = ""


@dataclasses.dataclass(frozen=True)
class Diagram:
    """A picture. `about`: what it shows, for those who do not see it."""

    about: str
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]

    def svg(self) -> str:
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        width = max(box.left + box.width for box in self.boxes) + GAP
        height = max(box.top + box.height for box in self.boxes) + GAP
        size = f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}"'
        yield f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
        yield f"<title>{escape(self.about)}</title>"
        yield f"<style>{STYLE}</style>"
        head = '<path d="M0 0 L9 4 L0 8 z"/>'
        yield f'<defs><marker id="head" markerWidth="9" markerHeight="8" refX="9" refY="4" orient="auto">{head}</marker></defs>'
        places = {box.name: box for box in self.boxes}
        for arrow in self.arrows:
            yield from _arrow(places[arrow.begin], places[arrow.end], arrow.text)
        for box in self.boxes:
            yield from _box(box)
        yield "</svg>"


def _box(box: Box) -> Iterator[str]:
    yield f'<g class="{box.look}">' if box.look else "<g>"
    yield f'<rect x="{box.left:g}" y="{box.top:g}" width="{box.width:g}" height="{box.height:g}" rx="6"/>'
    x, y = box.middle
    first = y + 4 - len(box.lines) * LINE / 2
    yield f'<text class="title" x="{x:g}" y="{first:g}" text-anchor="middle">{escape(box.title)}</text>'
    for number, line in enumerate(box.lines, 1):
        yield f'<text class="note" x="{x:g}" y="{first + number * LINE:g}" text-anchor="middle">{escape(line)}</text>'
    yield "</g>"


def _arrow(begin: Box, end: Box, text: str) -> Iterator[str]:
    is_level = begin.row == end.row
    if is_level:
        to_right = begin.column < end.column
        y = begin.middle[1]
        x1, x2 = (begin.left + begin.width, end.left) if to_right else (begin.left, end.left + end.width)
        yield f'<path d="M{x1:g} {y:g} L{x2:g} {y:g}" marker-end="url(#head)"/>'
        label_x, label_y, anchor = (x1 + x2) / 2, y - 6, "middle"
    else:
        # Straight where one box is over the other: through the middle of what they share.
        left, right = max(begin.left, end.left), min(begin.left + begin.width, end.left + end.width)
        x = (left + right) / 2
        y1, y2 = (begin.top + begin.height, end.top) if begin.row < end.row else (begin.top, end.top + end.height)
        yield f'<path d="M{x:g} {y1:g} L{x:g} {y2:g}" marker-end="url(#head)"/>'
        label_x, label_y, anchor = x + 6, (y1 + y2) / 2 + 4, "start"
    if text:
        yield f'<text class="note" x="{label_x:g}" y="{label_y:g}" text-anchor="{anchor}">{escape(text)}</text>'


DIAGRAMS = {
    "event": Diagram(
        "How a change of an object becomes a write: from watches over rows, decisions and the arbiter to the actor.",
        (
            Box("watch", 0, 0, "API servers", ("list and watch",), "outside"),
            Box("probe", 1, 0, "files and clouds", ("probes",), "outside"),
            Box("rows", 0, 1, "tables of rows", ("nodes, pods, budgets, and the surfaces' own objects",), span=2),
            Box("decide", 0, 2, "decisions", ("pure functions of rows",), "strong"),
            Box("arbiter", 1, 2, "arbiter", ("who may have a node",), "strong"),
            Box("limits", 2, 2, "limits", ("budgets, turns, quorum",)),
            Box("actor", 0, 3, "actor", ("one write under way per object, checked again just before it is sent",), span=2.5),
            Box("writes", 0, 4, "API server", ("patches, evictions",), "outside"),
            Box("messages", 1, 4, "messages", ("mail, Slack, webhooks",), "outside"),
        ),
        (
            Arrow("watch", "rows"),
            Arrow("probe", "rows"),
            Arrow("rows", "decide", "a change wakes its readers"),
            Arrow("decide", "arbiter"),
            Arrow("limits", "arbiter"),
            Arrow("decide", "actor", "actions"),
            Arrow("arbiter", "actor", "grants"),
            Arrow("actor", "writes"),
            Arrow("actor", "messages"),
        ),
    ),
    "maintenance": Diagram(
        "The way of a node through a maintenance: asked, waiting, cordoned, drained, proven empty, work, returned.",
        (
            Box("asked", 0, 0, "asked", ("label or object",), "outside"),
            Box("waits", 1, 0, "waits", ("budget, window, turn",)),
            Box("cordon", 2, 0, "cordoned", ("remembers what was",), "strong"),
            Box("drain", 3, 0, "draining", ("at the pace of PDBs",), "strong"),
            Box("empty", 3, 1, "proven empty", ("one list of its pods",), "strong"),
            Box("work", 2, 1, "work", ("reboot, package, repair",), "strong"),
            Box("check", 1, 1, "checked", ("validation, gates",)),
            Box("back", 0, 1, "back in service", ("as the last person left it",), "outside"),
        ),
        (
            Arrow("asked", "waits"),
            Arrow("waits", "cordon"),
            Arrow("cordon", "drain"),
            Arrow("drain", "empty"),
            Arrow("empty", "work"),
            Arrow("work", "check"),
            Arrow("check", "back"),
        ),
    ),
    "parts": Diagram(
        "The programs of Haulout: operator, console and command line ask the same API server; agents run on nodes.",
        (
            Box("person", 0, 0, "you", ("kubectl, GitOps",), "outside"),
            Box("browser", 1, 0, "browser", ("your token",), "outside"),
            Box("cli", 2, 0, "haulout", ("explain, plan, status",)),
            Box("console", 1, 1, "console", ("reads; acts as you",)),
            Box("api", 0, 2, "API server", ("labels, custom resources, leases, records: all that is known is stored here",), "outside", 3),
            Box("operator", 0, 3, "operator", ("one leader of several",), "strong"),
            Box("agent", 2, 3, "package agent", ("pods on the nodes",), "strong"),
        ),
        (
            Arrow("person", "api"),
            Arrow("browser", "console"),
            Arrow("console", "api"),
            Arrow("cli", "api"),
            Arrow("operator", "api", "watches, writes"),
            Arrow("agent", "api", "results"),
        ),
    ),
}  # fmt: skip


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, diagram in DIAGRAMS.items():
        (FOLDER / f"{name}.svg").write_text(diagram.svg())


if __name__ == "__main__":
    main()
