"""Pages while the console, the API server, the session or the computer fail: nothing old is shown as new, and all recovers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.rig.wait import eventually
from tests.web.conftest import Tab
from tests.web.stage import SECRET

Stages = Callable[..., Any]
Tabs = Callable[..., Tab]


def changed(server: Any, name: str, **fields: Any) -> dict[str, Any]:
    """Return the row of a node with other fields."""
    return {**next(row for row in server.stage.nodes if row["name"] == name), **fields}


def test_a_change_is_shown_without_a_request(open_stage: Stages, open_tab: Tabs) -> None:
    server = open_stage()
    tab = open_tab(server).land("/fleet?as=table&q=c-r01-01")
    asked = [each for each in server.requests if "/fleet" in each]
    server.change(changed(server, "c-r01-01", state="cordoned"))
    tab.page.get_by_role("row").filter(has_text="cordoned").wait_for()
    server.change(gone=("c-r01-01",))
    tab.says("No node matches the filter")
    assert [each for each in server.requests if "/fleet" in each] == asked


def test_a_console_that_ends_is_said_and_its_return_is_found(open_stage: Stages, open_tab: Tabs) -> None:
    server = open_stage()
    tab = open_tab(server, fixed=False).land("/nodes/a-r01-01")
    server.go_away()
    tab.says("stale since")
    tab.page.get_by_role("alert").filter(has_text="The console does not answer").wait_for()
    tab.says("what is shown may be old")
    server.stage.nodes = [changed(server, row["name"], state="cordoned", podsLeft=0) for row in server.stage.nodes]
    server.seq += 1
    server.come_back()
    tab.live()
    tab.page.get_by_text("cordoned", exact=True).wait_for()


def test_an_api_server_that_does_not_answer_is_said_and_nothing_is_safe(open_stage: Stages, open_tab: Tabs) -> None:
    server = open_stage(600)
    tab = open_tab(server).land("/nodes/a-r01-08")
    tab.page.get_by_text("NOT SAFE TO WORK").wait_for(state="detached")
    tables = {**server.stage.tables, "Node": "unreadable: no answer from the API server"}
    server.send("tables", {"seq": server.seq, "tables": tables})
    tab.says("stale since")
    tab.says("NOT SAFE TO WORK")
    tab.page.get_by_role("alert").filter(has_text="no answer from the API server").wait_for()
    server.send("tables", {"seq": server.seq, "tables": server.stage.tables})
    tab.live()


def test_a_cluster_without_an_operator_says_so_above_everything(open_stage: Stages, open_tab: Tabs) -> None:
    server = open_stage()
    server.stage.operator |= {"isLeading": False, "why": "its Lease expired 4 min ago", "act": "haulout run"}
    tab = open_tab(server).land()
    notice = tab.page.get_by_role("alert").filter(has_text="NO OPERATOR IS RUNNING")
    notice.get_by_text("its Lease expired 4 min ago").wait_for()


def test_a_kind_that_cannot_be_read_is_named(open_stage: Stages, open_tab: Tabs) -> None:
    server = open_stage()
    server.stage.tables["Pod"] = "unreadable: needs list pods"
    tab = open_tab(server).land()
    tab.page.get_by_text("Pod cannot be read").click()
    tab.says("needs list pods")


def test_a_resync_gets_the_whole_fleet_again(open_stage: Stages, open_tab: Tabs) -> None:
    server = open_stage()
    tab = open_tab(server, fixed=False).land("/fleet?as=table&q=c-r01-01")
    server.stage.nodes = [changed(server, row["name"], state="not ready") for row in server.stage.nodes]
    server.seq += 5
    row = tab.page.get_by_role("row").filter(has_text="not ready")

    def is_shown() -> bool:
        # The stream of the page may have been opened after the first words were sent.
        server.send("resync", None)
        tab.page.wait_for_timeout(300)
        return bool(row.count())

    eventually(is_shown, "the page has got everything again")
    tab.live()


def test_an_expired_session_leads_to_the_login(open_stage: Stages, open_tab: Tabs) -> None:
    server = open_stage()
    tab = open_tab(server, fixed=False).land()
    server.is_expired = True
    server.go_away()
    server.come_back()
    tab.says("The session has ended.")
    assert "shop/api" not in tab.page.inner_text("body")
    server.is_expired = False
    tab.page.context.clear_cookies()
    tab.page.get_by_label("bearer token").fill("wrong")
    tab.page.get_by_role("button", name="Open").click()
    tab.says("The token is refused")
    tab.page.get_by_label("bearer token").fill("good")
    tab.page.get_by_role("button", name="Open").click()
    tab.live()
    tab.says("shop/api")


def test_after_a_sleep_everything_is_asked_again(open_stage: Stages, open_tab: Tabs) -> None:
    server = open_stage()
    tab = open_tab(server, fixed=False)
    tab.page.clock.install()
    tab.land("/fleet?as=table&q=c-r01-01")
    server.stage.nodes = [changed(server, row["name"], state="not ready") for row in server.stage.nodes]
    server.seq += 1
    tab.page.clock.fast_forward("10:00")
    tab.page.get_by_role("row").filter(has_text="not ready").wait_for()
    tab.live()


def test_tabs_share_one_stream_and_the_next_takes_over(open_stage: Stages, open_tab: Tabs) -> None:
    server = open_stage()
    first = open_tab(server, fixed=False).land("/fleet?as=table&q=c-r01-01")
    second = Tab(first.context, first.url)
    second.page.goto(f"{first.url}/fleet?as=table&q=c-r01-01")
    second.live()
    server.change(changed(server, "c-r01-01", state="cordoned"))
    for tab in (first, second):
        tab.page.get_by_role("row").filter(has_text="cordoned").wait_for()
    assert server.streams == 1
    first.page.close()
    second.page.wait_for_timeout(500)
    server.change(changed(server, "c-r01-01", state="not ready"))
    second.page.get_by_role("row").filter(has_text="not ready").wait_for()
    assert server.streams == 1


HIDE = """hidden => {
    Object.defineProperty(document, 'hidden', {configurable: true, get: () => hidden});
    document.dispatchEvent(new Event('visibilitychange'));
}"""


def test_a_hidden_page_closes_its_stream(open_stage: Stages, open_tab: Tabs) -> None:
    server = open_stage()
    tab = open_tab(server, fixed=False).land()
    tab.page.evaluate(HIDE, True)
    eventually(lambda: server.streams == 0, "the stream of the hidden page is closed")
    tab.page.evaluate(HIDE, False)
    eventually(lambda: server.streams == 1, "the page that is shown again has a stream")
    tab.live()


def test_an_address_that_is_pasted_into_the_login_page_logs_in(open_stage: Stages, open_tab: Tabs) -> None:
    tab = open_tab(open_stage())
    tab.page.goto(tab.url)
    tab.page.get_by_label("bearer token").wait_for()
    tab.page.goto(f"{tab.url}/#of-an-earlier-start")
    tab.page.get_by_role("alert").filter(has_text="its secret is not that of the running console").wait_for()
    tab.page.goto(f"{tab.url}/#{SECRET}")
    tab.live()
    tab.heading("Blocked")
    assert "#" not in tab.page.url


def test_the_fleet_is_shown_while_the_server_cannot_say_who_i_am(open_stage: Stages, open_tab: Tabs) -> None:
    """As while the API server hangs: who I am and what I may do is asked there, and the fleet is known to the console."""
    tab = open_tab(open_stage(), fixed=False)
    tab.page.route("**/api/v1/whoami", lambda route: None)
    tab.page.goto(f"{tab.url}/fleet#{SECRET}")
    tab.says("60 nodes in 3 zones")
    tab.is_innocent()
