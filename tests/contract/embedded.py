"""The embedded cluster behind its HTTPS face, in a thread of its own, with the controllers that the real one has."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator

from haulout.base.clock import SystemClock
from haulout.embedded import ActorOptions, Actors, Admission, Api, HttpFace, LoopTimers, Server, WebhookClient
from tests.contract.hooks import Hooks
from tests.contract.world import Site
from tests.rig.loops import abort_connections

# No scheduler and no kubelets: nothing happens to a pod that a case did not do.
ACTORS = ActorOptions(actors=("deployment", "replicaset", "statefulset", "daemonset", "job", "pdb", "gc"))


class Cluster:
    """The embedded cluster in a thread. Everything in it is touched only from its loop."""

    def __init__(self) -> None:
        self.server = Server(LoopTimers(SystemClock()))
        self._webhooks = WebhookClient()
        self.face = HttpFace(Api(self.server, Admission(self.server, post=self._webhooks.post)))

    @classmethod
    async def start(cls) -> Cluster:
        cluster = cls()
        await cluster.face.__aenter__()
        return cluster

    async def start_controllers(self) -> None:
        Actors(self.server, self.server.timers, ACTORS).start()

    async def forget(self) -> None:
        self.server.storage.compact()

    async def stop(self) -> None:
        await self.face.__aexit__(None, None, None)
        await self._webhooks.close()
        await abort_connections()


@contextlib.contextmanager
def embedded_site(hooks: Hooks) -> Iterator[Site]:
    with running_loop() as loop:

        def call(act: Callable[[], Awaitable[object]]) -> None:
            asyncio.run_coroutine_threadsafe(awaited(act), loop).result(60)

        cluster = asyncio.run_coroutine_threadsafe(Cluster.start(), loop).result(60)
        face = cluster.face
        assert face.pair is not None
        tls = ssl.create_default_context(cadata=face.pair.certificate.decode())
        try:
            yield Site(
                "embedded",
                face.url,
                face.token,
                tls,
                hooks,
                forget=lambda: call(cluster.forget),
                start_controllers=lambda: call(cluster.start_controllers),
            )
        finally:
            call(cluster.stop)


async def awaited(act: Callable[[], Awaitable[object]]) -> None:
    await act()


@contextlib.contextmanager
def running_loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="embedded")
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
