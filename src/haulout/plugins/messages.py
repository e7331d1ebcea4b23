"""What a notifier answers: a message as data, which the process then delivers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import msgspec


class Discreet(msgspec.Struct, frozen=True):
    """The base of messages that hold secrets.

    Its representation is the name of the class alone, so that no log and no trace shows the secrets.
    """

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"


class Mail(Discreet, frozen=True):
    """A mail that is to be sent, and the server that sends it.

    `address` is the server's, with its port. `login`: identity, user and password, if it is to be used. `id`: what makes
    the Message-ID, by which receivers know a mail that they got before; without one the server makes one up.
    """

    address: str
    sender: str
    recipients: tuple[str, ...]
    subject: str
    text: str
    login: tuple[str, str, str] | None = None
    id: str = ""


class Post(Discreet, frozen=True):
    """An HTTP POST that is to be sent.

    The body is sent as JSON, bytes as they are. `expects`: what the answer must be, to the letter; without it, any
    status below 300 will do. `ca_file`: authorities that are trusted instead of those of the system.

    `refusal` is said where the answer is another. The address may hold a secret, and is never said.
    """

    url: str
    body: Any
    expects: str | None = None
    refusal: str = "the answer is not as expected"
    headers: Mapping[str, str] = {}
    ca_file: str = ""


class Thread(Discreet, frozen=True):
    """A reply in a thread of a Slack channel, which lives for a while from its title on; a Lease remembers it."""

    token: str
    channel: str
    title: str
    text: str
    lease: str
    namespace: str
    lives_for: timedelta


class Publish(Discreet, frozen=True):
    """A message for a topic of Amazon's SNS.

    `group`, `deduplication`: only FIFO topics accept them, so they are empty for others. `attributes` are strings.
    """

    topic: str
    message: str
    group: str = ""
    deduplication: str = ""
    attributes: Mapping[str, str] = {}


Message = Mail | Post | Thread | Publish
