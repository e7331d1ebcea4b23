"""The browser of the page's tests, the stage that it looks at, and a tab that remembers what a page must not do."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.web.stage import SECRET, StageServer
from tests.web.stage_data import NOW, Stage
from tools import browser

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
# In milliseconds. The slowest machine that runs these tests does other work at the same time.
PATIENCE = 20_000


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """Debian's Chromium, started once."""
    sync_api = pytest.importorskip("playwright.sync_api")
    if why := browser.prepare():
        pytest.skip(why)
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=str(browser.CHROMIUM), args=list(FLAGS))
        yield started
        started.close()


class Tab:
    """A page of the console, which remembers everything that a page must not do.

    `strays`: requests to other origins. `faults`: errors of scripts, dialogs, and violations of the policy.
    """

    def __init__(self, context: Any, url: str) -> None:
        self.url = url
        self.context = context
        self.page = context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.strays: list[str] = []
        self.faults: list[str] = []
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("dialog", self._asked)
        self.page.on("request", self._requested)
        self.page.on("console", self._logged)

    def _asked(self, dialog: Any) -> None:
        self.faults.append(dialog.message)
        dialog.dismiss()

    def _requested(self, request: Any) -> None:
        if not request.url.startswith((f"{self.url}/", "data:", "blob:", "about:")):
            self.strays.append(request.url)

    def _logged(self, message: Any) -> None:
        if "Content Security Policy" in message.text or "Trusted" in message.text:
            self.faults.append(message.text)

    def land(self, path: str = "/") -> Tab:
        """Open the address that the console prints, and then a view."""
        self.page.goto(f"{self.url}/#{SECRET}")
        self.live()
        if path != "/":
            self.page.goto(f"{self.url}{path}")
            self.live()
        return self

    def live(self) -> None:
        self.page.locator(".live", has_text="live").wait_for()

    def says(self, text: str) -> None:
        """Wait until the page shows a text."""
        self.page.get_by_text(text).first.wait_for()

    def heading(self, name: str) -> None:
        self.page.get_by_role("heading", name=name, level=1, exact=True).wait_for()

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def settles(self, path: str) -> None:
        """Wait until the address has this path."""
        self.page.wait_for_url(f"{self.url}{path}")

    def is_innocent(self) -> None:
        assert not self.faults
        assert not self.strays
        assert self.page.evaluate("window.__ran || 0") == 0


@pytest.fixture
def open_stage() -> Iterator[Callable[..., StageServer]]:
    with contextlib.ExitStack() as held:
        yield lambda nodes=60, **how: held.enter_context(StageServer(Stage(nodes, **how)))


@pytest.fixture
def open_tab(chromium: Any) -> Iterator[Callable[..., Tab]]:
    """Open a tab with the stage's clock. `fixed`: it stands still; else it runs from that instant."""
    with contextlib.ExitStack() as held:

        def made(
            server: Any, scheme: str = "light", size: tuple[int, int] = (1280, 800), *, fixed: bool = True, **how: Any
        ) -> Tab:
            viewport = {"width": size[0], "height": size[1]}
            context = chromium.new_context(color_scheme=scheme, viewport=viewport, reduced_motion="reduce", **how)
            held.callback(context.close)
            tab = Tab(context, server.url)
            if fixed:
                tab.page.clock.set_fixed_time(NOW)
            return tab

        yield made


@pytest.fixture
def tab(open_stage: Callable[..., StageServer], open_tab: Callable[..., Tab]) -> Tab:
    """A tab on a stage of sixty nodes, on the landing page."""
    return open_tab(open_stage()).land()
