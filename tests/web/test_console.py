"""The real console on an embedded cluster, in a real browser: an act is written, and what happens is shown by itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from haulout.base import yaml as strict_yaml
from haulout.embedded import CUSTOM_RESOURCE_DEFINITIONS, NODES, Resource
from haulout.surfaces.registry import definition
from tests.build.console import ConsoleCaller, running_console
from tests.build.served import Served
from tests.build.workloads import node
from tests.scenario.test_plan_surfaces import budget, maintenance
from tests.scenario.test_status import SETTINGS
from tests.web.conftest import Tab

NODE_MAINTENANCES = Resource("nodemaintenance.medik8s.io", "v1beta1", "nodemaintenances")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder: Path = tmp_path_factory.mktemp("console")
    with Served(folder) as made:
        (folder / "haulout.yaml").write_text(yaml.safe_dump(SETTINGS))
        names = ("nodedisruptionbudgets", "maintenancerecords", "nodemaintenances")
        definitions = [strict_yaml.load(definition(name)) for name in names]
        made.call(lambda world: [world.server.create(CUSTOM_RESOURCE_DEFINITIONS, each) for each in definitions])
        made.make(*map(node, ("a", "b", "c")), budget(1), maintenance("one", "a"), maintenance("two", "b"))
        yield made


@pytest.fixture(scope="module")
def console(served: Served) -> Iterator[ConsoleCaller]:
    with running_console(served) as made:
        yield made


@pytest.fixture
def tab(console: ConsoleCaller, chromium: Any) -> Iterator[Tab]:
    context = chromium.new_context(reduced_motion="reduce")
    opened = Tab(context, f"http://127.0.0.1:{console.port}")
    opened.page.goto(f"{opened.url}/#{console.secret}")
    opened.live()
    yield opened
    opened.is_innocent()
    context.close()


def test_every_view_of_the_real_console_opens(tab: Tab) -> None:
    for name in ("Blocked", "Fleet", "Maintenances", "Budgets and windows", "Timeline", "Rollouts", "What-if"):
        tab.page.get_by_role("navigation").get_by_role("link", name=name.split()[0]).click()
        tab.heading(name)
        tab.page.wait_for_timeout(200)
    assert tab.page.get_by_text("This view failed").count() == 0


def test_a_change_of_the_cluster_is_shown_by_itself(served: Served, tab: Tab) -> None:
    tab.page.goto(f"{tab.url}/nodes/c")
    tab.page.get_by_text("in service", exact=True).wait_for()
    served.call(lambda world: world.server.patch(NODES, "", "c", {"spec": {"unschedulable": True}}))
    tab.page.get_by_text("cordoned", exact=True).wait_for()
    served.call(lambda world: world.server.patch(NODES, "", "c", {"spec": {"unschedulable": None}}))
    tab.page.get_by_text("in service", exact=True).wait_for()


def test_a_maintenance_is_started_through_the_dialog(served: Served, tab: Tab) -> None:
    tab.page.goto(f"{tab.url}/nodes/c")
    tab.page.get_by_role("button", name="Start maintenance").click()
    dialog = tab.page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("a <b>fan</b>")
    dialog.get_by_text("It will write").wait_for()
    dialog.get_by_text("nodemaintenances").first.wait_for()
    dialog.get_by_role("button", name="Start maintenance").click()
    dialog.get_by_role("heading", name="Written").wait_for()
    made: list[Any] = served.call(lambda world: world.server.list(NODE_MAINTENANCES))
    assert "a <b>fan</b>" in [each["spec"].get("reason") for each in made]
    tab.press("Escape")
    tab.page.get_by_role("table").get_by_text("nodemaintenance/").first.wait_for()
