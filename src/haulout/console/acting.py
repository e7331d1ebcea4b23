"""Acts of callers: each is sent with the caller's own credential, once for each idempotency key."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Annotated

import msgspec

from haulout.acts.answers import Done, Offers, Permission, Problem
from haulout.acts.caller import Caller as Person
from haulout.acts.offers import offers_for, permissions
from haulout.acts.orders import Order, perform
from haulout.acts.prepare import NOTHING, Target
from haulout.base.clock import Clock
from haulout.console.callers import LOCAL, Caller
from haulout.console.until_silence import UntilSilence
from haulout.kube.endpoint import Endpoint, StaticToken
from haulout.kube.http import HttpTransport
from haulout.kube.transport import Transport

# How long the answer to an act is repeated for its key, and how many are kept.
REPEATED_FOR, MOST_KEPT = 600.0, 1024
KEY_FORM = r"^[0-9A-Za-z][0-9A-Za-z-]{7,63}$"

Text = Annotated[str, msgspec.Meta(max_length=1024)]
Word = Annotated[str, msgspec.Meta(max_length=253)]


class ActTarget(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The object of an act. `kind`: as in manifests; empty for an act about the whole cluster."""

    kind: Word = ""
    namespace: Word = ""
    name: Word = ""


class ActRequest(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The body of `POST acts`. `args`: the arguments by name; `with` chooses among acts of one name."""

    act: Word
    target: ActTarget = ActTarget()
    args: Mapping[Word, Text] = {}
    reason: Text = ""
    dry_run: bool = False


class _Kept(msgspec.Struct):
    body: ActRequest
    task: asyncio.Task[Done | Problem]
    ends_at: float


class Reused(Exception):
    """Raised for a key that another act was sent with."""


class Acting:
    """Sends acts. `transport`: that of the console, which is the caller's own at the local door and nowhere else.

    `endpoint`: the API server, to which the token of a caller at the bearer door is sent. `is_silent`: whether it is known
    not to answer.
    """

    def __init__(
        self, transport: Transport, endpoint: Endpoint, clock: Clock, is_silent: Callable[[], bool] = lambda: False
    ) -> None:
        self._is_silent = is_silent
        self._transport = transport
        self._endpoint = endpoint
        self._clock = clock
        self._kept: OrderedDict[tuple[str, str], _Kept] = OrderedDict()

    async def do(self, caller: Caller, key: str, body: ActRequest) -> Done | Problem:
        """Carry out an act. The same key from the same caller gives the same answer, and nothing is written again."""
        place = (f"{caller.door}/{caller.user.username}/{caller.user.uid}", key)
        self._forget()
        known = self._kept.get(place)
        if known is None:
            task = asyncio.create_task(self._perform(caller, body))
            known = self._kept[place] = _Kept(body, task, self._clock.monotonic() + REPEATED_FOR)
        elif known.body != body:
            raise Reused
        # A page that goes away does not end an act that is half done.
        answer = await asyncio.shield(known.task)
        if isinstance(answer, Problem):
            # Nothing was done, or it is not known. The person may try again with the same key.
            self._kept.pop(place, None)
        return answer

    async def offers(self, caller: Caller, target: Target) -> Offers | Problem:
        """Return each act for an object, with whether the caller may do it and whether the object allows it."""
        async with self._transport_of(caller) as transport:
            return await offers_for(self._asking(caller, transport), target)

    async def permissions(self, caller: Caller) -> dict[str, Permission]:
        """Return for each act whether the caller may do it, for objects in general."""
        async with self._transport_of(caller) as transport:
            return await permissions(self._asking(caller, transport))

    async def _perform(self, caller: Caller, body: ActRequest) -> Done | Problem:
        to = body.target
        target = Target(to.kind, to.namespace, to.name) if to.kind else NOTHING
        async with self._transport_of(caller) as transport:
            person = Person(transport, caller.user.username)
            return await perform(person, Order(body.act, target, body.args, body.reason, body.dry_run))

    def _asking(self, caller: Caller, transport: Transport) -> Person:
        """Return the person for questions alone, which a page waits for."""
        return Person(UntilSilence(transport, self._is_silent), caller.user.username)

    @asynccontextmanager
    async def _transport_of(self, caller: Caller) -> AsyncIterator[Transport]:
        """Open a transport with the caller's own credential."""
        if caller.door == LOCAL:
            yield self._transport
            return
        # Nothing of the console's own credential: no certificate, no token, no impersonation.
        own = msgspec.structs.replace(self._endpoint, credentials=(StaticToken(caller.token),), impersonate=None)
        transport = HttpTransport(own, self._clock)
        try:
            yield transport
        finally:
            await transport.close()

    def _forget(self) -> None:
        now = self._clock.monotonic()
        while self._kept:
            place, oldest = next(iter(self._kept.items()))
            if len(self._kept) <= MOST_KEPT and oldest.ends_at > now:
                return
            if not oldest.task.done() and len(self._kept) <= MOST_KEPT:
                return
            del self._kept[place]
