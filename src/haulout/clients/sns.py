"""Publishes messages to topics of Amazon's SNS, signed and addressed by botocore."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from haulout.plugins.messages import Publish
from haulout.runtime.sender import SendFailed

log = logging.getLogger("haulout.notifications")

KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
# A slow region answers within this; a delivery that fails for longer is tried again by the decision that wants it.
CONNECT_SECONDS, READ_SECONDS, ATTEMPTS = 5, 10, 2


def has_credentials(environment: Mapping[str, str]) -> bool:
    """Whether there are credentials where the original looks: two variables, or the file in the home directory."""
    if all(environment.get(name) for name in KEYS):
        return True
    home = environment.get("HOME", "")
    return bool(home) and (Path(home) / ".aws" / "credentials").is_file()


def is_installed() -> bool:
    return importlib.util.find_spec("botocore") is not None


class Topics:
    """A client for each region, made when the region is first needed and made anew after a failure.

    botocore blocks, so that it works in threads of its own.
    """

    def __init__(self) -> None:
        self._clients: dict[str, Any] = {}
        self._lock = threading.Lock()

    async def publish(self, message: Publish) -> None:
        await asyncio.to_thread(self._publish, message)

    def _publish(self, message: Publish) -> None:
        try:
            from botocore.exceptions import BotoCoreError, ClientError
        except ImportError:
            raise SendFailed("SNS needs the extra `sns` (pip install 'haulout[sns]')") from None
        region = _region(message.topic)
        try:
            self._client(region).publish(**_parameters(message))
        except (BotoCoreError, ClientError, ValueError) as error:
            # Credentials may have been exchanged since the client was made.
            with self._lock:
                self._clients.pop(region, None)
            raise SendFailed(f"SNS: {error}") from None

    def _client(self, region: str) -> Any:
        with self._lock:
            if region not in self._clients:
                self._clients[region] = _made(region)
            return self._clients[region]


def _made(region: str) -> Any:
    from botocore.config import Config
    from botocore.session import get_session

    session = get_session()
    config = Config(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=READ_SECONDS,
        retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
    )
    # What the environment or a shared file says wins, as with every program that speaks to AWS.
    chosen = _environment_region(session) or region
    return session.create_client("sns", region_name=chosen or None, config=config)


def _environment_region(session: Any) -> str:
    import os

    return os.environ.get("AWS_REGION") or session.get_config_variable("region") or ""


def _region(topic: str) -> str:
    """Return the region that the name of a topic has in it: arn:aws:sns:REGION:ACCOUNT:NAME."""
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
