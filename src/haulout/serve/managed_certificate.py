"""Issues and renews the webhooks' certificate in a Secret that all replicas share, and registers its authority.

Every replica does this, leader or not, because every replica serves webhooks. Each write names the resource version it
was made for. If another replica was first, its certificate is used.

See decisions 0008, 0175, 0191 and 0193.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from random import Random
from typing import Any, Never

import msgspec

from haulout.base.backoff import Backoff, Sleep
from haulout.base.clock import Clock
from haulout.kube.errors import Conflict, Forbidden, KubeError, MethodNotAllowed, NotFound, UnsupportedMediaType
from haulout.kube.excerpt import SCALAR
from haulout.kube.transport import APPLY_PATCH, Reply, Transport
from haulout.serve.bundle import Bundle, FormName, Unusable
from haulout.serve.certificate_process import CertificateLibrary, Libraries, in_child
from haulout.serve.registrations import Place, Registration, Registrations
from haulout.serve.tls import TakesCertificates

log = logging.getLogger("haulout.certificates")

WATCH_SECONDS = 290
LONGEST_WAIT_FOR = timedelta(hours=6)
# Changes that arrive within this time are handled together.
GATHER_SECONDS = 0.2
ATTEMPTS = 5
# The kubelet brings a changed Secret into mounted files within about a minute. No watch tells of a role that now allows
# to register.
SETTLES_WITHIN = timedelta(minutes=1)
# The API server and its controllers give a meaning of their own to the other types that it knows: they would fill a Secret
# of one with a token of a service account.
TYPES = ("Opaque", "kubernetes.io/tls")
SIGNERS = "haulout.serve.certificates:signers_of"


class SelfManagedCertificate:
    """A webhook certificate that the process issues, stores in a Secret and renews itself.

    The certificate names all `names`, and the hosts that the webhook configurations call. `form`: the form of the Secret.
    `libraries`: opens the place in which certificates are made and checked.
    """

    def __init__(
        self,
        identity: TakesCertificates,
        transport: Transport,
        clock: Clock,
        *,
        namespace: str,
        secret: str,
        registrations: Registrations,
        names: Iterable[str],
        form: FormName,
        libraries: Libraries = in_child,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._identity = identity
        self._transport = transport
        self._clock = clock
        self._namespace = namespace
        self._secret = secret
        self._registrations = registrations
        self._names = frozenset(names)
        self._form = form
        self._libraries = libraries
        self._sleep = sleep
        self._random = Random()  # noqa: S311
        self._bell = asyncio.Event()
        self._reported_messages: set[str] = set()
        self._distrust = ""

    @property
    def lack(self) -> str:
        """Return what is missing before the API server can call the webhooks; empty if nothing is."""
        return self._distrust if self._identity.ready else "the webhooks have no certificate yet"

    async def run(self) -> Never:
        """Watch the Secret and the webhook configurations. Call `look` after each change, and when a renewal is due."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._listen(self._collection, self._secret))
            for place in self._registrations.places:
                group.create_task(self._listen(place.collection, place.name))
            backoff, last_error = Backoff(1.0, 60.0, self._random), ""
            while True:
                self._bell.clear()
                try:
                    next_at = await self.look()
                except KubeError as error:
                    # An error is logged once, because a missing role stays missing for long.
                    if last_error != str(error):
                        last_error = str(error)
                        log.error("certificate cannot be kept", extra=self._fields(error=last_error))
                    await self._sleep(1.0 + backoff.fail())
                else:
                    last_error = ""
                    backoff.reset()
                    await self._until(next_at)

    async def look(self) -> datetime:
        """Create or renew certificates and correct the registrations, if needed. Return when the next look is due."""
        async with self._libraries() as library:
            for _ in range(ATTEMPTS):
                try:
                    return await self._look(library)
                except Conflict:
                    # Another replica has written the Secret first. Its certificate is used.
                    continue
        return self._clock.now() + timedelta(seconds=1)

    async def _look(self, library: CertificateLibrary) -> datetime:
        registrations = await self._registrations.read()
        names = self._names | set(self._registrations.hosts(registrations))
        secret, bundle = await self._stored(library, names)
        if not self._identity.ready:
            self._serve(bundle)
        now = self._clock.now()
        fresh = await library.ask(self._form, "fresh_authority", bundle, names, now)
        if fresh != bundle:
            secret, bundle = await self._store(library, secret, fresh), fresh
            log.info("authority renewed", extra=self._fields())
        ends_at = bundle.served_until()
        for place, registration in registrations.items():
            trusted = bundle.authorities + await self._needed(library, bundle, place, registration)
            registrations[place] = await self._registrations.register(place, registration, trusted, ends_at)
        fresh = await library.ask(self._form, "fresh_serving", bundle, names, now)
        if fresh != bundle:
            await self._store(library, secret, fresh)
            bundle = fresh
            log.info("certificate renewed", extra=self._fields(names=sorted(names)))
        # A certificate that the API server does not trust yet does not replace one that it trusts.
        is_trusted = not await self._distrusting(library, registrations, bundle.serving.certificate)
        if is_trusted or await self._distrusting(library, registrations, self._identity.certificate):
            self._serve(bundle)
        presented = self._identity.certificate
        self._distrust = self._missing(registrations) or await self._distrusting(library, registrations, presented)
        is_settled = not self._distrust and self._identity.certificate == bundle.serving.certificate
        if not is_settled:
            return now + SETTLES_WITHIN
        next_at: datetime = await library.ask(self._form, "next_renewal", bundle, now)
        return next_at

    async def _needed(
        self, library: CertificateLibrary, bundle: Bundle, place: Place, registration: Registration
    ) -> bytes:
        """Return the authorities that a registration has to trust beside those of the bundle.

        After the Secret was lost, these are the ones of the certificate that is still presented.
        """
        in_use = self._identity.certificate
        if not in_use or await library.call(SIGNERS, in_use, bundle.authorities):
            return b""
        for each in self._registrations.authorities(place, registration):
            found: bytes = await library.call(SIGNERS, in_use, each)
            if found:
                return found
        return b""

    def _missing(self, registrations: Mapping[Place, Registration]) -> str:
        """Return which registration does not name the webhooks, in words; empty if none has to.

        One of each kind is enough: the charts of the two groups of packages register under different names.
        """
        named = {_kind_of(place) for place in registrations}
        absent = (place.name for place in self._registrations.places if _kind_of(place) not in named)
        name = next(absent, "") if self._form.strict else ""
        return f"{name} does not name the webhooks" if name else ""

    async def _distrusting(
        self, library: CertificateLibrary, registrations: Mapping[Place, Registration], certificate: bytes
    ) -> str:
        """Return which registration does not trust a certificate, in words; empty if all do that can be read."""
        for place, registration in registrations.items():
            for each in self._registrations.authorities(place, registration):
                if not await library.call(SIGNERS, certificate, each):
                    return f"{place.name} does not trust the webhooks' certificate"
        return ""

    def _serve(self, bundle: Bundle) -> None:
        if self._identity.use(bundle.serving):
            log.info("certificate loaded", extra=self._fields())

    async def _stored(self, library: CertificateLibrary, names: Iterable[str]) -> tuple[dict[str, Any], Bundle]:
        """Return the Secret and the certificates in it. Without usable ones, make and store new ones."""
        try:
            secret = await self._request("GET", f"{self._collection}/{self._secret}")
        except NotFound:
            return await self._create(library, names)
        if secret.get("type", TYPES[0]) not in TYPES:
            raise KubeError(f"{self._place} has the type {secret['type']!r}, not {TYPES[0]}: {self._replacement}")
        try:
            bundle = await library.ask(self._form, "read", secret)
        except Unusable as error:
            bundle = await library.ask(self._form, "make", names, self._clock.now())
            is_new = not secret.get("data")
            secret = await self._store(library, secret, bundle)
            if is_new:
                # An installation brings the Secret without data.
                log.info("certificate made", extra=self._fields(names=sorted(names)))
            else:
                log.warning("certificate could not be used and was made anew", extra=self._fields(error=str(error)))
        return secret, bundle

    async def _create(self, library: CertificateLibrary, names: Iterable[str]) -> tuple[dict[str, Any], Bundle]:
        bundle = await library.ask(self._form, "make", names, self._clock.now())
        fields = await library.ask(self._form, "fields", bundle)
        meta = {"name": self._secret, "namespace": self._namespace}
        described = {kind: fields[kind] for kind in ("labels", "annotations") if fields[kind]}
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": fields["type"],
            "metadata": {**meta, **described},
            "data": fields["data"],
        }
        secret = await self._create_secret(body)
        log.info("certificate made", extra=self._fields(names=sorted(names)))
        return secret, bundle

    async def _create_secret(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Create the Secret. Raises Conflict if another replica has created it meanwhile.

        The roles that Haulout prints do not allow it, those of originals do. Server-side apply names the Secret in its URL, so
        that a role can allow this one alone. Each process applies as a manager of its own: of two that create at once, one
        gets a Conflict.
        """
        manager = f"haulout-certificate-{self._random.getrandbits(32):08x}"
        path, payload = f"{self._collection}/{self._secret}", msgspec.json.encode(body)
        try:
            query = {"fieldManager": manager}
            reply = await self._transport.request("PATCH", path, query=query, body=payload, content_type=APPLY_PATCH)
        except (Forbidden, MethodNotAllowed, UnsupportedMediaType):
            return await self._post_secret(body)
        return self._decoded(reply, f"PATCH {path}")

    async def _post_secret(self, body: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return await self._request("POST", self._collection, body)
        except Forbidden as error:
            what = "is missing, and this account has no right to create it"
            raise KubeError(f"{self._place} {what}: {self._creation}") from error

    async def _store(self, library: CertificateLibrary, secret: dict[str, Any], bundle: Bundle) -> dict[str, Any]:
        """Write the certificates into the Secret. Raises Conflict if the Secret has changed since it was read."""
        if secret.get("immutable"):
            raise KubeError(f"{self._place} is immutable, and no certificate can be stored in it: {self._replacement}")
        fields = await library.ask(self._form, "fields", bundle)
        meta, data = secret.get("metadata"), secret.get("data")
        kept_meta: dict[str, Any] = meta if isinstance(meta, dict) else {}
        annotations = {"annotations": {**(kept_meta.get("annotations") or {}), **fields["annotations"]}}
        body = {
            **secret,
            "metadata": {**kept_meta, **(annotations if fields["annotations"] else {})},
            "data": {**(data if isinstance(data, dict) else {}), **fields["data"]},
        }
        return await self._request("PUT", f"{self._collection}/{self._secret}", body)

    @property
    def _place(self) -> str:
        return f"Secret {self._namespace}/{self._secret}"

    @property
    def _creation(self) -> str:
        """Return the words of how a person creates the Secret without data, as an installation does."""
        return f"kubectl create secret generic {self._secret} -n {self._namespace}"

    @property
    def _replacement(self) -> str:
        return f"kubectl delete secret {self._secret} -n {self._namespace} && {self._creation}"

    @property
    def _collection(self) -> str:
        return f"/api/v1/namespaces/{self._namespace}/secrets"

    async def _listen(self, path: str, name: str) -> Never:
        """Watch one object, and wake `run` at each change. The content of the change is not read."""
        backoff = Backoff(1.0, 300.0, self._random)
        own = {"fieldSelector": f"metadata.name={name}"}
        asked = {**own, "watch": "true", "timeoutSeconds": str(WATCH_SECONDS)}
        while True:
            try:
                async with self._transport.stream(path, query=asked, keep=SCALAR) as lines:
                    async for _ in lines:
                        backoff.reset()
                        self._bell.set()
            except KubeError as error:
                self._say_once(f"{path} cannot be watched", str(error))
            await self._sleep(1.0 + backoff.fail())

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
        return self._decoded(await self._transport.request(method, path, body=payload), f"{method} {path}")

    @staticmethod
    def _decoded(reply: Reply, request: str) -> dict[str, Any]:
        try:
            return msgspec.json.decode(reply.body, type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise KubeError(f"{request}: the answer cannot be read: {error}") from error

    def _say_once(self, message: str, error: str) -> None:
        if message not in self._reported_messages:
            self._reported_messages.add(message)
            log.warning(message, extra={"error": error})

    def _fields(self, **more: Any) -> dict[str, Any]:
        return {"secret": f"{self._namespace}/{self._secret}", **more}


def _kind_of(place: Place) -> str:
    return place.path.rpartition("/")[0]
