"""Makes the pictures of README and docs: pages of the console with fixed data at a fixed instant."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.web.conftest import FLAGS
from tests.web.stage import SECRET, StageServer
from tests.web.stage_data import NOW, Stage
from tools import browser

TARGET = Path(__file__).parent.parent / "docs" / "pictures"
SIZE = {"width": 1280, "height": 800}
# Name, address, colour scheme, and the button that is pressed before the picture is taken.
PICTURES = (
    ("blocked", "/blocked", "light", ""),
    ("fleet", "/fleet", "dark", ""),
    ("node", "/nodes/a-r01-01", "light", ""),
    ("timeline", "/timeline", "light", ""),
    ("budgets", "/budgets", "light", ""),
    ("act", "/nodes/c-r01-01", "light", "Start maintenance"),
)


def main() -> int:
    from playwright.sync_api import sync_playwright

    if why := browser.prepare():
        print(f"pictures: {why}", file=sys.stderr)
        return 1
    TARGET.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        chromium: Any = playwright.chromium.launch(executable_path=str(browser.CHROMIUM), args=list(FLAGS))
        for name, picture in taken(chromium):
            target = TARGET / f"console-{name}.png"
            target.write_bytes(picture)
            print(f"{target.name}: {target.stat().st_size // 1024} KiB")
        chromium.close()
    return 0


def taken(chromium: Any) -> Iterator[tuple[str, bytes]]:
    """Yield each picture with its name."""
    with StageServer(Stage(1440)) as server:
        for name, path, scheme, button in PICTURES:
            context = chromium.new_context(
                color_scheme=scheme, viewport=SIZE, reduced_motion="reduce", timezone_id="UTC", locale="en-GB"
            )
            yield name, _take(context.new_page(), server.url, path, button)
            context.close()


def _take(page: Any, url: str, path: str, button: str) -> bytes:
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
    return picture


if __name__ == "__main__":
    sys.exit(main())
