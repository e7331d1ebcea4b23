"""Answers a path only to callers that the API server knows and allows: TokenReview, then SubjectAccessReview."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any, Generic, TypeVar

import msgspec
from aiohttp import web

from haulout.base.clock import Clock
from haulout.kube.errors import KubeError
from haulout.kube.transport import Transport
from haulout.serve.web import Handler

log = logging.getLogger("haulout.guard")

TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - a path
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
KNOWN_FOR = 60.0
ALLOWED_FOR = 300.0
DENIED_FOR = 30.0
ASK_WITHIN = 10.0
# Bounded: a client that sends made-up tokens removes only other refused tokens.
MOST_KEPT = 1024
# No service account token is as long. Hashing a longer one would let a client keep us busy.
LONGEST_TOKEN = 16 * 1024

T = TypeVar("T")


class User(msgspec.Struct, frozen=True):
    """The user that a token belongs to.

    It is described by the API server. Fields that we do not read are handed on as they came.
    """

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, Any] = {}


class _TokenStatus(msgspec.Struct, frozen=True):
    authenticated: bool = False
    user: User = User()


class _TokenReview(msgspec.Struct, frozen=True):
    status: _TokenStatus = _TokenStatus()


class _AccessStatus(msgspec.Struct, frozen=True):
    allowed: bool = False


class _AccessReview(msgspec.Struct, frozen=True):
    status: _AccessStatus = _AccessStatus()


class Kept(Generic[T]):
    """Answers, each for as long as it may be relied upon."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._answers: OrderedDict[Hashable, tuple[float, T]] = OrderedDict()

    def get(self, question: Hashable) -> T | None:
        ends_at, answer = self._answers.get(question, (0.0, None))
        return answer if self._clock.elapsed() < ends_at else None

    def put(self, question: Hashable, answer: T, seconds: float) -> None:
        self._answers[question] = (self._clock.elapsed() + seconds, answer)
        self._answers.move_to_end(question)
        while len(self._answers) > MOST_KEPT:
            self._answers.popitem(last=False)


class Guard:
    """Asks the API server whether the caller of an HTTP path may have it, and remembers the answer for a while."""

    def __init__(self, transport: Transport, clock: Clock) -> None:
        self._transport = transport
        self._users: Kept[_TokenStatus] = Kept(clock)
        self._access: Kept[bool] = Kept(clock)
        # One question at a time: requests that arrive together ask the API server once.
        self._turn = asyncio.Lock()

    async def code(self, authorization: str, path: str, verb: str) -> int:
        """Return 200, 401 or 403; 500 where the API server could not be asked."""
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token or len(token) > LONGEST_TOKEN or not token.isascii():
            return 401
        if self._is_known(token, path, verb):
            return 200
        try:
            async with self._turn:
                status = await self._user(token)
                if not status.authenticated:
                    return 401
                return 200 if await self._may(status.user, path, verb) else 403
        except KubeError as error:
            log.warning("access cannot be reviewed", extra={"path": path, "error": str(error)})
            return 500

    def _is_known(self, token: str, path: str, verb: str) -> bool:
        """Whether the caller was allowed a moment ago. Then it does not queue behind callers with made-up tokens."""
        status = self._users.get(_digest(token))
        return status is not None and bool(self._access.get(_question(status.user, path, verb)))

    async def _user(self, token: str) -> _TokenStatus:
        question = _digest(token)
        status = self._users.get(question)
        if status is None:
            asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
            status = (await self._ask(TOKEN_REVIEWS, asked, _TokenReview)).status
            self._users.put(question, status, KNOWN_FOR)
        return status

    async def _may(self, user: User, path: str, verb: str) -> bool:
        question = _question(user, path, verb)
        allowed = self._access.get(question)
        if allowed is None:
            spec = {
                "user": user.username,
                "uid": user.uid,
                "groups": user.groups,
                "extra": user.extra,
                "nonResourceAttributes": {"path": path, "verb": verb},
            }
            asked = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
            allowed = (await self._ask(ACCESS_REVIEWS, asked, _AccessReview)).status.allowed
            self._access.put(question, allowed, ALLOWED_FOR if allowed else DENIED_FOR)
        return allowed

    async def _ask(self, path: str, review: dict[str, Any], kind: type[T]) -> T:
        reply = await self._transport.request("POST", path, body=msgspec.json.encode(review), timeout=ASK_WITHIN)
        try:
            answer: T = msgspec.json.decode(reply.body, type=kind)
        except msgspec.DecodeError as error:
            raise KubeError(f"POST {path}: the answer cannot be read: {error}") from error
        return answer


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _question(user: User, path: str, verb: str) -> Hashable:
    return user.username, user.uid, user.groups, msgspec.json.encode(user.extra), path, verb


def guarded(handler: Handler, guard: Guard) -> Handler:
    words = {401: "Unauthorized", 403: "Forbidden", 500: "Access cannot be reviewed"}

    async def answer(request: web.Request) -> web.StreamResponse:
        code = await guard.code(request.headers.get("Authorization", ""), request.path, "get")
        if code != 200:
            return web.Response(status=code, text=f"{words[code]}\n")
        return await handler(request)

    return answer
