"""Runs the console until it is interrupted: one watcher, one server, and the line that says where it is."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import signal
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
import msgspec
from aiohttp import web_response

from haulout.base.address import AddressError, split_address
from haulout.base.clock import Clock, SystemClock
from haulout.console.acting import Acting
from haulout.console.api import Api
from haulout.console.browser import open_page
from haulout.console.callers import LOCAL, BearerDoor, Door, LocalDoor
from haulout.console.encoding import encode
from haulout.console.forecasts import Forecasts
from haulout.console.problems import malformed_answer
from haulout.console.server import serve_app
from haulout.console.streams import Streams
from haulout.console.watching import Watcher
from haulout.explain.home import home_endpoint
from haulout.explain.setup import Setup, setup_at, setup_of
from haulout.explain.snapshot import quiet
from haulout.kube.endpoint import Endpoint, is_loopback
from haulout.kube.errors import ConnectionFailed, KubeError, RequestTimeout, one_line
from haulout.kube.http import HttpTransport
from haulout.runtime.interruption import run_command
from haulout.serve.connections import Limits
from haulout.serve.tls import Pair, ServerIdentity
from haulout.serve.web import Server

log = logging.getLogger("haulout.console")

# A page has one connection for its stream and a few for its questions. Tokens with many groups are long.
LIMITS = Limits(connections=320, requests_per_second=400.0)
LONGEST_HEADER = 32 * 2**10
CERTIFICATES_EVERY = 30.0


class Request(msgspec.Struct, frozen=True):
    """The options of `haulout console`."""

    listen: str = "127.0.0.1:0"
    door: str = LOCAL
    config: str = ""
    opens: bool = True
    behind_proxy: bool = False
    certificate: str = ""
    key: str = ""


def run_console(request: Request, cluster: Mapping[str, Any]) -> int:
    """Serve the console until it is interrupted."""
    check(request)
    endpoint = home_endpoint(cluster, request.config)
    setup: Setup | None = None
    try:
        try:
            setup = setup_of(request.config, endpoint)
        except (ConnectionFailed, RequestTimeout) as error:
            # A person sees at once that the cluster cannot be reached. For a team, the console shows the outage.
            if request.door == LOCAL:
                raise
            log.warning("the API server does not answer", extra={"error": one_line(str(error))})
        run_command(_run(request, setup, endpoint, cluster))
    except KubeError as error:
        raise click.ClickException(f"{endpoint.server} cannot be read: {error}") from None
    except AddressError as error:
        raise click.ClickException(str(error)) from None
    return 0


def check(request: Request) -> None:
    """Refuse options under which a secret or a token could be seen by others."""
    host, _ = split_address(request.listen)
    is_local = host is not None and is_loopback(host)
    if request.door == LOCAL and not is_local:
        raise click.UsageError(
            "the local door listens on loopback alone (--listen 127.0.0.1:PORT); for others there is --door bearer"
        )
    if bool(request.certificate) is not bool(request.key):
        raise click.UsageError("--tls-certificate and --tls-key belong together")
    if request.door != LOCAL and not request.certificate and request.behind_proxy and not is_local:
        raise click.UsageError(
            "--behind-proxy without a certificate listens on loopback alone (--listen 127.0.0.1:PORT), where the proxy in the "
            "same pod reaches it; for the network there are --tls-certificate and --tls-key"
        )
    if request.door != LOCAL and not request.certificate and not request.behind_proxy:
        raise click.ClickException(
            "the bearer door does not listen without TLS, because tokens would travel in clear: give --tls-certificate and "
            "--tls-key, or --behind-proxy if a proxy in the same pod ends TLS"
        )


async def _run(request: Request, setup: Setup | None, endpoint: Endpoint, cluster: Mapping[str, Any]) -> None:
    clock = SystemClock()
    transport = HttpTransport(endpoint, clock)
    try:
        with quiet():
            serving = asyncio.create_task(_serve(request, setup, endpoint, cluster, transport, clock))
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, serving.cancel)
            try:
                await serving
            except asyncio.CancelledError:
                # Kubernetes ends the console so. A cancellation of our own task, as by Ctrl-C, goes on.
                if not serving.cancelled():
                    serving.cancel()
                    await asyncio.wait([serving])
                    raise
    finally:
        await transport.close()


async def _serve(
    request: Request,
    setup: Setup | None,
    endpoint: Endpoint,
    cluster: Mapping[str, Any],
    transport: HttpTransport,
    clock: Clock,
) -> None:
    # Answers to malformed requests never reach a handler, and would tell attackers the version of aiohttp.
    vars(web_response)["SERVER_SOFTWARE"] = "haulout"
    streams = Streams(encode)
    watcher = Watcher(setup, transport, clock, streams.published, lambda: setup_at(endpoint))

    def is_silent() -> bool:
        return watcher.is_silent

    secret, session = (secrets.token_urlsafe(32), secrets.token_urlsafe(32)) if request.door == LOCAL else ("", "")
    door: Door = (
        LocalDoor(session, transport, is_silent) if request.door == LOCAL else BearerDoor(transport, clock, is_silent)
    )
    name = endpoint.name or urlsplit(endpoint.server).netloc
    acting = Acting(transport, endpoint, clock, is_silent)
    forecasts = Forecasts(request.config, cluster, clock)
    api = Api(watcher, streams, door, acting, forecasts, transport, clock, cluster=name, secret=secret, session=session)
    identity = ServerIdentity() if request.certificate else None
    server = await serve_app(
        request.listen,
        api.app(),
        malformed_answer,
        tls=_use(identity, request) if identity is not None else None,
        limits=LIMITS,
        longest_header=LONGEST_HEADER,
    )
    try:
        address = _address(request, server)
        if request.door == LOCAL:
            api.hosts = frozenset(f"{name}:{server.port}" for name in ("127.0.0.1", "localhost", "[::1]"))
        link = f"{address}/#{secret}" if secret else f"{address}/"
        click.echo(f"console: {link}")
        if request.opens and secret:
            open_page(link)
        async with asyncio.TaskGroup() as group:
            if identity is not None:
                group.create_task(_renew(identity, request), name="read the certificate")
            group.create_task(watcher.run(), name="follow the cluster")
    except* click.ClickException as group_of_problems:
        # The settings were found late, and cannot be used.
        raise group_of_problems.exceptions[0] from None
    finally:
        streams.end_all()
        forecasts.end_all()
        await server.cleanup()


def _address(request: Request, server: Server) -> str:
    host, _ = split_address(request.listen)
    name = "127.0.0.1" if host is None or host in ("0.0.0.0", "::") else host  # noqa: S104 - only compared
    scheme = "https" if request.certificate else "http"
    return f"{scheme}://{f'[{name}]' if ':' in name else name}:{server.port}"


def _use(identity: ServerIdentity, request: Request) -> ssl.SSLContext:
    try:
        identity.use(_pair(request))
    except (OSError, ValueError, ssl.SSLError) as error:
        raise click.ClickException(f"{request.certificate}, {request.key}: cannot be used: {error}") from None
    return identity.context


async def _renew(identity: ServerIdentity, request: Request) -> None:
    """Follow the files of the certificate, which are replaced while the console runs."""
    while True:
        await asyncio.sleep(CERTIFICATES_EVERY)
        with contextlib.suppress(OSError, ValueError, ssl.SSLError):
            identity.use(await asyncio.to_thread(_pair, request))


def _pair(request: Request) -> Pair:
    return Pair(Path(request.certificate).read_bytes(), Path(request.key).read_bytes())
