"""The files for the forge and for pre-commit are well-formed, and hooks run what is in the checkout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from haulout.surfaces.registry import names, surface
from tools.tiers import ROOT, TIERS

FORMS = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("[!c]*.yml"))


def loaded(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.stem)
def test_an_issue_form_has_named_fields_with_labels(form: Path) -> None:
    content = loaded(form)
    assert content.keys() == {"name", "description", "labels", "body"}
    fields = [field for field in content["body"] if field["type"] != "markdown"]
    assert len({field["id"] for field in fields}) == len(fields)
    assert [field["id"] for field in fields if not field["attributes"]["label"]] == []


def test_a_fault_can_be_reported_about_every_surface_with_an_original() -> None:
    (options,) = [
        field["attributes"]["options"]
        for field in loaded(ROOT / ".github/ISSUE_TEMPLATE/bug.yml")["body"]
        if field["type"] == "dropdown"
    ]
    assert {name for name in names() if surface(name).original} <= {*options}


# Tiers that install what they need, so that they are no hooks.
INSTALLING = ("docs",)


def test_hooks_download_nothing_and_run_what_the_tiers_run() -> None:
    (repository,) = loaded(ROOT / ".pre-commit-config.yaml")["repos"]
    assert repository["repo"] == "local"
    assert {hook["language"] for hook in repository["hooks"]} == {"system"}
    commands = {
        tier.name: [Path(tier.command[0]).name, *tier.command[1:]]
        for tier in TIERS
        if tier.command and tier.name not in INSTALLING
    }
    hooks = {hook["id"]: hook["entry"].removeprefix(".venv/bin/").split() for hook in repository["hooks"]}
    assert hooks == commands
