"""Groups of bars as SVG, without a library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

LEFT, WIDTH, ROW, GAP, TOP = 130, 430, 15, 12, 46
COLOURS = ("#2f6f9f", "#7fb2d5", "#c9a227", "#b5523b", "#7a6a8a")


def svg(title: str, panels: Mapping[str, Mapping[str, Mapping[str, float]]]) -> str:
    """Return an SVG with panels side by side, each with its own scale, from `{panel: {group: {bar: value}}}`."""
    bars = list(dict.fromkeys(bar for groups in panels.values() for found in groups.values() for bar in found))
    rows = max(sum(len(found) * ROW + GAP for found in groups.values()) for groups in panels.values())
    height, width = TOP + rows + 34, LEFT + len(panels) * (WIDTH + 90)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="11">',
        f'<rect width="100%" height="100%" fill="#ffffff"/><text x="8" y="18" font-size="13">{escape(title)}</text>',
    ]
    for number, (name, groups) in enumerate(panels.items()):
        parts += _panel(name, groups, bars, LEFT + number * (WIDTH + 90), named=number == 0)
    for number, bar in enumerate(bars):
        x = LEFT + number * 190
        parts.append(f'<rect x="{x}" y="{height - 20}" width="10" height="10" fill="{COLOURS[number]}"/>')
        parts.append(f'<text x="{x + 14}" y="{height - 11}">{escape(bar)}</text>')
    return "\n".join((*parts, "</svg>", ""))


def _panel(
    name: str, groups: Mapping[str, Mapping[str, float]], bars: Sequence[str], left: int, *, named: bool
) -> list[str]:
    most = max((value for found in groups.values() for value in found.values()), default=1) or 1
    parts, top = [f'<text x="{left}" y="{TOP - 8}" font-weight="bold">{escape(name)}</text>'], TOP
    for group, found in groups.items():
        if named:
            middle = top + len(found) * ROW / 2 + 4
            parts.append(f'<text x="{left - 8}" y="{middle:.0f}" text-anchor="end">{escape(group)}</text>')
        for bar, value in found.items():
            long = max(1, round(WIDTH * value / most))
            colour = COLOURS[bars.index(bar)]
            parts.append(f'<rect x="{left}" y="{top}" width="{long}" height="{ROW - 3}" fill="{colour}"/>')
            parts.append(f'<text x="{left + long + 4}" y="{top + 10}">{value:,.0f}</text>')
            top += ROW
        top += GAP
    return parts
