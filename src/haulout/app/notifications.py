"""Delivers the notifications of the profiles surface: reads the Node, composes the message and sends it.

See decision 0014.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import Any

import msgspec

from haulout.base.clock import Clock
from haulout.base.gotemplate import TemplateError
from haulout.clients.delivery import DELIVER_WITHIN, Deliveries
from haulout.clients.slack import SLACK_API
from haulout.kube.errors import KubeError
from haulout.kube.writer import Writer
from haulout.plugins.messages import Message
from haulout.runtime.sender import SendFailed
from haulout.surfaces.profiles.messages import Notice, compose

log = logging.getLogger("haulout.notifications")


class Notifications:
    """A channel that sends the notifications of the profiles surface: by mail, to Slack or into a Slack thread.

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
        self._deliveries = Deliveries(writer, clock, slack_api=slack_api, tls=tls, within=within)
        self._within = within

    async def __call__(self, notice: Notice) -> None:
        try:
            async with asyncio.timeout(self._within):
                message = await self._composed(notice)
        except TimeoutError:
            raise SendFailed(f"not delivered within {self._within:g} s") from None
        await self._deliveries.deliver(message)
        fields = {"node": notice.node.name, "profile": notice.profile, "state": notice.state}
        log.info(
            "Executed notification instance",
            extra={"instance": notice.instance, "type": notice.notifier.name, **fields},
        )

    async def _composed(self, notice: Notice) -> Message:
        """Compose the message from a fresh GET of the Node: templates may name fields that our row does not keep."""
        try:
            reply = await self._writer.get(f"/api/v1/nodes/{notice.node.name}", key=notice.node)
            node = msgspec.json.decode(reply, type=dict[str, Any])
        except (KubeError, msgspec.DecodeError) as error:
            raise SendFailed(f"the node cannot be read: {error}") from error
        try:
            return compose(notice, node)
        except TemplateError as error:
            raise SendFailed(str(error)) from error
