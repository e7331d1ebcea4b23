"""Proofs that nodes are empty: which lists of pods are under way, which have failed, which hold (K18).

See decision 0018.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Protocol

import msgspec

from haulout.cluster.indexes import PODS_OF_NODE
from haulout.cluster.key import Key
from haulout.cluster.rows import NodeRow, Value
from haulout.cluster.store import Store
from haulout.cluster.view import FAILED, PROVEN
from haulout.core.action import Refusal
from haulout.core.drain.proof import node_of
from haulout.kernel.requests import Answer, Listed, ListPods, Lost, Refused, Request
from haulout.kernel.rooms import Subject

POD = "Pod"


class Settles(Protocol):
    """The part of a kernel that `settle` uses."""

    @property
    def store(self) -> Store: ...

    def run(self, now: datetime) -> bool: ...

    def take_requests(self) -> list[Request]: ...

    def on_answer(self, request: int, answer: Answer, now: datetime) -> None: ...


def settle(kernel: Settles, now: datetime) -> list[Request]:
    """Run a kernel on a picture that was listed just now: that picture answers its lists. Return all other requests.

    They are not sent, so that the kernel takes them for being under way.
    """
    others: list[Request] = []
    while True:
        kernel.run(now)
        requests = kernel.take_requests()
        lists = [request for request in requests if isinstance(request.body, ListPods)]
        others += [request for request in requests if not isinstance(request.body, ListPods)]
        if not lists:
            return others
        for request in lists:
            assert isinstance(request.body, ListPods)
            node = request.body.target
            rows = tuple(kernel.store.bucket(PODS_OF_NODE, node.cluster, node.name))
            kernel.on_answer(request.id, Listed(rows, max((row.version for row in rows), default=0)), now)


class _Demand(msgspec.Struct):
    """A proof that decisions read.

    `request`: the number of the list that is under way. `retry_at`: when a list that failed is repeated.
    """

    subjects: set[Subject]
    request: int | None = None
    failures: int = 0
    retry_at: datetime | None = None


class Proofs:
    """The proofs that decisions read: for each, whether a LIST has shown the node to be empty.

    Each proof costs one list and stands for as long as a decision reads it. It is void once its node is uncordoned,
    deleted or replaced. A node is cordoned when its proof is first read, and the list is sent after that, so that it
    shows every pod that was bound before the cordon.

    `emit`: hands out a request and returns its number. `at`: sets a timer, which later calls `due`.
    `wake`: makes a subject due. `delay`: returns for how long a list that has failed is put off.
    """

    def __init__(
        self,
        store: Store,
        emit: Callable[[ListPods], int],
        at: Callable[[datetime, Key], None],
        wake: Callable[[Subject], None],
        delay: Callable[[Key, int], timedelta],
    ) -> None:
        self._store = store
        self._emit = emit
        self._at = at
        self._wake = wake
        self._delay = delay
        self._demands: dict[Key, dict[Key, _Demand]] = {}

    def want(self, proof: Key, subject: Subject) -> None:
        """Begin the list for a proof that a decision has read and that does not exist yet."""
        demand = self._demands.setdefault(node_of(proof), {}).setdefault(proof, _Demand(set()))
        demand.subjects.add(subject)
        if demand.request is None and demand.retry_at is None:
            self._list(proof, demand)

    def forget(self, proof: Key) -> None:
        """Drop a proof that no decision reads any more. The answer to its list still enters the store."""
        node = node_of(proof)
        demands = self._demands.get(node, {})
        demands.pop(proof, None)
        if not demands:
            self._demands.pop(node, None)
        self._store.erase(proof)

    def awaits(self, subject: Subject) -> bool:
        """Whether the list for a proof that the subject reads is under way, or will be repeated."""
        return any(
            subject in demand.subjects and (demand.request is not None or demand.retry_at is not None)
            for demands in self._demands.values()
            for demand in demands.values()
        )

    def on_answer(self, body: ListPods, request: int, answer: Answer, now: datetime) -> None:
        """Take in the pods that a list has shown.

        The proof then stands, unless it was forgotten or made void meanwhile.
        """
        node = body.target
        if isinstance(answer, Listed):
            self._store.take_bucket(PODS_OF_NODE, node.cluster, node.name, answer.rows, answer.version)
        self._store.let_go_table(node.cluster, POD)
        demand = self._demands.get(node, {}).get(body.proof)
        if demand is None or demand.request != request:
            return
        demand.request = None
        if isinstance(answer, Listed):
            demand.failures = 0
            self._store.write(Value(key=body.proof, state=PROVEN, value=answer.version))
        else:
            self._failed(body.proof, demand, answer, now)

    def due(self, proof: Key, now: datetime) -> None:
        """Repeat a list that has failed, if its time has come."""
        demand = self._demands.get(node_of(proof), {}).get(proof)
        if demand is not None and demand.retry_at is not None and demand.retry_at <= now:
            demand.retry_at = None
            self._list(proof, demand)

    def node_changed(self, node: Key) -> None:
        """Make the proofs of a node void that is no longer cordoned or no longer exists."""
        if node in self._demands:
            row = self._store.row(node)
            if not isinstance(row, NodeRow) or not row.unschedulable:
                self._void((node,))

    def nodes_listed(self, cluster: str) -> None:
        """Make all proofs of a cluster void whose nodes were listed anew: one may have been uncordoned in between."""
        self._void([node for node in self._demands if node.cluster == cluster])

    def size(self) -> int:
        return sum(map(len, self._demands.values()))

    def _void(self, nodes: Iterable[Key]) -> None:
        for node in nodes:
            for proof, demand in self._demands.pop(node).items():
                self._store.erase(proof)
                for subject in demand.subjects:
                    self._wake(subject)

    def _list(self, proof: Key, demand: _Demand) -> None:
        node = node_of(proof)
        self._store.hold_table(node.cluster, POD)
        demand.request = self._emit(ListPods(node, proof))

    def _failed(self, proof: Key, demand: _Demand, answer: Answer, now: datetime) -> None:
        """Plan to repeat a list that failed, and show the error to the decisions that read the proof."""
        demand.failures += 1
        code, message, cause = 0, "the list was not sent", ""
        delay = self._delay(proof, demand.failures)
        match answer:
            case Refused():
                code, message, cause = answer.code, answer.message, answer.cause
                delay = max(delay, timedelta(seconds=min(answer.retry_after or 0.0, 300.0)))
            case Lost():
                message = answer.message
        demand.retry_at = now + delay
        self._at(demand.retry_at, proof)
        refusal = Refusal(code, message, cause, now)
        self._store.write(Value(key=proof, state=FAILED, value=refusal, error=message, failures=demand.failures))
