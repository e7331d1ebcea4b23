"""The decision about one node that a person wants drained: cordon it, then ask for its drain."""

from __future__ import annotations

from datetime import datetime

import msgspec

from haulout.cluster.key import Key, node_key
from haulout.cluster.rows import NodeRow
from haulout.cluster.view import View
from haulout.core.action import Annotate, KeepCordoned
from haulout.core.cordon import CORDON_REASON
from haulout.core.decision import NOTHING, Decision
from haulout.core.drain.options import DrainOptions, DrainRow, drain_row
from haulout.core.drain.progress import conclusion
from haulout.core.holds import LONG_AGO

SURFACE = "byhand"


class Wish(msgspec.Struct, frozen=True):
    """The nodes to drain and the drain options, from the command line.

    `since`: when the command began. `retry_for`: seconds until a failed eviction is tried again.
    `reason`: why, for those who find the cordon; empty: it is not noted.
    """

    nodes: tuple[str, ...]
    options: DrainOptions = DrainOptions()
    since: datetime = LONG_AGO
    retry_for: float = 5.0
    reason: str = ""

    def drain(self, node: str) -> DrainRow:
        key = node_key(node)
        return drain_row(SURFACE, key, key, options=self.options, since=self.since, retry_for=self.retry_for)


def decide(key: Key, view: View, now: datetime) -> Decision:
    setting = view.config(SURFACE)
    if setting is None:
        return NOTHING
    wish = setting.value
    assert isinstance(wish, Wish)
    if key.name not in wish.nodes:
        return NOTHING
    node = view.get(key, NodeRow)
    if node is None:
        return NOTHING
    # This counts as a person's cordon, which stays until a person removes it. So it needs no ledger entry.
    if not node.unschedulable:
        noted = (Annotate(key, CORDON_REASON, wish.reason),) if wish.reason else ()
        return Decision(actions=((KeepCordoned(key, SURFACE), *noted),))
    drain = wish.drain(key.name)
    # Reading the proof makes the kernel list the pods. The command that watches the drain reads it too.
    return Decision(marks=(drain,), until=conclusion(view, drain, now).changes_at)
