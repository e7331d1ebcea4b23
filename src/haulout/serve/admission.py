"""Answers AdmissionReviews by the pure rules of surfaces. Reviews are bounded and checked, as any client can send them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.store import Listing, Store
from haulout.cluster.topics import TableName
from haulout.cluster.view import NotListed, Record, View
from haulout.core.admission import AdmissionRequest, Answer, Question, Unanswered, Verdict, Webhook
from haulout.kube.errors import one_line, shorten
from haulout.runtime.metrics import Metrics
from haulout.serve.exchange import BodyTooLong, Request, Response
from haulout.serve.http import Handler
from haulout.serve.reviews import Malformed, T, encode, read_review, status_body
from haulout.serve.single_flight import Flight

log = logging.getLogger("haulout.admission")

# A review has the old and the new object. Custom resources are stored as the same JSON that a review has, and etcd
# takes at most 1.5 MiB of it (--max-request-bytes). A longer review is about an object that cannot be stored. The rest
# is room for the caller's groups and the options.
LONGEST_BODY = 2 * 3 * 2**19 + 2**18
BODY_WITHIN = 5.0
# Ordinary reviews have a few KiB and are read at once. Longer ones are rare and expensive: a few are received at a
# time, they are decoded one after the other, and further callers are asked to try again.
LONG_BODY = 64 * 2**10
LONG_AT_ONCE = 2
LONG_WAITING = 16
LONG_WITHIN = 5.0
RETRY_AFTER = "1"
# Decoding 3 MiB blocks the event loop for 4 to 12 ms. Nine times as long passes before the next one is decoded.
REST = 9.0
# The most requests to the API server at a time: any client can send a review whose answer needs one.
LOOKS_AT_ONCE = 8
LOOK_WITHIN = 5.0
# How long a review waits for tables to be listed: less than the 15 seconds that the registration allows.
LISTED_WITHIN = 8.0
LOOK_AGAIN = 0.05
MOST_DOUBTS = 4

COMPLAIN_EVERY = 1.0

LATENCY = "controller_runtime_webhook_latency_seconds"

# The most characters of a review's texts that are logged. Any client can be its author.
LONGEST_NAME, LONGEST_WHY = 253, 1000

Look = Callable[[Key], Awaitable[None]]
Ask = Callable[[Question], Awaitable[Answer]]


class Busy(Exception):
    """Raised for a long review while too many of them wait already."""


class Admission:
    """The handlers for AdmissionReviews of the API server, which apply the rules of surfaces.

    `look`: reads an object again, of which a rule doubts that its row is up to date. Without it the row counts as it is.
    `ask`: answers a question of a rule by a request to the API server.
    """

    def __init__(self, store: Store, metrics: Metrics, look: Look | None = None, ask: Ask | None = None) -> None:
        self._store = store
        self._metrics = metrics
        self._look = look
        self._ask_server = ask
        self._in_flight: dict[str, int] = {}
        self._looks = asyncio.Semaphore(LOOKS_AT_ONCE)
        self._lists: dict[Question, Flight[Answer]] = {}
        self._long = asyncio.Semaphore(LONG_AT_ONCE)
        self._long_waiting = 0
        self._decoding = asyncio.Lock()
        self._quiet_until = 0.0

    def routes(self, webhooks: tuple[Webhook, ...]) -> Mapping[str, Handler]:
        for webhook in webhooks:
            self._move(webhook.path, 0)
            self._metrics.begin(LATENCY, webhook=webhook.path)
            for code in ("200", "500"):
                self._count(webhook.path, code, 0)
        return {webhook.path: self._handler(webhook) for webhook in webhooks}

    async def judge(self, webhook: Webhook, request: AdmissionRequest) -> Verdict:
        """Return the verdict of the webhook's rule on a review.

        If tables that the rule reads are not listed yet, as after a start, it waits for them for a limited time.
        """
        record = Record()
        verdict = self._ask(webhook, request, record)
        ends = time.monotonic() + LISTED_WITHIN
        while self._waits_for(record) and time.monotonic() < ends:
            await asyncio.sleep(LOOK_AGAIN)
            if not self._waits_for(record):
                record = Record()
                verdict = self._ask(webhook, request, record)
        if verdict.questions:
            request = msgspec.structs.replace(request, answers=await self._answers(verdict.questions))
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

    async def _answers(self, questions: tuple[Question, ...]) -> dict[Question, Answer]:
        """Return an answer to each question. A question without an answer in time is `Unanswered`."""
        found: dict[Question, Answer] = dict.fromkeys(questions, Unanswered(0, "no answer in time"))
        try:
            async with asyncio.timeout(LOOK_WITHIN):
                for question in questions:
                    found[question] = await self._answer(question)
        except TimeoutError:
            log.warning("no answer in time", extra={"paths": [question.path for question in questions]})
        return found

    async def _answer(self, question: Question) -> Answer:
        if self._ask_server is None:
            return Unanswered(0, "")
        if question.lists:
            # A list costs much more than the review that asks for it. Reviews that ask while one runs share the next.
            if question not in self._lists:
                self._lists[question] = Flight(partial(self._ask_server, question))
            return await self._lists[question].get()
        async with self._looks:
            return await self._ask_server(question)

    async def _clear_up(self, doubts: tuple[Key, ...]) -> None:
        assert self._look is not None
        try:
            async with asyncio.timeout(LOOK_WITHIN):
                for doubt in doubts:
                    async with self._looks:
                        await self._look(doubt)
        except TimeoutError:
            log.warning(
                "no answer in time, decided on what is known", extra={"objects": [str(each) for each in doubts]}
            )

    def _handler(self, webhook: Webhook) -> Handler:
        async def answer(http: Request) -> Response:
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

    async def _answered(self, webhook: Webhook, http: Request) -> Response:
        try:
            request = await self._received(webhook, http)
        except Busy:
            return _busy()
        except Malformed as error:
            self._complain("malformed review", webhook=webhook.name, **{"from": http.remote, "error": str(error)})
            return refusal(400, "BadRequest", str(error))
        except BodyTooLong:
            self._complain("review is too long", webhook=webhook.name, **{"from": http.remote})
            answer = refusal(413, "RequestEntityTooLarge", f"the body is longer than {LONGEST_BODY} bytes")
            # Close the connection, because the rest of the body is not read.
            answer.force_close()
            return answer
        verdict = await self.judge(webhook, request)
        if not verdict.allowed:
            log.info(
                "denied",
                extra={
                    "webhook": webhook.name,
                    "operation": shorten(request.operation),
                    "object": shorten(request.name, LONGEST_NAME),
                    "user": shorten(request.user, LONGEST_NAME),
                    "why": shorten(verdict.message, LONGEST_WHY),
                },
            )
        return Response(body=encode(request.uid, verdict), content_type="application/json")

    async def _received(self, webhook: Webhook, http: Request) -> AdmissionRequest:
        """Receive and decode a review. A long one waits for its turn, so that other requests get the event loop, too."""
        if http.content_type != "application/json":
            raise Malformed(f"the body is {http.content_type}, application/json was expected")
        length = http.content_length
        if length is not None and length > LONGEST_BODY:
            raise BodyTooLong
        if length is not None and length <= LONG_BODY:
            return read_review(await _body(http), webhook.reads)
        async with self._long_turn():
            body = await _body(http)
            async with self._decoding:
                return await _rested(lambda: read_review(body, webhook.reads))

    @contextlib.asynccontextmanager
    async def _long_turn(self) -> AsyncIterator[None]:
        if self._long_waiting >= LONG_WAITING:
            raise Busy
        self._long_waiting += 1
        try:
            async with asyncio.timeout(LONG_WITHIN):
                await self._long.acquire()
        except TimeoutError:
            raise Busy from None
        finally:
            self._long_waiting -= 1
        try:
            yield
        finally:
            self._long.release()

    def _complain(self, message: str, **fields: Any) -> None:
        """Log what is wrong with a review, at most once a second, because any client can send such reviews."""
        if time.monotonic() < self._quiet_until:
            return
        self._quiet_until = time.monotonic() + COMPLAIN_EVERY
        log.warning(message, extra=fields)

    def _move(self, path: str, by: int) -> None:
        self._in_flight[path] = self._in_flight.get(path, 0) + by
        self._metrics.gauge("controller_runtime_webhook_requests_in_flight", self._in_flight[path], webhook=path)

    def _count(self, path: str, code: str, amount: float = 1.0) -> None:
        self._metrics.count("controller_runtime_webhook_requests_total", amount, webhook=path, code=code)


async def _rested(work: Callable[[], T]) -> T:
    """Run a piece of work and return its result, after a pause in proportion to the time that it took."""
    began = time.monotonic()
    try:
        return work()
    finally:
        await asyncio.sleep(REST * (time.monotonic() - began))


async def _body(http: Request) -> bytes:
    try:
        async with asyncio.timeout(BODY_WITHIN):
            return await http.read()
    except TimeoutError:
        raise Malformed(f"the body did not arrive within {BODY_WITHIN:g} s") from None


def refusal(code: int, reason: str, message: str) -> Response:
    # The message may quote a header, which may contain bytes that are no text.
    body = {"apiVersion": "v1", "kind": "Status", "status": "Failure", **status_body(code, reason, one_line(message))}
    return Response(status=code, body=msgspec.json.encode(body), content_type="application/json")


def _busy() -> Response:
    answer = refusal(429, "TooManyRequests", "too many long reviews are being read, please try again")
    answer.headers["Retry-After"] = RETRY_AFTER
    answer.force_close()
    return answer


def _failed(message: str) -> Verdict:
    return Verdict(allowed=False, code=500, reason="InternalError", message=message)
