"""The first hour: the demo's console from its address to a maintenance of one's own, a pause of everything, and the timeline."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.build.served import HAULOUT, PATIENCE
from tests.web.conftest import Tab

SLOWLY = PATIENCE * 1000


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[str]:
    """Run the demo, and return the address that it prints."""
    argv = [str(HAULOUT), "demo", "--nodes", "30", "--write-kubeconfig", str(tmp_path / "kubeconfig")]
    log = tmp_path / "demo.log"
    with log.open("w") as output:
        process = subprocess.Popen(argv, cwd=tmp_path, env={**os.environ, "HOME": str(tmp_path)}, stdout=output)
    try:
        end = time.monotonic() + PATIENCE
        while not (found := re.search(r"^console: (\S+)$", log.read_text(), re.MULTILINE)):
            assert process.poll() is None
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.2)
        yield found[1]
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE)


def test_the_first_hour(demo: str, chromium: Any) -> None:
    context = chromium.new_context(reduced_motion="reduce")
    tab = Tab(context, demo.partition("/#")[0])
    tab.page.set_default_timeout(SLOWLY)
    tab.page.goto(demo)
    tab.live()
    the_roll_is_watched_on_the_map(tab)
    the_package_fails_and_is_rolled_back(tab)
    a_maintenance_is_started(tab)
    everything_is_paused_and_resumed(tab)
    it_stands_in_the_timeline(tab)
    tab.is_innocent()
    context.close()


def the_roll_is_watched_on_the_map(tab: Tab) -> None:
    tab.press("g", "f")
    tab.heading("Fleet")
    legend = tab.page.get_by_role("list", name="Legend")
    legend.get_by_text("in maintenance").wait_for()
    assert tab.page.locator("canvas").first.bounding_box()["height"] > 50


def the_package_fails_and_is_rolled_back(tab: Tab) -> None:
    tab.press("g", "r")
    tab.heading("Rollouts")
    tab.page.get_by_role("heading", name="tuning").wait_for()
    tab.page.get_by_text(re.compile("failed its gate|exit code|ended with")).first.wait_for()
    tab.page.locator(".tag.safe").get_by_text("complete", exact=True).wait_for()


def a_maintenance_is_started(tab: Tab) -> None:
    tab.press("Control+k")
    tab.page.keyboard.type("zone-a-02")
    tab.press("Enter")
    tab.heading("zone-a-02")
    tab.page.get_by_role("button", name="Start maintenance").click()
    dialog = tab.page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("a new fan")
    dialog.get_by_text("It will write").wait_for()
    dialog.get_by_role("button", name="Start maintenance").click()
    dialog.get_by_role("heading", name="Written").wait_for()
    tab.press("Escape")
    tab.page.get_by_role("table").get_by_text("nodemaintenance/").first.wait_for()


def everything_is_paused_and_resumed(tab: Tab) -> None:
    tab.press("g", "b")
    tab.heading("Blocked")
    for name in ("Pause all", "Resume all"):
        tab.page.get_by_role("button", name=name).click()
        dialog = tab.page.get_by_role("dialog")
        dialog.get_by_label("Reason").fill("lunch")
        dialog.get_by_text("It will write").wait_for()
        dialog.get_by_role("button", name=name.split()[0], exact=True).click()
        dialog.get_by_role("heading", name="Written").wait_for()
        tab.press("Escape")
    tab.page.get_by_role("button", name="Pause all").wait_for()


def it_stands_in_the_timeline(tab: Tab) -> None:
    tab.press("g", "t")
    tab.heading("Timeline")
    tab.page.get_by_role("button", name="Table").click()
    tab.press("/")
    tab.page.keyboard.type("a new fan")
    tab.page.get_by_role("row").filter(has_text="a new fan").first.wait_for()
