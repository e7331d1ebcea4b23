"""Messages as data: a notifier returns one, and the process delivers it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import msgspec


class Discreet(msgspec.Struct, frozen=True):
    """The base of messages that hold secrets.

    `repr` shows only the name of the class, so that no log and no traceback shows the secrets.
    """

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"


class Mail(Discreet, frozen=True):
    """A mail to send.

    `address`: the mail server with its port. `login`: identity, user and password; None sends without a login.
    `id`: from which the Message-ID is made, so that receivers recognize a mail that is sent again. If it is empty, the
    server generates the Message-ID.
    """

    address: str
    sender: str
    recipients: tuple[str, ...]
    subject: str
    text: str
    login: tuple[str, str, str] | None = None
    id: str = ""


class Post(Discreet, frozen=True):
    """An HTTP POST to send.

    `url`: may hold a secret, so no message shows it. `body`: sent as JSON; bytes are sent as they are.
    `expects`: the exact body of a successful answer; None accepts any answer with a status below 300.
    `refusal`: the error message for another answer.
    `ca_file`: the certificate authorities that are trusted instead of those of the system.
    """

    url: str
    body: Any
    expects: str | None = None
    refusal: str = "the answer is not as expected"
    headers: Mapping[str, str] = {}
    ca_file: str = ""


class Thread(Discreet, frozen=True):
    """A reply in a thread of a Slack channel.

    A thread begins with a message that has the `title`, and is used for `lives_for`. Then another one is begun. The
    Lease stores the current thread.
    """

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
