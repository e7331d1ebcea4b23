"""A small surface for kernel tests: it takes nodes that want it into a state, at most so many at a time, and out again."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from haulout.cluster.key import Key
from haulout.cluster.limits import Count, Limit, Membership
from haulout.cluster.rows import NodeRow, Row
from haulout.cluster.view import View
from haulout.core.action import Annotate, Label, Tell
from haulout.core.decision import NOTHING, Decider, Decision
from haulout.core.holds import Claim, Want, is_granted

WORK_FOR = timedelta(seconds=3)


class Inside(Count, frozen=True):
    """A count of the nodes in the state `in`, by the value of a label, or of all of them if no label is named."""

    label: str = ""

    def groups(self, row: Row) -> Iterable[Membership]:
        assert isinstance(row, NodeRow)
        if row.labels.get("state") == "in":
            yield Membership(row.labels.get(self.label, "") if self.label else "")


def roll(most: int, name: str = "toy", zone_most: int | None = None) -> Decider:
    """Return a decider that moves nodes with the label `want` into the state `in`, and after `WORK_FOR` to `done`.

    Each transition makes one event.
    """

    def decide(key: Key, view: View, now: datetime) -> Decision:
        row = view.get(key, NodeRow)
        if row is None or "want" not in row.labels:
            return NOTHING
        state = row.labels.get("state", "out")
        if state == "done":
            return NOTHING
        limits = [Limit(Inside(), "", most)]
        if zone_most is not None:
            limits.append(Limit(Inside("zone"), row.labels.get("zone", ""), zone_most))
        claim = Claim(key, key, frozenset({Want.EXCLUSIVE}), tuple(limits), begun=state == "in")
        if state == "out":
            moves = is_granted(view, name, claim)
            return Decision(actions=(move(key, "in", now, name),) if moves else (), claims=(claim,))
        ends = datetime.fromisoformat(row.annotations["since"]) + WORK_FOR
        if now < ends:
            return Decision(claims=(claim,), until=ends)
        return Decision(actions=(move(key, "done", now, name),), claims=(claim,))

    return Decider(name, "Node", decide)


def move(key: Key, state: str, now: datetime, name: str) -> tuple[Label | Annotate | Tell, ...]:
    told = Tell(key, reason="Moved", action="Move", note=f"now {state}", reporter=name)
    return (Label(key, "state", state), Annotate(key, "since", now.isoformat()), told)
