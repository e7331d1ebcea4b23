"""`haulout lint` on manifests: schemas and rules of all kinds of ours, places, SARIF, and what is skipped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from haulout.cli.lint import command
from haulout.core.surface import ObjectLint
from haulout.settings.manifest_lint import definitions
from haulout.surfaces.registry import all_declarations

DEPLOYMENT = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n"


def linted(tmp_path: Path, text: str, *words: str) -> tuple[int, list[str]]:
    path = tmp_path / "objects.yaml"
    path.write_text(text)
    done = CliRunner().invoke(command, [str(path), *words], standalone_mode=False, catch_exceptions=False)
    return done.return_value, [line.removeprefix(f"{path}:") for line in done.output.splitlines()]


def manifest(api_version: str, kind: str, spec: str) -> str:
    return f"apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: one}}\nspec:\n{spec}"


@pytest.mark.parametrize(
    ("text", "findings"),
    [
        pytest.param(
            manifest("haulout.dev/v1alpha1", "NodeDisruptionBudget", "  maxUnavailable: 2\n"), [], id="a-good-budget"
        ),
        pytest.param(
            manifest("haulout.dev/v1alpha1", "NodeDisruptionBudget", "  maxUnavailabel: 2\n"),
            ["5:19: error: spec.maxUnavailabel: there is no such field"],
            id="an-unknown-field",
        ),
        pytest.param(
            manifest("haulout.dev/v1alpha1", "NodeDisruptionBudget", "  maxDomains: 2\n"),
            ["5:15: error: spec.maxDomains: needs spec.topologyKey, which is not set"],
            id="a-rule-of-budgets",
        ),
        pytest.param(
            manifest("haulout.dev/v1", "NodeDisruptionBudget", "  maxUnavailable: 2\n"),
            ["1:13: error: apiVersion: NodeDisruptionBudget has no version 'v1' (there are: v1alpha1)"],
            id="an-unknown-version",
        ),
        pytest.param(
            manifest("nodemaintenance.medik8s.io/v1beta1", "NodeMaintenance", "  reason: disk\n"),
            ["5:3: error: spec.nodeName: Required value"],
            id="a-maintenance-without-a-node",
        ),
        pytest.param(
            manifest("haulout.dev/v1alpha1", "NodeMaintenanceSet", "  nodes: [a, b]\n  ttl: never\n"),
            ["6:8: error: spec.ttl: is not a duration such as 90m"],
            id="a-rule-of-sets",
        ),
        pytest.param(
            manifest("haulout.dev/v1alpha1", "NodeMaintenanceSet", "  nodes: [a, a]\n"),
            ["5:10: warning: spec.nodes: names a node twice"],
            id="a-node-twice",
        ),
        pytest.param(
            manifest(
                "ngn2.nvidia.com/v1alpha1",
                "NotifyMaintenance",
                "  nodeObject: a\n  maintenanceID: 'x y'\n  maintenanceType: planned\n",
            ),
            [
                (
                    '5:3: error: spec: spec.maintenanceID "x y" is not a valid label name: it must be at most 63 characters,'
                    " start and end with an alphanumeric, and contain only alphanumerics, '-', '_' and '.'"
                )
            ],
            id="a-rule-of-notify",
        ),
        pytest.param(
            manifest(
                "skyhook.nvidia.com/v1alpha1", "Skyhook", "  packages:\n    t: {version: latest, image: ghcr.io/x/t}\n"
            ),
            [
                "6:8: error: spec.packages.t: package name [t] is not valid. must match [(?m)^[a-z][-a-z0-9]{0,41}[a-z]$]"
            ],
            id="a-rule-of-packages",
        ),
        pytest.param(
            manifest(
                "nodewright.nvidia.com/v1alpha1",
                "NodeWright",
                "  packages:\n    tune: {version: 1.0.0, image: 'ghcr.io/x/t:1.0.0'}\n",
            ),
            [
                (
                    "6:11: error: spec.packages.tune: error package tune's image 'ghcr.io/x/t:1.0.0' contains an inline tag"
                    " '1.0.0'. Do not embed a tag in the image; the package version supplies the tag"
                )
            ],
            id="a-rule-of-nodewright-alone",
        ),
    ],
)
def test_findings_have_their_place(tmp_path: Path, text: str, findings: list[str]) -> None:
    code, found = linted(tmp_path, text)
    assert found == findings
    assert code == int(any(": error: " in each for each in findings))


def test_every_document_and_every_item_of_a_list_is_checked_and_objects_of_others_are_left_alone(
    tmp_path: Path,
) -> None:
    item = "- apiVersion: nodemaintenance.medik8s.io/v1beta1\n  kind: NodeMaintenance\n  metadata: {name: NAME}\n  spec: {}\n"
    items = "apiVersion: v1\nkind: List\nitems:\n" + item.replace("NAME", "one") + item.replace("NAME", "two")
    _, found = linted(tmp_path, f"{DEPLOYMENT}---\n{items}")
    assert found == [f"{line}:9: error: spec.nodeName: Required value" for line in (11, 15)]


def test_a_manifest_without_an_object_of_ours_is_an_error_unless_it_is_skipped(tmp_path: Path) -> None:
    assert linted(tmp_path, DEPLOYMENT)[0] == 1
    assert linted(tmp_path, DEPLOYMENT, "--skip-others") == (0, [])


def test_sarif_names_rule_level_and_place(tmp_path: Path) -> None:
    text = manifest("haulout.dev/v1alpha1", "NodeDisruptionBudget", "  maxUnavailabel: 2\n")
    _, lines = linted(tmp_path, text, "-o", "sarif")
    run = json.loads("\n".join(lines))["runs"][0]
    (result,) = run["results"]
    assert (result["ruleId"], result["level"]) == ("schema", "error")
    assert result["message"]["text"] == "spec.maxUnavailabel: there is no such field"
    location = result["locations"][0]["physicalLocation"]
    assert location["artifactLocation"]["uri"] == str(tmp_path / "objects.yaml")
    assert location["region"] == {"startLine": 5, "startColumn": 19}
    assert result["ruleId"] in {each["id"] for each in run["tool"]["driver"]["rules"]}


def test_the_rules_of_surfaces_are_about_kinds_that_exist() -> None:
    rules: list[ObjectLint] = [lint for surface in all_declarations() for lint in surface.object_lint]
    assert {(each.group, each.kind) for each in rules} <= set(definitions())
