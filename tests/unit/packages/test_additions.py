"""What Haulout adds under the prefix of the skyhook operator is listed in the page about migration."""

from __future__ import annotations

from pathlib import Path

import pytest

from haulout.surfaces.packages.node import names
from haulout.surfaces.packages.options import STAMP_VERSION
from haulout.surfaces.packages.skyhook import conditions
from haulout.surfaces.packages.wire import PREFIX

PAGE = (Path(__file__).parents[3] / "docs/migration.md").read_text()
# What the original writes itself.
ORIGINALS = {"nodeState_NAME", "status_NAME", "version_NAME", "cordon_NAME", "drainStart_NAME", "drainBlocked_NAME"}
CONDITIONS = {"Transition", "ApplyPackage", "TaintNotTolerable", "NodesIgnored", "DeploymentPolicyNotFound"}


@pytest.mark.parametrize("name", sorted({each.rpartition("/")[2] for each in names.all_of("NAME")} - ORIGINALS))
def test_every_annotation_of_a_node(name: str) -> None:
    assert f"`{name}`" in PAGE


@pytest.mark.parametrize(
    "name",
    sorted(
        {
            value.removeprefix(PREFIX)
            for value in vars(conditions).values()
            if isinstance(value, str) and value.startswith(PREFIX) and value != PREFIX
        }
        - CONDITIONS
    ),
)
def test_every_condition_of_a_skyhook(name: str) -> None:
    assert f"`{name}`" in PAGE


def test_the_version_that_it_says_it_is() -> None:
    assert f"with {STAMP_VERSION}," in PAGE
