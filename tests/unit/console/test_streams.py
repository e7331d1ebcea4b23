"""Streams: what is remembered, shared and dropped."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from haulout.console.encoding import encode
from haulout.console.picture import Changes, Picture, changes_between
from haulout.console.sight import Sight
from haulout.console.streams import COMMENT, MOST_OF_CALLER, MOST_STREAMS, MOST_WAITING, Streams
from haulout.explain.node_rows import FleetRow

SOON = 0.001


def picture(seq: int, **states: str) -> Picture:
    return Picture(
        seq=seq, tables={"Node": "listed"}, rows={name: FleetRow(name, state) for name, state in states.items()}
    )


def publish(streams: Streams, *pictures: Picture) -> None:
    for old, new in itertools.pairwise(pictures):
        streams.published(old, new, changes_between(old, new))


def events(chunk: bytes) -> list[tuple[str, Any]]:
    blocks = [block.split("\n") for block in chunk.decode().split("\n\n") if block]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in blocks]


async def test_a_change_comes_to_every_stream() -> None:
    streams, first, second = Streams(encode), picture(1, a="in service", b="in service"), picture(2, a="cordoned")
    open_streams = [streams.open(name, Sight(), first, 1) for name in ("jane", "joe")]
    publish(streams, first, second)
    for stream in open_streams:
        ((name, data),) = events(await stream.next(SOON))
        assert (name, data["seq"], data["gone"]) == ("rows", 2, ["b"])
        assert [row["state"] for row in data["set"]] == ["cordoned"]


async def test_a_page_that_was_away_gets_what_it_missed() -> None:
    streams = Streams(encode)
    pictures = [picture(1, a="x"), picture(2, a="y"), picture(3, a="y", b="z"), picture(4, b="z")]
    publish(streams, *pictures)
    ((name, data),) = events(await streams.open("jane", Sight(), pictures[-1], 2).next(SOON))
    assert (name, data["seq"], data["gone"], [row["name"] for row in data["set"]]) == ("rows", 4, ["a"], ["b"])


@pytest.mark.parametrize("since", [0, 3, 99])
async def test_a_page_from_a_picture_that_is_not_remembered_begins_anew(since: int) -> None:
    streams, last = Streams(encode), picture(7, a="x")
    assert events(await streams.open("jane", Sight(), last, since).next(SOON)) == [("resync", {"seq": 7})]


async def test_a_page_that_does_not_read_holds_one_word_at_the_end() -> None:
    streams, now = Streams(encode), picture(1)
    stream = streams.open("jane", Sight(), now, None)
    for _ in range(2):
        stream.put(b"x" * (MOST_WAITING - 10), 5)
    assert events(await stream.next(SOON)) == [("resync", {"seq": 5})]


async def test_a_stream_without_news_says_that_it_is_there() -> None:
    assert await Streams(encode).open("jane", Sight(), picture(1), None).next(SOON) == COMMENT


async def test_the_oldest_stream_of_a_crowded_caller_ends() -> None:
    streams = Streams(encode)
    mine = [streams.open("jane", Sight(), picture(1), None) for _ in range(MOST_OF_CALLER + 1)]
    assert [stream.ended for stream in mine] == [True, *[False] * MOST_OF_CALLER]
    others = [streams.open(f"caller {number}", Sight(), picture(1), None) for number in range(MOST_STREAMS)]
    assert len(streams) == MOST_STREAMS
    assert not any(stream.ended for stream in others[:50])


def test_changes_add_up() -> None:
    one, other = Changes(frozenset({"a"}), frozenset({"causes"})), Changes(frozenset({"b"}))
    assert one | other == Changes(frozenset({"a", "b"}), frozenset({"causes"}))
    assert not Changes()
