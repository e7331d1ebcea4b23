"""Reads the installation of Haulout in a cluster: its pods, leader, definitions, webhooks, roles and last error."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from haulout.base.bounds import instant
from haulout.explain.operators import OperatorState
from haulout.explain.unread_text import unread_text
from haulout.kube.errors import ApiError, KubeError, NotFound
from haulout.kube.transport import Transport
from haulout.serve.registrations import CERTIFICATE_ENDS

LABEL = "app.kubernetes.io/name=haulout"
REPORTER = "haulout"
MOST_EVENTS = "500"

Json = Mapping[str, Any]


class Replica(msgspec.Struct, frozen=True, rename="camel"):
    """One pod of the operator."""

    name: str
    namespace: str
    image: str
    ready: bool
    leads: bool = False


class Webhook(msgspec.Struct, frozen=True, rename="camel"):
    """A webhook configuration of Haulout.

    `has_authority`: whether it trusts a certificate authority. `authority_ends_at`: when that authority expires.
    `certificate_ends_at`: when the certificate of our webhooks expires; null unless the operator issues it.
    """

    name: str
    has_authority: bool
    authority_ends_at: datetime | None = None
    certificate_ends_at: datetime | None = None


class Installation(msgspec.Struct, frozen=True, rename="camel"):
    """The installation of Haulout in a cluster.

    `settings`: where its settings were found. `unread`: what could not be read, with the right that is missing.
    `operator`: whether an operator leads.
    """

    version: str
    replicas: tuple[Replica, ...] = ()
    leader: str = ""
    surfaces: tuple[str, ...] = ()
    definitions: tuple[str, ...] = ()
    missing_definitions: tuple[str, ...] = ()
    webhooks: tuple[Webhook, ...] = ()
    roles: tuple[str, ...] = ()
    settings: str = ""
    last_error: str = ""
    unread: tuple[str, ...] = ()
    operator: OperatorState = OperatorState()


# The operator reports what is wrong with itself about its pod, or outside of a pod about its Lease.
ITSELF = ("Pod", "Lease")
# The events of the operator by which it reports the end of a trouble, with the warnings that they end.
ENDED_BY = {"RecordsWritten": ("RecordsUnreadable", "RecordsRefused"), "BudgetsReadable": ("BudgetsUnreadable",)}


class _Reader:
    """Reads objects of the API server. A failed request is added to `unread` and counts as an empty answer."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.unread: list[str] = []

    async def items(self, path: str, resource: str, query: Mapping[str, str] | None = None) -> list[Json]:
        found = await self._get(path, f"list {resource}", query)
        items = found.get("items")
        return [item for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []

    async def object(self, path: str, resource: str) -> Json:
        return await self._get(path, f"get {resource}", None)

    async def _get(self, path: str, right: str, query: Mapping[str, str] | None) -> Json:
        try:
            reply = await self._transport.request("GET", path, query=query)
        except NotFound:
            return {}
        except (ApiError, KubeError, TimeoutError) as error:
            verb, _, what = right.partition(" ")
            text = unread_text(what, error, verb)
            self.unread += [] if text in self.unread else [text]
            return {}
        with contextlib.suppress(msgspec.DecodeError):
            found = msgspec.json.decode(reply.body)
            if isinstance(found, dict):
                return found
        return {}


async def installation_of(
    transport: Transport,
    version: str,
    surfaces: Iterable[str],
    definitions: Iterable[str],
    webhooks: Iterable[str],
    operator: OperatorState,
) -> Installation:
    """Read the installation from the cluster.

    `definitions`, `webhooks`: the names of definitions and webhook configurations that the surfaces need.
    """
    read = _Reader(transport)
    leader = next((each.holder for each in operator.operators), "")
    pods = await read.items("/api/v1/pods", "pods", {"labelSelector": LABEL})
    needed = sorted({*definitions})
    installed = [each for each in needed if await _is_defined(read, each)]
    registered = [await _webhook(read, each) for each in sorted({*webhooks})]
    roles = await read.items(
        "/apis/rbac.authorization.k8s.io/v1/clusterroles", "clusterroles", {"labelSelector": LABEL}
    )
    return Installation(
        version=version,
        replicas=tuple(_replica(pod, leader) for pod in pods),
        leader=leader,
        surfaces=tuple(surfaces),
        definitions=tuple(installed),
        missing_definitions=tuple(each for each in needed if each not in installed),
        webhooks=tuple(each for each in registered if each is not None),
        roles=tuple(sorted(str(_metadata(role).get("name", "")) for role in roles)),
        last_error=await _last_error(read),
        unread=tuple(read.unread),
        operator=operator,
    )


async def _is_defined(read: _Reader, name: str) -> bool:
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"
    before = len(read.unread)
    found = await read.object(path, "customresourcedefinitions")
    # A definition that we may not read is in `unread`. It is not reported as missing, too.
    return bool(found) or len(read.unread) > before


async def _webhook(read: _Reader, name: str) -> Webhook | None:
    for kind in ("validating", "mutating"):
        path = f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/{name}"
        found = await read.object(path, f"{kind}webhookconfigurations")
        for each in found.get("webhooks") or ():
            bundle = str((each.get("clientConfig") or {}).get("caBundle") or "")
            annotations = _metadata(found).get("annotations")
            written = annotations.get(CERTIFICATE_ENDS) if isinstance(annotations, Mapping) else None
            return Webhook(name, bool(bundle), _ends_at(bundle), _instant(written))
    return None


def _instant(written: object) -> datetime | None:
    try:
        return instant(datetime.fromisoformat(written)) if isinstance(written, str) else None
    except ValueError:
        return None


def _ends_at(bundle: str) -> datetime | None:
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificates(base64.b64decode(bundle))[0].not_valid_after_utc if bundle else None
    except ValueError:
        return None


async def _last_error(read: _Reader) -> str:
    """Return the newest warning that the operator has reported about itself, unless it has reported the end since."""
    query = {"fieldSelector": f"reportingController={REPORTER}", "limit": MOST_EVENTS}
    events = [
        event
        for event in await read.items("/apis/events.k8s.io/v1/events", "events", query)
        # Other warnings under its name, such as that of an overridden budget, are about objects of people.
        if (event.get("regarding") or {}).get("kind") in ITSELF
    ]
    ended_at = dict[str, str]()
    for event in events:
        for reason in ENDED_BY.get(str(event.get("reason", "")), ()):
            ended_at[reason] = max(ended_at.get(reason, ""), _reported_at(event))
    warnings = [
        event
        for event in events
        if event.get("type") == "Warning" and ended_at.get(str(event.get("reason", "")), "") <= _reported_at(event)
    ]
    if not warnings:
        return ""
    newest = max(warnings, key=_reported_at)
    return f"{newest.get('reason', '')}: {newest.get('note', '')} ({_reported_at(newest)[:16].replace('T', ' ')} UTC)"


def _reported_at(event: Json) -> str:
    return str(event.get("eventTime") or _metadata(event).get("creationTimestamp") or "")


def _replica(pod: Json, leader: str) -> Replica:
    metadata, status = _metadata(pod), pod.get("status") or {}
    containers = (pod.get("spec") or {}).get("containers") or [{}]
    ready = any(each.get("type") == "Ready" and each.get("status") == "True" for each in status.get("conditions") or ())
    name = str(metadata.get("name", ""))
    # The holder of a Lease is named by its host name, which is the pod's name, and a unique suffix.
    leads = leader.rpartition("_")[0] == name
    return Replica(name, str(metadata.get("namespace", "")), str(containers[0].get("image", "")), ready, leads)


def _metadata(found: Json) -> Json:
    metadata = found.get("metadata")
    return metadata if isinstance(metadata, Mapping) else {}
