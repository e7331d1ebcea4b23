"""The texts of a node's entries fit into the status of their Skyhook."""

from __future__ import annotations

import json
from typing import Any

import pytest

from haulout.base import yaml
from haulout.surfaces.packages.declare import SURFACE
from haulout.surfaces.packages.entries.entry import LONGEST_IMAGE, LONGEST_WORD, MalformedNodeState, parse

LONGEST = {
    "name": LONGEST_WORD,
    "version": LONGEST_WORD,
    "containerSHA": LONGEST_WORD,
    "image": LONGEST_IMAGE,
}


def _state(**fields: str) -> str:
    return json.dumps({"base|1": {"name": "base", "version": "1", "image": "x", "stage": "apply", **fields}})


@pytest.mark.parametrize(("field", "longest"), LONGEST.items(), ids=LONGEST.keys())
def test_a_text_that_the_status_cannot_hold_makes_the_state_malformed(field: str, longest: int) -> None:
    assert len(parse(_state(**{field: "x" * longest}))) == 1
    with pytest.raises(MalformedNodeState):
        parse(_state(**{field: "x" * (longest + 1)}))


def test_the_definition_has_the_same_lengths() -> None:
    definition: Any = yaml.load(SURFACE.definition("skyhooks"))
    status = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
    entry = status["properties"]["nodeState"]["additionalProperties"]["additionalProperties"]
    assert {name: entry["properties"][name]["maxLength"] for name in LONGEST} == LONGEST
