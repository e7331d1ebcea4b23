"""Commands find the operator's settings in the cluster: in its Deployment and the ConfigMaps that it mounts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from haulout.base import yaml as strict_yaml
from haulout.core.budgets.declare import SURFACE as SHARED
from haulout.embedded import Json
from haulout.manifests.workload import config_volume, workload
from tests.build.served import LEASES, Served
from tests.build.workloads import node

SETTINGS = "surfaces: {profiles: {config: /etc/haulout/profiles/maintenance.yaml}}\nleader: {elect: false}\n"
PROFILES = """
intervals: {requeue: 30s}
instances: {check: [{type: hasLabel, name: never, config: {key: never}}]}
profiles: [{name: mine, operational: {transitions: [{check: never, next: maintenance-required}]}}]
"""


SERVING = {
    "labels": {"app.kubernetes.io/name": "haulout"},
    "annotations": {"haulout.dev/surfaces": "nodemaintenance"},
}


def namespace(name: str) -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def operator(place: str = "haulout-system", secret: str = "") -> list[Json]:
    return [*workload(place, "haulout:1", 0, SETTINGS, files=[config_volume("profiles", secret)])]


def profiles(place: str = "haulout-system") -> Json:
    meta = {"name": "haulout-profiles", "namespace": place}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"maintenance.yaml": PROFILES}}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with Served(tmp_path) as made:
        made.has_leader()
        labelled = node("a")
        labelled["metadata"]["labels"] = {"cloud.sap/maintenance-profile": "mine"}
        made.make(labelled, namespace("tenant"))
        yield made


def test_explain_works_from_any_folder(served: Served) -> None:
    served.make(*operator(), profiles())
    done = served.run("explain", "a")
    assert done.stderr == ""
    assert "profile mine" in done.stdout
    assert "  settings: Deployment haulout-system/haulout\n" in done.stdout


def test_every_command_says_which_settings_it_used(served: Served) -> None:
    served.make(*operator(), profiles())
    assert (
        json.loads(served.run("explain", "a", "-o", "json").stdout)["settings"] == "Deployment haulout-system/haulout"
    )
    status = json.loads(served.run("status", "-o", "json").stdout)
    assert status["installation"]["settings"] == "Deployment haulout-system/haulout"
    assert status["installation"]["surfaces"] == ["profiles"]
    plan = json.loads(served.run("plan", "--days", "1", "-o", "json").stdout)
    assert (plan["settings"], plan["incomplete"]) == ("Deployment haulout-system/haulout", [])


def test_a_file_that_is_named_wins(served: Served) -> None:
    served.make(*operator(), profiles())
    (served.folder / "mine.yaml").write_text(yaml.safe_dump({"surfaces": {"nodemaintenance": {}}}))
    assert served.run("explain", "a", "--config", "mine.yaml").stdout.splitlines()[1] == "  settings: mine.yaml"


def test_what_lies_in_a_secret_is_not_read_and_the_answer_is_incomplete(served: Served) -> None:
    served.make(*operator(secret="mine"))
    first = served.run("explain", "a").stdout.splitlines()[0]
    assert first.startswith("INCOMPLETE: surface profiles is left out: ")
    assert "it lies in Secret haulout-system/mine" in first
    assert json.loads(served.run("plan", "--days", "1", "-o", "json").stdout)["incomplete"] != []


def test_a_tenants_deployment_does_not_pass_for_the_operator(served: Served) -> None:
    served.make(*operator(), profiles(), *operator("tenant"))
    assert served.run("explain", "a").stdout.splitlines()[1] == "  settings: Deployment haulout-system/haulout"


def test_several_operators_are_not_taken_for_none(served: Served) -> None:
    served.make(namespace("other"), *operator("tenant"), *operator("other"))
    assert "several Deployments have the label" in served.run("explain", "a").stdout.splitlines()[0]


def test_without_an_operator_the_files_of_the_folder_count(served: Served) -> None:
    (served.folder / "haulout.yaml").write_text(yaml.safe_dump({"surfaces": {"nodemaintenance": {}}}))
    assert served.run("explain", "a").stdout.splitlines()[1] == "  settings: haulout.yaml"


def test_settings_that_cannot_be_read_are_named_with_their_place(served: Served) -> None:
    deployed = operator()
    broken = [
        {**each, "data": {"haulout.yaml": "surfaces: 3"}} if each["kind"] == "ConfigMap" else each for each in deployed
    ]
    served.make(*broken)
    done = served.run("explain", "a")
    assert done.returncode == 1
    error = "the settings of Deployment haulout-system/haulout: /etc/haulout/haulout.yaml:1:"
    assert done.stderr.startswith(f"Error: {error}")
    # A running operator goes on with the last valid settings.
    served.call(lambda world: world.server.patch(LEASES, "haulout-system", "haulout", {"metadata": SERVING}))
    for words in (("explain", "a"), ("status",), ("history", "a")):
        done = served.run(*words)
        assert (done.returncode, done.stderr) == (1, ""), words
        assert error in " ".join(done.stdout.split())
    shown = served.run("status").stdout
    assert "1 nodes: 1 in service (.)" in shown
    assert "surfaces: nodemaintenance" in shown
    assert "settings: the defaults of the surfaces that Lease haulout-system/haulout names" in shown


def test_a_syntax_error_in_the_file_of_this_folder_hides_no_fleet(served: Served) -> None:
    (served.folder / "haulout.yaml").write_text("surfaces: {nodemaintenance: {}\n")
    served.call(lambda world: world.server.patch(LEASES, "haulout-system", "haulout", {"metadata": SERVING}))
    for words in (("explain", "a"), ("status",)):
        done = served.run(*words)
        assert (done.returncode, done.stderr) == (1, ""), words
        assert "INCOMPLETE" in done.stdout
        assert "haulout.yaml:2:1: " in done.stdout
    assert "1 nodes: 1 in service (.)" in served.run("status").stdout


def test_without_a_file_the_surfaces_are_those_of_the_running_operator(served: Served) -> None:
    both = {**SERVING, "annotations": {"haulout.dev/surfaces": "nodemaintenance,profiles"}}
    served.call(lambda world: world.server.patch(LEASES, "haulout-system", "haulout", {"metadata": both}))
    done = served.run("status")
    assert "surface profiles is left out: " in " ".join(done.stdout.split())
    assert "surfaces: nodemaintenance\n" in done.stdout
    assert done.returncode == 0


def budget(most: int) -> Json:
    api, kind = "haulout.dev/v1alpha1", "NodeDisruptionBudget"
    return {"apiVersion": api, "kind": kind, "metadata": {"name": "few"}, "spec": {"maxUnavailable": most}}


@pytest.mark.parametrize("most, states", [(0, []), (1, ["in-maintenance"])])
def test_surfaces_without_a_file_have_the_defaults_of_run_and_obey_budgets(
    served: Served, most: int, states: list[str]
) -> None:
    served.make(strict_yaml.load(SHARED.definition("nodedisruptionbudgets")), budget(most))
    done = served.run("plan", "--surfaces", "nodemaintenance", "--maintain", "a", "--days", "1", "-o", "json")
    assert (done.returncode, done.stderr) == (0, "")
    planned = json.loads(done.stdout)
    assert planned["settings"] == "the defaults of `haulout run --surfaces`; there is no haulout.yaml here"
    assert [span["state"] for span in planned["nodes"][0]["states"] if span["state"] == "in-maintenance"] == states


def test_an_unknown_surface_is_refused_also_without_a_file(served: Served) -> None:
    done = served.run("plan", "--surfaces", "nope")
    assert done.returncode == 1
    assert done.stderr.startswith("Error: --surfaces: there is no surface 'nope' (there are: ")


def test_an_operator_without_a_file_serves_the_surfaces_of_its_flag(served: Served) -> None:
    deployment = next(each for each in operator() if each["kind"] == "Deployment")
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    container |= {"args": ["run", "--surfaces=nodemaintenance"], "volumeMounts": []}
    served.make(deployment)
    status = json.loads(served.run("status", "-o", "json").stdout)
    assert status["installation"]["settings"] == "Deployment haulout-system/haulout"
    assert status["installation"]["surfaces"] == ["nodemaintenance"]


def test_a_missing_file_of_a_surface_is_named_with_the_surface(served: Served) -> None:
    done = served.run("plan", "--surfaces", "profiles")
    assert done.returncode == 1
    assert done.stderr == (
        "Error: config/maintenance.yaml: No such file or directory (a file that surface profiles needs)\n"
    )
