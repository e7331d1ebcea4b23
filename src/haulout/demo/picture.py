"""The living picture of a fleet in maintenance: for a terminal, or as plain lines."""

from __future__ import annotations

import msgspec
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

# State: what it is drawn as, in which colour, and what it is called in the legend.
MARKS = {
    "operational": ("●", "green", "operational"),
    "maintenance-required": ("◍", "yellow", "wants maintenance"),
    "in-maintenance": ("▲", "bold magenta", "in maintenance"),
    "down": ("✕", "bold red", "down"),
    "done": ("●", "bold cyan", "done"),
    "": ("○", "dim", "not seen yet"),
}
ACROSS = 20


class NodeMark(msgspec.Struct, frozen=True):
    """One node in the picture and the state that its symbol shows."""

    name: str
    state: str


class Zone(msgspec.Struct, frozen=True):
    """The nodes of one zone in the picture, with the budget that holds there.

    `used` of `most` may be out of service at once.
    """

    name: str
    nodes: tuple[NodeMark, ...]
    used: int
    most: int


class Picture(msgspec.Struct, frozen=True):
    """Everything that is drawn of a fleet at one moment.

    `waiting`: how many nodes wait, and for what; `acts`: what was done last, the newest first.
    """

    title: str
    seconds: float
    zones: tuple[Zone, ...]
    waiting: tuple[tuple[int, str], ...]
    acts: tuple[str, ...]
    done: int
    total: int
    foot: str = ""


def drawn(picture: Picture) -> RenderableType:
    fleet = Table.grid(padding=(0, 2))
    for zone in picture.zones:
        room = Text(f"{zone.used} of {zone.most} out", style="bold" if zone.used >= zone.most else "")
        fleet.add_row(Text(zone.name, style="bold"), _row(zone), room)
    fleet.add_row("", _legend(), "")
    progress = Table.grid(padding=(0, 1))
    progress.add_row(
        ProgressBar(total=picture.total, completed=picture.done, width=40),
        f"{picture.done} of {picture.total} nodes",
        Text(f"{picture.seconds:.0f} s", style="dim"),
    )
    waiting = [Text(f"{count} wait: {reason}") for count, reason in picture.waiting]
    acts = [Text(act, style="" if number == 0 else "dim") for number, act in enumerate(picture.acts)]
    parts: list[RenderableType] = [fleet, "", progress, ""]
    parts += [Text("what they wait for", style="bold"), *(waiting or [Text("no node waits", style="dim")]), ""]
    parts += [Text("last acts", style="bold"), *(acts or [Text("none yet", style="dim")])]
    if picture.foot:
        parts += ["", Text(picture.foot, style="dim")]
    return Panel(Group(*parts), title=picture.title, title_align="left", padding=(1, 2))


def fitted(picture: Picture, console: Console) -> RenderableType:
    """As much of it as a terminal has room for that shows the foot above it: of the last acts, the newest."""
    room = console.height - len(console.render_lines(Text(picture.foot)))
    parts = msgspec.structs.replace(picture, foot="")
    while len(parts.acts) > 1 and len(console.render_lines(drawn(parts))) > room:
        parts = msgspec.structs.replace(parts, acts=parts.acts[:-1])
    return drawn(parts)


def line(picture: Picture) -> str:
    """The same moment in one line, for logs and pipes."""
    zones = ", ".join(f"{zone.name} {zone.used}/{zone.most} out" for zone in picture.zones)
    waits = sum(count for count, _ in picture.waiting)
    return f"{picture.seconds:6.1f} s  {picture.done}/{picture.total} done  {zones}  {waits} waiting"


def _row(zone: Zone) -> Text:
    text = Text()
    for number, node in enumerate(zone.nodes):
        glyph, style, _ = MARKS.get(node.state, MARKS[""])
        if number and not number % ACROSS:
            text.append("\n")
        text.append(f"{glyph} ", style)
    return text


def _legend() -> Text:
    text = Text()
    for state in ("operational", "maintenance-required", "in-maintenance", "down", "done"):
        glyph, style, name = MARKS[state]
        text.append(f"{glyph} ", style)
        text.append(f"{name}   ", "dim")
    return text
