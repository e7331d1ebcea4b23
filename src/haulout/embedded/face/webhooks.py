"""The HTTPS client for admission webhooks, reached by URL or by the name of a service."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Mapping
from typing import Any

import aiohttp
import msgspec

from haulout.embedded.face.admission import HookAbsent, HookFailed
from haulout.embedded.interfaces import Json
from haulout.kube.errors import ConfigInvalid
from haulout.kube.tls import client_context

# The real server's messages about an answer that is no review.
_REFUSALS = {
    401: "the server has asked for the client to provide credentials",
    403: "the server does not allow access to the requested resource",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    503: "the server is currently unable to handle the request",
}
_FAILURE = 'an error on the server ("unknown") has prevented the request from succeeding'


class WebhookClient:
    """The client with which the embedded API server calls admission webhooks over HTTPS.

    Its `post` is passed to `Admission`. `services` gives an address, as https://127.0.0.1:9443, for "namespace/name".
    `stand_in`: the address on this computer at which a process may stand in for every other Service.
    """

    def __init__(self, services: Mapping[str, str] | None = None, stand_in: str = "") -> None:
        self._services = dict(services or {})
        self._stand_in = stand_in
        self._session: aiohttp.ClientSession | None = None
        self._contexts: dict[str, ssl.SSLContext] = {}

    async def post(self, config: Json, review: Json, timeout: float) -> Json:
        url, server_name = self._address(config)
        if self._session is None:
            self._session = aiohttp.ClientSession()
        try:
            async with (
                asyncio.timeout(timeout),
                self._session.post(
                    url,
                    params={"timeout": f"{timeout:g}s"},
                    data=msgspec.json.encode(review),
                    headers={"Content-Type": "application/json", "Accept": "application/json"},
                    ssl=self._context(config) if url.startswith("https:") else True,
                    server_hostname=server_name,
                ) as response,
            ):
                body = await response.read()
        except TimeoutError:
            raise HookFailed(f'Post "{url}?timeout={timeout:g}s": context deadline exceeded') from None
        except aiohttp.ClientConnectorError as error:
            if self._stand_in and url.startswith(self._stand_in):
                act = f"nothing on this computer serves it at {self._stand_in} (`haulout run` does, with its webhooks)"
                raise HookAbsent(act) from None
            raise HookFailed(f'Post "{url}?timeout={timeout:g}s": {error}') from error
        except (aiohttp.ClientError, OSError, ConfigInvalid) as error:
            raise HookFailed(f'Post "{url}?timeout={timeout:g}s": {error}') from error
        if response.status != 200:
            raise HookFailed(_REFUSALS.get(response.status, _FAILURE))
        return _decoded(body)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    def _address(self, config: Json) -> tuple[str, str | None]:
        """Return the address of a webhook, and the host name of its certificate if that differs from the address."""
        if "url" in config:
            return str(config["url"]), None
        service = config["service"]
        key = f"{service['namespace']}/{service['name']}"
        if key not in self._services and not self._stand_in:
            raise HookFailed(f'service "{service["name"]}" not found')
        base = self._services.get(key, self._stand_in).rstrip("/")
        return f"{base}{service.get('path', '/')}", f"{service['name']}.{service['namespace']}.svc"

    def _context(self, config: Json) -> ssl.SSLContext:
        bundle = config.get("caBundle", "")
        if bundle not in self._contexts:
            ca = base64.b64decode(bundle) if bundle else None
            self._contexts[bundle] = client_context(ca=ca, insecure=False, pair=None, where="webhook")
        return self._contexts[bundle]


def _decoded(body: bytes) -> Json:
    try:
        found: Any = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise HookFailed(f"the answer is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise HookFailed("the answer is no AdmissionReview")
    return found
