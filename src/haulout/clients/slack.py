"""Posts messages to webhooks, and to Slack threads. The current thread is stored in a Lease."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from weakref import WeakValueDictionary

import aiohttp
import msgspec
from yarl import URL

from haulout.base.bounds import instant, span
from haulout.base.clock import Clock
from haulout.kube.errors import KubeError, NotFound
from haulout.kube.writer import Writer
from haulout.model.lease import Lease
from haulout.model.meta import wire_micro_time
from haulout.plugins.messages import Post, Thread
from haulout.runtime.sender import SendFailed

log = logging.getLogger("haulout.notifications")

SLACK_API = "https://slack.com/api/"
# More than any meaningful answer has.
_LONGEST_ANSWER = 64 * 1024


async def post(message: Post) -> None:
    headers = {"Content-Type": "application/json", **message.headers}
    body = message.body if isinstance(message.body, bytes) else msgspec.json.encode(message.body)
    secrets = (message.url, _path(message.url))
    async with _answer(message.url, headers, body, secrets=secrets, ca_file=message.ca_file) as response:
        answer = (await _body(response)).decode(errors="replace")
        is_right = answer == message.expects if message.expects is not None else response.status < 300
    if not is_right:
        raise SendFailed(f"{message.refusal} (status {response.status})")


class _ServerAnswer(msgspec.Struct):
    ok: bool = False
    error: str = ""
    ts: str = ""


class Threads:
    """Posts messages as replies in Slack threads, each of which is stored in a Lease.

    The first message opens a thread with a title. Later ones are replies in it until its lifetime ends. Senders to one
    thread take turns, so that the second one finds the Lease of the first.
    """

    def __init__(self, writer: Writer, clock: Clock, api: str = SLACK_API) -> None:
        self._writer = writer
        self._clock = clock
        self._api = api
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def reply(self, thread: Thread) -> None:
        lock = self._locks.setdefault((thread.namespace, thread.lease), asyncio.Lock())
        async with lock:
            lease = await self._lease(thread)
            if lease is not None and self._lives(lease):
                if not lease.spec.holder_identity:
                    raise SendFailed("slack thread leases has no holder")
                await self._say(thread, thread.text, lease.spec.holder_identity)
                return
            title = await self._say(thread, thread.title)
            await self._say(thread, thread.text, title)
            await self._remember(thread, lease, title)

    def _lives(self, lease: Lease) -> bool:
        """Whether a thread is still within its lifetime. That begins with the title, and replies do not extend it."""
        since, lives_for = lease.spec.renew_time, lease.spec.lease_duration_seconds
        return since is not None and lives_for is not None and self._clock.now() - instant(since) <= span(lives_for)

    async def _lease(self, thread: Thread) -> Lease | None:
        try:
            return msgspec.json.decode(await self._writer.get(_lease_path(thread), key=_key(thread)), type=Lease)
        except NotFound:
            return None
        except (KubeError, msgspec.DecodeError) as error:
            raise SendFailed(f"the lease of the thread cannot be read: {error}") from error

    async def _remember(self, thread: Thread, lease: Lease | None, title: str) -> None:
        """Store the thread in its Lease. After a failure, which is logged, the next message opens a new thread."""
        now = wire_micro_time(self._clock.now())
        seconds = int(thread.lives_for.total_seconds())
        spec = {"holderIdentity": title, "renewTime": now, "leaseDurationSeconds": seconds}
        try:
            if lease is None:
                await self._create(thread, {**spec, "acquireTime": now})
            else:
                version = lease.metadata.resource_version
                await self._writer.merge_patch(
                    _lease_path(thread), {"spec": spec}, key=_key(thread), version=version or None
                )
        except KubeError as error:
            log.warning("thread not remembered", extra={"lease": "/".join(_key(thread)), "error": str(error)})

    async def _create(self, thread: Thread, spec: Mapping[str, Any]) -> None:
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": thread.lease, "namespace": thread.namespace},
            "spec": spec,
        }
        await self._writer.create(_lease_path(thread).rpartition("/")[0], body, key=_key(thread))

    async def _say(self, thread: Thread, text: str, under: str = "") -> str:
        """Post a message. Return its timestamp, which names the thread for replies. `under`: the thread to reply in."""
        form = {"channel": thread.channel, "text": text, **({"thread_ts": under} if under else {})}
        headers = {"Authorization": f"Bearer {thread.token}"}
        async with _answer(f"{self._api}chat.postMessage", headers, form, secrets=(thread.token,)) as response:
            body = await _body(response)
        try:
            answer = msgspec.json.decode(body, type=_ServerAnswer)
        except msgspec.DecodeError:
            raise SendFailed(f"slack server error: status {response.status}") from None
        if not answer.ok:
            raise SendFailed(f"slack says {answer.error or 'no'}")
        return answer.ts


@asynccontextmanager
async def _answer(
    url: str, headers: Mapping[str, str], data: Any, *, secrets: tuple[str, ...], ca_file: str = ""
) -> AsyncIterator[aiohttp.ClientResponse]:
    """Yield the answer to a POST. The proxy that the environment names is used, as by Go programs.

    `secrets`: texts that are removed from error messages.
    """
    try:
        # Messages are minutes apart, so each has its own session, which is closed at once.
        async with (
            aiohttp.ClientSession(trust_env=True) as session,
            # A redirect is not followed: it would send the message and the token to another server.
            session.post(url, data=data, headers=headers, allow_redirects=False, ssl=_trusted(ca_file)) as response,
        ):
            yield response
    except aiohttp.InvalidURL:
        raise SendFailed("the address is not a URL") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        text = str(error) or type(error).__name__
        for secret in filter(None, secrets):
            text = text.replace(secret, "...")
        raise SendFailed(f"cannot post: {text}") from None


def _trusted(ca_file: str) -> ssl.SSLContext | bool:
    """Return the trusted certificate authorities: those of a file, or True for those of the system."""
    return ssl.create_default_context(cafile=ca_file) if ca_file else True


async def _body(response: aiohttp.ClientResponse) -> bytes:
    """Return the body of an answer, cut off somewhere above the limit."""
    body = b""
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > _LONGEST_ANSWER:
            break
    return body


def _path(url: str) -> str:
    """Return the path of a URL, which is the secret of a webhook; empty for a malformed URL."""
    try:
        return URL(url).path.strip("/")
    except ValueError:
        return ""


def _key(thread: Thread) -> tuple[str, str]:
    return thread.namespace, thread.lease


def _lease_path(thread: Thread) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/{thread.namespace}/leases/{thread.lease}"
