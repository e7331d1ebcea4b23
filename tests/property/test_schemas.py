"""Laws of the shortcuts for structural schemas: they give what the complete functions give."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from haulout.embedded.rules import schemas
from haulout.embedded.rules.schemas import acceptor, fill, only_defaults, prune

Json = dict[str, Any]

NAMES = st.sampled_from("abc")
SCALARS: st.SearchStrategy[Any] = (
    st.booleans() | st.integers(-2, 3) | st.sampled_from([1.0, 0.5]) | st.sampled_from(["", "a", "b"])
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
PLAIN = st.fixed_dictionaries(
    {"type": st.sampled_from(["boolean", "integer", "number", "string"])},
    optional={
        "nullable": st.booleans(),
        "default": SCALARS,
        "enum": st.just(["a", 1]),
        "minimum": st.just(1),
        "minLength": st.just(1),
        "anyOf": st.just([{"enum": ["a"]}, {"enum": [1]}]),
    },
)


def objects(inner: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    return st.fixed_dictionaries(
        {"type": st.just("object"), "properties": st.dictionaries(NAMES, inner, max_size=3)},
        optional={
            "required": st.lists(NAMES, max_size=1),
            "default": st.just({}),
            "nullable": st.booleans(),
            "additionalProperties": inner | st.booleans(),
            "x-kubernetes-preserve-unknown-fields": st.booleans(),
            "maxProperties": st.just(1),
        },
    )


def lists(inner: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    return st.fixed_dictionaries(
        {"type": st.just("array"), "items": inner},
        optional={"x-kubernetes-list-type": st.sampled_from(["atomic", "set", "map"]), "maxItems": st.just(1)}
        | {"x-kubernetes-list-map-keys": st.just(["a"])},
    )


SCHEMAS = st.recursive(PLAIN, lambda inner: objects(inner) | lists(inner), max_leaves=6)


@settings(max_examples=400, derandomize=True)
@given(SCHEMAS, VALUES)
def test_an_accepted_value_has_nothing_to_prune_and_no_problems(schema: Json, value: Any) -> None:
    unknown: list[str] = []
    pruned = prune(schema, copy.deepcopy(value), None, "", unknown)
    problems = schemas.check(schema, value, "value")
    assert not acceptor(schema)(value) or (pruned, unknown, problems) == (value, [], [])


@settings(max_examples=400, derandomize=True)
@given(SCHEMAS, VALUES)
def test_the_defaults_alone_fill_as_the_whole_schema(schema: Json, value: Any) -> None:
    assert fill(only_defaults(schema), value) == fill(schema, value)
