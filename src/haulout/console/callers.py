"""Who calls the console, and what the API server lets the caller read: answers are asked for once, and kept briefly."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Protocol, TypeVar

import msgspec

from haulout.base.clock import Clock
from haulout.kube.endpoint import Secret
from haulout.kube.errors import ConnectionFailed, KubeError, RequestTimeout
from haulout.kube.transport import Transport
from haulout.serve.connections import Pace
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
# In an outage, the API server is asked again after this time. An answer that does not come takes `ASK_WITHIN`.
ASK_AGAIN_AFTER = 5.0
# How many reviews are under way at a time, and how many tokens a second may be new. Made-up ones cost a review each.
AT_ONCE, NEW_TOKENS_PER_SECOND = 16, 50.0
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

    async def caller(self, headers: Mapping[str, str], cookies: Mapping[str, str]) -> Caller:
        """Return who calls. Raises `Unknown`, and `KubeError` if that could not be asked."""
        ...

    async def allowed(self, caller: Caller, questions: Iterable[Question]) -> dict[Question, bool]:
        """Return for each right whether the caller has it. Raises `KubeError` if that could not be asked."""
        ...


class LocalDoor:
    """The door of one person on the own computer. Everything was read with that person's own credential.

    `session`: the value of the cookie of a browser that has logged in.
    """

    name = LOCAL

    def __init__(self, session: str, transport: Transport) -> None:
        self._session = session
        self._transport = transport
        self._user: User | None = None

    async def caller(self, headers: Mapping[str, str], cookies: Mapping[str, str]) -> Caller:
        if not matches(cookies.get("haulout_session", ""), self._session):
            raise Unknown
        return Caller(self._user or User(), LOCAL)

    async def allowed(self, caller: Caller, questions: Iterable[Question]) -> dict[Question, bool]:
        return dict.fromkeys(questions, True)

    async def whoami(self) -> Caller:
        """Return the caller with the name that the API server knows the credential by; without a name if it does not say."""
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


class BearerDoor:
    """The door for callers with a token of the cluster (TokenReview), whose rights are reviewed (SubjectAccessReview)."""

    name = BEARER

    def __init__(self, transport: Transport, clock: Clock) -> None:
        self._transport = transport
        # Apart from each other, so that made-up tokens do not push out those of callers that are known.
        self._users: Kept[User] = Kept(clock)
        self._refused: Kept[bool] = Kept(clock)
        self._rights: Kept[bool] = Kept(clock)
        self._last_users: Kept[User] = Kept(clock)
        self._last_rights: Kept[bool] = Kept(clock)
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._pace = Pace(NEW_TOKENS_PER_SECOND, burst_for=1.0)
        self._asking: dict[bytes, asyncio.Task[User | None]] = {}

    async def caller(self, headers: Mapping[str, str], cookies: Mapping[str, str]) -> Caller:
        scheme, _, token = headers.get("Authorization", "").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token or len(token) > LONGEST_TOKEN or not token.isascii():
            raise Unknown
        user = await self._user(token)
        if user is None:
            raise Unknown
        return Caller(user, BEARER, Secret(token))

    async def allowed(self, caller: Caller, questions: Iterable[Question]) -> dict[Question, bool]:
        asked = list(dict.fromkeys(questions))
        answers = await asyncio.gather(*(self._may(caller.user, each) for each in asked))
        return dict(zip(asked, answers, strict=True))

    async def _user(self, token: str) -> User | None:
        key = digest(token)
        known = self._users.get(key)
        if known is not None or self._refused.get(key):
            return known
        # Requests with the same token that arrive together ask once.
        if key not in self._asking:
            task = self._asking[key] = asyncio.create_task(self._review(key, token))
            task.add_done_callback(lambda _: self._asking.pop(key, None))
        return await asyncio.shield(self._asking[key])

    async def _review(self, key: bytes, token: str) -> User | None:
        await self._pace.turn()
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        try:
            status = (await self._ask(TOKEN_REVIEWS, review, TokenReview)).status
        except (ConnectionFailed, RequestTimeout):
            if (last := self._last_users.get(key)) is None:
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
            spec = {
                "user": user.username,
                "uid": user.uid,
                "groups": user.groups,
                "extra": user.extra,
                "resourceAttributes": {name: text for name, text in msgspec.structs.asdict(question).items() if text},
            }
            review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
            try:
                allowed = (await self._ask(ACCESS_REVIEWS, review, AccessReview)).status.allowed
            except (ConnectionFailed, RequestTimeout):
                if (last := self._last_rights.get(key)) is None:
                    raise
                self._rights.put(key, last, ASK_AGAIN_AFTER)
                return last
            self._rights.put(key, allowed, BELIEVED_FOR)
            self._last_rights.put(key, allowed, OUTAGE_FOR)
        return allowed

    async def _ask(self, path: str, review: dict[str, Any], kind: type[T]) -> T:
        async with self._turns:
            reply = await self._transport.request("POST", path, body=msgspec.json.encode(review), timeout=ASK_WITHIN)
        try:
            answer: T = msgspec.json.decode(reply.body, type=kind)
        except msgspec.DecodeError as error:
            raise KubeError(f"POST {path}: the answer cannot be read: {error}") from error
        return answer


def matches(text: str, secret: str) -> bool:
    """Whether a text is the secret. The time that this takes does not depend on how many characters are right."""
    import hmac

    return hmac.compare_digest(text.encode(errors="replace"), secret.encode())
