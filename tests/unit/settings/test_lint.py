"""`haulout lint`: all findings at once, with their places; warnings are told from errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click import ClickException
from click.testing import CliRunner

from haulout.cli.lint import command
from haulout.explain.setup import read_setup

GOOD = """\
intervals: {requeue: 30s}
instances:
  check:
  - {type: hasLabel, name: one, config: {key: x, value: "1"}}
  - {type: hasLabel, name: two, config: {key: x, value: "2"}}
  - {type: hasLabel, name: any, config: {key: x}}
  - {type: maxMaintenance, name: few, config: {max: 1}}
profiles:
- name: p
  operational: {transitions: [{check: CHECK, next: maintenance-required}]}
  maintenance-required: {transitions: [{check: one || two || any || few, next: operational}]}
"""


def linted(tmp_path: Path, text: str, *words: str) -> tuple[int, list[str]]:
    path = tmp_path / "maintenance.yaml"
    path.write_text(text)
    done = CliRunner().invoke(command, [str(path), *words], standalone_mode=False)
    return done.return_value, [line.removeprefix(f"{path}:") for line in done.output.splitlines()]


@pytest.mark.parametrize(
    ("check", "findings"),
    [
        pytest.param("any && !two", [], id="fine"),
        pytest.param(
            "one && two",
            [
                "10:39: warning: profiles.0.operational.transitions.0.check: can never pass: its checks exclude each other"
            ],
            id="one-label-has-one-value",
        ),
        pytest.param(
            "one && !any",
            [
                "10:39: warning: profiles.0.operational.transitions.0.check: can never pass: its checks exclude each other"
            ],
            id="a-value-needs-the-label",
        ),
        pytest.param(
            "few && !few",
            [
                "10:39: warning: profiles.0.operational.transitions.0.check: can never pass: its checks exclude each other"
            ],
            id="contradiction",
        ),
    ],
)
def test_transitions_that_can_never_pass(tmp_path: Path, check: str, findings: list[str]) -> None:
    assert linted(tmp_path, GOOD.replace("CHECK", f'"{check}"')) == (0, findings)


def test_dead_ends_unused_instances_and_unreached_states(tmp_path: Path) -> None:
    text = GOOD.replace("CHECK", "one").replace("{check: one || two || any || few, next: operational}", "")
    code, lines = linted(tmp_path, text + "  in-maintenance: {transitions: [{check: any, next: operational}]}\n")
    assert code == 0
    assert lines == [
        '5:5: warning: instances.check.1: "two" is used by no profile (use it or remove it)',
        '7:5: warning: instances.check.3: "few" is used by no profile (use it or remove it)',
        "9:3: warning: profiles.0: a node never leaves maintenance-required (add a transition)",
        "12:19: warning: profiles.0.in-maintenance: no transition leads here (add one, or remove the state)",
    ]


def test_strict_lets_warnings_fail(tmp_path: Path) -> None:
    assert linted(tmp_path, GOOD.replace("CHECK", '"one && two"'), "--strict")[0] == 1


def test_errors_come_all_at_once(tmp_path: Path) -> None:
    code, lines = linted(tmp_path, GOOD.replace("CHECK", "nope").replace("max: 1", "max: many"))
    assert code == 1
    assert [line.split(": ")[1] for line in lines] == ["error", "error"]
    assert 'the requested check instance "nope" is not known to the registry' in lines[1]


def test_settings_are_known_by_their_content(tmp_path: Path) -> None:
    code, lines = linted(tmp_path, "log: {levl: debug}\nsurfaces: {profiles: {}}\n")
    assert (code, lines) == (1, ["1:7: error: log.levl: unknown setting (did you mean level?)"])


ESX = """\
intervals:
  check: {period: 5m, jitter: 0.1}
  podEviction: {period: 20s, timeout: 5m}
  vmShutdown: {period: 20s, timeout: 3m}
vCenters:
  templateUrl: https://vcenter-$AZ.test
  credentials:
    a: {username: haulout}
    2: {username: haulout}
"""
KUBERNIKUS = """\
intervals:
  requeue: 30s
  podDeletion: {period: 20s, timeout: 5m}
  podEviction: {period: 20s, timeout: 5m}
"""


@pytest.mark.parametrize("text", [ESX, KUBERNIKUS], ids=["esx", "kubernikus"])
def test_files_about_machines_are_known_by_their_content(tmp_path: Path, text: str) -> None:
    assert linted(tmp_path, text) == (0, [])


@pytest.mark.parametrize(
    ("text", "code", "findings"),
    [
        pytest.param(
            ESX.replace("jitter: 0.1", "jitter: 0").replace("timeout: 3m", "timeout: long"),
            1,
            [
                "2:31: error: intervals.check.jitter: requires value >= 0.001",
                (
                    '4:38: error: intervals.vmShutdown.timeout: time: invalid duration "long"'
                    " (a duration such as 90s or 1h30m, or a number of seconds)"
                ),
            ],
            id="esx-wrong",
        ),
        pytest.param(
            ESX.replace("-$AZ", "") + "    eu-1b: {username: haulout, pasword: x}\nalarm: [Host down]\n",
            0,
            [
                "6:3: warning: vCenters.templateUrl: all 3 zones have the same vCenter ($AZ stands for the zone)",
                (
                    "10:5: warning: vCenters.credentials.eu-1b: no node is in this zone: zones have one letter or digit"
                    " (the last character of the label, such as a)"
                ),
                (
                    "10:32: warning: vCenters.credentials.eu-1b.pasword: this key is not known, and ignored"
                    " (known: password, username)"
                ),
                '11:1: warning: alarm: this key is not known, and ignored (did you mean "alarms"?)',
            ],
            id="esx-odd",
        ),
        pytest.param(
            KUBERNIKUS.replace("  requeue: 30s\n", "") + "cloudProviderSecret: {name: cloud}\n",
            1,
            [
                (
                    "2:3: error: intervals.requeue: missing required field"
                    " (needed: a duration such as 90s or 1h30m, or a number of seconds)"
                )
            ],
            id="kubernikus-wrong",
        ),
        pytest.param(
            KUBERNIKUS.replace("30s", "${often}") + "often: 30s\ncloudProviderSecret: {name: cloud}\n",
            0,
            [
                (
                    "6:1: warning: cloudProviderSecret: is ignored, and the file with the credentials is read"
                    " (name and namespace are both needed)"
                )
            ],
            id="kubernikus-odd-with-a-variable",
        ),
    ],
)
def test_files_about_machines(tmp_path: Path, text: str, code: int, findings: list[str]) -> None:
    assert linted(tmp_path, text) == (code, findings)


def test_a_file_that_could_be_any_is_known_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "esx.yaml"
    path.write_text("intervals: {}\n")
    done = CliRunner().invoke(command, [str(path), "-o", "json"], standalone_mode=False)
    assert done.return_value == 1
    assert "vCenters.templateUrl" in {finding["path"] for finding in json.loads(done.output)}


@pytest.mark.parametrize(("name", "warnings"), [("on", 1), ("1e3", 0), ("${NAME:q}", 0)])
def test_a_profile_is_looked_for_by_the_name_that_it_has(tmp_path: Path, name: str, warnings: int) -> None:
    text = GOOD.replace("CHECK", "any").replace("- name: p", f"- name: {name}").replace("name: any", 'name: "${A:any}"')
    code, found = linted(tmp_path, text)
    assert code == 0
    assert len(found) == warnings


def test_two_profiles_of_one_name(tmp_path: Path) -> None:
    """The later one counts, as in the original."""
    code, findings = linted(tmp_path, GOOD.replace("CHECK", "any") + "- name: p\n")
    assert code == 0
    assert '12:9: warning: profiles.1.name: replaces the earlier profile named "p" (give it another name)' in findings


@pytest.mark.parametrize(
    ("kind", "right"),
    [
        pytest.param("Deployment", "haulout.yaml, maintenance.yaml, ", id="any kind"),
        pytest.param("ConfigMap", "write what stands under its `data` into a file of its own", id="around settings"),
    ],
)
def test_an_object_of_kubernetes_is_named_by_its_kind(tmp_path: Path, kind: str, right: str) -> None:
    code, (finding,) = linted(tmp_path, f"apiVersion: apps/v1\nkind: {kind}\nmetadata: {{name: x}}\n")
    assert code == 1
    assert finding.startswith(f"1:1: error: this is a {kind}, not a configuration file ({right}")


def test_explain_and_plan_refuse_an_object_of_kubernetes_as_settings(tmp_path: Path) -> None:
    path = tmp_path / "deployment.yaml"
    path.write_text("apiVersion: apps/v1\nkind: Deployment\n")
    with pytest.raises(ClickException, match=r"deployment.yaml: this is a Deployment, not a configuration file"):
        read_setup(str(path))


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "---\n", "{}\n"])
def test_an_empty_file_is_said_to_be_empty(tmp_path: Path, text: str) -> None:
    code, lines = linted(tmp_path, text)
    right = "haulout.yaml has `surfaces`: `haulout init` writes one; maintenance.yaml has `instances` and `profiles`"
    assert (code, lines) == (1, [f"1:1: error: the file is empty ({right})"])
