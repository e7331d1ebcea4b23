"""K20: the excerpt of any object, however long and in whatever pieces it comes, has the fields that its type declares."""

from __future__ import annotations

import json
import random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from haulout.kube.excerpt import LONGEST_STRING, MOST_TOKENS, ROOM, SLICE, Excerpt, Excerpting, shape_of
from haulout.model.node import Node
from haulout.model.pod import Pod
from tests.build.examples import examples

# All that JSON has a special way to write.
TEXTS = st.text(st.sampled_from('ab<"\\/{}[],:\n\u2028é😀'), max_size=12)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)
OWNERS = st.lists(st.fixed_dictionaries({"kind": TEXTS, "name": TEXTS, "x": ANYTHING, "controller": st.booleans()}))
PODS = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {
                "managedFields": ANYTHING,
                "name": TEXTS,
                "labels": st.dictionaries(TEXTS, TEXTS),
                "ownerReferences": OWNERS,
                "finalizers": st.lists(TEXTS),
            }
        ),
        "spec": st.fixed_dictionaries(
            {
                "ephemeralContainers": ANYTHING,
                "nodeName": TEXTS,
                "priority": st.integers(-(2**31), 2**31),
                "volumes": st.lists(st.fixed_dictionaries({"emptyDir": st.just({}) | st.none(), "x": ANYTHING})),
            }
        ),
        "status": st.fixed_dictionaries({"phase": TEXTS, "conditions": st.lists(st.just({"type": "Ready"}))}),
    },
    optional={"x": ANYTHING},
)


def in_pieces(text: bytes, kind: Any, seed: int) -> Excerpt:
    cuts, reader, at = random.Random(seed), Excerpting(shape_of(kind)), 0
    while at < len(text):
        size = cuts.choice((1, 2, 3, 7, 50, 1000))
        list(reader.feed(text[at : at + size]))
        at += size
    return reader.finish()


@given(PODS, st.integers(0, 2**32), st.booleans(), st.sampled_from([None, 2]))
@settings(max_examples=examples(300), deadline=None, derandomize=True)
def test_excerpt_is_decoded_as_the_whole(pod: Any, seed: int, ascii_only: bool, indent: int | None) -> None:
    text = json.dumps(pod, ensure_ascii=ascii_only, indent=indent).encode()
    excerpt = in_pieces(text, Pod, seed)
    assert msgspec.json.decode(excerpt, type=Pod) == msgspec.json.decode(text, type=Pod)
    assert excerpt.length == len(text)
    assert excerpt.find(b"managedFields") < 0


@given(
    st.sampled_from(["labels", "annotations", "finalizers", "ownerReferences", "taints", "conditions"]),
    st.sampled_from(["few long", "many short"]),
    st.integers(0, 2**32),
)
@settings(max_examples=examples(30), deadline=None, derandomize=True)
def test_excerpt_says_what_and_where_the_object_is_whatever_is_too_long(field: str, how: str, seed: int) -> None:
    names = ["<" * LONGEST_STRING * 4] * 3 if how == "few long" else [f"{number:06d}" for number in range(100_000)]
    values: dict[str, Any] = {
        "labels": {name: name for name in names},
        "annotations": {name: name for name in names},
        "finalizers": names,
        "ownerReferences": [{"kind": name, "name": name, "uid": name} for name in names],
        "taints": [{"key": name, "value": name} for name in names],
        "conditions": [{"type": name, "message": name} for name in names],
    }
    parts: dict[str, Any] = {"metadata": {}, "spec": {}, "status": {}}
    parts[{"taints": "spec", "conditions": "status"}.get(field, "metadata")][field] = values[field]
    # What matters comes last.
    parts["metadata"] |= {"name": "a", "uid": "u", "resourceVersion": "7"}
    parts["spec"] |= {"providerID": "p", "unschedulable": True}
    excerpt = in_pieces(json.dumps(parts).encode(), Node, seed)
    node = msgspec.json.decode(excerpt, type=Node)
    meta = node.metadata
    assert (meta.name, meta.uid, meta.resource_version, node.spec.provider_id) == ("a", "u", "7", "p")
    assert node.spec.unschedulable
    assert len(excerpt) < ROOM + 4 * LONGEST_STRING


@given(st.integers(0, 2**32))
@settings(max_examples=examples(20), deadline=None, derandomize=True)
def test_excerpt_is_bounded_whatever_the_text_is(seed: int) -> None:
    """A server that repeats what only one field has, or never closes anything."""
    tokens = [b'"name":"a"', b'"metadata":{', b"{", b"[", b'"', b"\\", b"}", b"]", b",", b"9" * 30_000, b" " * 30_000]
    choices = random.Random(seed)
    reader, pattern = Excerpting(shape_of(Pod)), b"".join(choices.choices(tokens, k=12))
    list(reader.feed(b'{"metadata":{'))
    for _ in range(2 * ROOM * 3 // len(pattern) + 1):
        for start in range(0, len(pattern), 2**16):
            list(reader.feed(pattern[start : start + 2**16]))
    assert len(reader.finish()) < 3 * ROOM


class _Counting(Excerpting):
    """Counts the tokens that are looked at."""

    looks = 0

    def _take(self, at: int) -> int:
        self.looks += 1
        return super()._take(at)


@pytest.mark.parametrize(
    ("head", "token"),
    [(b"", b'""'), (b"", b"a:"), (b'{"metadata":{"labels":{', b'"a":"",'), (b'{"metadata":{"finalizers":[', b"1,")],
    ids=["strings", "literals", "labels", "numbers"],
)
def test_others_have_a_turn_after_each_few_hundred_tokens(head: bytes, token: bytes) -> None:
    reader, most = _Counting(shape_of(Pod)), 0
    list(reader.feed(head))
    for _ in range(4):
        looks = reader.looks
        for _ in reader.feed(token * (SLICE // len(token))):
            most, looks = max(most, reader.looks - looks), reader.looks
        most = max(most, reader.looks - looks)
    assert 0 < most <= MOST_TOKENS


def test_others_have_a_turn_while_brackets_are_passed_over() -> None:
    reader = Excerpting(shape_of(Pod))
    list(reader.feed(b'{"x":['))
    assert len(list(reader.feed(b"[]" * (SLICE // 2)))) >= SLICE // (4 * MOST_TOKENS + 1) - 1


@pytest.mark.parametrize("text", [b"a", b"1"], ids=["letters", "digits"])
def test_literal_without_an_end_is_looked_at_once_in_a_slice(text: bytes) -> None:
    reader = _Counting(shape_of(Pod))
    list(reader.feed(b'{"x":'))
    for _ in range(16):
        list(reader.feed(text * SLICE))
    assert reader.looks < 100
