"""alterAnnotation and alterFinalizer."""

from __future__ import annotations

import msgspec
import pytest

from haulout.surfaces.profiles.surface import keeps
from tests.build.checks import configured, pulled, refusal
from tests.build.rows import node


@pytest.mark.parametrize(
    ("annotations", "config", "after"),
    [
        pytest.param({}, "{key: k, value: v}", {"k": "v"}, id="set"),
        pytest.param({}, "{key: k}", {"k": ""}, id="set to nothing"),
        pytest.param({"k": "a", "o": "b"}, "{key: k, value: v}", {"k": "v", "o": "b"}, id="replaced"),
        pytest.param({"k": "a", "o": "b"}, "{key: k, remove: true}", {"o": "b"}, id="removed"),
        pytest.param({}, "{key: k, remove: true}", {}, id="nothing to remove"),
    ],
)
def test_annotation(annotations: dict[str, str], config: str, after: dict[str, str]) -> None:
    assert pulled("alterAnnotation", config, node("n", annotations=annotations)).annotations == after


def test_an_altered_annotation_is_kept() -> None:
    assert "k" in keeps(configured("trigger", "alterAnnotation", "{key: k}")).annotations


@pytest.mark.parametrize(
    ("before", "config", "after"),
    [
        pytest.param((), "{key: f}", ("f",), id="added"),
        pytest.param(("f", "g"), "{key: f}", ("f", "g"), id="there already"),
        pytest.param(("f", "g"), "{key: f, remove: true}", ("g",), id="removed"),
        pytest.param(("g",), "{key: f, remove: true}", ("g",), id="nothing to remove"),
    ],
)
def test_finalizer(before: tuple[str, ...], config: str, after: tuple[str, ...]) -> None:
    row = msgspec.structs.replace(node("n"), finalizers=before)
    assert pulled("alterFinalizer", config, row).finalizers == after


@pytest.mark.parametrize("plugin", ["alterAnnotation", "alterFinalizer"])
def test_needs_a_key(plugin: str) -> None:
    assert refusal("trigger", plugin, "{remove: true}") == "string value is not set"
