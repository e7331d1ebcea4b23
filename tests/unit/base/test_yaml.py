"""YAML with places: values, keys, several documents, and errors with line and column."""

from __future__ import annotations

import math
from typing import Any

import pytest
import yaml as pyyaml

from haulout.base import yaml
from haulout.base.yaml import Mapping, Node, Place, Scalar, Sequence, YamlError


def plain(node: Node | None) -> Any:
    match node:
        case Mapping(entries):
            return {name: plain(value) for name, value in entries.items()}
        case Sequence(items):
            return [plain(item) for item in items]
        case Scalar(value):
            return value
        case _:
            return None


@pytest.fixture(params=["C", "pure"])
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "pure":
        monkeypatch.setattr(yaml, "_Loader", pyyaml.Loader)


def words(text: str) -> list[str]:
    return text.split()


@pytest.mark.parametrize("text", words("y Y yes Yes YES on On ON true True TRUE"))
def test_true(text: str) -> None:
    assert yaml.resolve(text) is True


@pytest.mark.parametrize("text", words("n N no No NO off Off OFF false False FALSE"))
def test_false(text: str) -> None:
    assert yaml.resolve(text) is False


@pytest.mark.parametrize("text", ["", "~", "null", "Null", "NULL"])
def test_null(text: str) -> None:
    assert yaml.resolve(text) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0x10", 16),
        ("010", 8),
        ("0o10", 8),
        ("0b11", 3),
        ("1_000", 1000),
        ("-0x1", -1),
        ("18446744073709551615", (1 << 64) - 1),
        ("99999999999999999999", 1e20),
        ("08", 8.0),
        ("1e3", 1000.0),
        ("1.", 1.0),
        (".5", 0.5),
        ("+.inf", math.inf),
        ("-.INF", -math.inf),
    ],
)
def test_numbers(text: str, value: float) -> None:
    resolved = yaml.resolve(text)
    assert resolved == value
    assert type(resolved) is type(value)


@pytest.mark.parametrize(
    "text",
    words("11:00 2024-01-02 2024-01-02T03:04:05Z yEs nULL 1e400 0xfffffffffffffffff 1,000 _1 . - << 1x"),
)
def test_text(text: str) -> None:
    assert yaml.resolve(text) == text


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("a: 1\nb: [x, 'y', \"on\"]\n", {"a": 1, "b": ["x", "y", "on"]}, id="plain and quoted"),
        pytest.param("a: 1\na: 2\n", {"a": 2}, id="the last of equal keys"),
        pytest.param("a: 1\n---\nb: [", {"a": 1}, id="the first document only"),
        pytest.param("", None, id="nothing"),
        pytest.param("# just a word\n", None, id="a comment"),
        pytest.param("p: &a {k: 1}\nq: *a\n", {"p": {"k": 1}, "q": {"k": 1}}, id="anchor"),
        pytest.param("p: &a 1\nq: &a 2\nr: *a\n", {"p": 1, "q": 2, "r": 2}, id="anchor redefined"),
        pytest.param("<<: {a: 1, b: 1}\nb: 2\n", {"a": 1, "b": 2}, id="merge, then a key"),
        pytest.param("b: 2\n<<: {a: 1, b: 1}\n", {"a": 1, "b": 1}, id="a key, then merge"),
        pytest.param("<<: [{a: 1}, {a: 2, b: 2}]\n", {"a": 1, "b": 2}, id="merge of several"),
        pytest.param('"<<": 1\n', {"<<": 1}, id="quoted, it is no merge"),
        pytest.param("a: !!str 1\nb: !!float 1\nc: !!binary eA==\nd: !x y\ne: ! 5\n", {"a": "1", "b": 1.0, "c": "x", "d": "y", "e": "5"}, id="tags"),
        pytest.param("a: |\n  x\n  y\n", {"a": "x\ny\n"}, id="block of text"),
    ],
)  # fmt: skip
def test_documents(text: str, value: Any) -> None:
    assert plain(yaml.parse(text)) == value


def test_keys_that_a_later_one_has_replaced_are_remembered() -> None:
    document = yaml.parse("a: 1\n<<: {b: 1}\nb: 2\n'a': 2\na: 3\n")
    assert isinstance(document, Mapping)
    assert (document.earlier, document.keys["a"]) == ({"a": Place(4, 1)}, Place(5, 1))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        pytest.param("", None, id="nothing"),
        pytest.param("a: 1\n", None, id="one"),
        pytest.param("---\na: 1\n...\n", None, id="one with its marks"),
        pytest.param("---\na: 1\n---\n# no more\n---\n", None, id="empty ones"),
        pytest.param("a: 1\n---\nb: 1\n", Place(2, 1), id="two"),
        pytest.param("---\n---\n---\n- b\n", Place(3, 1), id="behind empty ones"),
        pytest.param("a: 1\n---\nb\n", Place(2, 1), id="a word"),
    ],
)
def test_a_second_document(text: str, place: Place | None) -> None:
    assert yaml.second_document(text) == place
    assert yaml.second_document(text.encode()) == place


def test_a_second_document_that_is_not_yaml() -> None:
    with pytest.raises(YamlError):
        yaml.second_document("a: 1\n--- @b\n")


def test_everything_has_its_place() -> None:
    document = yaml.parse("a:\n  - b\n  - {c: d}\n")
    assert isinstance(document, Mapping)
    assert document.keys == {"a": Place(1, 1)}
    assert yaml.place_of(document, ("a",)) == Place(2, 3)
    assert yaml.place_of(document, ("a", "1", "c")) == Place(3, 9)
    assert yaml.place_of(document, ("a", "1", "e")) == Place(3, 5)
    assert yaml.place_of(document, ("a", "7", "e")) == Place(2, 3)
    assert yaml.place_of(document, ("z",)) == Place(1, 1)
    assert yaml.place_of(None, ("z",)) is None


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        pytest.param("a: b: c\n", "mapping values are not allowed in this context", Place(1, 5), id="syntax"),
        pytest.param("a: 1\n\tb: 2\n", "found a tab character that violates indentation", Place(2, 1), id="tab"),
        pytest.param("a: *b\n", "unknown anchor 'b' referenced", Place(1, 4), id="unknown anchor"),
        pytest.param("a: &a [*a]\n", "anchor 'a' value contains itself", Place(1, 8), id="cycle"),
        pytest.param("on: 1\n", "string key required, but found bool", Place(1, 1), id="boolean key"),
        pytest.param("a: 1\n? [b]\n: 2\n", "string key required, but found map or list", Place(2, 3), id="list as key"),
        pytest.param("<<: 1\n", "map merge requires map or sequence of maps as the value", Place(1, 5), id="merge"),
        pytest.param("a: !!int x\n", "cannot decode !!str `x` as a !!int", Place(1, 4), id="wrong tag"),
        pytest.param("a: !!binary '*'\n", "!!binary value contains invalid base64 data", Place(1, 4), id="binary"),
        pytest.param("[" * 101, "exceeded max depth of 100", Place(1, 101), id="depth"),
    ],
)
def test_errors_have_a_place(text: str, message: str, place: Place) -> None:
    with pytest.raises(YamlError) as caught:
        yaml.parse(text)
    assert str(caught.value) == f"yaml: line {place.line}: {message}"
    assert caught.value.place == place


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"a: \xff\n", id="no UTF-8"),
        pytest.param(b"a: \x00\n", id="NUL"),
        pytest.param("\ud800", id="half a character"),
        pytest.param('"\\UFFFFFFFF"', id="no such character"),
        pytest.param("%YAML " + "9" * 5000 + ".1\n---\n", id="absurd version"),
        pytest.param("[" * 100_000, id="deep"),
        pytest.param("- " * 5000, id="deep in blocks"),
    ],
)
def test_any_bytes_give_a_typed_error(data: bytes | str) -> None:
    with pytest.raises(YamlError):
        yaml.parse(data)


def test_a_few_aliases_are_fine() -> None:
    shared = "a: &a {k: v}\nb: [" + "*a, " * 50 + "]\n"
    assert plain(yaml.parse(shared))["b"] == [{"k": "v"}] * 50


def test_aliases_of_aliases_of_aliases_are_not() -> None:
    levels = ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    with pytest.raises(YamlError, match="excessive aliasing"):
        yaml.parse("\n".join(levels))


def test_aliases_do_not_hide_depth() -> None:
    nested = "[" * 60 + "]" * 60
    with pytest.raises(YamlError, match="exceeded max depth"):
        yaml.parse(f"a: &a {nested}\nb: {'[' * 60}*a{']' * 60}\n")


def test_a_scalar_that_aliases_repeat_counts_each_time() -> None:
    text = f"a: &a {'x' * 100_000}\nb: [{', '.join(['*a'] * 400)}]\n"
    with pytest.raises(YamlError, match="excessive aliasing"):
        yaml.load(text)


SMALL = yaml.Bounds(size=200, nodes=10, text=50, depth=3)


@pytest.mark.parametrize(
    "text, problem",
    [
        pytest.param("x" * 201, "201 bytes", id="bytes"),
        pytest.param("[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]", "more than 10 values", id="nodes"),
        pytest.param("[&a [1, 2, 3], *a, *a]", "excessive aliasing", id="aliased-nodes"),
        pytest.param("[&a [1, *a]]", "contains itself", id="cycle"),
        pytest.param("y" * 51, "values or 50 characters", id="text"),
        pytest.param("[[[[1]]]]", "max depth of 3", id="depth"),
        pytest.param("[&a [[1]], [*a]]", "max depth of 3", id="aliased-depth"),
    ],
)
def test_bounds_hold_for_every_way_of_reading(text: str, problem: str) -> None:
    for read in (yaml.parse, yaml.load, yaml.load_all):
        with pytest.raises(YamlError, match=problem):
            read(text, bounds=SMALL)


def test_reading_stops_at_the_bound_and_not_behind_it() -> None:
    """The rest of such a file takes quadratic time in the C library: reading all of it would not end."""
    with pytest.raises(YamlError, match="max depth"):
        yaml.load("[" * 2**20)


def test_foreign_documents_have_no_aliases() -> None:
    with pytest.raises(YamlError, match="write the values out"):
        yaml.load("a: &a 1\nb: *a", bounds=yaml.FOREIGN)


@pytest.mark.parametrize("text", ["1" + ":1" * 200_000, "1" * 400_000, "." + "1" * 400_000, "1_" * 200_000])
def test_what_is_longer_than_any_number_is_text(text: str) -> None:
    assert yaml.load(f"a: {text}") == {"a": text}


def test_plain_values_of_all_documents() -> None:
    text = "a: {b: [1, 0x10, 1.5, true, null, x, 2001-01-01]}\n---\n1: 60:00\n---\n"
    assert yaml.load_all(text) == [
        {"a": {"b": [1, 16, 1.5, True, None, "x", "2001-01-01"]}},
        {"1": "60:00"},
        None,
    ]
    assert yaml.load_all("a: [007, no, ~]", only_texts=True) == [{"a": ["007", "no", "~"]}]
    assert yaml.load(text) == yaml.load_all(text)[0]
