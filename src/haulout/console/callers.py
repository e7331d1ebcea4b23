"""Who calls the console, and what the API server lets the caller read: answers are asked for once, and kept briefly."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Protocol, TypeVar

import msgspec

from haulout.base.clock import Clock
from haulout.console.stranger_queue import StrangerQueue
from haulout.kube.endpoint import Secret
from haulout.kube.errors import ConnectionFailed, KubeError, RequestTimeout
from haulout.kube.transport import Transport
from haulout.serve.guard import (
    ACCESS_REVIEWS,
    ASK_WITHIN,
    LONGEST_TOKEN,
    TOKEN_REVIEWS,
    AccessReview,
    Kept,
    TokenReview,
    User,
    digest,
)

SELF_REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
# How long an answer of the API server about a token or a right is believed.
BELIEVED_FOR = 30.0
# While the API server does not answer, what it last said of a caller is believed for this long. The console has nothing to
# show then but the picture that the caller has already seen.
OUTAGE_FOR = 900.0
# In an outage, the API server is asked again after this time. Where there is an earlier answer, no caller waits for another
# one for longer than `REPEAT_WITHIN`.
ASK_AGAIN_AFTER, REPEAT_WITHIN = 5.0, 3.0
# How many reviews of known callers are under way at a time, and how many of tokens that have never been proven.
AT_ONCE, STRANGERS_AT_ONCE = 16, 8
# How many tokens a second may be new, how many of them pass at once, and how many wait. Made-up ones cost a review each.
NEW_TOKENS_PER_SECOND, NEW_AT_ONCE, MOST_WAITING = 50.0, 50, 100
LOCAL, BEARER = "local", "bearer"

T = TypeVar("T")


class Question(msgspec.Struct, frozen=True):
    """A right that is asked about. `namespace`: empty for all namespaces."""

    verb: str
    group: str
    resource: str
    namespace: str = ""


class Caller(msgspec.Struct, frozen=True):
    """A person or program whose identity is proven. `door`: how it came in. `token`: its own, at the bearer door."""

    user: User
    door: str
    token: Secret = Secret("")


class Unknown(Exception):
    """Raised for a caller whose identity is not proven."""


class Door(Protocol):
    """A way into the console: proves who calls, and answers what a caller may read."""

    @property
    def name(self) -> str: ...

    async def caller(self, headers: Mapping[str, str], cookies: Mapping[str, str], address: str = "") -> Caller:
        """Return who calls from an address. Raises `Unknown`, `QueueFull`, and `KubeError` if that could not be asked."""
        ...

    async def allowed(self, caller: Caller, questions: Iterable[Question]) -> dict[Question, bool]:
        """Return for each right whether the caller has it. Raises `KubeError` if that could not be asked."""
        ...


class LocalDoor:
    """The door of one person on the own computer. Everything was read with that person's own credential.

    `session`: the value of the cookie of a browser that has logged in. `is_silent`: whether the API server is known not to
    answer.
    """

    name = LOCAL

    def __init__(self, session: str, transport: Transport, is_silent: Callable[[], bool] = lambda: False) -> None:
        self._is_silent = is_silent
        self._session = session
        self._transport = transport
        self._user: User | None = None

    async def caller(self, headers: Mapping[str, str], cookies: Mapping[str, str], address: str = "") -> Caller:
        if not matches(cookies.get("haulout_session", ""), self._session):
            raise Unknown
        return Caller(self._user or User(), LOCAL)

    async def allowed(self, caller: Caller, questions: Iterable[Question]) -> dict[Question, bool]:
        return dict.fromkeys(questions, True)

    async def whoami(self) -> Caller:
        """Return the caller with the name that the API server knows the credential by; without a name if it does not say."""
        if self._user is None and self._is_silent():
            return Caller(User(), LOCAL)
        if self._user is None:
            body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
            try:
                reply = await self._transport.request("POST", SELF_REVIEWS, body=msgspec.json.encode(body), timeout=5)
                self._user = msgspec.json.decode(reply.body, type=_SelfReview).status.user_info
            except (KubeError, msgspec.DecodeError):
                return Caller(User(), LOCAL)
        return Caller(self._user, LOCAL)


class _SelfStatus(msgspec.Struct, frozen=True, rename="camel"):
    user_info: User = User()


class _SelfReview(msgspec.Struct, frozen=True):
    status: _SelfStatus = _SelfStatus()


class _Review:
    """A review of a token that is under way, and how many requests wait for it."""

    def __init__(self, task: asyncio.Task[User | None]) -> None:
        self.task = task
        self.waiting = 0


class BearerDoor:
    """The door for callers with a token of the cluster (TokenReview), whose rights are reviewed (SubjectAccessReview).

    `is_silent`: whether the API server is known not to answer, so that what it last said of a caller counts at once.
    """

    name = BEARER

    def __init__(self, transport: Transport, clock: Clock, is_silent: Callable[[], bool] = lambda: False) -> None:
        self._transport = transport
        self._is_silent = is_silent
        # Apart from each other, so that made-up tokens do not push out those of callers that are known.
        self._users: Kept[User] = Kept(clock)
        self._refused: Kept[bool] = Kept(clock)
        self._rights: Kept[bool] = Kept(clock)
        self._last_users: Kept[User] = Kept(clock)
        self._last_rights: Kept[bool] = Kept(clock)
        # Made-up tokens keep neither known callers waiting nor each other without end.
        self._turns, self._strangers = asyncio.Semaphore(AT_ONCE), asyncio.Semaphore(STRANGERS_AT_ONCE)
        self._queue = StrangerQueue(NEW_TOKENS_PER_SECOND, burst=NEW_AT_ONCE, most=MOST_WAITING)
        self._reviews: dict[bytes, _Review] = {}

    async def caller(self, headers: Mapping[str, str], cookies: Mapping[str, str], address: str = "") -> Caller:
        scheme, _, token = headers.get("Authorization", "").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token or len(token) > LONGEST_TOKEN or not token.isascii():
            raise Unknown
        user = await self._user(token, address)
        if user is None:
            raise Unknown
        return Caller(user, BEARER, Secret(token))

    async def allowed(self, caller: Caller, questions: Iterable[Question]) -> dict[Question, bool]:
        asked = list(dict.fromkeys(questions))
        answers = await asyncio.gather(*(self._may(caller.user, each) for each in asked))
        return dict(zip(asked, answers, strict=True))

    async def _user(self, token: str, address: str) -> User | None:
        key = digest(token)
        known = self._users.get(key)
        if known is not None or self._refused.get(key):
            return known
        # Requests with the same token that arrive together ask once. When all of them have gone, the review ends, too.
        if key not in self._reviews:
            task = asyncio.create_task(self._review(key, token, address))
            self._reviews[key] = _Review(task)
            task.add_done_callback(lambda done: self._forget(key, done))
        review = self._reviews[key]
        review.waiting += 1
        try:
            return await asyncio.shield(review.task)
        finally:
            review.waiting -= 1
            if not review.waiting:
                review.task.cancel()
                # A request that comes before the task has ended asks anew.
                self._forget(key, review.task)

    def _forget(self, key: bytes, task: asyncio.Task[User | None]) -> None:
        review = self._reviews.get(key)
        if review is not None and review.task is task:
            del self._reviews[key]
        if task.done() and not task.cancelled():
            # All requests may have gone. Without this look, asyncio would report a failure that no one has handled.
            task.exception()

    async def _review(self, key: bytes, token: str, address: str) -> User | None:
        last = self._last_users.get(key)
        if last is None:
            await self._queue.turn(address)
        elif self._is_silent():
            self._users.put(key, last, ASK_AGAIN_AFTER)
            return last
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        turns = self._strangers if last is None else self._turns
        try:
            status = (await self._ask(turns, TOKEN_REVIEWS, review, TokenReview, is_repeated=last is not None)).status
        except (ConnectionFailed, RequestTimeout):
            if last is None:
                raise
            self._users.put(key, last, ASK_AGAIN_AFTER)
            return last
        if not status.authenticated or not status.user.username:
            self._refused.put(key, True, BELIEVED_FOR)
            self._last_users.drop(key)
            return None
        self._users.put(key, status.user, BELIEVED_FOR)
        self._last_users.put(key, status.user, OUTAGE_FOR)
        return status.user

    async def _may(self, user: User, question: Question) -> bool:
        key: Hashable = (user.username, user.uid, user.groups, msgspec.json.encode(user.extra), question)
        allowed = self._rights.get(key)
        if allowed is None:
            last = self._last_rights.get(key)
            if last is not None and self._is_silent():
                self._rights.put(key, last, ASK_AGAIN_AFTER)
                return last
            spec = {
                "user": user.username,
                "uid": user.uid,
                "groups": user.groups,
                "extra": user.extra,
                "resourceAttributes": {name: text for name, text in msgspec.structs.asdict(question).items() if text},
            }
            review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
            try:
                answer = await self._ask(
                    self._turns, ACCESS_REVIEWS, review, AccessReview, is_repeated=last is not None
                )
                allowed = answer.status.allowed
            except (ConnectionFailed, RequestTimeout):
                if last is None:
                    raise
                self._rights.put(key, last, ASK_AGAIN_AFTER)
                return last
            self._rights.put(key, allowed, BELIEVED_FOR)
            self._last_rights.put(key, allowed, OUTAGE_FOR)
        return allowed

    async def _ask(
        self, turns: asyncio.Semaphore, path: str, review: dict[str, Any], kind: type[T], *, is_repeated: bool
    ) -> T:
        within = REPEAT_WITHIN if is_repeated else ASK_WITHIN
        async with turns:
            reply = await self._transport.request("POST", path, body=msgspec.json.encode(review), timeout=within)
        try:
            answer: T = msgspec.json.decode(reply.body, type=kind)
        except msgspec.DecodeError as error:
            raise KubeError(f"POST {path}: the answer cannot be read: {error}") from error
        return answer


def matches(text: str, secret: str) -> bool:
    """Whether a text is the secret. The time that this takes does not depend on how many characters are right."""
    import hmac

    return hmac.compare_digest(text.encode(errors="replace"), secret.encode())
