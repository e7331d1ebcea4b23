"""Laws of the base functions for any input: nothing crashes, and what is written reads back the same."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
import yaml as pyyaml
from hypothesis import given, settings
from hypothesis import strategies as st

from haulout.base import duration, expression, selector, variables, yaml
from haulout.plugins.config import Config, ConfigProblem, Fields, GoDuration
from haulout.plugins.document import read_file
from haulout.surfaces.profiles import schedules, wire
from haulout.surfaces.profiles.schedules import Occasion
from haulout.surfaces.profiles.wire import Entry, MaintenanceData, Stamp, State

often = settings(max_examples=100, deadline=None)

NAMES = ("a", "b", "c-d", "e.f", "1g")


@often
@given(st.timedeltas(timedelta(days=-100_000), timedelta(days=100_000)))
def test_durations_read_back_the_same(span: timedelta) -> None:
    assert duration.parse(duration.to_text(span)) == span


@often
@given(st.text() | st.text("0123456789.hmsnuµ+- "))
def test_any_text_is_a_duration_or_refused(text: str) -> None:
    with suppress(duration.DurationError):
        assert -(1 << 63) <= duration.parse_nanoseconds(text) < 1 << 63


def expressions(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    blank = st.sampled_from(("", " ", "\n\t"))
    joined = st.tuples(inner, blank, st.sampled_from(("&&", "||")), blank, inner).map("".join)
    return joined | inner.map("({})".format) | inner.map("!({})".format)


@often
@given(
    st.recursive(st.sampled_from((*NAMES, *(f"!{name}" for name in NAMES))), expressions, max_leaves=12),
    st.fixed_dictionaries({name: st.booleans() for name in NAMES}),
)
def test_expressions_mean_what_they_mean_in_python(text: str, values: dict[str, bool]) -> None:
    python = re.sub(r"[\w.-]+", lambda name: f"values[{name[0]!r}]", text)
    python = python.replace("&&", " and ").replace("||", " or ").replace("!", " not ").replace("\n", " ")
    parsed = expression.parse(text)
    assert expression.evaluate(parsed, values) == eval(python, {"values": values})
    assert list(expression.names(parsed)) == re.findall(r"[\w.-]+", text)


@often
@given(
    st.recursive(st.sampled_from((*NAMES, *(f"!{name}" for name in NAMES))), expressions, max_leaves=12),
    st.fixed_dictionaries({name: st.booleans() for name in NAMES}),
)
def test_without_a_conjunct_nothing_passes(text: str, values: dict[str, bool]) -> None:
    parsed = expression.parse(text)
    for name in expression.conjuncts(parsed):
        assert not expression.evaluate(parsed, values | {name: False})


@often
@given(st.text("ab&|!() .-\n") | st.text())
def test_any_text_is_an_expression_or_refused(text: str) -> None:
    with suppress(expression.ExpressionError):
        assert expression.names(expression.parse(text))


@often
@given(st.text("ab=!,()<>in 0/") | st.text())
def test_selectors_read_back_the_same(text: str) -> None:
    with suppress(selector.SelectorError):
        parsed = selector.parse(text)
        assert selector.parse(str(parsed)) == parsed


YAML_LIKE = st.lists(
    st.sampled_from(
        ("a", "b", ": ", "- ", "\n", "  ", "[", "]", "{", "}", ", ", "&x ", "*x", "<<: ", '"', "'", "|\n", "# ", "---\n", "!!int ", "? ", "~", "010", ".inf", "\t", "\x00", "\ud800", "é", "%", "${A}")
    ),
    max_size=25,
).map("".join)  # fmt: skip


@pytest.mark.parametrize("loader", [pyyaml.Loader, pyyaml.CLoader], ids=["pure", "C"])
@often
@given(st.binary(max_size=60) | YAML_LIKE)
def test_any_bytes_are_yaml_or_refused(loader: type, data: bytes | str) -> None:
    with pytest.MonkeyPatch.context() as patched, suppress(yaml.YamlError):
        patched.setattr(yaml, "_Loader", loader)
        yaml.parse(data)


@often
@given(st.text(), st.dictionaries(st.text(max_size=3), st.text()))
def test_text_with_its_dollars_doubled_stays_itself(text: str, environment: dict[str, str]) -> None:
    template = variables.parse(text.replace("$", "$$"))
    assert variables.expand(template, variables.Scope({}, environment)) == text


@often
@given(st.text("${}:+?ABx,[]\"'\\ "), st.dictionaries(st.sampled_from("AB"), st.text("${}:AB")))
def test_any_text_expands_or_is_refused(text: str, keys: dict[str, str]) -> None:
    with suppress(variables.ExpandError):
        scope = variables.Scope({name: variables.parse(value) for name, value in keys.items()}, {"A": "a", "x": "[1"})
        variables.parse_value(variables.expand(variables.parse(text), scope))


INSTANTS = st.datetimes(timezones=st.just(UTC))
STAMPS = INSTANTS.map(wire.stamp) | st.sampled_from(
    (
        wire.NEVER,
        Stamp("2026-03-01T10:00:00.123456789+02:00", datetime(2026, 3, 1, 8, 0, 0, 123456, tzinfo=UTC)),
    )
)
WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.sampled_from(tuple(map(str, State)))
DATA = st.builds(
    MaintenanceData,
    st.dictionaries(WORDS, st.builds(Entry, STAMPS, WORDS, WORDS), max_size=3),
    st.dictionaries(WORDS, STAMPS, max_size=3),
)


@often
@given(DATA)
def test_the_annotation_reads_back_the_same(data: MaintenanceData) -> None:
    text = wire.write_data(data)
    assert wire.parse_data(text) == data
    assert wire.parse_data(f" {text} and more") == data
    assert not set(text) & set("<>&\u2028\u2029")


JSON_LIKE = st.lists(
    st.sampled_from(
        ("{", "}", "[", "]", ":", ",", '"Profiles"', '"profiles"', '"a"', '"Notifications"', '"Transition"', '"Current"', '"LastTransition"', '"ProfileStates"', "null", "1", '"2026-03-01T10:00:00Z"', '"9999-12-31T23:59:59-01:00"', '"\\ud800"', " ", "NaN", "true", "\ud800")
    ),
    max_size=16,
).map("".join)  # fmt: skip


@often
@given(st.text() | JSON_LIKE)
def test_any_text_is_an_annotation_or_refused(text: str) -> None:
    with suppress(wire.DataError):
        data = wire.parse_data(text)
        written = wire.write_data(data).encode().decode()
        assert wire.parse_data(written) == data


class Block(Config, frozen=True, kw_only=True):
    a: str = ""
    b: tuple[int, ...] = ()
    pause: GoDuration = timedelta(0)
    rest: Fields


@often
@given(YAML_LIKE | st.dictionaries(st.sampled_from(("a", "b", "pause", "x")), st.text("${}:abx[]1,") | st.floats() | st.integers() | st.lists(st.text("${}a"))).map(pyyaml.safe_dump))  # fmt: skip
def test_any_file_is_read_or_refused(text: str) -> None:
    with suppress(ConfigProblem):
        read_file(Block, text, source="f.yaml", environment={"x": "1,2", "a": "[["})


NEARBY = st.datetimes(datetime(2026, 2, 20), datetime(2026, 3, 20), timezones=st.just(UTC))  # noqa: DTZ001
SCHEDULES = st.one_of(
    st.builds(schedules.Periodic, interval=st.timedeltas(timedelta(0), timedelta(days=3))),
    st.builds(schedules.Oneshot, delay=st.timedeltas(timedelta(0), timedelta(days=3))),
    st.builds(
        schedules.Scheduled,
        instant=st.sampled_from(("0:00", "9:30", "23:59")),
        weekdays=st.lists(st.sampled_from(("mon", "wed", "sun")), min_size=1).map(tuple),
    ),
)


@often
@given(
    SCHEDULES,
    st.builds(Occasion, st.sampled_from(State), st.sampled_from(State), NEARBY, NEARBY | st.just(wire.NEVER.at)),
    NEARBY,
    st.floats(0, 1, exclude_max=True),
)
def test_a_schedule_does_not_change_its_mind_before_it_said(
    schedule: schedules.Schedule, occasion: Occasion, now: datetime, part: float
) -> None:
    due = schedule.due(occasion, now)
    until = due.until or now + timedelta(days=400)
    assert until > now
    later = now + (until - now) * part
    assert schedule.due(occasion, min(later, until - timedelta(microseconds=1))).is_due == due.is_due
