"""Serves a path only to callers that the API server authenticates (TokenReview) and allows (SubjectAccessReview)."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any, Generic, TypeVar

import msgspec

from haulout.base.clock import Clock
from haulout.kube.errors import KubeError
from haulout.kube.transport import Transport
from haulout.serve.exchange import Request, Response, StreamResponse
from haulout.serve.http import Handler

log = logging.getLogger("haulout.guard")

TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - a path
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
KNOWN_FOR = 60.0
ALLOWED_FOR = 300.0
DENIED_FOR = 30.0
ASK_WITHIN = 10.0
# The most answers that are kept, because any client can send made-up tokens.
MOST_KEPT = 1024
# Longer than any service account token. Hashing longer ones would let a client keep us busy.
LONGEST_TOKEN = 16 * 1024

T = TypeVar("T")


class User(msgspec.Struct, frozen=True):
    """The user that a token belongs to, as the API server describes it in a TokenReview.

    We do not interpret the fields. They are sent back in the SubjectAccessReview.
    """

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, Any] = {}


class TokenStatus(msgspec.Struct, frozen=True):
    """The status of a TokenReview, in part."""

    authenticated: bool = False
    user: User = User()


class TokenReview(msgspec.Struct, frozen=True):
    """The answer to a TokenReview, in part."""

    status: TokenStatus = TokenStatus()


class AccessStatus(msgspec.Struct, frozen=True):
    """The status of a SubjectAccessReview, in part."""

    allowed: bool = False


class AccessReview(msgspec.Struct, frozen=True):
    """The answer to a SubjectAccessReview, in part."""

    status: AccessStatus = AccessStatus()


class Kept(Generic[T]):
    """A bounded cache of answers. Each is kept for its own time; the oldest is dropped when there are too many."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._answers: OrderedDict[Hashable, tuple[float, T]] = OrderedDict()

    def get(self, question: Hashable) -> T | None:
        ends_at, answer = self._answers.get(question, (0.0, None))
        return answer if self._clock.monotonic() < ends_at else None

    def put(self, question: Hashable, answer: T, seconds: float) -> None:
        self._answers[question] = (self._clock.monotonic() + seconds, answer)
        self._answers.move_to_end(question)
        while len(self._answers) > MOST_KEPT:
            self._answers.popitem(last=False)

    def drop(self, question: Hashable) -> None:
        self._answers.pop(question, None)


class Guard:
    """Asks the API server whether a caller may read an HTTP path, and keeps the answer for a while."""

    def __init__(self, transport: Transport, clock: Clock) -> None:
        self._transport = transport
        # Apart from each other, so that made-up tokens do not push out those of callers that are known.
        self._users: Kept[User] = Kept(clock)
        self._refused_tokens: Kept[bool] = Kept(clock)
        self._access: Kept[bool] = Kept(clock)
        # Callers ask the API server one after the other. So requests with the same token that arrive together ask once.
        self._turn = asyncio.Lock()

    async def code(self, authorization: str, path: str, verb: str) -> int:
        """Return the HTTP status for a caller: 200, 401 or 403; 500 if the API server could not be asked."""
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token or len(token) > LONGEST_TOKEN or not token.isascii():
            return 401
        if self._is_known(token, path, verb):
            return 200
        try:
            async with self._turn:
                user = await self._user(token)
                if user is None:
                    return 401
                return 200 if await self._may(user, path, verb) else 403
        except KubeError as error:
            log.warning("access cannot be reviewed", extra={"path": path, "error": str(error)})
            return 500

    def _is_known(self, token: str, path: str, verb: str) -> bool:
        """Whether the caller is known to be allowed. Then it does not queue behind callers with made-up tokens."""
        user = self._users.get(digest(token))
        return user is not None and bool(self._access.get(_question(user, path, verb)))

    async def _user(self, token: str) -> User | None:
        """Return the user that a token belongs to; None if the API server does not know the token."""
        question = digest(token)
        known = self._users.get(question)
        if known is not None or self._refused_tokens.get(question):
            return known
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        status = (await self._ask(TOKEN_REVIEWS, review, TokenReview)).status
        if not status.authenticated:
            self._refused_tokens.put(question, True, KNOWN_FOR)
            return None
        self._users.put(question, status.user, KNOWN_FOR)
        return status.user

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
            allowed = (await self._ask(ACCESS_REVIEWS, asked, AccessReview)).status.allowed
            self._access.put(question, allowed, ALLOWED_FOR if allowed else DENIED_FOR)
        return allowed

    async def _ask(self, path: str, review: dict[str, Any], kind: type[T]) -> T:
        reply = await self._transport.request("POST", path, body=msgspec.json.encode(review), timeout=ASK_WITHIN)
        try:
            answer: T = msgspec.json.decode(reply.body, type=kind)
        except msgspec.DecodeError as error:
            raise KubeError(f"POST {path}: the answer cannot be read: {error}") from error
        return answer


def digest(token: str) -> bytes:
    """Return what a token is kept under, so that no token stays in memory."""
    return hashlib.sha256(token.encode()).digest()


def _question(user: User, path: str, verb: str) -> Hashable:
    return user.username, user.uid, user.groups, msgspec.json.encode(user.extra), path, verb


def guard_handler(handler: Handler, guard: Guard) -> Handler:
    words = {401: "Unauthorized", 403: "Forbidden", 500: "Access cannot be reviewed"}

    async def answer(request: Request) -> StreamResponse:
        code = await guard.code(request.headers.get("Authorization", ""), request.path, "get")
        if code != 200:
            return Response(status=code, text=f"{words[code]}\n")
        return await handler(request)

    return answer
