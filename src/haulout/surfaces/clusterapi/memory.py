"""What the decision about a Machine remembers of its own: rows that it makes and recalls. A restart forgets them."""

from __future__ import annotations

from datetime import datetime

from haulout.cluster.key import Key
from haulout.cluster.rows import Row
from haulout.cluster.view import MARK, View


class Memory(Row, frozen=True, kw_only=True):
    """What has been seen of a Machine, remembered as a row of our own.

    `enabled`: it has been connected with its Node, which may still say so. `disabled_at`, `requested_at`: as seen.
    """

    enabled: bool = False
    disabled_at: datetime | None = None
    requested_at: datetime | None = None


def recall(view: View, decider: str, key: Key) -> Memory:
    place = Key("", MARK, decider, f"{key.namespace}/{key.name}")
    return view.recall(place, Memory) or Memory(key=place)
