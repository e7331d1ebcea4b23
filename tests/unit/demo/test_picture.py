"""The picture of a fleet in maintenance, as a terminal shows it."""

from __future__ import annotations

import io

import pytest
from rich.console import Console, RenderableType

from haulout.demo.picture import NodeMark, Picture, Zone, draw, fit, line

ACTS = tuple(f"node-{number} is operational" for number in range(6))


def picture() -> Picture:
    zones = tuple(
        Zone(name, tuple(NodeMark(f"{name}-{number}", "done") for number in range(20)), "1 of 2 out")
        for name in ("a", "b")
    )
    return Picture("a roll", 3.0, zones, ("7 wait: few: 2 of 2 are out",), ACTS, 40, 60, "export KUBECONFIG=/tmp/k")


def shown(made: RenderableType, width: int = 80, height: int = 24) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=height)
    return ["".join(part.text for part in each) for each in console.render_lines(made)]


@pytest.mark.parametrize(("height", "acts"), [(40, 6), (22, 6), (19, 3), (10, 1)])
def test_a_low_terminal_shows_fewer_of_the_last_acts(height: int, acts: int) -> None:
    console = Console(file=io.StringIO(), width=80, height=height)
    lines = shown(fit(picture(), console))
    assert [act for act in ACTS if any(act in each for each in lines)] == list(ACTS[:acts])


@pytest.mark.parametrize("height", [18, 20, 24, 40])
def test_the_picture_fits_below_its_foot(height: int) -> None:
    console = Console(file=io.StringIO(), width=80, height=height)
    assert len(shown(fit(picture(), console))) <= height - 1


def test_the_foot_stands_within_the_whole_picture_alone() -> None:
    console = Console(file=io.StringIO(), width=80, height=40)
    foot = picture().foot
    assert any(foot in each for each in shown(draw(picture())))
    assert not any(foot in each for each in shown(fit(picture(), console)))


def test_without_a_terminal_a_moment_is_one_line() -> None:
    assert line(picture()) == "   3.0 s  40/60 done  a 1 of 2 out, b 1 of 2 out  7 wait: few: 2 of 2 are out"
