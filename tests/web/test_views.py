"""Every view: no violation of accessibility, light and dark, wide and narrow; and names that break careless pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.web.conftest import Tab
from tools.browser import WEB

VIEWS = {
    "Blocked": "/blocked",
    "Fleet": "/fleet",
    "a-r01-01": "/nodes/a-r01-01",
    "Maintenances": "/maintenances",
    "Budgets and windows": "/budgets",
    "Timeline": "/timeline",
    "Rollouts": "/rollouts",
    "What-if": "/what-if?change=limit&budget=night&limit=20",
}
AXE = WEB / "node_modules" / "axe-core" / "axe.min.js"


def violations(tab: Tab) -> list[str]:
    """Return what axe-core finds. It is loaded by the debugger's way, which the page's policy does not concern."""
    session = tab.context.new_cdp_session(tab.page)
    session.send("Runtime.evaluate", {"expression": AXE.read_text() + ";0"})
    ask = (
        "axe.run(document, {resultTypes: ['violations']}).then(r => r.violations.map(v => v.id + ': ' + v.help + ': '"
        " + v.nodes.slice(0, 3).map(n => n.html.slice(0, 200)).join(' | ')))"
    )
    done = session.send("Runtime.evaluate", {"expression": ask, "returnByValue": True, "awaitPromise": True})
    session.detach()
    found: list[str] = done["result"]["value"]
    return found


SIZES = {
    "light": ("light", (1280, 800), 60),
    "dark": ("dark", (1280, 800), 60),
    "phone": ("light", (390, 844), 60),
    "large fleet": ("dark", (1920, 1080), 5000),
}


@pytest.mark.parametrize(("scheme", "size", "nodes"), SIZES.values(), ids=SIZES)
def test_no_view_violates_a_rule_of_accessibility(
    scheme: str,
    size: tuple[int, int],
    nodes: int,
    open_stage: Callable[..., Any],
    open_tab: Callable[..., Tab],
) -> None:
    tab = open_tab(open_stage(nodes), scheme, size).land()
    found = {}
    for name, path in VIEWS.items():
        tab.page.goto(tab.url + path)
        tab.heading(name)
        tab.live()
        tab.page.wait_for_timeout(300)
        found[name] = violations(tab)
    for path in ("/fleet?as=table", "/timeline?as=table"):
        tab.page.goto(tab.url + path)
        tab.page.get_by_role("table").wait_for()
        found[path] = violations(tab)
    tab.page.goto(f"{tab.url}/nodes/a-r01-01")
    tab.page.get_by_role("button", name="Start maintenance").click()
    tab.says("It will write")
    found["dialog"] = violations(tab)
    tab.press("Escape", "?")
    tab.page.get_by_role("heading", name="Keys").wait_for()
    found["keys"] = violations(tab)
    tab.press("Escape", "Control+k")
    tab.page.get_by_role("combobox", name="Go to").wait_for()
    found["palette"] = violations(tab)
    assert not {name: each for name, each in found.items() if each}
    tab.is_innocent()


def test_the_login_page_violates_no_rule(open_stage: Callable[..., Any], open_tab: Callable[..., Tab]) -> None:
    tab = open_tab(open_stage())
    tab.page.goto(tab.url)
    tab.page.get_by_label("bearer token").wait_for()
    assert violations(tab) == []


@pytest.mark.parametrize("size", [(390, 844), (1920, 1080)])
def test_names_of_any_length_and_script_stay_text_inside_of_the_page(
    size: tuple[int, int], open_stage: Callable[..., Any], open_tab: Callable[..., Tab]
) -> None:
    server = open_stage(12, hostile=True)
    tab = open_tab(server, size=size).land()
    odd = server.stage.nodes[-1]["name"]
    paths = [*VIEWS.values(), "/fleet?as=table", "/fleet?color=cause&group=pool", "/maintenances?q=%3Cscript"]
    for path in paths:
        tab.page.goto(tab.url + path)
        tab.live()
        tab.page.wait_for_timeout(200)
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= size[0], path
    tab.page.evaluate("name => { history.pushState(null, '', '/nodes/' + encodeURIComponent(name)); }", odd)
    tab.page.reload()
    tab.page.get_by_role("heading", level=1).filter(has_text="<script>").wait_for()
    assert tab.page.evaluate("document.querySelectorAll('img, iframe').length") == 0
    tab.is_innocent()
