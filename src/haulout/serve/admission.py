"""Answers AdmissionReviews: reads them with suspicion, asks a pure rule, and says no more than was asked."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from aiohttp import web

from haulout.cluster.key import Key
from haulout.cluster.store import Listing, Store, TableName
from haulout.cluster.view import NotListed, Record, View
from haulout.core.admission import AdmissionRequest, Verdict, Webhook
from haulout.runtime.metrics import Metrics
from haulout.serve.web import Handler

log = logging.getLogger("haulout.admission")

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"
# Two objects of the most that etcd takes, as JSON, with room around them: what controller-runtime allows too.
LONGEST_BODY = 7 * 2**20
BODY_WITHIN = 10.0
LOOK_WITHIN = 5.0
# Within the 15 seconds that the registration gives us, and then some for the way.
LISTED_WITHIN = 8.0
LOOK_AGAIN = 0.05
MOST_DOUBTS = 4
# The API server cuts off what is longer, and complains.
LONGEST_WARNING = 256

LATENCY = "controller_runtime_webhook_latency_seconds"

Look = Callable[[Key], Awaitable[None]]


class Malformed(Exception):
    """Not an AdmissionReview that could be answered."""


class _Kind(msgspec.Struct, frozen=True):
    kind: str = ""


class _User(msgspec.Struct, frozen=True):
    username: str = ""


class _Request(msgspec.Struct, frozen=True, rename="camel"):
    uid: str
    operation: str
    kind: _Kind = _Kind()
    name: str = ""
    namespace: str = ""
    sub_resource: str = ""
    user_info: _User = _User()
    dry_run: bool | None = None
    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = None


class _Review(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    request: _Request | None = None


_decoder = msgspec.json.Decoder(_Review)


def decode(body: bytes) -> AdmissionRequest:
    try:
        review = _decoder.decode(body)
    except RecursionError:
        raise Malformed("the body is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Malformed(f"the body is not an AdmissionReview: {error}") from None
    if (review.api_version, review.kind) != (API_VERSION, KIND):
        raise Malformed(f"{review.api_version!r} {review.kind!r} was sent where {API_VERSION} {KIND} was expected")
    asked = review.request
    if asked is None:
        raise Malformed("the AdmissionReview has no request")
    if not asked.uid:
        raise Malformed("the request has no uid")
    return AdmissionRequest(
        uid=asked.uid,
        operation=asked.operation,
        kind=asked.kind.kind,
        name=asked.name,
        namespace=asked.namespace,
        subresource=asked.sub_resource,
        user=asked.user_info.username,
        dry_run=bool(asked.dry_run),
        object=asked.object,
        old_object=asked.old_object,
    )


def encode(uid: str, verdict: Verdict) -> bytes:
    response: dict[str, Any] = {"uid": uid, "allowed": verdict.allowed}
    if not verdict.allowed:
        response["status"] = _status(verdict.code, verdict.reason, verdict.message)
    if verdict.warnings:
        response["warnings"] = [warning[:LONGEST_WARNING] for warning in verdict.warnings]
    return msgspec.json.encode({"apiVersion": API_VERSION, "kind": KIND, "response": response})


class Admission:
    """`look` brings the row of one object up to date; without it a rule's doubts stay what they are."""

    def __init__(self, store: Store, metrics: Metrics, look: Look | None = None) -> None:
        self._store = store
        self._metrics = metrics
        self._look = look
        self._in_flight: dict[str, int] = {}

    def routes(self, webhooks: tuple[Webhook, ...]) -> Mapping[str, Handler]:
        for webhook in webhooks:
            self._move(webhook.path, 0)
            self._metrics.begin(LATENCY, webhook=webhook.path)
            for code in ("200", "500"):
                self._count(webhook.path, code, 0)
        return {webhook.path: self._handler(webhook) for webhook in webhooks}

    async def judge(self, webhook: Webhook, request: AdmissionRequest) -> Verdict:
        """In the first moments of a process it waits for what the rule reads, as long as callers have patience."""
        record = Record()
        verdict = self._ask(webhook, request, record)
        ends = time.monotonic() + LISTED_WITHIN
        while self._waits_for(record) and time.monotonic() < ends:
            await asyncio.sleep(LOOK_AGAIN)
            if not self._waits_for(record):
                record = Record()
                verdict = self._ask(webhook, request, record)
        if verdict.doubts and self._look is not None:
            await self._clear_up(verdict.doubts[:MOST_DOUBTS])
            verdict = self._ask(webhook, request, record)
        return verdict

    def _waits_for(self, record: Record) -> bool:
        tables = [topic for topic in record.topics if isinstance(topic, TableName)]
        return any(self._store.table(*table).listing is Listing.WAITING for table in tables)

    def _ask(self, webhook: Webhook, request: AdmissionRequest, record: Record) -> Verdict:
        try:
            return webhook.rule(request, View(self._store, record))
        except NotListed as error:
            return _failed(f"{error}, please try again")
        except Exception as error:
            log.exception("rule failed", extra={"webhook": webhook.name, "object": request.name})
            return _failed(f"the rule of {webhook.name} failed: {type(error).__name__}")

    async def _clear_up(self, doubts: tuple[Key, ...]) -> None:
        assert self._look is not None
        try:
            async with asyncio.timeout(LOOK_WITHIN):
                for doubt in doubts:
                    await self._look(doubt)
        except TimeoutError:
            log.warning(
                "no answer in time, decided on what is known", extra={"objects": [str(each) for each in doubts]}
            )

    def _handler(self, webhook: Webhook) -> Handler:
        async def answer(http: web.Request) -> web.Response:
            self._move(webhook.path, 1)
            started = time.monotonic()
            try:
                made = await self._answered(webhook, http)
            finally:
                self._move(webhook.path, -1)
                self._metrics.observe(LATENCY, time.monotonic() - started, webhook=webhook.path)
            self._count(webhook.path, str(made.status))
            return made

        return answer

    async def _answered(self, webhook: Webhook, http: web.Request) -> web.Response:
        try:
            request = decode(await _body(http))
        except Malformed as error:
            log.warning("malformed review", extra={"webhook": webhook.name, "from": http.remote, "error": str(error)})
            return refusal(400, "BadRequest", str(error))
        except web.HTTPRequestEntityTooLarge:
            log.warning("review is too long", extra={"webhook": webhook.name, "from": http.remote})
            return refusal(413, "RequestEntityTooLarge", f"the body is longer than {LONGEST_BODY} bytes")
        verdict = await self.judge(webhook, request)
        if not verdict.allowed:
            log.info(
                "denied",
                extra={
                    "webhook": webhook.name,
                    "operation": request.operation,
                    "object": request.name,
                    "user": request.user,
                    "why": verdict.message,
                },
            )
        return web.Response(body=encode(request.uid, verdict), content_type="application/json")

    def _move(self, path: str, by: int) -> None:
        self._in_flight[path] = self._in_flight.get(path, 0) + by
        self._metrics.gauge("controller_runtime_webhook_requests_in_flight", self._in_flight[path], webhook=path)

    def _count(self, path: str, code: str, amount: float = 1.0) -> None:
        self._metrics.count("controller_runtime_webhook_requests_total", amount, webhook=path, code=code)


async def _body(http: web.Request) -> bytes:
    if http.content_type != "application/json":
        raise Malformed(f"the body is {http.content_type}, application/json was expected")
    try:
        async with asyncio.timeout(BODY_WITHIN):
            return await http.read()
    except TimeoutError:
        raise Malformed(f"the body did not arrive within {BODY_WITHIN:g} s") from None


def refusal(code: int, reason: str, message: str) -> web.Response:
    body = {"apiVersion": "v1", "kind": "Status", "status": "Failure", **_status(code, reason, message)}
    return web.Response(status=code, body=msgspec.json.encode(body), content_type="application/json")


def _status(code: int, reason: str, message: str) -> dict[str, Any]:
    return {"code": code, "reason": reason, "message": message}


def _failed(message: str) -> Verdict:
    return Verdict(allowed=False, code=500, reason="InternalError", message=message)
