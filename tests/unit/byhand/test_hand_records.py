"""The records of drains by hand where the API server refuses them for some time."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from haulout.byhand.records import TRIES, HandRecords
from haulout.cluster.key import Key
from haulout.cluster.rows import NodeRow
from haulout.kube.errors import KubeError

NOW = datetime(2026, 3, 1, tzinfo=UTC)
NODE = NodeRow(key=Key("", "Node", "", "n"), uid="u", unschedulable=True)


class Server:
    """An API server that fails to create so many records. `tries`: the names that it was asked for."""

    def __init__(self, failures: int) -> None:
        self.failures, self.tries = failures, list[str]()

    async def request(self, method: str, path: str, **more: Any) -> Any:
        body: Any = {"items": [], "metadata": {}} if method == "GET" else {"status": {"userInfo": {"username": "jane"}}}
        return msgspec.structs.replace(_Reply(), body=msgspec.json.encode(body))

    async def create(self, path: str, body: Any, *, key: str) -> bytes:
        self.tries.append(body["metadata"]["name"])
        if len(self.tries) <= self.failures:
            raise KubeError("not now")
        return msgspec.json.encode(body)


class _Reply(msgspec.Struct, frozen=True):
    body: bytes = b""


async def tried(failures: int) -> int:
    server: Any = Server(failures)
    records = HandRecords(server, server, "swap")
    for _ in range(6):
        await records.begin([NODE], NOW)
    return len(server.tries)


async def test_a_record_is_tried_again_a_few_times() -> None:
    assert [await tried(failures) for failures in (0, 1, 9)] == [1, 2, TRIES]


async def test_records_that_are_refused_are_reported_after_the_last_try() -> None:
    server: Any = Server(9)
    records, whys = HandRecords(server, server, ""), list[str]()
    for _ in range(4):
        await records.begin([NODE], NOW)
        whys.append(records.why)
    assert whys == ["", "", "not now", "not now"]
