"""Delivers messages of any kind: by mail, to a web server, into a Slack thread or to a topic of SNS."""

from __future__ import annotations

import asyncio
import ssl
from typing import assert_never
from weakref import WeakValueDictionary

from haulout.base.clock import Clock
from haulout.clients.mail import deliver_mail
from haulout.clients.slack import SLACK_API, Threads, post
from haulout.clients.sns import Topics
from haulout.kube.errors import one_line
from haulout.kube.writer import Writer
from haulout.plugins.messages import Mail, Message, Post, Publish, Thread
from haulout.runtime.sender import SendFailed

# Longer than any mail server takes to refuse a message. Nothing but the message waits for it.
DELIVER_WITHIN = 30.0
# The most deliveries to one server at a time, so that a thousand nodes that change together do not look like an attack.
AT_ONCE = 8


class Deliveries:
    """Delivers messages of all surfaces: by mail, to web servers, to Slack threads and to SNS.

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
        self._threads = Threads(writer, clock, slack_api, within)
        self._topics = Topics()
        self._tls = tls
        self._within = within
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def deliver(self, message: Message) -> None:
        turn = self._turns.setdefault(_peer(message), asyncio.Semaphore(AT_ONCE))
        try:
            async with turn, asyncio.timeout(self._within):
                await self._deliver(message)
        except TimeoutError:
            raise SendFailed(f"not delivered within {self._within:g} s") from None
        except SendFailed as error:
            raise SendFailed(one_line(str(error))) from error
        except Exception as error:
            # A server may answer anything, and a library may raise any exception.
            raise SendFailed(one_line(f"{type(error).__name__}: {error}")) from error

    async def _deliver(self, message: Message) -> None:
        match message:
            case Mail():
                await deliver_mail(message, self._tls, self._within)
            case Post():
                await post(message, self._within)
            case Thread():
                await self._threads.reply(message)
            case Publish():
                await self._topics.publish(message)
            case _:
                assert_never(message)


def _peer(message: Message) -> str:
    """Return the server that a message goes to. The deliveries to one server are limited together."""
    match message:
        case Mail():
            return message.address
        case Post():
            return message.url.partition("://")[2].partition("/")[0]
        case Thread():
            return "slack"
        case Publish():
            return "sns"
