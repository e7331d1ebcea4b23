"""`haulout lint` on manifests: schemas and rules of all kinds of ours, places, SARIF, and what is skipped."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from haulout.cli.lint import command
from haulout.core.surface import ObjectLint
from haulout.settings.manifest_lint import definitions
from haulout.surfaces.registry import all_declarations
from tools.tiers import ROOT

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
    assert location["artifactLocation"]["uri"] == f"file://{tmp_path}/objects.yaml"
    assert location["region"] == {"startLine": 5, "startColumn": 19}
    assert result["ruleId"] in {each["id"] for each in run["tool"]["driver"]["rules"]}


def test_sarif_names_a_relative_file_from_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my nodes.yaml").write_text(DEPLOYMENT)
    done = CliRunner().invoke(command, ["my nodes.yaml", "-o", "sarif"], standalone_mode=False)
    (result,) = json.loads(done.output)["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "my%20nodes.yaml"


BAD_BUDGET = manifest("haulout.dev/v1alpha1", "NodeDisruptionBudget", "  maxUnavailabel: 2\n")
# What lies in the folders of other people's manifests.
ORDINARY = {
    "empty": ("manifests/empty.yaml", ""),
    "only-a-comment": ("manifests/notes.yaml", "# nothing yet\n"),
    "empty-documents": ("manifests/separators.yaml", f"---\n# from here\n---\n{DEPLOYMENT}---\n"),
    "values": ("deploy/app/values.yaml", "image: {tag: '1'}\nlog: {level: trace}\nlisten: 80\n"),
    "our-chart's-values": ("deploy/haulout-values.yaml", "surfaces: {profiles: true}\nreplicas: 3\n"),
    "a-chart": ("deploy/app/Chart.yaml", "apiVersion: v2\nname: app\nversion: 0.1.0\n"),
    "a-kustomization": ("deploy/kustomization.yaml", "resources: [a.yaml]\n"),
    "a-template": ("deploy/app/templates/x.yaml", "{{- if .Values.x }}\napiVersion: v1\nkind: ConfigMap\n{{- end }}\n"),
    "a-template-that-parses": (
        "deploy/app/templates/budget.yaml",
        manifest("haulout.dev/v1alpha1", "NodeDisruptionBudget", "  maxUnavailable: '{{ .Values.max }}'\n"),
    ),
    "a-list": ("nodes/names.yaml", "- a\n- b\n"),
    "another-tag": ("deploy/stack.yaml", "Name: !Sub [a\n"),
}


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in ORDINARY.values():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", [name for name, _ in ORDINARY.values()], ids=ORDINARY)
def test_what_is_not_ours_is_skipped(repository: Path, name: str) -> None:
    done = CliRunner().invoke(command, ["--skip-others", name], standalone_mode=False, catch_exceptions=False)
    assert (done.return_value, done.output) == (0, "")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("manifests/budget.yaml", BAD_BUDGET),
        ("manifests/both.yaml", f"---\n# ours\n---\n{BAD_BUDGET}---\n{DEPLOYMENT}---\n"),
        ("manifests/broken.yaml", f"{BAD_BUDGET}  a: [\n"),
        ("haulout.yaml", "log: [\n"),
        ("haulout.yaml", ""),
        ("haulout-prod.yaml", "surfaces: {profile: {}}\n"),
        ("deploy/maintenance.yaml", "profiles: [\n"),
        ("deploy/rules.yaml", "intervals: {requeue: never}\nprofiles: []\n"),
    ],
    ids=[
        "an object",
        "among others",
        "broken",
        "settings",
        "no settings",
        "of a stage",
        "a name of ours",
        "by its keys",
    ],
)
def test_what_is_ours_is_checked_among_others(repository: Path, name: str, text: str) -> None:
    (repository / name).write_text(text)
    done = CliRunner().invoke(
        command, ["--strict", "--skip-others", name], standalone_mode=False, catch_exceptions=False
    )
    assert done.return_value == 1, done.output
    assert f"{name}:" in done.output


def test_the_hook_takes_what_may_be_ours_and_no_templates() -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    taken = {
        name for name, _ in ORDINARY.values() if re.search(hook["files"], name) and not re.search(hook["exclude"], name)
    }
    assert taken == {name for name, _ in ORDINARY.values() if "/templates/" not in name}
    assert all(
        re.search(hook["files"], name) for name in ("haulout.yaml", "ops/maintenance.yml", "nodes/a/budgets.yaml")
    )
    assert not any(re.search(hook["files"], name) for name in ("values.yaml", "maintenance-page.yaml", "src/x.yaml"))
    assert hook["entry"] == "haulout lint --skip-others"


def test_the_rules_of_surfaces_are_about_kinds_that_exist() -> None:
    rules: list[ObjectLint] = [lint for surface in all_declarations() for lint in surface.object_lint]
    assert {(each.group, each.kind) for each in rules} <= set(definitions())
