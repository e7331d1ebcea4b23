"""A node with the edits of all Skyhooks applied one after another, and the difference as one patch."""

from __future__ import annotations

from collections.abc import Iterable

from haulout.cluster.rows import NodeRow
from haulout.cluster.view import View
from haulout.core import cordon
from haulout.core.action import Annotate, CordonWish, KeepCordoned, Label, NodeEdit, Release, Tell
from haulout.core.edit import apply_edit, between
from haulout.surfaces.packages.node.prefixes import Homes, inner, outer


class NodeDraft:
    """A copy of one node that collects edits within one decision.

    `node`: the node in its inner form (see `prefixes`), with the edits so far. `stored`: the node as it is stored.
    `homes`: the prefixes of the units on it. `tells`: the events that go with the patch.
    `keeps_ledger`: the kernel keeps a cordon ledger, which it does not for the drop-in.
    """

    def __init__(self, node: NodeRow, view: View, homes: Homes, *, keeps_ledger: bool) -> None:
        self.stored, self.homes = node, homes
        self._before = inner(node, homes)
        self._view = view
        self._keeps_ledger = keeps_ledger
        self._wish: CordonWish | None = None
        self.node = self._before
        self.tells: list[Tell] = []

    def apply(self, edits: Iterable[NodeEdit]) -> bool:
        """Apply the edits. Return whether they changed the node."""
        before = self.node
        for edit in edits:
            if isinstance(edit, KeepCordoned | Release):
                self.node = cordon.foreseen(edit, self.node, self._view, keeps_ledger=self._keeps_ledger)
                # A Skyhook that needs the cordon outweighs others that release it in the same decision.
                if isinstance(edit, KeepCordoned) or not isinstance(self._wish, KeepCordoned):
                    self._wish = edit
                continue
            changed = apply_edit(self.node, edit)
            assert isinstance(changed, NodeRow)
            self.node = changed
        return self.node != before

    def annotate(self, name: str, value: str | None) -> None:
        if self.node.annotations.get(name) != value:
            self.apply([Annotate(self.node.key, name, value)])

    def label(self, name: str, value: str | None) -> None:
        if self.node.labels.get(name) != value:
            self.apply([Label(self.node.key, name, value)])

    def edits(self) -> tuple[NodeEdit, ...]:
        """Return the edits of the node, with a wish for a change of its cordon or of the ledger."""
        edits = between(self.stored, self.outer)
        others = tuple(edit for edit in edits if not cordon.is_reserved(edit))
        return (*others, self._wish) if self._wish is not None and len(others) < len(edits) else others

    @property
    def outer(self) -> NodeRow:
        """The node as it will be stored."""
        return outer(self.node, self.stored, self.homes)

    @property
    def is_newly_cordoned(self) -> bool:
        return self.node.unschedulable and not self._before.unschedulable

    @property
    def is_spec_changed(self) -> bool:
        """Whether more than the metadata of the node changes."""
        before = self._before
        return (before.unschedulable, before.taints) != (self.node.unschedulable, self.node.taints)
