"""Makes the pictures of README and docs: pages of the console with fixed data at a fixed instant.

With `--all DIRECTORY` it takes every view instead, for people to look at: at three sizes, light and dark, with few and many
nodes.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.web.conftest import FLAGS
from tests.web.stage import SECRET, StageServer
from tests.web.stage_data import NOW, Stage
from tools import browser

TARGET = Path(__file__).parent.parent / "docs" / "pictures"
SIZE = (1280, 800)
# Name, address, colour scheme, and the button that is pressed before the picture is taken.
PICTURES = (
    ("blocked", "/blocked", "light", ""),
    ("fleet", "/fleet", "dark", ""),
    ("node", "/nodes/a-r01-01", "light", ""),
    ("timeline", "/timeline", "light", ""),
    ("budgets", "/budgets", "light", ""),
    ("act", "/nodes/c-r01-01", "light", "Start maintenance"),
)

SIZES = (SIZE, (1920, 1080), (390, 844))
FLEETS = (12, 600, 5000)
VIEWS = {
    "blocked": "/blocked",
    "fleet": "/fleet",
    "fleet-table": "/fleet?as=table",
    "node": "/nodes/a-r01-01",
    "maintenances": "/maintenances",
    "budgets": "/budgets",
    "timeline": "/timeline",
    "timeline-table": "/timeline?as=table",
    "rollouts": "/rollouts",
    "what-if": "/what-if?change=limit&budget=night&limit=20",
}


def main(words: list[str]) -> int:
    from playwright.sync_api import sync_playwright

    if why := browser.prepare():
        print(f"pictures: {why}", file=sys.stderr)
        return 1
    match words:
        case []:
            folder, pictures = TARGET, taken
        case ["--all", name]:
            folder, pictures = Path(name), every_view
        case _:
            print("usage: python -m tools.pictures [--all DIRECTORY]", file=sys.stderr)
            return 2
    folder.mkdir(exist_ok=True, parents=True)
    with sync_playwright() as playwright:
        chromium: Any = playwright.chromium.launch(executable_path=str(browser.CHROMIUM), args=list(FLAGS))
        for name, picture in pictures(chromium):
            target = folder / f"console-{name}.png"
            target.write_bytes(picture)
            print(f"{target.name}: {target.stat().st_size // 1024} KiB")
        chromium.close()
    return 0


def taken(chromium: Any) -> Iterator[tuple[str, bytes]]:
    """Yield each picture of the docs with its name."""
    with StageServer(Stage(1440)) as server:
        for name, path, scheme, button in PICTURES:
            yield name, _take(chromium, server.url, path, button, SIZE, scheme)


def every_view(chromium: Any) -> Iterator[tuple[str, bytes]]:
    """Yield a picture of each view, for each number of nodes, size of the window and colour scheme."""
    for nodes in FLEETS:
        with StageServer(Stage(nodes)) as server:
            for size, scheme, (name, path) in itertools.product(SIZES, ("light", "dark"), VIEWS.items()):
                yield f"{name}-{nodes}-{size[0]}-{scheme}", _take(chromium, server.url, path, "", size, scheme)


def _take(chromium: Any, url: str, path: str, button: str, size: tuple[int, int], scheme: str) -> bytes:
    viewport = {"width": size[0], "height": size[1]}
    context = chromium.new_context(
        color_scheme=scheme, viewport=viewport, reduced_motion="reduce", timezone_id="UTC", locale="en-GB"
    )
    page = context.new_page()
    page.clock.set_fixed_time(NOW)
    page.goto(f"{url}/#{SECRET}")
    page.locator(".live", has_text="live").wait_for()
    page.goto(url + path)
    page.locator(".live", has_text="live").wait_for()
    if button:
        page.get_by_role("button", name=button).click()
        page.get_by_text("It will write").wait_for()
    page.wait_for_timeout(800)
    picture: bytes = page.screenshot(animations="disabled")
    context.close()
    return picture


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
