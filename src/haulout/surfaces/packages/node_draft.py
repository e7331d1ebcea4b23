"""A node with the edits of all Skyhooks applied one after another, and the difference as one patch."""

from __future__ import annotations

from collections.abc import Iterable

from haulout.cluster.rows import NodeRow
from haulout.core.action import Annotate, Edit, Label, Tell
from haulout.core.edit import applied, between


class NodeDraft:
    """A copy of one node that collects edits within one decision.

    `node`: the node with the edits so far. `tells`: the events that go with the patch.
    """

    def __init__(self, node: NodeRow) -> None:
        self._before = node
        self.node = node
        self.tells: list[Tell] = []

    def apply(self, edits: Iterable[Edit]) -> None:
        for edit in edits:
            changed = applied(self.node, edit)
            assert isinstance(changed, NodeRow)
            self.node = changed

    def annotate(self, name: str, value: str | None) -> None:
        if self.node.annotations.get(name) != value:
            self.apply([Annotate(self.node.key, name, value)])

    def label(self, name: str, value: str | None) -> None:
        if self.node.labels.get(name) != value:
            self.apply([Label(self.node.key, name, value)])

    def edits(self) -> tuple[Edit, ...]:
        return between(self._before, self.node)
