"""Checks that look at the node itself: hasAnnotation and condition."""

from __future__ import annotations

import pytest

from haulout.surfaces.profiles.surface import keeps
from tests.build.checks import configured, judged, refusal
from tests.build.rows import node


class TestHasAnnotation:
    @pytest.mark.parametrize(
        ("annotations", "config", "passes"),
        [
            pytest.param({"key": "any"}, "{key: key}", True, id="there"),
            pytest.param({"key": ""}, "{key: key}", True, id="there without a value"),
            pytest.param({"key": "a"}, "{key: key, value: a}", True, id="the value"),
            pytest.param({"key": "A"}, "{key: key, value: a}", False, id="another case"),
            pytest.param({"key": ""}, "{key: key, value: a}", False, id="no value"),
            pytest.param({}, "{key: key}", False, id="absent"),
        ],
    )
    def test_passes(self, annotations: dict[str, str], config: str, passes: bool) -> None:
        assert judged("hasAnnotation", config, node("n", annotations=annotations)).passed is passes

    def test_says_what_is_missing(self) -> None:
        assert judged("hasAnnotation", "{key: k}").info == {"reason": "annotation k not present"}

    def test_its_annotation_is_kept(self) -> None:
        assert "k" in keeps(configured("check", "hasAnnotation", "{key: k}")).annotations

    def test_needs_a_key(self) -> None:
        assert refusal("check", "hasAnnotation", "{value: x}") == "string value is not set"


class TestCondition:
    @pytest.mark.parametrize(
        ("config", "passes"),
        [
            pytest.param('{type: Ready, status: "True"}', True, id="as it is"),
            pytest.param('{type: Ready, status: "False"}', False, id="another status"),
            pytest.param("{type: Ready, status: True}", False, id="an unquoted boolean is the text true"),
        ],
    )
    def test_passes(self, config: str, passes: bool) -> None:
        assert judged("condition", config).passed is passes

    def test_says_what_is_and_what_should_be(self) -> None:
        verdict = judged("condition", '{type: Ready, status: "False"}')
        assert verdict.info == {"current": "True", "expected": "False"}

    def test_says_that_it_is_absent(self) -> None:
        verdict = judged("condition", '{type: Frozen, status: "True"}')
        assert (verdict.passed, verdict.error) == (False, "")
        assert verdict.info == {"reason": "condition Frozen not present"}

    def test_needs_both(self) -> None:
        assert refusal("check", "condition", "{type: Ready}") == "string value is not set"
