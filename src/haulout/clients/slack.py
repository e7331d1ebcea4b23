"""Posts messages to webhooks, and to Slack threads. The current thread is stored in a Lease."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from haulout.base.bounds import instant, span
from haulout.base.clock import Clock
from haulout.clients.peers import PeerError, ask, without
from haulout.kube.errors import UNFIT, KubeError, NotFound, one_line
from haulout.kube.writer import Writer
from haulout.model.lease import Lease
from haulout.model.meta import wire_micro_time
from haulout.plugins.messages import Post, Thread
from haulout.runtime.sender import SendFailed

log = logging.getLogger("haulout.notifications")

SLACK_API = "https://slack.com/api/"
# More than any meaningful answer has.
_LONGEST_ANSWER = 64 * 1024
# Longer than the timestamp of a message, which is stored in a Lease.
_LONGEST_NAME = 64
_ACT = "cannot post"


async def post(message: Post, within: float) -> None:
    """Send a message to a web server. `within`: the seconds for it. Raises SendFailed, which does not name the URL."""
    headers = {"Content-Type": "application/json", **message.headers}
    body = message.body if isinstance(message.body, bytes) else msgspec.json.encode(message.body)
    try:
        async with ask(
            _ACT, "POST", message.url, within=within, headers=headers, data=body, ca_file=message.ca_file
        ) as answer:
            is_right = answer.status < 300
            if message.expects is not None:
                is_right = await answer.read(_LONGEST_ANSWER) == message.expects.encode()
    except PeerError as error:
        raise SendFailed(str(error)) from None
    if not is_right:
        raise SendFailed(f"{message.refusal} (status {answer.status})")


class _ServerAnswer(msgspec.Struct):
    ok: bool = False
    error: str = ""
    ts: str = ""


class Threads:
    """Posts messages as replies in Slack threads, each of which is stored in a Lease.

    The first message opens a thread with a title. Later ones are replies in it until its lifetime ends. Senders to one
    thread take turns, so that the second one finds the Lease of the first.
    """

    def __init__(self, writer: Writer, clock: Clock, api: str = SLACK_API, within: float = 30.0) -> None:
        self._writer = writer
        self._clock = clock
        self._api = api
        self._within = within
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
        except (KubeError, *UNFIT) as error:
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
        url = f"{self._api}chat.postMessage"
        try:
            async with ask(_ACT, "POST", url, within=self._within, headers=headers, data=form) as reply:
                if reply.status // 100 != 2:
                    raise SendFailed(f"slack server error: status {reply.status}")
                answer = await reply.json(_ServerAnswer, _LONGEST_ANSWER)
        except PeerError as error:
            raise SendFailed(f"slack server error: {error}") from None
        if not answer.ok:
            raise SendFailed(f"slack says {one_line(without(answer.error, (thread.token,))) or 'no'}")
        if not 0 < len(answer.ts) <= _LONGEST_NAME:
            raise SendFailed("slack does not name the message")
        return answer.ts


def _key(thread: Thread) -> tuple[str, str]:
    return thread.namespace, thread.lease


def _lease_path(thread: Thread) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/{thread.namespace}/leases/{thread.lease}"
