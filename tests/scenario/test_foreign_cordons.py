"""A node that a person cordoned takes a place under a budget: `status` and `explain` name it, and the act that frees it."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from haulout.base import yaml as strict_yaml
from haulout.core.budgets.declare import SURFACE as SHARED
from haulout.embedded import CUSTOM_RESOURCE_DEFINITIONS
from haulout.surfaces.nodemaintenance.declare import SURFACE as NODEMAINTENANCE
from haulout.surfaces.nodemaintenance.wire import FINALIZER
from tests.build.served import Served
from tests.build.workloads import node
from tests.scenario.test_deletions import make
from tests.scenario.test_plan_surfaces import budget
from tests.scenario.test_status import SETTINGS

ACT = "kubectl uncordon a (once the work on it is done)"


def test_a_cordon_of_a_person_takes_the_place_of_a_budget(tmp_path: Path) -> None:
    with Served(tmp_path) as served:
        (tmp_path / "haulout.yaml").write_text(yaml.safe_dump(SETTINGS))
        definitions = [
            strict_yaml.load(surface.definition(name)) for surface in (SHARED, NODEMAINTENANCE) for name in surface.crds
        ]
        served.call(lambda world: [world.server.create(CUSTOM_RESOURCE_DEFINITIONS, each) for each in definitions])
        cordoned = node("a")
        cordoned["spec"] = {"unschedulable": True}
        served.make(cordoned, node("b"), budget(1))
        make(served, "one", "b", {"phase": "Running"}, FINALIZER)
        shown = " ".join(served.run("status").stdout.split())
        assert f"1 x budget few: a is cordoned by hand: b what would help: {ACT}" in shown
        assert "cordoned by hand: a: no reason is noted" in shown
        (cordon,) = json.loads(served.run("status", "-o", "json").stdout)["fleet"]["cordons"]
        assert (cordon["node"], cordon["reason"]) == ("a", "")
        assert f"what would help: {ACT}" in " ".join(served.run("explain", "a").stdout.split())
        for words in (("explain", "b"), ("explain", "nm", "one")):
            assert f"what would help: for a: {ACT}" in " ".join(served.run(*words).stdout.split())
    assert "What helps: " in served.run("help", "unavailable").stdout
