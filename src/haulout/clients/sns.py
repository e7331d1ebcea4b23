"""Publishes messages to topics of Amazon's SNS, signed and addressed by botocore (decision 0144)."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from haulout.base.url import HIDDEN
from haulout.clients.peers import PeerError, ask
from haulout.plugins.messages import Publish
from haulout.runtime.sender import SendFailed

log = logging.getLogger("haulout.notifications")

KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
# Enough for a slow region. If a delivery fails, the decision that wants it asks for it again.
SECONDS, ATTEMPTS = 12.0, 2
AT_ONCE = 4
LONGEST_ANSWER = 64 * 1024
# Headers that a server may quote in a refusal, and that are removed from it. AWS quotes the token if a signature is wrong.
SECRETS = ("X-Amz-Security-Token", "Authorization")


def has_credentials(environment: Mapping[str, str]) -> bool:
    """Whether there are AWS credentials where the original looks: two variables, or the file in the home directory."""
    if all(environment.get(name) for name in KEYS):
        return True
    home = environment.get("HOME", "")
    return bool(home) and (Path(home) / ".aws" / "credentials").is_file()


def is_installed() -> bool:
    return importlib.util.find_spec("botocore") is not None


class Topics:
    """Publishes messages to SNS topics, with a botocore client for each region. After a failure the client is made again.

    botocore blocks, so it runs in threads of its own: the event loop's threads resolve names for the whole process.
    It signs requests and reads answers. The event loop sends them, so that a server cannot block a thread or send
    without end.
    """

    def __init__(self) -> None:
        self._clients: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="sns")

    async def publish(self, message: Publish) -> None:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._threads, self._publish, message, loop)

    def _publish(self, message: Publish, loop: asyncio.AbstractEventLoop) -> None:
        try:
            from botocore.exceptions import BotoCoreError, ClientError
            from botocore.parsers import ResponseParserError
        except ImportError:
            raise SendFailed("SNS needs the extra `sns` (pip install 'haulout[sns]')") from None
        region = _region(message.topic)
        try:
            self._client(region, loop).publish(**_parameters(message))
        except (BotoCoreError, ClientError, ResponseParserError, ValueError) as error:
            # The credentials may have changed since the client was made.
            with self._lock:
                self._clients.pop(region, None)
            raise SendFailed(f"SNS: {error}") from None

    def _client(self, region: str, loop: asyncio.AbstractEventLoop) -> Any:
        with self._lock:
            if region not in self._clients:
                self._clients[region] = _made(region, loop)
            return self._clients[region]


def _made(region: str, loop: asyncio.AbstractEventLoop) -> Any:
    from botocore.config import Config
    from botocore.session import get_session

    session = get_session()
    config = Config(retries={"mode": "standard", "total_max_attempts": ATTEMPTS})
    # A region in the environment or in the shared file wins, as in every AWS client.
    chosen = _environment_region(session) or region
    client = session.create_client("sns", region_name=chosen or None, config=config)
    client.meta.events.register("before-send.sns.*", partial(_carried, loop, session.get_config_variable("ca_bundle")))
    return client


class _Raw(msgspec.Struct):
    """The body of an answer, with the interface that botocore reads."""

    body: bytes

    def stream(self) -> Iterator[bytes]:
        yield self.body


def _carried(loop: asyncio.AbstractEventLoop, ca_file: str | None, request: Any, **_: Any) -> Any:
    """Send a signed request on the event loop, and wait for the answer. botocore uses it instead of its own HTTP client."""
    from botocore.awsrequest import AWSResponse
    from botocore.exceptions import HTTPClientError

    exchange = asyncio.run_coroutine_threadsafe(_exchanged(request, ca_file), loop)
    try:
        status, headers, body = exchange.result(SECONDS + 1)
    except (PeerError, TimeoutError) as error:
        exchange.cancel()
        raise HTTPClientError(error=str(error) or f"no answer within {SECONDS:g} s") from None
    return AWSResponse(request.url, status, headers, _Raw(body))


async def _exchanged(request: Any, ca_file: str | None) -> tuple[int, dict[str, str], bytes]:
    headers = {name: _text(value) for name, value in request.headers.items()}
    from yarl import URL

    url = URL(request.url, encoded=True)
    act = url.host or "its address"
    async with ask(
        act, request.method, url, within=SECONDS, headers=headers, data=request.body, ca_file=ca_file or ""
    ) as answer:
        body = await answer.read(LONGEST_ANSWER)
    secrets = filter(None, map(headers.get, SECRETS))
    for secret in secrets:
        body = body.replace(secret.encode(), HIDDEN.encode())
    return answer.status, dict(answer.headers), body


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _environment_region(session: Any) -> str:
    import os

    return os.environ.get("AWS_REGION") or session.get_config_variable("region") or ""


def _region(topic: str) -> str:
    """Return the region in the name of a topic, arn:aws:sns:REGION:ACCOUNT:NAME."""
    parts = topic.split(":")
    return parts[3] if len(parts) > 3 else ""


def _parameters(message: Publish) -> dict[str, Any]:
    attributes = {name: {"DataType": "String", "StringValue": value} for name, value in message.attributes.items()}
    ids = {"MessageGroupId": message.group, "MessageDeduplicationId": message.deduplication}
    return {
        "TopicArn": message.topic,
        "Message": message.message,
        "MessageAttributes": attributes,
        **{name: value for name, value in ids.items() if value},
    }
