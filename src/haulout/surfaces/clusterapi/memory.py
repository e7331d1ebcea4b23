"""What the decision about a Machine remembers between its runs, as a row of its own. A restart loses it."""

from __future__ import annotations

from datetime import datetime

from haulout.cluster.key import Key
from haulout.cluster.rows import Row
from haulout.cluster.view import MARK, View


class Memory(Row, frozen=True, kw_only=True):
    """The observations about one Machine.

    `enabled`: the Machine was enabled, so its Node may still have its labels.
    `disabled_at`, `requested_at`: when it was first seen disabled, and with a maintenance request.
    """

    enabled: bool = False
    disabled_at: datetime | None = None
    requested_at: datetime | None = None


def recall(view: View, decider: str, key: Key) -> Memory:
    place = Key("", MARK, decider, f"{key.namespace}/{key.name}")
    return view.recall(place, Memory) or Memory(key=place)
