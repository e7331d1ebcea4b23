"""Draws a fleet in maintenance: as a live picture for a terminal, or as plain lines."""

from __future__ import annotations

from textwrap import shorten

import msgspec
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

# For each state: its symbol, its colour, and its name in the legend.
MARKS = {
    "operational": ("●", "green", "operational"),
    "maintenance-required": ("◍", "yellow", "wants maintenance"),
    "in-maintenance": ("▲", "bold magenta", "in maintenance"),
    "down": ("✕", "bold red", "down"),
    "done": ("◆", "bold cyan", "done"),
    "without": ("○", "dim", "without it"),
    "old": ("●", "green", "has"),
    "changing": ("▲", "bold magenta", "is changed"),
    "failing": ("✕", "bold red", "fails"),
    "new": ("◆", "bold cyan", "has"),
    "": ("○", "dim", "not seen yet"),
}
IMAGES = tuple(
    (state, MARKS[state][2]) for state in ("operational", "maintenance-required", "in-maintenance", "down", "done")
)
ACROSS = 20
LONGEST_NOTE = 80


class NodeMark(msgspec.Struct, frozen=True):
    """One node in the picture and the state that its symbol shows."""

    name: str
    state: str


class Zone(msgspec.Struct, frozen=True):
    """The nodes of one zone in the picture.

    `room`: the text beside them. `is_full`: whether no further node of the zone may begin now.
    """

    name: str
    nodes: tuple[NodeMark, ...]
    room: str
    is_full: bool = False


class Picture(msgspec.Struct, frozen=True):
    """The content of the picture of a fleet at one moment.

    `waiting`: what nodes wait for. `acts`: what happened last, the newest first. `legend`: the states and their meanings.
    """

    title: str
    seconds: float
    zones: tuple[Zone, ...]
    waiting: tuple[str, ...]
    acts: tuple[str, ...]
    done: int
    total: int
    foot: str = ""
    legend: tuple[tuple[str, str], ...] = IMAGES


def draw(picture: Picture) -> RenderableType:
    fleet = Table.grid(padding=(0, 2))
    for zone in picture.zones:
        fleet.add_row(Text(zone.name, style="bold"), _row(zone), Text(zone.room, style="bold" if zone.is_full else ""))
    fleet.add_row("", _legend(picture.legend), "")
    progress = Table.grid(padding=(0, 1))
    progress.add_row(
        ProgressBar(total=picture.total, completed=picture.done, width=40),
        f"{picture.done} of {picture.total} nodes",
        Text(f"{picture.seconds:.0f} s", style="dim"),
    )
    waiting = [Text(text) for text in picture.waiting]
    acts = [Text(act, style="" if number == 0 else "dim") for number, act in enumerate(picture.acts)]
    parts: list[RenderableType] = [fleet, "", progress, ""]
    parts += [Text("what they wait for", style="bold"), *(waiting or [Text("no node waits", style="dim")]), ""]
    parts += [Text("last acts", style="bold"), *(acts or [Text("none yet", style="dim")])]
    if picture.foot:
        parts += ["", Text(picture.foot, style="dim")]
    return Panel(Group(*parts), title=picture.title, title_align="left", padding=(1, 2))


def fit(picture: Picture, console: Console) -> RenderableType:
    """Return the picture with as many of the newest acts as fit into the terminal above the foot."""
    room = console.height - len(console.render_lines(Text(picture.foot)))
    parts = msgspec.structs.replace(picture, foot="")
    while len(parts.acts) > 1 and len(console.render_lines(draw(parts))) > room:
        parts = msgspec.structs.replace(parts, acts=parts.acts[:-1])
    return draw(parts)


def line(picture: Picture) -> str:
    """Return the picture as one line of text, for an output that is not a terminal."""
    zones = ", ".join(f"{zone.name} {zone.room}" for zone in picture.zones)
    waits = f"  {shorten(picture.waiting[0], LONGEST_NOTE, placeholder='…')}" if picture.waiting else ""
    return f"{picture.seconds:6.1f} s  {picture.done}/{picture.total} done  {zones}{waits}"


def _row(zone: Zone) -> Text:
    text = Text()
    for number, node in enumerate(zone.nodes):
        glyph, style, _ = MARKS.get(node.state, MARKS[""])
        if number and not number % ACROSS:
            text.append("\n")
        text.append(f"{glyph} ", style)
    return text


def _legend(states: tuple[tuple[str, str], ...]) -> Text:
    text = Text()
    for state, name in states:
        glyph, style, _ = MARKS[state]
        text.append(f"{glyph} ", style)
        text.append(f"{name}   ", "dim")
    return text
