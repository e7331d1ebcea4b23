"""Who wrote a pause that does not say so, from what the API server notes of the clients of an object."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from haulout.cluster.key import Key
from haulout.cluster.project import RESOURCES
from haulout.cluster.rows import NodeRow
from haulout.cluster.store import Listing, Store
from haulout.core.budgets.wire import NODE_BUDGETS
from haulout.core.pause import ANNOTATION, AUTHOR_ANNOTATION, BUDGET, author_annotation, budget_mark, budget_pause
from haulout.explain.pauses import know_pause_authors, pauses_in
from haulout.kube.errors import KubeError

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
OF_NODE: dict[str, Any] = {"f:metadata": {"f:annotations": {f"f:{ANNOTATION}": {}}}}
OF_BUDGET: dict[str, Any] = {"f:spec": {"f:paused": {"f:reason": {}}}}


class Server:
    """An API server that has one object. `paths`: what it was asked for."""

    def __init__(self, entries: Any) -> None:
        self.body = msgspec.json.encode({"metadata": {"managedFields": entries}})
        self.paths: list[str] = []

    async def request(self, method: str, path: str) -> Any:
        self.paths.append(path)
        if self.body == msgspec.json.encode({"metadata": {"managedFields": "refused"}}):
            raise KubeError("forbidden")
        return _Reply(self.body)


class _Reply(msgspec.Struct, frozen=True):
    body: bytes


def entry(manager: str, fields: Any, time: str = "2026-03-01T12:00:00Z") -> dict[str, Any]:
    return {"manager": manager, "time": time, "fieldsV1": fields}


def paused_node(**notes: str) -> Store:
    store = Store()
    store.set_listing("", "Node", Listing.LISTED)
    store.write(NodeRow(key=Key("", "Node", "", "n"), annotations={ANNOTATION: "disk", **notes}))
    return store


async def authors(store: Store, server: Server) -> list[tuple[str, datetime | None]]:
    for _ in range(2):
        await know_pause_authors(store, (), (RESOURCES["Node"], NODE_BUDGETS), server)  # type: ignore[arg-type]
    return [(each.by, each.since) for each in pauses_in(store, ())]


async def test_the_newest_client_that_owns_the_annotation_has_paused() -> None:
    server = Server([entry("old", OF_NODE, "2026-01-01T00:00:00Z"), entry("kubectl", OF_NODE), entry("other", {})])
    assert await authors(paused_node(), server) == [("kubectl", AT)]
    # It is read once.
    assert server.paths == ["/api/v1/nodes/n"]


async def test_a_budget_is_paused_by_the_client_that_owns_the_field() -> None:
    store, pause = Store(), budget_pause(Key("", BUDGET, "", "night"), {"reason": "storm"}, None)
    assert pause is not None
    store.write(budget_mark(pause))
    assert await authors(store, Server([entry("kubectl", OF_BUDGET)])) == [("kubectl", AT)]


@pytest.mark.parametrize(
    "entries", ["refused", [], "x", [entry("kubectl", [])], [7], [entry("kubectl", {"f:metadata": 7})]], ids=str
)
async def test_what_is_not_noted_is_not_shown(entries: Any) -> None:
    assert await authors(paused_node(), Server(entries)) == [("", None)]


async def test_a_pause_that_names_its_author_is_not_looked_up() -> None:
    server = Server([entry("kubectl", OF_NODE)])
    note = author_annotation("disk", "ada", "2026-03-01T12:00:00Z")
    assert await authors(paused_node(**{AUTHOR_ANNOTATION: note}), server) == [("ada", AT)]
    assert server.paths == []
