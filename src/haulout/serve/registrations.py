"""Reads and corrects the webhook configurations of our webhooks: called hosts, trusted authority, reviewed objects.

See decisions 0125 and 0175.
"""

from __future__ import annotations

import base64
import ipaddress
import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

import msgspec

from haulout.base import patch
from haulout.core.admission import Webhook
from haulout.kube.errors import Conflict, Forbidden, Invalid, NotFound
from haulout.kube.transport import JSON_PATCH, Transport
from haulout.model.meta import wire_time

log = logging.getLogger("haulout.certificates")

_GROUP = "/apis/admissionregistration.k8s.io/v1"
# With one of these annotations another controller writes the authority into the registration. We must not write it, too.
INJECTORS = ("cert-manager.io/inject-ca-from", "service.beta.openshift.io/inject-cabundle")
MOST_NAMES = 64
# The annotation with the end of the webhooks' certificate, for users who may not read the Secret with the keys.
CERTIFICATE_ENDS = "haulout.dev/certificate-ends-at"

_NAME = re.compile(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*")


class _Service(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str = ""
    path: str = ""


class _Client(msgspec.Struct, frozen=True, rename="camel"):
    url: str = ""
    service: _Service | None = None
    ca_bundle: str = ""


class _Entry(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    client_config: _Client = _Client()
    rules: tuple[dict[str, Any], ...] = ()


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    resource_version: str = ""
    annotations: dict[str, str] = {}


class Registration(msgspec.Struct, frozen=True):
    """A webhook configuration, in part. All fields are empty if it does not exist."""

    metadata: _Meta = _Meta()
    webhooks: tuple[_Entry, ...] = ()


class _List(msgspec.Struct, frozen=True):
    items: tuple[Registration, ...] = ()


class Foreign(msgspec.Struct, frozen=True):
    """How the configurations of another program are found whose webhooks we answer.

    `label`: their label. `service`, `namespace`: the Service that they call, which is ours.
    """

    label: str
    service: str
    namespace: str


class Place(msgspec.Struct, frozen=True, order=True):
    """The API path of a webhook configuration: its collection and its name."""

    collection: str
    name: str

    @property
    def path(self) -> str:
        return f"{self.collection}/{self.name}"


class Registrations:
    """A client for the webhook configurations of some webhooks. It reads them by name, so a role may be limited to these.

    `updates`: whether it replaces them (the right `update`) rather than patches them (`patch`). The roles of originals
    allow the first alone. Where one is forbidden, it uses the other.
    `foreign`: the configurations of the original under other names, as its chart makes them.
    """

    def __init__(
        self,
        transport: Transport,
        webhooks: Iterable[Webhook],
        *,
        updates: bool = False,
        foreign: Foreign | None = None,
    ) -> None:
        self._transport = transport
        self._updates = updates
        self._foreign = foreign
        registered = [webhook for webhook in webhooks if webhook.registration]
        self._webhooks = {(_place(webhook), webhook.name): webhook for webhook in registered}
        self._by_path = {(_place(webhook).collection, webhook.path): webhook for webhook in registered}
        self._reported_messages: set[str] = set()

    @property
    def places(self) -> list[Place]:
        return sorted({place for place, _ in self._webhooks})

    async def read(self) -> dict[Place, Registration]:
        """Return the configurations that exist and name one of our webhooks."""
        found = {place: await self._read(place) for place in self.places}
        if self._foreign is not None:
            for collection in sorted({place.collection for place in found}):
                found |= await self._labelled(collection, self._foreign.label)
        return {place: each for place, each in found.items() if any(True for _ in self._ours(place, each))}

    async def register(
        self, place: Place, registration: Registration, authorities: bytes, ends_at: datetime
    ) -> Registration:
        """Write the authority, the end of the certificate and the rules of our webhooks into one configuration.

        Return the configuration as it is then.
        """
        annotations = registration.metadata.annotations
        if other := next((each for each in INJECTORS if each in annotations), None):
            self._say_once("registration is managed by another controller", f"{place.name} is annotated with {other}")
            return registration
        corrections = self._corrections(place, registration, base64.b64encode(authorities).decode())
        operations = [*corrections, *_end_written(registration.metadata, wire_time(ends_at))]
        if not operations:
            return registration
        try:
            written = await self._written(place, operations)
        except Forbidden as error:
            self._say_once("registration cannot be written", str(error))
            return registration
        except (NotFound, Invalid, Conflict, patch.PatchFailed) as error:
            # The registration has changed since it was read. The watch brings it again.
            log.info("registration has changed meanwhile", extra={"registration": place.name, "error": str(error)})
            return registration
        log.info("authority registered", extra={"registration": place.name})
        return written

    def authorities(self, place: Place, registration: Registration) -> Iterator[bytes]:
        """Yield the authorities that a configuration trusts to sign the certificate, for each of our webhooks."""
        for _, entry, _ in self._ours(place, registration):
            try:
                yield base64.b64decode(entry.client_config.ca_bundle)
            except ValueError:
                yield b""

    def hosts(self, registrations: Mapping[Place, Registration]) -> list[str]:
        """Return the hosts that the API server calls, except those that a certificate cannot name."""
        found = []
        for place, registration in registrations.items():
            for _, entry, _ in self._ours(place, registration):
                client = entry.client_config
                if client.service is not None:
                    found.append(f"{client.service.name}.{client.service.namespace}.svc")
                elif client.url:
                    found.append(_host(client.url))
        return sorted({name for name in map(_as_in_certificates, found) if name})[:MOST_NAMES]

    async def _written(self, place: Place, operations: list[dict[str, Any]]) -> Registration:
        try:
            return await self._write(place, operations)
        except Forbidden:
            self._updates = not self._updates
            return await self._write(place, operations)

    async def _write(self, place: Place, operations: list[dict[str, Any]]) -> Registration:
        """Write in the way that the role is known or expected to allow. Return the configuration as it is then."""
        if self._updates:
            # The whole object names its version, so that another's change between the two requests is not lost.
            found = await self._transport.request("GET", place.path)
            body = msgspec.json.encode(patch.apply(msgspec.json.decode(found.body), operations))
            reply = await self._transport.request("PUT", place.path, body=body)
        else:
            body = msgspec.json.encode(operations)
            reply = await self._transport.request("PATCH", place.path, body=body, content_type=JSON_PATCH)
        return msgspec.json.decode(reply.body, type=Registration)

    async def _read(self, place: Place) -> Registration:
        try:
            reply = await self._transport.request("GET", place.path)
            return msgspec.json.decode(reply.body, type=Registration)
        except NotFound:
            return Registration()
        except (Forbidden, msgspec.DecodeError) as error:
            # Another program may manage the registration. Then we only issue the certificate.
            self._say_once("registrations cannot be read", str(error))
            return Registration()

    async def _labelled(self, collection: str, label: str) -> dict[Place, Registration]:
        """Return the configurations that have a label; none if the role does not allow to list them."""
        try:
            reply = await self._transport.request("GET", collection, query={"labelSelector": label})
            found = msgspec.json.decode(reply.body, type=_List).items
        except (Forbidden, msgspec.DecodeError):
            return {}
        return {Place(collection, each.metadata.name): each for each in found}

    def _corrections(self, place: Place, registration: Registration, authorities: str) -> Iterator[dict[str, Any]]:
        for number, entry, webhook in self._ours(place, registration):
            name_is_kept = {"op": "test", "path": f"/webhooks/{number}/name", "value": entry.name}
            if entry.client_config.ca_bundle != authorities:
                yield name_is_kept
                yield {"op": "add", "path": f"/webhooks/{number}/clientConfig/caBundle", "value": authorities}
            if webhook.rules and not _review_the_same(entry.rules, webhook.rules):
                yield name_is_kept
                yield {"op": "add", "path": f"/webhooks/{number}/rules", "value": webhook.rules}

    def _ours(self, place: Place, registration: Registration) -> Iterator[tuple[int, _Entry, Webhook]]:
        """Yield our webhooks in a configuration, each with its index and its entry."""
        for number, entry in enumerate(registration.webhooks):
            webhook = self._webhooks.get((place, entry.name)) or self._answered(place, entry.client_config.service)
            if webhook is not None:
                yield number, entry, webhook

    def _answered(self, place: Place, service: _Service | None) -> Webhook | None:
        """Return the webhook that the original calls at our Service; None if this is another one."""
        own = self._foreign
        if own is None or service is None or (service.name, service.namespace) != (own.service, own.namespace):
            return None
        return self._by_path.get((place.collection, service.path))

    def _say_once(self, message: str, error: str) -> None:
        if message not in self._reported_messages:
            self._reported_messages.add(message)
            log.warning(message, extra={"error": error})


def _place(webhook: Webhook) -> Place:
    plural = "mutatingwebhookconfigurations" if webhook.mutates else "validatingwebhookconfigurations"
    return Place(f"{_GROUP}/{plural}", webhook.registration)


def _end_written(meta: _Meta, text: str) -> Iterator[dict[str, Any]]:
    if meta.annotations.get(CERTIFICATE_ENDS) == text:
        return
    if meta.annotations:
        yield {"op": "add", "path": f"/metadata/annotations/{CERTIFICATE_ENDS.replace('/', '~1')}", "value": text}
        return
    # A JSON patch cannot add to a missing map, so it adds the map. The test keeps it from replacing newer annotations.
    yield {"op": "test", "path": "/metadata/resourceVersion", "value": meta.resource_version}
    yield {"op": "add", "path": "/metadata/annotations", "value": {CERTIFICATE_ENDS: text}}


def _review_the_same(rules: Iterable[Mapping[str, Any]], others: Iterable[Mapping[str, Any]]) -> bool:
    """Whether two lists of rules select the same requests, whatever their order. The server fills in a missing scope."""
    return {_meaning(rule) for rule in rules} == {_meaning(rule) for rule in others}


def _meaning(rule: Mapping[str, Any]) -> tuple[object, ...]:
    fields = ("apiGroups", "apiVersions", "operations", "resources")
    return (*(frozenset(rule.get(field) or ()) for field in fields), rule.get("scope") or "*")


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _as_in_certificates(text: str) -> str:
    """Return a host as a certificate spells it; empty if a certificate cannot name it.

    An IP address has one spelling in a certificate. With another one it would seem to be missing there.
    """
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return text if _NAME.fullmatch(text) else ""
