"""Performs the actor's requests: the only code that changes the world."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Hashable, Mapping
from http import HTTPStatus
from typing import Any, Protocol, assert_never

import msgspec

from haulout.base.clock import Clock
from haulout.cluster.key import Key
from haulout.cluster.kinds import Kinds
from haulout.cluster.project import Projector, field_equals, version_number
from haulout.cluster.rows import ObjectRow, Row
from haulout.core.action import Create, Delete, Evict, Measure, Say, Send, Tell
from haulout.kernel.requests import (
    Answer,
    Body,
    Change,
    Done,
    Listed,
    ListPods,
    Look,
    Lost,
    Refused,
    Request,
    Telling,
    Withdrawn,
)
from haulout.kube.codec import Broken, Garbled, Kind, Shortened
from haulout.kube.errors import (
    UNFIT,
    ApiError,
    ConnectionFailed,
    KubeError,
    NotFound,
    RequestTimeout,
    TooLarge,
    one_line,
)
from haulout.kube.excerpt import shape_of
from haulout.kube.recorder import Recorder, Reporter
from haulout.kube.writer import Continued, Guard, Withheld, Writer
from haulout.model.event import ObjectReference
from haulout.model.meta import PartialObject
from haulout.runtime.logs import LEVELS, foreign
from haulout.runtime.metrics import Metrics

log = logging.getLogger(__name__)
acts = logging.getLogger("haulout.acts")

# Gateways answer with these codes after a timeout. The server behind may have carried the request out.
UNKNOWN_EFFECT = frozenset({502, 504})
DELETIONS = "haulout_pod_deletions_total"

# Sends a message. The return value becomes part of the outcome.
Channel = Callable[[Any], Awaitable[object]]
# The requests that are sent to an API server.
Asked = Change | Create | Evict | Delete | Look | ListPods


class Removals(Protocol):
    """A follower of the removals of pods by drains."""

    def asked(self, body: Evict | Delete) -> None:
        """Note that a request to remove a pod is about to be sent."""

    def answered(self, body: Evict | Delete, answer: Answer) -> None:
        """Note the answer to a request to remove a pod."""


class SendFailed(Exception):
    """A channel could not send a message. People are shown one line of the error's text, without its type."""


class Sender:
    """The performer of a kernel's requests: API writes, events, metrics, log lines and messages.

    `channels`: the functions that send messages, by name.
    `surfaces`: for claims whose name is not that of their surface, the surface under which evictions are counted.
    `removals`: follows the removals of pods by drains.
    """

    def __init__(
        self,
        kinds: Kinds,
        recorder: Recorder,
        clock: Clock,
        metrics: Metrics,
        *,
        host: str,
        channels: Mapping[str, Channel] | None = None,
        surfaces: Mapping[str, str] | None = None,
        removals: Removals | None = None,
    ) -> None:
        self._removals = removals
        self._kinds = kinds
        self._recorder = recorder
        self._clock = clock
        self._metrics = metrics
        self._host = host
        self._channels = channels or {}
        self._surfaces = surfaces or {}
        self.writers: dict[str, Writer] = {}
        # The namespaces, with their clusters, that did not exist when an object was to be created in them.
        self._missing: set[tuple[str, str]] = set()

    async def perform(self, request: Request, guard: Guard) -> Answer:
        match request.body:
            case Telling() | Measure() | Say() as statement:
                self.state(statement)
                return Done()
            case Send() as send:
                return await self._deliver(send, guard)
            case _ as body:
                key = Continued(body.target) if request.continues else body.target
                return await self._ask_server(body, key, guard)

    def state(self, statement: Telling | Measure | Say) -> None:
        """Emit a statement: an event, a counter or a log line. This does not wait for any request."""
        match statement:
            case Telling():
                self._tell(statement.tell, statement.row)
            case Measure():
                self._measure(statement)
            case Say():
                level = LEVELS.get(statement.level, logging.INFO)
                acts.log(level, statement.message, extra=foreign(statement.fields))

    def _measure(self, measure: Measure) -> None:
        if measure.since is None:
            self._metrics.add(measure.counter, measure.labels, measure.amount)
        else:
            seconds = ((measure.until or self._clock.now()) - measure.since).total_seconds()
            counted = seconds if measure.signed else max(seconds, 0.0)
            self._metrics.observe(measure.counter, counted / measure.unit, measure.trace, **dict(measure.labels))

    def _tell(self, tell: Tell, row: ObjectRow | None) -> None:
        reporter = Reporter(tell.reporter, f"{tell.reporter}-{self._host}", "v1" if tell.core else "events.k8s.io/v1")
        self._recorder.record(
            reporter,
            self._reference(tell.regarding, row),
            tell.reason,
            tell.note,
            action=tell.action,
            type="Warning" if tell.warning else "Normal",
            related=self._reference(tell.related, None) if tell.related else None,
            # Warnings with different notes are different events. So if two names are unknown, both are reported.
            by_note=tell.warning,
        )

    def _reference(self, key: Key, row: ObjectRow | None) -> ObjectReference:
        resource = self._kinds.resource(key.kind)
        return ObjectReference(
            kind=key.kind,
            api_version=resource.api_version,
            name=key.name,
            namespace=key.namespace,
            uid=row.uid if row else "",
            resource_version=str(row.version) if row else "",
        )

    async def _deliver(self, send: Send, guard: Guard) -> Answer:
        channel = self._channels.get(send.channel)
        if channel is None:
            return Refused(0, f"no client sends messages by {send.channel}")
        if guard() is None:
            return Withdrawn()
        try:
            content = await channel(send.payload)
        except SendFailed as error:
            return Refused(0, one_line(str(error)))
        except Exception as error:  # noqa: BLE001 - whatever a foreign service does is an outcome, not a crash
            return Refused(0, one_line(f"{type(error).__name__}: {error}"))
        return Done(content=content)

    async def _ask_server(self, body: Asked, key: Hashable, guard: Guard) -> Answer:
        writer = self.writers.get(body.target.cluster)
        if writer is None:
            return Refused(0, f"there is no connection to cluster {body.target.cluster}")
        removals = self._removals if isinstance(body, Evict) or (isinstance(body, Delete) and body.surface) else None
        if removals is not None and isinstance(body, Evict | Delete):
            removals.asked(body)
        answer = await self._outcome(writer, body, key, guard)
        if removals is not None and isinstance(body, Evict | Delete):
            removals.answered(body, answer)
        verb = type(body).__name__.lower()
        self._metrics.count("haulout_requests_total", verb=verb, kind=body.target.kind, outcome=_outcome_name(answer))
        if isinstance(body, Evict) or (isinstance(body, Delete) and body.surface):
            counter, done = (
                ("haulout_evictions_total", "evicted") if isinstance(body, Evict) else (DELETIONS, "deleted")
            )
            surface = self._surfaces.get(body.surface, body.surface)
            self._metrics.count(counter, surface=surface, result=_removal_result(answer, done))
        self._log(body, verb, answer)
        return answer

    def _log(self, body: Asked, verb: str, answer: Answer) -> None:
        """Log a request that failed. A missing namespace is logged once, until an object can be created in it."""
        place = body.target.cluster, body.target.namespace
        if isinstance(body, Create) and place[1] and _is_missing(answer):
            if place not in self._missing:
                self._missing.add(place)
                act = f"kubectl create namespace {place[1]}"
                log.warning("namespace does not exist", extra={"namespace": place[1], "cluster": place[0], "act": act})
        elif isinstance(body, Look) and _is_missing(answer):
            return
        elif isinstance(answer, Refused | Lost):
            if not _is_closed_budget(answer):
                log.warning("write failed", extra={"verb": verb, "object": str(body.target), "error": answer.message})
        elif isinstance(body, Create):
            self._missing.discard(place)

    async def _outcome(self, writer: Writer, body: Asked, key: Hashable, guard: Guard) -> Answer:
        try:
            if isinstance(body, ListPods):
                return await self._list_pods(writer, body.target, guard)
            return self._done(body, await self._send(writer, body, key, guard))
        except Withheld:
            return Withdrawn()
        except ApiError as error:
            if error.status.code in UNKNOWN_EFFECT:
                return Lost(str(error))
            if isinstance(error, NotFound) and not error.of_object:
                # This 404 does not say that the object is missing, so it may exist.
                return Refused(0, str(error))
            return Refused(error.status.code, str(error), error.retry_after, error.cause)
        except ConnectionFailed as error:
            return Lost(str(error)) if error.sent else Refused(0, str(error))
        except (RequestTimeout, TooLarge) as error:
            return Lost(str(error))
        except KubeError as error:
            return Refused(0, str(error))

    async def _send(
        self, writer: Writer, body: Change | Create | Evict | Delete | Look, key: Hashable, guard: Guard
    ) -> bytes:
        target = body.target
        resource = self._kinds.resource(target.kind)
        path = resource.object_path(target)
        keep = shape_of(resource.model)
        match body:
            case Look():
                return await writer.get(path, key=key, guard=guard, keep=keep)
            case Change():
                version = str(body.version) if body.version else None
                return await writer.merge_patch(
                    path,
                    body.body,
                    key=key,
                    version=version,
                    subresource=body.subresource or None,
                    slim=body.slim,
                    strategic=body.strategic,
                    guard=guard,
                    keep=keep,
                )
            case Create():
                collection = resource.collection_path(target.namespace)
                return await writer.create(collection, body.body, key=key, guard=guard, keep=keep)
            case Evict():
                return await writer.evict(
                    target.namespace, target.name, key=key, uid=body.uid, grace_seconds=body.grace_for, guard=guard
                )
            case Delete():
                return await writer.delete(
                    path,
                    key=key,
                    uid=body.uid,
                    grace_seconds=body.grace_for,
                    with_owned=body.with_owned,
                    guard=guard,
                    keep=keep,
                )
            case _:
                assert_never(body)

    async def _list_pods(self, writer: Writer, node: Key, guard: Guard) -> Listed:
        """List the pods of a node. An excerpt of a pod that is too long has all fields that a row needs."""
        projector = self._kinds.projector(node.cluster, "Pod")
        kind: Kind[Any] = Kind(projector.resource.model)
        query = {"fieldSelector": field_equals("spec.nodeName", node.name)}
        items, version = await writer.read_list(projector.resource.path, kind, query, key=node, guard=guard)
        return Listed(tuple(_listed_row(projector, item) for item in items), version_number(version))

    def _done(self, body: Body, reply: bytes) -> Done:
        """Return the answer with the object as a row. If it cannot be decoded, the watch will bring the row."""
        if isinstance(body, Evict | ListPods | Telling | Measure | Say | Send):
            return Done()
        projector = self._kinds.projector(body.target.cluster, body.target.kind)
        try:
            if isinstance(body, Change) and body.slim:
                return Done(metadata=projector.metadata(msgspec.json.decode(reply, type=PartialObject)))
            # A completed deletion is answered with a Status, which is not of the object's kind.
            if isinstance(body, Delete) and msgspec.json.decode(reply, type=_Typed).kind == "Status":
                return Done()
            obj = msgspec.json.decode(reply, type=projector.resource.model)
        except UNFIT as error:
            log.warning("answer cannot be read", extra={"object": str(body.target), "error": str(error)})
            return Done()
        return Done(row=projector.row(obj)) if obj.metadata.name else Done()


class _Typed(msgspec.Struct, frozen=True):
    """The kind of an object in an answer."""

    kind: str = ""


def _listed_row(projector: Projector, item: Any) -> Row:
    if isinstance(item, Broken):
        # The pod may be one that has to be evicted, so the list does not prove that the node is empty.
        raise Garbled(f"pod {item.name} cannot be read: {item.why}")
    return projector.row(item.object if isinstance(item, Shortened) else item)


def _is_missing(answer: Answer) -> bool:
    """Whether an object does not exist or, for a creation, its namespace."""
    return isinstance(answer, Refused) and answer.code == HTTPStatus.NOT_FOUND


def _is_closed_budget(answer: Answer) -> bool:
    """Whether a PodDisruptionBudget refused an eviction. That is expected, and reported elsewhere."""
    return isinstance(answer, Refused) and answer.by_budget


def _removal_result(answer: Answer, done: str) -> str:
    match answer:
        case Done():
            return done
        case Refused():
            return "blocked" if answer.by_budget else "failed"
        case _:
            return _outcome_name(answer)


def _outcome_name(answer: Answer) -> str:
    match answer:
        case Done() | Listed():
            return "done"
        case Refused():
            return str(answer.code) if answer.code else "unreachable"
        case Lost():
            return "lost"
        case Withdrawn():
            return "withdrawn"
