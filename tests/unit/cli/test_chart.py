"""The files of the Helm chart follow from declarations. tests/real/test_chart.py looks at what Helm makes of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import yaml

from haulout import __version__
from haulout.manifests.rights import default_names, options
from haulout.surfaces.packages.settings import PackagesSettings
from tools.chart import CHART, files
from tools.chart.values import key, values, values_text

Json = dict[str, Any]


def test_the_chart_is_current() -> None:
    """`python -m tools.chart` makes it so."""
    made = files()
    assert {name: (CHART / name).read_text() for name in made} == made
    folders = ("templates/crds", "templates/roles", "files")
    assert {str(path.relative_to(CHART)) for folder in folders for path in (CHART / folder).iterdir()} <= made.keys()


def test_the_defaults_are_those_that_are_declared() -> None:
    found = yaml.safe_load(values_text())
    for value in values():
        place: Any = found
        for word in value.path.split("."):
            place = place[word]
        assert place == value.default, value.path


def test_every_option_and_every_name_is_a_value() -> None:
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    # Who makes the webhooks' certificate follows from webhooks.certificates.
    assert {key(name) for name in (*options(), *default_names())} - defaults.keys() == {"ownCertificates"}


def test_no_map_of_ours_takes_unknown_keys() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    # Parts of pods, whose fields are those of Kubernetes; files of surfaces, which the operator checks; other surfaces.
    free = {path for path, each in maps(schema) if each.get("additionalProperties") is not False}
    parts = ("appArmorProfile", "seLinuxOptions", "seccompProfile", "windowsOptions")
    of_kubernetes = {
        *(f"{each}.{part}" for each in ("podSecurityContext", "securityContext") for part in parts),
        *(f"{each}affinity.{part}ffinity" for each in ("", "console.") for part in ("nodeA", "podA", "podAntiA")),
        *(
            "topologySpreadConstraints[]",
            "env[].valueFrom",
            "extraVolumes[]",
            "extraVolumeMounts[]",
            "resources.claims[]",
        ),
        *("console.extraContainers[]", "console.extraVolumes[]", "console.resources.claims[]"),
        *(
            f"networkPolicy.{name}[].{selector}"
            for name in ("metricsFrom", "webhooksFrom", "consoleFrom")
            for selector in ("namespaceSelector", "podSelector")
        ),
    }
    names = {path for path, each in maps(schema) if each.get("additionalProperties", {}) not in ({}, False)}
    assert free - names == {*of_kubernetes, "profiles.config", "notify.config", "global"}


def maps(schema: Json, path: str = "") -> Iterator[tuple[str, Json]]:
    """Yield every map in a schema with its path."""
    if "object" in (schema.get("type"), *(schema["type"] if isinstance(schema.get("type"), list) else ())):
        yield path, schema
    for name, each in schema.get("properties", {}).items():
        yield from maps(each, f"{path}.{name}" if path else name)
    if isinstance(schema.get("items"), dict):
        yield from maps(schema["items"], f"{path}[]")


def test_it_is_of_this_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


def test_artifact_hub_finds_what_it_shows() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    top = CHART.parents[1]
    assert chart["icon"] == "https://haulout.dev/pictures/icon.svg"
    assert (top / "docs/pictures/icon.svg").read_bytes() == (top / "web/src/icon.svg").read_bytes()
    owners = yaml.safe_load((CHART.parent / "artifacthub-repo.yml").read_text())["owners"]
    assert [(each["name"], each["email"]) for each in chart["maintainers"]] == [
        (each["name"], each["email"]) for each in owners
    ]
    # Each annotation is a text. Lists are YAML within it.
    notes = chart["annotations"]
    assert all(isinstance(each, str) for each in notes.values())
    assert {*yaml.safe_load(notes["artifacthub.io/screenshots"])[0]} == {"title", "url"}
    assert all({*each} == {"name", "url"} for each in yaml.safe_load(notes["artifacthub.io/links"]))
    assert chart["sources"]


def test_every_setting_that_stands_for_a_value_of_the_original_is_one() -> None:
    """The table of docs/packages.md names settings and values of ours for those of the skyhook operator's chart."""
    page = (CHART.parent.parent / "docs" / "packages.md").read_text().partition("## The values of its chart")[2]
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    named = {word for line in rows for word in line.split("|")[2].split("`")[1::2]}
    settings = {word.removeprefix("surfaces.packages.") for word in named if word.startswith("surfaces.")}
    assert settings <= {field.encode_name for field in msgspec.structs.fields(PackagesSettings)}
    known = yaml.safe_load((CHART / "values.yaml").read_text())
    assert {word.split(".")[0] for word in named if not word.startswith("surfaces.")} <= known.keys()
    assert (len(rows), len(settings)) == (16, 7)
