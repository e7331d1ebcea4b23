"""Keeps the webhooks' certificate in a Secret that all replicas share, and its authority where they are registered.

Every replica does this, leader or not, for every replica serves: each write names the version it was made for, and
whoever comes second takes what the first one wrote.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import ipaddress
import logging
import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from random import Random
from typing import Any, Never
from urllib.parse import urlsplit

import msgspec

from haulout.base.backoff import Backoff, Sleep
from haulout.base.clock import Clock
from haulout.kube.errors import Conflict, Forbidden, Invalid, KubeError, NotFound
from haulout.kube.excerpt import SCALAR
from haulout.kube.transport import JSON_PATCH, Transport
from haulout.serve.certificates import (
    Bundle,
    Pair,
    Unusable,
    check,
    make_bundle,
    next_renewal,
    with_fresh_authority,
    with_fresh_serving,
)
from haulout.serve.tls import ServerIdentity

log = logging.getLogger("haulout.certificates")

REGISTRATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
# Others who write the authority for their owner: two who do so never come to rest.
INJECTORS = ("cert-manager.io/inject-ca-from", "service.beta.openshift.io/inject-cabundle")
WATCH_SECONDS = 290
LONGEST_WAIT_FOR = timedelta(hours=6)
# What happens together is looked at once.
GATHER_SECONDS = 0.2
ATTEMPTS = 5
MOST_NAMES = 64

_NAME = re.compile(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*")


class _Service(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str = ""


class _Client(msgspec.Struct, frozen=True, rename="camel"):
    url: str = ""
    service: _Service | None = None
    ca_bundle: str = ""


class _Webhook(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    client_config: _Client = _Client()


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    annotations: dict[str, str] = {}


class _Registration(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    webhooks: tuple[_Webhook, ...] = ()


class SelfManagedCertificate:
    """A webhook certificate that the process issues, stores in a Secret and renews itself.

    `webhooks` are entries of the ValidatingWebhookConfigurations `registrations`; the certificate has all `names`.

    Registrations are read by name alone, so that a role may be limited to these.
    """

    def __init__(
        self,
        identity: ServerIdentity,
        transport: Transport,
        clock: Clock,
        *,
        namespace: str,
        secret: str,
        webhooks: Iterable[str],
        registrations: Iterable[str],
        names: Iterable[str],
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._identity = identity
        self._transport = transport
        self._clock = clock
        self._namespace = namespace
        self._secret = secret
        self._webhooks = frozenset(webhooks)
        self._registered_as = tuple(registrations)
        self._names = frozenset(names)
        self._sleep = sleep
        self._random = Random()  # noqa: S311
        self._bell = asyncio.Event()
        self._said: set[str] = set()

    async def run(self) -> Never:
        """Looks whenever something that matters here has changed, and when it is time to renew."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._listen(self._collection, self._secret))
            for name in self._registered_as:
                group.create_task(self._listen(REGISTRATIONS, name))
            backoff, said = Backoff(1.0, 60.0, self._random), ""
            while True:
                self._bell.clear()
                try:
                    next_at = await self.look()
                except KubeError as error:
                    # Once for each cause: whoever lacks a role lacks it for long.
                    if said != str(error):
                        said = str(error)
                        log.error("certificate cannot be kept", extra=self._fields(error=said))
                    await self._sleep(1.0 + backoff.failed())
                else:
                    said = ""
                    backoff.worked()
                    await self._until(next_at)

    async def look(self) -> datetime:
        """Puts right what is not; returns when time alone asks for the next look."""
        for _ in range(ATTEMPTS):
            try:
                return await self._look()
            except Conflict:
                # Another replica was quicker: what it wrote is as good as ours.
                continue
        return self._clock.now() + timedelta(seconds=1)

    async def _look(self) -> datetime:
        registrations = await self._registrations()
        names = self._names | set(_hosts(registrations, self._webhooks))
        secret, bundle = await self._stored(names)
        self._serve(bundle)
        now = self._clock.now()
        fresh = with_fresh_authority(bundle, now)
        if fresh != bundle:
            secret, bundle = await self._store(secret, fresh), fresh
            log.info("authority renewed", extra=self._fields())
        for registration in registrations:
            await self._register(registration, bundle.authorities)
        fresh = with_fresh_serving(bundle, names, now)
        if fresh != bundle:
            await self._store(secret, fresh)
            bundle = fresh
            log.info("certificate renewed", extra=self._fields(names=sorted(names)))
        self._serve(bundle)
        return next_renewal(bundle, now)

    def _serve(self, bundle: Bundle) -> None:
        if self._identity.use(bundle.serving):
            log.info("certificate loaded", extra=self._fields())

    # The Secret

    async def _stored(self, names: Iterable[str]) -> tuple[dict[str, Any], Bundle]:
        """What is in the Secret; made where there is none, or none that can be used."""
        try:
            secret = await self._request("GET", f"{self._collection}/{self._secret}")
        except NotFound:
            return await self._create(names)
        try:
            bundle = _bundle(secret)
        except Unusable as error:
            bundle = make_bundle(names, self._clock.now())
            secret = await self._store(secret, bundle)
            log.warning("certificate could not be used and was made anew", extra=self._fields(error=str(error)))
        return secret, bundle

    async def _create(self, names: Iterable[str]) -> tuple[dict[str, Any], Bundle]:
        bundle = make_bundle(names, self._clock.now())
        meta = {"name": self._secret, "namespace": self._namespace}
        labels = {"app.kubernetes.io/managed-by": "haulout"}
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kubernetes.io/tls",
            "metadata": {**meta, "labels": labels},
            "data": _data(bundle),
        }
        secret = await self._request("POST", self._collection, body)
        log.info("certificate made", extra=self._fields(names=sorted(names)))
        return secret, bundle

    async def _store(self, secret: dict[str, Any], bundle: Bundle) -> dict[str, Any]:
        """Raises Conflict unless the Secret is still as it was read."""
        data = secret.get("data")
        body = {**secret, "data": {**(data if isinstance(data, dict) else {}), **_data(bundle)}}
        return await self._request("PUT", f"{self._collection}/{self._secret}", body)

    @property
    def _collection(self) -> str:
        return f"/api/v1/namespaces/{self._namespace}/secrets"

    # Where it is registered

    async def _registrations(self) -> list[_Registration]:
        found = [await self._registration(name) for name in self._registered_as]
        return [each for each in found if any(webhook.name in self._webhooks for webhook in each.webhooks)]

    async def _registration(self, name: str) -> _Registration:
        """The registration of this name, empty where there is none."""
        try:
            reply = await self._transport.request("GET", f"{REGISTRATIONS}/{name}")
            return msgspec.json.decode(reply.body, type=_Registration)
        except NotFound:
            return _Registration()
        except (Forbidden, msgspec.DecodeError) as error:
            # Somebody else may look after the registration; then the certificate is all there is to do.
            self._say_once("registrations cannot be read", str(error))
            return _Registration()

    async def _register(self, registration: _Registration, authorities: bytes) -> None:
        name, wanted = registration.metadata.name, base64.b64encode(authorities).decode()
        if other := next((each for each in INJECTORS if each in registration.metadata.annotations), None):
            self._say_once("registration is another's", f"{name} is annotated with {other}")
            return
        patch = [
            operation
            for number, webhook in enumerate(registration.webhooks)
            if webhook.name in self._webhooks and webhook.client_config.ca_bundle != wanted
            for operation in (
                {"op": "test", "path": f"/webhooks/{number}/name", "value": webhook.name},
                {"op": "add", "path": f"/webhooks/{number}/clientConfig/caBundle", "value": wanted},
            )
        ]
        if not patch:
            return
        try:
            await self._patch(f"{REGISTRATIONS}/{name}", patch)
        except Forbidden as error:
            self._say_once("registration cannot be written", str(error))
        except (NotFound, Invalid) as error:
            # Changed since it was read; the watch brings us back to it.
            log.info("registration has changed meanwhile", extra={"registration": name, "error": str(error)})
        else:
            log.info("authority registered", extra={"registration": name})

    # Asking the server

    async def _listen(self, path: str, name: str) -> Never:
        """Watch one object. What a watch tells is only that there is something to look at."""
        backoff = Backoff(1.0, 300.0, self._random)
        own = {"fieldSelector": f"metadata.name={name}"}
        asked = {**own, "watch": "true", "timeoutSeconds": str(WATCH_SECONDS)}
        while True:
            try:
                async with self._transport.stream(path, query=asked, keep=SCALAR) as lines:
                    async for _ in lines:
                        backoff.worked()
                        self._bell.set()
            except KubeError as error:
                self._say_once(f"{path} cannot be watched", str(error))
            await self._sleep(1.0 + backoff.failed())

    async def _until(self, instant: datetime) -> None:
        wait = min(LONGEST_WAIT_FOR, instant - self._clock.now()).total_seconds()
        try:
            async with asyncio.timeout(max(1.0, wait)):
                await self._bell.wait()
        except TimeoutError:
            return
        await self._sleep(GATHER_SECONDS)

    async def _request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        payload = None if body is None else msgspec.json.encode(body)
        reply = await self._transport.request(method, path, body=payload)
        try:
            return msgspec.json.decode(reply.body, type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise KubeError(f"{method} {path}: the answer cannot be read: {error}") from error

    async def _patch(self, path: str, operations: list[dict[str, str]]) -> None:
        body = msgspec.json.encode(operations)
        await self._transport.request("PATCH", path, body=body, content_type=JSON_PATCH)

    def _say_once(self, message: str, error: str) -> None:
        if message not in self._said:
            self._said.add(message)
            log.warning(message, extra={"error": error})

    def _fields(self, **more: Any) -> dict[str, Any]:
        return {"secret": f"{self._namespace}/{self._secret}", **more}


def _data(bundle: Bundle) -> dict[str, str]:
    plain = {
        "ca.crt": bundle.authorities,
        "ca.key": bundle.authority_key,
        "tls.crt": bundle.serving.certificate,
        "tls.key": bundle.serving.key,
    }
    return {name: base64.b64encode(content).decode() for name, content in plain.items()}


def _bundle(secret: Mapping[str, Any]) -> Bundle:
    data = secret.get("data") or {}
    try:
        plain = {name: base64.b64decode(data[name]) for name in ("ca.crt", "ca.key", "tls.crt", "tls.key")}
    except (KeyError, TypeError, binascii.Error) as error:
        raise Unusable(f"{type(error).__name__}: {error}") from error
    bundle = Bundle(plain["ca.crt"], plain["ca.key"], Pair(plain["tls.crt"], plain["tls.key"]))
    check(bundle)
    return bundle


def _hosts(registrations: Iterable[_Registration], webhooks: frozenset[str]) -> list[str]:
    """Whom the API server will expect to reach, as far as such names can stand in a certificate."""
    found = []
    for client in (hook.client_config for each in registrations for hook in each.webhooks if hook.name in webhooks):
        if client.service is not None:
            found.append(f"{client.service.name}.{client.service.namespace}.svc")
        elif client.url:
            found.append(_host(client.url))
    return sorted({name for name in map(_as_in_certificates, found) if name})[:MOST_NAMES]


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _as_in_certificates(text: str) -> str:
    """Empty if it cannot stand in one. Addresses have one spelling there, and a name without it is never found again."""
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return text if _NAME.fullmatch(text) else ""
