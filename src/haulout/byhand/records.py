"""The records of drains by hand: made when a node is cordoned, completed by the command's end, closed by an uncordon."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

import msgspec

from haulout.base.bounds import text
from haulout.cluster.rows import NodeRow
from haulout.core.budgets.declare import GROUP
from haulout.core.logbook.notes import CLAIM_LABEL, claim_id, record_name
from haulout.core.logbook.wire import (
    BY_HAND,
    KIND,
    LONGEST_ERROR,
    MOST_ENTRIES,
    OPEN_LABEL,
    RECORDS,
    Certainty,
    DrainCounts,
    How,
    MaintenanceRecord,
    Outcome,
    Phase,
    RecordedNode,
    RecordedOwner,
    RecordSpec,
    RecordStatus,
    Requester,
    read_record,
)
from haulout.kube.errors import KubeError, NotFound
from haulout.kube.listing import read_list
from haulout.kube.transport import Transport
from haulout.kube.writer import Writer
from haulout.model.meta import wire_time

# A record must not hold a drain up.
WITHIN, TRIES = 5.0, 3
REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


class DrainEnd(msgspec.Struct, frozen=True):
    """How the drain of one node by hand ended, for its record.

    `drained_at`: when the node was seen to be drained; None: it was not. `outcome`, `error`: how and why it ended otherwise.
    """

    drained_at: datetime | None = None
    drain: DrainCounts = DrainCounts()
    outcome: Outcome | None = None
    error: str = ""


class HandRecords:
    """The records of the nodes that a command drains: made once a node is cordoned, completed when the command ends.

    `why`: why records could not be written; empty if they could. A record never holds a drain up.
    """

    def __init__(self, transport: Transport, writer: Writer, reason: str) -> None:
        self._transport = transport
        self._writer = writer
        self._reason = reason
        self._tries: Counter[str] = Counter()
        self._user: str | None = None
        # The open records of the nodes, by the UID of the node.
        self._open: dict[str, MaintenanceRecord] = {}
        self.why = ""

    async def begin(self, nodes: Collection[NodeRow], now: datetime) -> None:
        """Make the records of these nodes, which are cordoned, unless they have open ones."""
        new = [node for node in nodes if self._tries[node.key.name] < TRIES]
        if not new:
            return
        self._tries.update(node.key.name for node in new)
        try:
            async with asyncio.timeout(WITHIN):
                # A try whose answer was lost may have made a record.
                known = {each.spec.node.uid: each for each in await open_records(self._transport)}
                for node in new:
                    record = known.get(node.uid) or await self._make(node, now)
                    if record is not None:
                        self._open[node.uid] = record
                    self._tries[node.key.name] = TRIES
            self.why = ""
        except NotFound as error:
            # Where Haulout is not installed, there is no logbook, and only a reason that is lost matters.
            self._tries.update({node.key.name: TRIES for node in new})
            self.why = f"there is no logbook: {error}" if self._reason else ""
        except (KubeError, TimeoutError) as error:
            is_last = all(self._tries[node.key.name] >= TRIES for node in new)
            self.why = (str(error) or "no answer") if is_last else ""

    async def _make(self, node: NodeRow, now: datetime) -> MaintenanceRecord | None:
        name = record_name(BY_HAND, node.uid, node, "", wire_time(now))
        labels = {OPEN_LABEL: "true", CLAIM_LABEL: claim_id(BY_HAND, node.uid, node, "")}
        spec = RecordSpec(
            node=RecordedNode(node.key.name, node.uid),
            surface=BY_HAND,
            owner=RecordedOwner("Node", "", node.key.name, node.uid),
            reason=self._reason or "drain by hand",
            requested_by=await self._requester(),
            begun_at=now,
        )
        body = {
            "apiVersion": f"{GROUP}/v1alpha1",
            "kind": KIND,
            "metadata": {"name": name, "labels": labels},
            "spec": msgspec.to_builtins(spec),
            "status": msgspec.to_builtins(RecordStatus(phases=(Phase("begun", now),))),
        }
        return read_record(msgspec.json.decode(await self._writer.create(RECORDS.path, body, key=name)))

    async def end(self, ends: Mapping[str, DrainEnd]) -> None:
        """Complete the open records of nodes, by the UID of the node, with how their drains ended.

        It is the third write to such a record. A record that another client has closed or changed since is left alone.
        """
        for uid, record in self._open.items():
            if uid not in ends:
                continue
            with contextlib.suppress(KubeError, TimeoutError):
                async with asyncio.timeout(WITHIN):
                    path = f"{RECORDS.path}/{record.metadata.name}"
                    await self._writer.merge_patch(path, _completed(record, ends[uid]), key="")

    async def _requester(self) -> Requester:
        """Return who runs the command, as the API server sees it. It is the command that says so, so it is no proof."""
        if self._user is None:
            self._user = ""
            with contextlib.suppress(KubeError, msgspec.DecodeError):
                body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
                reply = await self._transport.request("POST", REVIEWS, body=msgspec.json.encode(body))
                found: Any = msgspec.json.decode(reply.body)
                self._user = str(found["status"]["userInfo"]["username"])
        return Requester(self._user, How.CLAIMED if self._user else How.UNKNOWN)


async def open_records(transport: Transport) -> list[MaintenanceRecord]:
    """Return the open records of drains by hand."""
    kept: Any = dict[str, Any]
    found = await read_list(transport, RECORDS.path, kept, query={"labelSelector": f"{OPEN_LABEL}=true"})
    records = (read_record(each) for each in found)
    return [each for each in records if each is not None and each.spec.surface == BY_HAND]


def _completed(record: MaintenanceRecord, end: DrainEnd) -> dict[str, Any]:
    """Return the patch of a record whose drain has ended. A drain that is repeated adds to what the earlier one did."""
    known = record.status.drain or DrainCounts()
    earlier = tuple(each for each in record.status.phases if each.name != "drained")
    drained = () if end.drained_at is None else (Phase("drained", end.drained_at),)
    status = RecordStatus(
        phases=(*earlier, *drained)[-MOST_ENTRIES:],
        drain=DrainCounts(known.evicted + end.drain.evicted, known.deleted + end.drain.deleted, end.drain.ignored),
    )
    failed = {"outcome": end.outcome, "error": text(end.error, LONGEST_ERROR) or None}
    metadata = {"resourceVersion": record.metadata.resource_version}
    return {"metadata": metadata, "status": {**msgspec.to_builtins(status), **failed}}


async def close_records(nodes: Collection[str], transport: Transport, writer: Writer, now: datetime) -> None:
    """Close the open records of drains by hand of these nodes, by UID. An operator does the same; one of both is refused."""
    with contextlib.suppress(KubeError, TimeoutError):
        async with asyncio.timeout(WITHIN):
            for record in await open_records(transport):
                if record.spec.node.uid in nodes:
                    await writer.merge_patch(f"{RECORDS.path}/{record.metadata.name}", closing(record, now), key="")


def closing(record: MaintenanceRecord, now: datetime) -> dict[str, Any]:
    """Return the patch that closes a record, unless another client has changed it since."""
    phases = (*record.status.phases, Phase("ended", now, Certainty.EXACT))
    outcome = record.status.outcome or Outcome.COMPLETED
    status = msgspec.structs.replace(record.status, outcome=outcome, ended_at=now, phases=phases)
    metadata = {"resourceVersion": record.metadata.resource_version, "labels": {OPEN_LABEL: None}}
    return {"metadata": metadata, "status": msgspec.to_builtins(status)}
