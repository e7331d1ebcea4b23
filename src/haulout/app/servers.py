"""The HTTP servers of a process: probes, metrics with or without TLS, and the webhooks of its surfaces."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import AsyncIterator, Callable, Iterable

from haulout.app.parts import Part
from haulout.app.webhooks import certificates_of, guarded_metrics, looker, webhook_server
from haulout.base.clock import Clock
from haulout.kube.transport import Transport
from haulout.runtime.metrics import Metrics
from haulout.runtime.pump import Pump
from haulout.serve.tls import KeyTaker, ServerIdentity
from haulout.serve.web import listen, metrics_route, probe_routes
from haulout.settings.settings import Settings


class Servers:
    """The HTTP servers of a process. Every replica runs them, whether or not it leads."""

    def __init__(
        self,
        settings: Settings,
        parts: Iterable[Part],
        transport: Transport,
        clock: Clock,
        metrics: Metrics,
        *,
        scraped: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._parts = tuple(parts)
        self._transport = transport
        self._clock = clock
        self._metrics = metrics
        self._scraped = scraped
        self._webhooks_lack: Callable[[], str] = lambda: ""
        # The webhooks' certificate is presented here, too: their keeper sets it.
        self._metrics_identity = ServerIdentity(ssl.TLSVersion.TLSv1_3) if settings.metrics_over_tls else None

    @contextlib.asynccontextmanager
    async def plain(self) -> AsyncIterator[None]:
        """Serve probes, metrics and the surfaces' own pages."""
        probes = {
            **probe_routes("healthz", lambda: ""),
            **probe_routes("readyz", self.unready, self._remarks),
        }
        scraped = metrics_route(self._metrics, self._scraped)
        routes = {self._settings.health: probes}
        async with contextlib.AsyncExitStack() as stack:
            if self._settings.guarded:
                guarded = guarded_metrics(
                    self._settings.http, scraped, transport=self._transport, clock=self._clock, metrics=self._metrics
                )
                await stack.enter_async_context(guarded)
            elif self._metrics_identity is not None:
                tls = self._metrics_identity.context
                server = await listen(self._settings.http, {"/metrics": scraped}, tls=tls)
                if server is not None:
                    stack.push_async_callback(server.cleanup)
            else:
                pages = [page for part in self._parts for page in part.routes(self._transport).items()]
                shared = routes.get(self._settings.http, {})
                routes[self._settings.http] = {**shared, "/metrics": scraped, **dict(pages)}
            # The probes come last: a process that answers them answers everything.
            for address, handlers in reversed(routes.items()):
                server = await listen(address, handlers)
                if server is not None:
                    stack.push_async_callback(server.cleanup)
            yield

    @contextlib.asynccontextmanager
    async def admission(self, namespace: str, pump: Pump, stir: Callable[[], None]) -> AsyncIterator[None]:
        """Serve the surfaces' webhooks, with certificates kept in the namespace."""
        webhooks = tuple(webhook for part in self._parts for webhook in part.webhooks())
        server = webhook_server(
            self._settings.webhooks.address,
            webhooks,
            certificates_of(self._settings.webhooks, namespace, updates=self._settings.alone),
            transport=self._transport,
            store=pump.store,
            clock=self._clock,
            metrics=self._metrics,
            look=looker(self._transport, pump.store, pump.kinds.projector, stir),
            also=[
                *([self._metrics_identity] if self._metrics_identity is not None else []),
                *(KeyTaker(part.take_key) for part in self._parts),
            ],
        )
        async with server as self._webhooks_lack:
            yield

    def _remarks(self) -> str:
        """Return the kinds that surfaces cannot read, for the body of a successful readiness probe.

        It is empty for a drop-in, whose probe answers as its original does.
        """
        if self._settings.alone:
            return ""
        return "".join(f"; {text}" for part in self._parts for text in part.unreadable())

    def unready(self) -> str:
        """Return why this replica is not ready, in words; empty if it is."""
        if lack := self._webhooks_lack():
            return lack
        if self._settings.ready_at_once:
            return ""
        return next(filter(None, (part.lacks() for part in self._parts)), "")
