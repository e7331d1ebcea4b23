"""The block `traces` of `haulout.yaml`."""

from __future__ import annotations

from datetime import timedelta

import pytest

from haulout.settings.file import SettingsProblem, read_settings
from haulout.settings.settings import Traces

SURFACES = "surfaces: {nodemaintenance: {}}\n"


def read(text: str) -> Traces:
    return read_settings(f"{SURFACES}traces: {text}\n".encode(), "haulout.yaml", {}, {}, "").traces


@pytest.mark.parametrize("text", ["{}", "{endpoint: 'http://a:4318'}", "{samplePercent: 50}", "{enabled: false}"])
def test_traces_are_off_unless_they_are_switched_on(text: str) -> None:
    assert read(text).percent == 0


def test_traces_are_switched_on() -> None:
    text = "{enabled: true, endpoint: 'https://a/otlp', samplePercent: 20, slowEviction: 5m}"
    assert read(text) == Traces(endpoint="https://a/otlp", percent=20, slow_for=timedelta(minutes=5))
    assert read("{enabled: true}") == Traces(percent=100)


@pytest.mark.parametrize(
    "text, wrong",
    [
        ("{endpoint: collector:4318}", "is no address of a collector"),
        ("{endpoint: 'http://a:4318/?x=1'}", "is no address of a collector"),
        ("{endpoint: 'http://a:none'}", "traces.endpoint"),
        ("{endpoint: 'http://alice:secret@a'}", "can be read by all"),
        ("{samplePercent: 0}", "0 is no percentage (1 to 100)"),
        ("{samplePercent: 101}", "101 is no percentage"),
        ("{slowEviction: -1s}", "traces.slowEviction"),
        ("{slowEvictions: 1s}", "did you mean slowEviction?"),
        ("{headers: {a: b}}", "unknown setting"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(text: str, wrong: str) -> None:
    with pytest.raises(SettingsProblem) as caught:
        read(text)
    (line,) = caught.value.lines
    assert line.startswith("haulout.yaml:2:")
    assert wrong in line
    assert "secret" not in line
