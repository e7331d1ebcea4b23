"""The Helm chart installs what `haulout manifests` prints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from haulout import __version__
from haulout.base.gotemplate import Map, render
from haulout.cli.root import main
from tools.chart import CHART, templates

Json = dict[str, Any]


def as_go(value: Any) -> Any:
    return Map({name: as_go(each) for name, each in value.items()}) if isinstance(value, dict) else value


def installed(**values: Any) -> list[Json]:
    """As helm renders it; it takes the definitions as they are."""
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    data = as_go({"Release": {"Namespace": "haulout-system"}, "Values": {**defaults, **values}})
    texts = [render(path.read_text(), data) for path in sorted((CHART / "templates").iterdir())]
    documents = [each for text in texts for each in yaml.safe_load_all(text) if each]
    return [*documents, *(yaml.safe_load(path.read_text()) for path in sorted((CHART / "crds").iterdir()))]


def by_name(documents: list[Json]) -> dict[tuple[str, str], Json]:
    return {(each["kind"], each["metadata"]["name"]): each for each in documents}


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> list[Json]:
    assert main(["manifests", "--without-namespace", *words]) == 0
    return list(yaml.safe_load_all(capsys.readouterr().out))


def test_the_templates_are_current() -> None:
    """`python -m tools.chart` makes them so."""
    assert {path.name: path.read_text() for path in (CHART / "templates").iterdir()} == dict(templates())


def test_it_installs_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert by_name(installed()) == by_name(printed(capsys))


@pytest.mark.parametrize("metal3", [False, True], ids=["plain", "metal3"])
def test_clusterapi_is_installed_on_request(capsys: pytest.CaptureFixture[str], metal3: bool) -> None:
    expected = by_name(printed(capsys, "clusterapi", *(["--metal3"] if metal3 else [])))
    found = by_name(installed(surfaces={"clusterapi": True}, metal3=metal3))
    roles = {(kind, "haulout-clusterapi") for kind in ("ClusterRole", "ClusterRoleBinding")}
    assert {name: found[name] for name in roles} == {name: expected[name] for name in roles}


def test_values_are_what_they_say(capsys: pytest.CaptureFixture[str]) -> None:
    settings = 'log: {format: "json"}\nsurfaces:\n  nodemaintenance: {}\n'
    found = by_name(installed(image="here:1", replicas=3, settings=settings, surfaces={"nodemaintenance": True}))
    assert ("ClusterRole", "haulout-profiles") not in found
    assert found["ConfigMap", "haulout"]["data"]["haulout.yaml"] == settings
    deployment = found["Deployment", "haulout"]["spec"]
    assert (deployment["replicas"], deployment["template"]["spec"]["containers"][0]["image"]) == (3, "here:1")


def test_it_is_of_this_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)
    assert all(Path(path).is_file() for path in (CHART / "crds").iterdir())
