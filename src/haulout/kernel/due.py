"""The subjects that are due, in the order in which they are to be run."""

from __future__ import annotations

import heapq

from haulout.kernel.rooms import Order, Subject


class DueSubjects:
    """The subjects that are due, each with its place in the order. A place may change while the subject waits."""

    def __init__(self) -> None:
        self._orders: dict[Subject, Order] = {}
        self._heap: list[Order] = []

    def __contains__(self, subject: Subject) -> bool:
        return subject in self._orders

    def __len__(self) -> int:
        return len(self._orders)

    def add(self, order: Order) -> bool:
        """Make a subject due, or move it to another place. Return whether it was not due before."""
        known = self._orders.get(order.subject)
        if known != order:
            self._orders[order.subject] = order
            heapq.heappush(self._heap, order)
        return known is None

    def remove(self, subject: Subject) -> None:
        self._orders.pop(subject, None)
        if not self._orders:
            # A dict does not give back its memory by itself, and after a start every subject has been in it.
            self._orders = {}

    def first(self) -> Order | None:
        """Return the place of the subject that is to be run first, which stays due."""
        while self._heap and self._orders.get(self._heap[0].subject) is not self._heap[0]:
            heapq.heappop(self._heap)
        return self._heap[0] if self._heap else None

    def count(self, decider: str) -> int:
        """Return how many subjects of a decision function are due."""
        return sum(subject.decider == decider for subject in self._orders)
