"""The way of notifications out of the process: the node is read, the message composed and delivered."""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import Any, assert_never
from weakref import WeakValueDictionary

import msgspec

from haulout.base.clock import Clock
from haulout.base.gotemplate import TemplateError
from haulout.clients.mail import deliver_mail
from haulout.clients.slack import SLACK_API, Threads, post
from haulout.kube.errors import KubeError
from haulout.kube.writer import Writer
from haulout.plugins.messages import Mail, Message, Post, Thread
from haulout.runtime.sender import SendFailed
from haulout.surfaces.profiles.messages import Notice, compose

log = logging.getLogger("haulout.notifications")

# Longer than any mail server needs to say no. Nobody waits for it but the profile whose message it is.
DELIVER_WITHIN = 30.0
# To one peer: a thousand nodes that move together must not look like an attack. Others' peers are not held up by it.
AT_ONCE = 8


class Notifications:
    """Sends the notifications of the profiles surface: by mail, to Slack or into a Slack thread.

    A failure is raised as `SendFailed`, with a message that holds no credentials.
    """

    def __init__(
        self,
        writer: Writer,
        clock: Clock,
        *,
        slack_api: str = SLACK_API,
        tls: ssl.SSLContext | None = None,
        within: float = DELIVER_WITHIN,
    ) -> None:
        self._writer = writer
        self._threads = Threads(writer, clock, slack_api)
        self._tls = tls
        self._within = within
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def __call__(self, notice: Notice) -> None:
        try:
            async with asyncio.timeout(self._within):
                message = await self._composed(notice)
            turn = self._turns.setdefault(_peer(message), asyncio.Semaphore(AT_ONCE))
            async with turn, asyncio.timeout(self._within):
                await self._deliver(message)
        except TimeoutError:
            raise SendFailed(f"not delivered within {self._within:g} s") from None
        fields = {"node": notice.node.name, "profile": notice.profile, "state": notice.state}
        log.info(
            "Executed notification instance",
            extra={"instance": notice.instance, "type": notice.notifier.name, **fields},
        )

    async def _composed(self, notice: Notice) -> Message:
        """Of the Node as it is now: what templates may name is far more than what is kept of it."""
        try:
            reply = await self._writer.get(f"/api/v1/nodes/{notice.node.name}", key=notice.node)
            node = msgspec.json.decode(reply, type=dict[str, Any])
        except (KubeError, msgspec.DecodeError) as error:
            raise SendFailed(f"the node cannot be read: {error}") from error
        try:
            return compose(notice, node)
        except TemplateError as error:
            raise SendFailed(str(error)) from error

    async def _deliver(self, message: Message) -> None:
        match message:
            case Mail():
                await deliver_mail(message, self._tls, self._within)
            case Post():
                await post(message)
            case Thread():
                await self._threads.reply(message)
            case _:
                assert_never(message)


def _peer(message: Message) -> str:
    """Whom it goes to, as far as that is one machine to be gentle with."""
    match message:
        case Mail():
            return message.address
        case Post():
            return message.url.partition("://")[2].partition("/")[0]
        case Thread():
            return "slack"
