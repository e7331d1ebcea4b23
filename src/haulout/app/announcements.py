"""Delivers the messages of the notify surface: adds the credentials from Secrets, then sends them."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import logging
from collections.abc import Callable
from datetime import datetime
from random import Random
from typing import Any

import msgspec

from haulout.base.backoff import Backoff
from haulout.base.clock import Clock
from haulout.clients.delivery import Deliveries
from haulout.kube.errors import KubeError
from haulout.kube.writer import Writer
from haulout.plugins.messages import Mail, Message, Post, Publish
from haulout.runtime.metrics import Metrics
from haulout.runtime.sender import SendFailed
from haulout.surfaces.notify.declared_metrics import FAILURES, SUCCESSES
from haulout.surfaces.notify.notice.deliver import MAIL, SLACK, SNS, TRIED_FOR, WEBHOOK, Announcement
from haulout.surfaces.notify.options import Options, SecretKey

log = logging.getLogger("haulout.notify")

COUNTED_AS = {SNS: "SNSNotifier", WEBHOOK: "WebhookNotifier", SLACK: "SlackNotifier", MAIL: "MailNotifier"}


class Announcements:
    """A channel that composes and delivers the messages of the notify surface.

    `options` is called for each message, so that a changed configuration file counts at once.
    """

    def __init__(self, writer: Writer, clock: Clock, metrics: Metrics, options: Callable[[], Options]) -> None:
        self._writer = writer
        self._clock = clock
        self._metrics = metrics
        self._options = options
        self._deliveries = Deliveries(writer, clock)

    async def __call__(self, announcement: Announcement) -> None:
        name = COUNTED_AS[announcement.notifier]
        try:
            await self._delivered(announcement)
        except SendFailed:
            self._metrics.count(FAILURES, notifier=name)
            raise
        self._metrics.count(SUCCESSES, notifier=name)
        fields = {"object": announcement.place, "event": announcement.event, "notifier": name}
        log.info("message delivered", extra=fields)

    async def _delivered(self, announcement: Announcement) -> None:
        """Deliver a message. Raises SendFailed for every failure, also if a webhook does not answer in time."""
        span = self._options().notifications.webhook.request_timeout.total_seconds()
        within = span if announcement.notifier == WEBHOOK else None
        try:
            async with asyncio.timeout(within):
                await self._deliveries.deliver(await self._composed(announcement))
        except TimeoutError:
            raise SendFailed(f"no answer within {span:g} s") from None
        except SendFailed:
            raise
        except Exception as error:
            # A client library may raise any exception, but only SendFailed is counted and tried again.
            raise SendFailed(f"{type(error).__name__}: {error}") from error

    async def patiently(self, announcements: tuple[Announcement, ...]) -> None:
        """Deliver the messages of one notifier in order, and repeat failed ones for a day.

        Their maintenance is deleted, so no decision would ask for them again.
        """
        ends_at = self._clock.now() + TRIED_FOR
        for announcement in announcements:
            await self._tried(announcement, ends_at)

    async def _tried(self, announcement: Announcement, ends_at: datetime) -> None:
        backoff = Backoff(1.0, 300.0, Random())  # noqa: S311
        while True:
            try:
                return await self(announcement)
            except SendFailed:
                if self._clock.now() >= ends_at:
                    raise
            await asyncio.sleep(backoff.fail())

    async def _composed(self, announcement: Announcement) -> Message:
        notifications = self._options().notifications
        match announcement.notifier:
            case "sns":
                return _publish(announcement)
            case "webhook":
                headers = {"Idempotency-Key": announcement.key}
                if notifications.webhook.token_secret is not None:
                    token = await self._secret(notifications.webhook.token_secret)
                    headers["Authorization"] = f"Bearer {token.decode(errors='replace').strip()}"
                if notifications.webhook.hmac_secret is not None:
                    key = await self._secret(notifications.webhook.hmac_secret)
                    headers["X-Signature-256"] = signature(key, announcement.body)
                return Post(
                    notifications.webhook.url, announcement.body, headers=headers, ca_file=notifications.webhook.ca_file
                )
            case "slack":
                channel = {"channel": notifications.slack.channel} if notifications.slack.channel else {}
                return Post(notifications.slack.url, {"text": announcement.text, **channel})
            case _:
                mail = notifications.mail
                password = await self._secret(mail.password_secret) if mail.password_secret is not None else b""
                login = ("", mail.user, password.decode(errors="replace")) if mail.user else None
                text = announcement.body.decode()
                return Mail(mail.address, mail.sender, mail.to, announcement.text, text, login, announcement.key)

    async def _secret(self, wanted: SecretKey) -> bytes:
        return await read_secret(self._writer, self._options().namespace, wanted.name, wanted.key)


def signature(key: bytes, body: bytes) -> str:
    return f"sha256={hmac.new(key, body, hashlib.sha256).hexdigest()}"


async def read_secret(writer: Writer, namespace: str, name: str, key: str) -> bytes:
    """Return the value of one key of a Secret. Raises SendFailed if it is missing or cannot be read."""
    place = f"{namespace}/{name}"
    try:
        reply = await writer.get(f"/api/v1/namespaces/{namespace}/secrets/{name}", key=place)
        data: Any = msgspec.json.decode(reply, type=dict[str, Any]).get("data") or {}
        return base64.b64decode(data[key])
    except KeyError:
        raise SendFailed(f"Secret {place} has no key {key}") from None
    except (KubeError, ValueError) as error:
        raise SendFailed(f"Secret {place} cannot be read: {error}") from None


def _publish(announcement: Announcement) -> Publish:
    return Publish(
        announcement.topic,
        announcement.body.decode(),
        announcement.group,
        announcement.deduplication,
        {"MaintenanceEvent": announcement.event, "MaintenanceClient": announcement.client},
    )
