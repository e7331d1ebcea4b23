"""The reference pages agree with the declarations in the code."""

from __future__ import annotations

import msgspec
import pytest
import yaml

from haulout.cli.original import flags_of
from haulout.settings.blocks import File
from haulout.settings.environment import environment_names
from haulout.surfaces.registry import all_declarations, definition_of, originals, surface
from tools.reference import FOLDER, pages, settings

PAGES = pages()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_up_to_date(name: str) -> None:
    """`python -m tools.reference` makes it so."""
    assert (FOLDER / name).read_text() == PAGES[name]


def test_no_page_is_written_by_hand() -> None:
    assert {path.name for path in FOLDER.iterdir()} == PAGES.keys()


def test_every_setting_says_what_it_is_for() -> None:
    fields = list(settings._fields(File, ()))
    assert [path for path, _, _, setting in fields if not setting.help] == []


def test_every_setting_that_the_environment_can_set_is_there() -> None:
    assert [name for name in environment_names() if f"`{name}`" not in PAGES["settings.md"]] == []


def test_every_flag_of_every_original_is_there() -> None:
    found = [surface(name) for name in originals().values()]
    flags = {flag.name for each in found if each.original and not each.original.starts for flag in flags_of(each)}
    assert [name for name in flags if f"`--{name}`" not in PAGES["flags.md"]] == []


def test_every_metric_is_there() -> None:
    names = [metric.name for each in all_declarations() for metric in each.metrics]
    assert [name for name in names if f"`{name}`" not in PAGES["metrics.md"]] == []


def test_every_field_of_every_definition_is_there() -> None:
    for each in all_declarations():
        for name in each.crds:
            crd = yaml.safe_load(definition_of(each, name))
            kind = PAGES["crds.md"].partition(f"## {crd['spec']['names']['kind']}\n")[2]
            for version in crd["spec"]["versions"]:
                spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
                assert [field for field in spec.get("properties", {}) if f"`spec.{field}`" not in kind] == []


def test_a_budget_can_name_every_surface_that_takes_turns() -> None:
    """The enumeration of the installed definition, against the surfaces that there are."""
    from haulout.core.surface_names import BUILT_IN

    crd = yaml.safe_load(definition_of(surface("kernel"), "nodedisruptionbudgets"))
    fields = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    assert tuple(fields["surfaces"]["items"]["enum"]) == BUILT_IN
    written = yaml.safe_load(surface("kernel").definition("nodedisruptionbudgets"))
    assert msgspec.to_builtins(written) == crd, "the file in the repository, which the chart installs"
