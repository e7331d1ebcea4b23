"""Posts messages: to webhooks, and to threads of Slack that a Lease remembers."""

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
# More than any answer that says something.
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


class _Said(msgspec.Struct):
    ok: bool = False
    error: str = ""
    ts: str = ""


class Threads:
    """The Slack threads that are open: it writes titles and replies, and remembers the thread in a Lease.

    All replies within the life of a thread share its title. A second sender waits until the first has written the Lease.
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
        """Whether a thread is still used: so long from its title on. Replies do not make it longer."""
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
        """Store the thread in its Lease. If that fails, the message is out, and the next one opens a new thread."""
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
        """Send a message. Return its name, under which replies go."""
        form = {"channel": thread.channel, "text": text, **({"thread_ts": under} if under else {})}
        headers = {"Authorization": f"Bearer {thread.token}"}
        async with _answer(f"{self._api}chat.postMessage", headers, form, secrets=(thread.token,)) as response:
            body = await _body(response)
        try:
            answer = msgspec.json.decode(body, type=_Said)
        except msgspec.DecodeError:
            raise SendFailed(f"slack server error: status {response.status}") from None
        if not answer.ok:
            raise SendFailed(f"slack says {answer.error or 'no'}")
        return answer.ts


@asynccontextmanager
async def _answer(
    url: str, headers: Mapping[str, str], data: Any, *, secrets: tuple[str, ...], ca_file: str = ""
) -> AsyncIterator[aiohttp.ClientResponse]:
    """Return the answer to a POST, through the proxy that the environment names, as Go programs do."""
    try:
        # Messages are minutes apart, and a session for each needs no owner to close it.
        async with (
            aiohttp.ClientSession(trust_env=True) as session,
            # A redirect would carry the message elsewhere, and the token with it.
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
    """Return the trusted authorities: those of a file, or True for those of the system."""
    return ssl.create_default_context(cafile=ca_file) if ca_file else True


async def _body(response: aiohttp.ClientResponse) -> bytes:
    """Return the body, however many pieces it comes in."""
    body = b""
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > _LONGEST_ANSWER:
            break
    return body


def _path(url: str) -> str:
    """Return the path of a URL, where hooks have their secret; a URL that is none has no path."""
    try:
        return URL(url).path.strip("/")
    except ValueError:
        return ""


def _key(thread: Thread) -> tuple[str, str]:
    return thread.namespace, thread.lease


def _lease_path(thread: Thread) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/{thread.namespace}/leases/{thread.lease}"
