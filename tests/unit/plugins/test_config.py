"""The settings of plugins: types, defaults, required fields, and errors with their places."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, TypeVar

import msgspec
import pytest

from haulout.base.yaml import Place
from haulout.plugins.config import (
    Block,
    Config,
    ConfigProblem,
    Context,
    Fields,
    GoDuration,
    GoDurationText,
    Min,
    Reading,
    examine,
    read,
)
from haulout.plugins.document import open_document, read_file, splice_problems

SOURCE = "config/test.yaml"
ENVIRONMENT = {"TEXT": "text", "KEYS": "a,b", "N": "60", "ON": "on", "SPAN": "60s", "LIST": "[1, x]", "ODD": " 'q, r' "}

C = TypeVar("C", bound=Config)


class Inner(Config, frozen=True, kw_only=True):
    user: str
    port: int = 25


class Everything(Config, frozen=True, kw_only=True):
    text: str = ""
    number: int = 0
    ratio: float = 0.0
    flag: bool = False
    span: GoDuration = timedelta(0)
    span_text: GoDurationText = timedelta(0)
    names: tuple[str, ...] = ()
    numbers: tuple[int, ...] = ()
    inner: Inner = Inner(user="nobody")
    inners: tuple[Inner, ...] = ()
    by_name: dict[str, Inner] = msgspec.field(default_factory=dict)
    later: Block | None = None
    odd_name: str = msgspec.field(default="", name="odd-name")


class Needed(Config, frozen=True, kw_only=True):
    flag: bool
    text: str
    number: int
    ratio: float
    span: GoDuration
    span_text: GoDurationText
    names: tuple[str, ...]
    inner: Inner
    by_name: dict[str, Inner]


NEEDED = {
    "text": "x",
    "number": "1",
    "ratio": "0.5",
    "span": "1s",
    "spanText": "1s",
    "names": "[a]",
    "inner": "{user: u}",
    "byName": "{a: {user: u}}",
}


def context(text: str, environment: Mapping[str, str] = ENVIRONMENT) -> Context:
    return open_document(text, source=SOURCE, environment=environment)


def at(kind: type[C], text: str, path: tuple[str, ...] = ()) -> Reading[C]:
    """Return the block at a path of a document."""
    opened = context(text)
    node: Any = opened.document
    for step in path:
        node = node.items[int(step)] if step.isdecimal() else node.entries.get(step)
    return examine(kind, node, opened.at(*path))


def everything(text: str) -> Everything:
    opened = context(text)
    return read(Everything, opened.document, opened)


def needed(**changes: str | None) -> str:
    """Return a complete block in the place `block`, with changes; None leaves an entry out."""
    entries = {name: value for name, value in (NEEDED | changes).items() if value is not None}
    return "block: {" + ", ".join(f"{name}: {value}" for name, value in entries.items()) + "}"


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        pytest.param("text: x", "text", "x", id="string from string"),
        pytest.param("text: yes", "text", "true", id="string from bool"),
        pytest.param("text: 0x10", "text", "16", id="string from int"),
        pytest.param("text: 1.10", "text", "1.1", id="string from float"),
        pytest.param("text: 1e3", "text", "1000", id="string from exponent"),
        pytest.param("text: 1000000.0", "text", "1e+06", id="string from large float"),
        pytest.param("text: 11:00", "text", "11:00", id="string from time"),
        pytest.param("text: null", "text", "", id="null is absent"),
        pytest.param("flag: on", "flag", True, id="bool from bool"),
        pytest.param('flag: "t"', "flag", True, id="bool from string"),
        pytest.param('flag: "0"', "flag", False, id="bool from zero string"),
        pytest.param("number: -3", "number", -3, id="int from int"),
        pytest.param("number: 2.9", "number", 2, id="int from float"),
        pytest.param("number: -2.9", "number", -2, id="int from negative float"),
        pytest.param('number: "0x1_0"', "number", 16, id="int from string"),
        pytest.param('number: "010"', "number", 8, id="int from octal string"),
        pytest.param("ratio: 2", "ratio", 2.0, id="float from int"),
        pytest.param('ratio: "1e-3"', "ratio", 0.001, id="float from string"),
        pytest.param("span: 60", "span", timedelta(seconds=60), id="duration from int"),
        pytest.param("span: -0.5", "span", timedelta(seconds=-0.5), id="duration from float"),
        pytest.param("span: 1h30m", "span", timedelta(minutes=90), id="duration from string"),
        pytest.param("spanText: 1h30m", "span_text", timedelta(minutes=90), id="duration text"),
        pytest.param('spanText: "0"', "span_text", timedelta(0), id="zero needs no unit"),
        pytest.param("names: [a, 1, no]", "names", ("a", "1", "false"), id="list"),
        pytest.param("names: a", "names", ("a",), id="list from a single value"),
        pytest.param("names: {a: b}", "names", (), id="map is an empty list"),
        pytest.param("names: null", "names", (), id="null is no list"),
        pytest.param("names: [a, null]", "names", ("a", ""), id="null in a list"),
        pytest.param("numbers: ['1', 2.5]", "numbers", (1, 2), id="list of ints"),
        pytest.param("inner: {user: u, port: '1'}", "inner", Inner(user="u", port=1), id="nested"),
        pytest.param("inners: [{user: u}, {user: v}]", "inners", (Inner(user="u"), Inner(user="v")), id="list of nested"),
        pytest.param("byName: {a: {user: u}}", "by_name", {"a": Inner(user="u")}, id="map of nested"),
        pytest.param("byName: []", "by_name", {}, id="list is an empty map"),
        pytest.param("odd-name: x", "odd_name", "x", id="a name of its own"),
        pytest.param("unknown: {a: [b]}", "text", "", id="unknown keys"),
        pytest.param("inner: null", "inner", Inner(user="nobody"), id="nested default"),
    ],
)  # fmt: skip
def test_coercion(text: str, field: str, value: object) -> None:
    assert getattr(everything(text), field) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("text: {a: b}", "can not convert 'object' into 'string' accessing 'b.text'", id="map as string"),
        pytest.param("text: [a]", "can not convert 'object' into 'string' accessing 'b.text'", id="list as string"),
        pytest.param("flag: 1", "can not convert 'uint' into 'bool' accessing 'b.flag'", id="number as bool"),
        pytest.param("flag: 0", "can not convert 'int' into 'bool' accessing 'b.flag'", id="zero as bool"),
        pytest.param('flag: "yes"', "can not convert 'string' into 'bool' accessing 'b.flag'", id="word as bool"),
        pytest.param("number: yes", "can not convert 'bool' into 'int' accessing 'b.number'", id="bool as int"),
        pytest.param('number: "1.5"', "can not convert 'string' into 'int' accessing 'b.number'", id="fraction"),
        pytest.param('number: ""', "can not convert 'string' into 'int' accessing 'b.number'", id="empty as int"),
        pytest.param('number: " 1"', "can not convert 'string' into 'int' accessing 'b.number'", id="blank in an int"),
        pytest.param("number: 9223372036854775808", "can not convert 'uint' into 'int' accessing 'b.number'", id="too large"),
        pytest.param("number: .inf", "can not convert 'float' into 'int' accessing 'b.number'", id="infinity as int"),
        pytest.param("ratio: x", "can not convert 'string' into 'float' accessing 'b.ratio'", id="word as float"),
        pytest.param('span: "60"', "time: missing unit in duration \"60\" accessing 'b.span'", id="duration, no unit"),
        pytest.param("span: yes", "time: invalid duration \"true\" accessing 'b.span'", id="bool as duration"),
        pytest.param("span: [1]", "type mismatch accessing 'b.span'", id="list as duration"),
        pytest.param("span: 1e300", "integer overflow accessing 'b.span'", id="too long"),
        pytest.param("span: .nan", "integer overflow accessing 'b.span'", id="no number"),
        pytest.param("names: [a, [b]]", "can not convert 'object' into 'string' accessing 'b.names.1'", id="in a list"),
        pytest.param("inner: x", "required 'object', but found 'string' in field 'b.inner'", id="string as block"),
        pytest.param("inners: [5]", "required 'object', but found 'uint' in field 'b.inners.0'", id="number in a list of blocks"),
        pytest.param("later: x", "required 'object', but found 'string' in field 'b.later'", id="string as later block"),
        pytest.param("byName: {a: {port: 1}}", "string value is not set accessing 'b.byName.a.user'", id="in a map"),
    ],
)  # fmt: skip
def test_refusals(text: str, message: str) -> None:
    reading = at(Everything, f"b:\n  {text}\n", ("b",))
    assert [problem.text for problem in reading.problems] == [f"{message} (source:'{SOURCE}')"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"text": None}, "string value is not set accessing 'block.text'", id="string absent"),
        pytest.param({"text": '""'}, "string value is not set accessing 'block.text'", id="string empty"),
        pytest.param({"text": "null"}, "string value is not set accessing 'block.text'", id="string null"),
        pytest.param({"number": None}, "missing required field accessing 'block.number'", id="number absent"),
        pytest.param({"number": "0"}, "missing required field accessing 'block.number'", id="number zero"),
        pytest.param({"ratio": "0.0"}, "missing required field accessing 'block.ratio'", id="float zero"),
        pytest.param({"span": None}, "missing required field accessing 'block.span'", id="duration absent"),
        pytest.param({"span": "0s"}, "missing required field accessing 'block.span'", id="duration zero"),
        pytest.param(
            {"spanText": None}, "string value is not set accessing 'block.spanText'", id="duration text absent"
        ),
        pytest.param({"names": None}, "missing required field accessing 'block.names'", id="list absent"),
        pytest.param({"names": "[]"}, "empty array accessing 'block.names'", id="list empty"),
        pytest.param({"names": "{a: b}"}, "empty array accessing 'block.names'", id="map as list"),
        pytest.param({"names": '["", a]'}, "string value is not set accessing 'block.names.0'", id="empty in a list"),
        pytest.param({"byName": None}, "missing required field accessing 'block.byName'", id="map absent"),
        pytest.param({"byName": "{}"}, "empty map accessing 'block.byName'", id="map empty"),
        pytest.param({"inner": "{port: 1}"}, "string value is not set accessing 'block.inner.user'", id="in a block"),
        pytest.param({"inner": "[]"}, "string value is not set accessing 'block.inner.user'", id="list as block"),
    ],
)
def test_required(changes: dict[str, str | None], message: str) -> None:
    reading = at(Needed, needed(**changes), ("block",))
    assert [problem.text for problem in reading.problems] == [f"{message} (source:'{SOURCE}')"]


@pytest.mark.parametrize(
    ("inner", "message"),
    [
        pytest.param(None, "string value is not set accessing 'block.user'", id="absent: its name is forgotten"),
        pytest.param("null", "string value is not set accessing 'block.inner.user'", id="null: its name is known"),
    ],
)
def test_a_missing_block_has_no_source(inner: str | None, message: str) -> None:
    reading = at(Needed, needed(inner=inner), ("block",))
    assert [problem.text for problem in reading.problems] == [message]


def test_a_complete_block_is_read() -> None:
    reading = at(Needed, needed(), ("block",))
    assert reading.problems == ()
    assert reading.value.flag is False
    assert reading.value.inner == Inner(user="u")


def test_a_number_has_no_unit_where_text_is_read() -> None:
    reading = at(Needed, needed(spanText="60"), ("block",))
    assert [problem.text for problem in reading.problems] == ['time: missing unit in duration "60"']
    assert reading.problems[0].path == ("block", "spanText")


def test_the_first_problem_is_raised_and_the_rest_is_known() -> None:
    text = needed(number="x", names="[]", ratio="yes")
    reading = at(Needed, text, ("block",))
    assert [problem.path[-1] for problem in reading.problems] == ["number", "ratio", "names"]
    opened = context(text)
    with pytest.raises(ConfigProblem) as caught:
        read(Needed, opened.document.entries["block"], opened.at("block"))  # type: ignore[union-attr]
    assert caught.value.text == f"can not convert 'string' into 'int' accessing 'block.number' (source:'{SOURCE}')"
    assert caught.value.place == Place(1, 26)


class Limited(Config, frozen=True, kw_only=True):
    jitter: Annotated[float, Min(0.001)] = 0.0
    count: Annotated[int, Min(2)] = 5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("jitter: 0.0001", "requires value >= 0.001 accessing 'jitter' (source:'config/test.yaml')", id="below"),
        pytest.param("{}", "requires value >= 0.001 accessing 'jitter' (source:'config/test.yaml')", id="absent"),
        pytest.param("{jitter: 1, count: 1}", "requires value >= 2 accessing 'count' (source:'config/test.yaml')", id="int"),
    ],
)  # fmt: skip
def test_minimum(text: str, message: str) -> None:
    assert [problem.text for problem in at(Limited, text).problems] == [message]


class Ordered(Config, frozen=True, kw_only=True):
    low: int
    high: int
    pause: GoDurationText = timedelta(0)

    def validate(self) -> None:
        if self.low > self.high:
            raise ConfigProblem(f"{self.low} is more than {self.high}", right="the lower one first")


def test_a_plugin_has_its_own_words() -> None:
    (problem,) = at(Ordered, "block: {low: 2, high: 1}", ("block",)).problems
    assert (problem.text, problem.path, problem.place) == ("2 is more than 1", ("block",), Place(1, 8))


def test_a_plugin_speaks_only_about_what_could_be_read() -> None:
    texts = [problem.what for problem in at(Ordered, "{low: 2, high: x, pause: z}").problems]
    assert texts == ["can not convert 'string' into 'int'"]
    assert [problem.what for problem in at(Ordered, "{low: 2, high: 1, pause: z}").problems] == [
        'time: invalid duration "z"'
    ]


class Free(Config, frozen=True, kw_only=True):
    fields: Fields


def test_a_block_of_any_keys() -> None:
    text = "block: {evicted: true, numInstances: 0, traits: [a, '${TEXT}'], version: '${N}', deep: {x: null}}"
    wanted = {"evicted": True, "numInstances": 0, "traits": ["a", "text"], "version": 60, "deep": {"x": None}}
    assert at(Free, text, ("block",)).value.fields == wanted
    assert at(Free, "block: {}", ("block",)).value.fields == {}


def test_a_block_is_read_later() -> None:
    opened = context("later: {port: x}\n")
    later = read(Everything, opened.document, opened).later
    assert isinstance(later, Block)
    texts = [problem.text for problem in examine(Inner, later, opened).problems]
    assert texts == [
        f"string value is not set accessing 'later.user' (source:'{SOURCE}')",
        f"can not convert 'string' into 'int' accessing 'later.port' (source:'{SOURCE}')",
    ]


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        pytest.param("text: '${KEYS}'", "text", "a,b", id="text stays text"),
        pytest.param("text: 'Hello ${TEXT}, bye'", "text", "Hello text, bye", id="comma in text"),
        pytest.param("text: '${ODD}'", "text", " 'q, r' ", id="quotes and blanks in text"),
        pytest.param("text: '{{ ${N} }}'", "text", "{{ 60 }}", id="template"),
        pytest.param("text: $$x", "text", "$x", id="escape"),
        pytest.param("names: '${KEYS}'", "names", ("a", "b"), id="list of two"),
        pytest.param("names: '${LIST}'", "names", ("1", "x"), id="list in brackets"),
        pytest.param("names: '${TEXT}'", "names", ("text",), id="list of one"),
        pytest.param("names: ['${KEYS}', c]", "names", ("a,b", "c"), id="text in a list stays text"),
        pytest.param("number: '${N}'", "number", 60, id="number"),
        pytest.param("number: '${NO:007}'", "number", 7, id="fallback"),
        pytest.param("flag: '${ON}'", "flag", True, id="truth"),
        pytest.param("span: '${SPAN}'", "span", timedelta(seconds=60), id="duration"),
        pytest.param("ratio: '${N}.5'", "ratio", 60.5, id="mixed"),
        pytest.param("inner: '${top}'\ntop: {user: '${TEXT}'}", "inner", Inner(user="text"), id="a block of the file"),
        pytest.param("names: '${top}'\ntop: [p, q]", "names", ("p", "q"), id="a list of the file"),
        pytest.param("text: '${top}'\ntop: 1.50", "text", "1.5", id="a number of the file as text"),
        pytest.param("number: '${top}'\ntop: '${N}'", "number", 60, id="through the file to the environment"),
    ],
)
def test_variables(text: str, field: str, value: object) -> None:
    assert getattr(everything(text), field) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("text: '${NO}'", "missing field accessing 'b.text'", id="missing"),
        pytest.param("names: '${NO}'", "missing field accessing 'b.names'", id="missing list"),
        pytest.param("inner: '${NO}'", "missing field accessing 'b.inner'", id="missing block"),
        pytest.param("text: '${NO:?say why}'", "say why accessing 'b.text'", id="message"),
        pytest.param("span: '${N}'", "time: missing unit in duration \"60\" accessing 'b.span'", id="duration is text"),
        pytest.param("flag: '${TEXT}'", "can not convert 'string' into 'bool' accessing 'b.flag'", id="no truth"),
        pytest.param(
            "number: '${NO:[1}'", "array closing ']' missing when parsing '[1' accessing 'b.number'", id="list"
        ),
        pytest.param("text: '${NO'", "missing '}' parsing splice accessing 'b.text'", id="unclosed"),
        pytest.param("inner: '${TEXT}'", "required 'object', but found 'string' in field 'b.inner'", id="no block"),
    ],
)
def test_variables_that_do_not_work(text: str, message: str) -> None:
    reading = at(Everything, f"b:\n  {text}\n", ("b",))
    assert [problem.text for problem in reading.problems] == [f"{message} (source:'{SOURCE}')"]


def test_an_unread_variable_does_no_harm() -> None:
    assert at(Inner, "{user: u, unknown: '${NO}'}").problems == ()


def test_blocks_that_hold_each_other() -> None:
    reading = at(Free, "top: {a: '${top}', b: '${top}'}\nblock: {x: '${top}'}", ("block",))
    assert [problem.what for problem in reading.problems] == ["values refer to each other without end"]


@pytest.mark.parametrize(
    ("text", "what", "place"),
    [
        pytest.param("b: {user: yes}", 'an unquoted boolean is read as the text "true"', Place(1, 11), id="boolean"),
        pytest.param("b: {user: u, prot: 1}", "this key is not known, and ignored", Place(1, 14), id="unknown key"),
    ],
)
def test_warnings(text: str, what: str, place: Place) -> None:
    reading = at(Inner, text, ("b",))
    assert [(warning.what, warning.place) for warning in reading.warnings] == [(what, place)]
    assert reading.problems == ()


def test_a_map_for_a_list_is_worth_a_warning() -> None:
    reading = at(Everything, "names: {a: b}")
    assert [warning.what for warning in reading.warnings] == ["a map in the place of a list counts as an empty list"]


def test_a_field_of_an_unknown_kind_is_a_bug() -> None:
    class Wrong(Config, frozen=True, kw_only=True):
        when: complex = 0j

    with pytest.raises(TypeError, match="a configuration field cannot be"):
        at(Wrong, "{}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", "string value is not set accessing 'user'", id="empty file"),
        pytest.param("- user\n", f"string value is not set accessing 'user' (source:'{SOURCE}')", id="list"),
        pytest.param("x", "type 'string' is not supported on top level of config, only dictionary or list", id="text"),
        pytest.param("1.5", "type 'float64' is not supported on top level of config, only dictionary or list", id="number"),
        pytest.param("a: [", "yaml: line 2: did not find expected node content", id="syntax"),
        pytest.param("user: u\nx: '${'", "missing '}' parsing splice accessing config", id="splice"),
        pytest.param("user: u\nx: [[a, '${}']]", "empty expansion parsing splice accessing '0.1'", id="splice in a list"),
        pytest.param("user: u\nx: '${:y}'", "empty expansion parsing splice accessing config", id="no name"),
    ],
)  # fmt: skip
def test_files(text: str, message: str) -> None:
    with pytest.raises(ConfigProblem) as caught:
        read_file(Inner, text, source=SOURCE, environment={})
    assert caught.value.text.removesuffix(f" (source:'{SOURCE}')") == message.removesuffix(f" (source:'{SOURCE}')")


def test_a_file_is_read() -> None:
    assert read_file(Inner, b"user: ${U}\nport: 1", source=SOURCE, environment={"U": "me"}) == Inner(user="me", port=1)


def test_all_wrong_variables_of_a_file_are_found() -> None:
    places = [problem.place for problem in splice_problems(context("a: ${\nb: [x, '${}']\n"))]
    assert places == [Place(1, 4), Place(2, 8)]
