"""The questions that a person opens the console with, each answered in at most three keys or clicks from the landing page."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tests.web.conftest import Tab


def focused(tab: Tab, text: str) -> None:
    """Wait until what has the focus begins with a text."""
    tab.page.wait_for_function("text => document.activeElement.textContent.trim().startsWith(text)", arg=text)


def test_why_does_nothing_move_and_what_frees_most(tab: Tab) -> None:
    """No key: the landing page names the cause that keeps most nodes first, with the command that helps."""
    first = tab.page.get_by_role("listitem").first
    assert "PodDisruptionBudget shop/api allows no evictions" in first.inner_text()
    assert "kubectl -n shop rollout undo deploy/api" in first.inner_text()
    assert "stage" not in tab.page.url.split("/")[-1]
    tab.is_innocent()


def test_which_nodes_a_cause_keeps_is_one_click_to_the_map(tab: Tab) -> None:
    tab.page.get_by_role("link", name=re.compile("Show .*on the map")).first.click()
    tab.heading("Fleet")
    tab.page.get_by_text(re.compile(r"^\d+ of 60 nodes")).wait_for()
    assert "because=" in tab.page.url
    tab.page.go_back()
    tab.heading("Blocked")


def test_may_i_touch_this_machine_now(tab: Tab) -> None:
    """Ctrl-K, its name, Enter: the page of the node says whether it is safe, and if not, why."""
    tab.press("Control+k")
    tab.page.keyboard.type("a-r01-01")
    tab.press("Enter")
    tab.heading("a-r01-01")
    tab.page.get_by_text("NOT SAFE TO WORK").wait_for()
    tab.says("3 pods left")
    tab.says("api-7f9c is in CrashLoopBackOff: exit 1")
    tab.is_innocent()


def test_only_a_node_that_is_proven_empty_is_safe(open_stage: Callable[..., Any], open_tab: Callable[..., Tab]) -> None:
    tab = open_tab(open_stage(600)).land("/nodes/a-r01-08")
    tab.page.get_by_text(re.compile("^\\s*SAFE TO WORK$")).wait_for()
    tab.page.goto(f"{tab.url}/nodes/a-r01-04")
    tab.page.get_by_text("NOT SAFE TO WORK").wait_for()


def test_what_will_happen_tonight_and_when_is_it_finished(tab: Tab) -> None:
    tab.press("g", "t")
    tab.heading("Timeline")
    tab.says("ends Sat 14 Nov 05:36")
    tab.says("without Prometheus gates")


def test_what_happened_last_night_and_who_asked(tab: Tab) -> None:
    tab.press("g", "t")
    tab.page.get_by_role("button", name="Table").click()
    failed = tab.page.get_by_role("row").filter(has_text="failed")
    failed.first.wait_for()
    assert "ops" in failed.first.inner_text()
    assert "a-r01-11" in failed.first.inner_text()


def test_which_rule_let_a_node_go(tab: Tab) -> None:
    tab.press("g", "t")
    tab.page.get_by_role("button", name="Table").click()
    failed = tab.page.get_by_role("row").filter(has_text="failed").first
    failed.wait_for()
    assert "budget night, override by jo (fan is dead)" in failed.inner_text()


def test_an_address_with_the_secret_may_lead_to_any_view(
    open_stage: Callable[..., Any], open_tab: Callable[..., Tab]
) -> None:
    """What a view asks for waits until the secret is a session."""
    tab = open_tab(open_stage())
    tab.page.goto(f"{tab.url}/timeline#stage")
    tab.says("ends Sat 14 Nov 05:36")
    assert tab.page.url == f"{tab.url}/timeline"


def test_every_view_has_its_key_and_its_heading(tab: Tab) -> None:
    for key, name in zip(
        "bfmutrw",
        ["Blocked", "Fleet", "Maintenances", "Budgets and windows", "Timeline", "Rollouts", "What-if"],
        strict=True,
    ):
        tab.press("g", key)
        tab.heading(name)
        tab.page.wait_for_function("title => document.title === title", arg=f"{name} · Haulout")
    tab.page.go_back()
    tab.heading("Rollouts")
    tab.is_innocent()


def test_a_filtered_view_can_be_sent_to_a_colleague(
    open_stage: Callable[..., Any], open_tab: Callable[..., Tab]
) -> None:
    server = open_stage()
    tab = open_tab(server).land("/fleet")
    tab.press("/")
    tab.page.keyboard.type("state:draining zone=zone-a")
    tab.page.get_by_text("3 of 60 nodes").wait_for()
    colleague = open_tab(server).land()
    colleague.page.goto(tab.page.url)
    colleague.page.get_by_text("3 of 60 nodes").wait_for()


def test_the_map_is_colored_by_the_version_of_a_package(tab: Tab) -> None:
    tab.press("g", "f")
    tab.heading("Fleet")
    tab.page.get_by_label("Color").select_option(label="version of kernel")
    legend = tab.page.get_by_role("list", name="Legend")
    for text in ("2.0.4", "2.1.0", "not installed"):
        legend.get_by_text(text).wait_for()


def test_the_map_is_walked_by_arrow_keys_and_read_as_a_grid(tab: Tab) -> None:
    tab.press("g", "f")
    tab.heading("Fleet")
    # A new view takes the focus, so that a screen reader begins there.
    tab.page.wait_for_function("document.activeElement.id === 'main'")
    grid = tab.page.get_by_role("grid")
    grid.get_by_role("gridcell").first.focus()
    tab.press("ArrowRight", "ArrowRight")
    focused(tab, "a-r01-03, draining")
    tab.press("PageDown")
    focused(tab, "a-r02-01")
    tab.press("Enter")
    tab.heading("a-r02-01")


def test_an_act_by_keyboard_alone(open_stage: Callable[..., Any], open_tab: Callable[..., Tab]) -> None:
    server = open_stage()
    tab = open_tab(server).land("/nodes/c-r01-01")
    button = tab.page.get_by_role("button", name="Start maintenance")
    button.focus()
    tab.press("Enter")
    dialog = tab.page.get_by_role("dialog")
    dialog.wait_for()
    tab.press("Tab")
    tab.page.keyboard.type("new <b>fan</b>")
    dialog.get_by_text("create nodemaintenances").wait_for()
    dialog.get_by_text("the only replica").wait_for()
    dialog.get_by_text("haulout cancel nodemaintenance/start-c-r01-01").wait_for()
    assert not server.stage.acts_done
    tab.press("Enter")
    dialog.get_by_role("heading", name="Written").wait_for()
    (done,) = server.stage.acts_done
    assert done["reason"] == "new <b>fan</b>"
    assert done["args"] == {"with": "nodemaintenance"}
    tab.press("Escape")
    dialog.wait_for(state="hidden")
    focused(tab, "Start maintenance")
    tab.is_innocent()


def test_an_act_that_is_not_allowed_names_the_missing_right(tab: Tab) -> None:
    tab.page.goto(f"{tab.url}/nodes/a-r01-01")
    tab.page.get_by_role("button", name="Override").first.click()
    tab.says("needs override nodedisruptionbudgets.haulout.dev")


def test_several_maintenances_are_chosen_for_one_act(
    open_stage: Callable[..., Any], open_tab: Callable[..., Tab]
) -> None:
    server = open_stage()
    tab = open_tab(server).land("/maintenances?q=zone-a a-r01")
    tab.page.goto(f"{tab.url}/maintenances?q=nodemaintenance/psu-a-r01")
    tab.page.get_by_role("checkbox", name="Select all").check()
    tab.page.get_by_role("button", name="Cancel maintenance").click()
    dialog = tab.page.get_by_role("dialog")
    dialog.get_by_text("It will write").wait_for()
    dialog.get_by_role("button", name="Cancel maintenance").click()
    dialog.get_by_role("heading", name="Written").wait_for()
    assert len(server.stage.acts_done) == 4


def test_everything_is_paused_from_the_landing_page(
    open_stage: Callable[..., Any], open_tab: Callable[..., Tab]
) -> None:
    server = open_stage()
    tab = open_tab(server).land()
    tab.page.get_by_role("button", name="Pause all").click()
    dialog = tab.page.get_by_role("dialog")
    button = dialog.get_by_role("button", name="Pause", exact=True)
    assert button.is_disabled()
    dialog.get_by_label("Reason").fill("smoke in row 4")
    dialog.get_by_text("It will write").wait_for()
    button.click()
    dialog.get_by_role("heading", name="Written").wait_for()
    (done,) = server.stage.acts_done
    assert (done["act"], done["target"]["kind"], done["reason"]) == ("pause", "", "smoke in row 4")


def test_a_what_if_shows_before_and_after_and_the_manifest(tab: Tab) -> None:
    tab.press("g", "w")
    tab.page.get_by_label("Nodes out at once").fill("20")
    tab.page.get_by_role("button", name="Calculate").click()
    row = tab.page.get_by_role("row").filter(has_text="Ends")
    row.get_by_text("05:36").wait_for()
    row.get_by_text("40 min earlier").wait_for()
    tab.says("maxUnavailable: 20")


def test_times_are_shown_in_another_zone(open_stage: Callable[..., Any], open_tab: Callable[..., Tab]) -> None:
    tab = open_tab(open_stage(), timezone_id="Asia/Tokyo").land("/timeline")
    tab.says("ends Sat 14 Nov 14:36")
    tab.page.get_by_label("Time zone").select_option("UTC")
    tab.says("ends Sat 14 Nov 05:36")


def test_the_theme_is_kept_and_forced_colors_show_all(
    open_stage: Callable[..., Any], open_tab: Callable[..., Tab]
) -> None:
    tab = open_tab(open_stage(), forced_colors="active").land("/fleet")
    tab.press("t")
    tab.page.reload()
    tab.live()
    assert tab.page.evaluate("document.documentElement.dataset.theme") == "dark"
    tab.page.get_by_role("button", name="Map").wait_for()
    tab.is_innocent()
