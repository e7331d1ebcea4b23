"""The auth-provider `oidc` of kubeconfigs: ID tokens, renewed with a refresh token (OpenID Connect)."""

from __future__ import annotations

import asyncio
import binascii
import os
import ssl
from base64 import b64encode, urlsafe_b64decode
from datetime import UTC, datetime
from typing import NoReturn, TypeVar
from urllib.parse import quote_plus, urlencode, urlsplit

import msgspec

from haulout.kube.auth import AuthProof, Fetched, Header, bearer, pem_bytes
from haulout.kube.bounds import Text
from haulout.kube.endpoint import Oidc, Secret, environment_proxy, is_loopback
from haulout.kube.errors import UNFIT, ConfigInvalid, ConnectionFailed
from haulout.kube.http1.connector import Proxy
from haulout.kube.http1.failures import WireError, failure
from haulout.kube.http1.once import Exchange, exchange
from haulout.kube.tls import client_context

LIMIT_SECONDS = 15.0
LONGEST_ANSWER = 2**20

T = TypeVar("T")


class _Discovery(msgspec.Struct):
    token_endpoint: str
    token_endpoint_auth_methods_supported: list[str] | None = None


class _Tokens(msgspec.Struct):
    id_token: str | None = None
    refresh_token: str | None = None


class _Claims(msgspec.Struct):
    exp: float | None = None


class _Route(msgspec.Struct, frozen=True):
    """How the issuer is reached."""

    tls: ssl.SSLContext
    proxy: Proxy | None


class Refresh:
    """A function that asks the issuer for a new ID token. New tokens are kept in memory, not in the kubeconfig."""

    def __init__(self, oidc: Oidc, where: str) -> None:
        self._oidc = oidc
        self._where = f'{where}: OIDC issuer "{oidc.issuer}"'
        # An issuer may return a new refresh token with each use and forget the old one.
        self._refresh_token = oidc.refresh_token
        self._check_scheme(oidc.issuer)

    @property
    def possible(self) -> bool:
        return bool(self._refresh_token.text)

    def initial_tokens(self) -> Fetched | None:
        """Return the ID token that is in the kubeconfig; None if there is none."""
        token = self._oidc.id_token.text
        return self._fetched(token) if token else None

    async def __call__(self) -> Fetched:
        if not self.possible:
            self._refuse("the id-token is missing or has expired, and there is no refresh-token (log in again)")
        ca = pem_bytes(self._oidc.ca, self._where) if self._oidc.ca is not None else None
        context = client_context(ca=ca, insecure=False, pair=None, where=self._where)
        proxy = environment_proxy(self._oidc.issuer, os.environ)
        route = _Route(context, Proxy(proxy) if proxy else None)
        try:
            async with asyncio.timeout(LIMIT_SECONDS):
                return await self._renewed(route)
        except (WireError, UnicodeError) as error:
            raise ConnectionFailed(str(failure(self._where, error))) from None
        except TimeoutError:
            raise ConnectionFailed(f"{self._where}: no answer within {LIMIT_SECONDS:g} s") from None

    async def _renewed(self, route: _Route) -> Fetched:
        url = f"{self._oidc.issuer}/.well-known/openid-configuration"
        discovery = self._decoded(*await self._ask(route, Exchange("GET", url)), _Discovery, "discovery document")
        self._check_scheme(discovery.token_endpoint)
        form = {"grant_type": "refresh_token", "refresh_token": self._refresh_token.text}
        headers = self._authenticate(form, discovery.token_endpoint_auth_methods_supported)
        headers += (("Content-Type", "application/x-www-form-urlencoded"),)
        asked = Exchange("POST", discovery.token_endpoint, headers, urlencode(form).encode())
        tokens = self._decoded(*await self._ask(route, asked), _Tokens, "token answer")
        if tokens.refresh_token:
            self._refresh_token = Secret(tokens.refresh_token)
        if not tokens.id_token:
            self._refuse('sent no id_token for the refresh-token (was the scope "openid" asked for at log-in?)')
        return self._fetched(tokens.id_token)

    def _authenticate(self, form: dict[str, str], methods: list[str] | None) -> tuple[Header, ...]:
        client, secret = self._oidc.client_id, self._oidc.client_secret.text
        # An issuer that lists no method takes Basic (OpenID Connect Discovery 1.0, section 3).
        if secret and "client_secret_basic" in (methods or ["client_secret_basic"]):
            pair = f"{quote_plus(client)}:{quote_plus(secret)}".encode()
            return (("Authorization", f"Basic {b64encode(pair).decode()}"),)
        form["client_id"] = client
        if secret:
            form["client_secret"] = secret
        return ()

    async def _ask(self, route: _Route, asked: Exchange) -> tuple[int, bytes]:
        """Return the status and the body of an answer."""
        async with exchange(asked, tls=route.tls, proxy=route.proxy) as answer:
            text = Text(self._where, LONGEST_ANSWER)
            await text.read(answer)
            return answer.status, text.take()

    def _decoded(self, status: int, body: bytes, into: type[T], what: str) -> T:
        if status >= 500 or status == 429:
            raise ConnectionFailed(f"{self._where}: {what}: HTTP {status}")
        if status != 200:
            self._refuse(f"{what}: HTTP {status} (log in again if the refresh-token has expired)")
        try:
            return msgspec.json.decode(body, type=into)
        except UNFIT as error:
            self._refuse(f"{what} is not as OpenID Connect has it: {error}")

    def _fetched(self, token: str) -> Fetched:
        """Return the token with its expiry. The signature is not checked here: the API server checks it."""
        try:
            payload = token.split(".")[1]
            claims = msgspec.json.decode(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)), type=_Claims)
            expires_at = datetime.fromtimestamp(claims.exp, UTC) if claims.exp else None
        except (IndexError, binascii.Error, ValueError, OverflowError, OSError, RecursionError):
            self._refuse("the id-token is not a JWT")
        return Fetched(AuthProof((bearer(token, self._where),)), expires_at)

    def _check_scheme(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme != "https" and not is_loopback(parts.hostname or ""):
            self._refuse("would have the tokens sent in the clear (https:// would be right)")

    def _refuse(self, message: str) -> NoReturn:
        raise ConfigInvalid(f"{self._where}: {message}")
