"""The person who acts: reads, access reviews and writes with that person's own credential."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from haulout.core.act import Endpoint, Need, Objects, PersonalWrite, Verb
from haulout.kube.errors import UNFIT, ApiError, KubeError, NotFound
from haulout.kube.listing import read_list
from haulout.kube.transport import JSON, MERGE_PATCH, Transport
from haulout.model.meta import COMMAND_MANAGER

T = TypeVar("T")
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
# An access review that takes longer counts as not answered. The write itself is asked about again by the API server.
REVIEW_WITHIN = 5.0


class _ReviewStatus(msgspec.Struct, frozen=True, rename="camel"):
    allowed: bool = False
    evaluation_error: str = ""


class _Review(msgspec.Struct, frozen=True):
    status: _ReviewStatus | None = None


class _UserInfo(msgspec.Struct, frozen=True):
    username: str = ""


class _WhoStatus(msgspec.Struct, frozen=True, rename="camel"):
    user_info: _UserInfo = _UserInfo()


class _Who(msgspec.Struct, frozen=True):
    status: _WhoStatus = _WhoStatus()


class _ServedKind(msgspec.Struct, frozen=True):
    name: str = ""


class _ServedKinds(msgspec.Struct, frozen=True):
    resources: tuple[_ServedKind, ...] = ()


class Caller:
    """A person on one API server. Answers are remembered, so that one of these serves one command or one request.

    `transport`: has the person's credential. `user`: the person's name if it is known; else the API server is asked.
    """

    def __init__(self, transport: Transport, user: str = "") -> None:
        self.transport = transport
        self._user: str | None = user or None
        self._rights: dict[Need, bool | None] = {}
        self._served: dict[str, frozenset[str] | None] = {}
        self._lists: dict[Endpoint, Objects] = {}
        self._known: dict[str, Any] = {}

    async def user(self) -> str:
        """Return the person's name; empty if the API server does not say it."""
        if self._user is None:
            body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
            try:
                reply = await self._post(_WHO, body)
                self._user = msgspec.json.decode(reply, type=_Who).status.user_info.username
            except (KubeError, *UNFIT):
                self._user = ""
        return self._user

    async def may(self, need: Need) -> bool | None:
        """Return whether the person has a right. None: the review did not answer, which is not a denial."""
        return (await self.rights([need]))[need]

    async def rights(self, needs: Iterable[Need]) -> dict[Need, bool | None]:
        """Return for each right whether the person has it, as `may` does. All are asked about at the same time."""
        asked = tuple(dict.fromkeys(needs))
        new = [need for need in asked if need not in self._rights]
        answers = await asyncio.gather(*map(self._review, new))
        self._rights.update(zip(new, answers, strict=True))
        return {need: self._rights[need] for need in asked}

    async def _review(self, need: Need) -> bool | None:
        attributes = {
            "verb": need.verb,
            "group": need.endpoint.group,
            "resource": need.endpoint.resource,
            "subresource": need.subresource,
            "namespace": need.namespace,
            "name": need.name,
        }
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {key: value for key, value in attributes.items() if value}},
        }
        try:
            status = msgspec.json.decode(await self._post(_REVIEWS, body), type=_Review).status
        except (KubeError, *UNFIT):
            return None
        # An authorizer that failed did not deny anything.
        if status is None or (not status.allowed and status.evaluation_error):
            return None
        return status.allowed

    async def learn_served(self, endpoints: Iterable[Endpoint]) -> None:
        """Ask at the same time which of these kinds the cluster serves, for the questions that follow."""
        places = {_place(each, version) for each in endpoints for version in (each.version, *each.older)}
        new = sorted(places - self._served.keys())
        answers = await asyncio.gather(*map(self._kinds_at, new))
        self._served.update(zip(new, answers, strict=True))

    async def serves(self, endpoint: Endpoint) -> bool | None:
        """Return whether the cluster serves a kind, in any version. None: it could not be asked."""
        answers = [await self._serves(endpoint, version) for version in (endpoint.version, *endpoint.older)]
        return True if True in answers else None if None in answers else False

    async def _served_form(self, endpoint: Endpoint) -> Endpoint:
        """Return a kind in the version that the cluster serves."""
        for version in (endpoint.version, *endpoint.older) if endpoint.older else ():
            if await self._serves(endpoint, version):
                return msgspec.structs.replace(endpoint, version=version)
        return endpoint

    async def _serves(self, endpoint: Endpoint, version: str) -> bool | None:
        place = _place(endpoint, version)
        if place not in self._served:
            self._served[place] = await self._kinds_at(place)
        names = self._served[place]
        return None if names is None else endpoint.resource in names

    async def _kinds_at(self, place: str) -> frozenset[str] | None:
        try:
            reply = await self.transport.request("GET", place, timeout=REVIEW_WITHIN)
            return frozenset(each.name for each in msgspec.json.decode(reply.body, type=_ServedKinds).resources)
        except NotFound:
            return frozenset()
        except (KubeError, *UNFIT):
            return None

    async def read(self, endpoint: Endpoint, namespace: str, name: str) -> Mapping[str, Any]:
        """Return an object. Raises `KubeError`, and `NotFound` if it does not exist."""
        reply = await self.transport.request("GET", (await self._served_form(endpoint)).path(namespace, name))
        found: Any = msgspec.json.decode(reply.body)
        return found if isinstance(found, dict) else {}

    async def every(self, endpoint: Endpoint) -> Objects:
        """Return all objects of a kind; None if they cannot be read."""
        if endpoint not in self._lists:
            model: Any = dict[str, Any]
            try:
                self._lists[endpoint] = tuple(
                    await read_list(self.transport, (await self._served_form(endpoint)).path(), model)
                )
            except KubeError:
                self._lists[endpoint] = None
        return self._lists[endpoint]

    async def select(
        self, endpoint: Endpoint, selector: str = "", namespace: str = ""
    ) -> tuple[Mapping[str, Any], ...]:
        """Return the objects of a kind with these labels as they are now. Raises `KubeError`."""
        model: Any = dict[str, Any]
        path = (await self._served_form(endpoint)).path(namespace)
        return tuple(await read_list(self.transport, path, model, {"labelSelector": selector} if selector else None))

    async def remembered(self, name: str, ask: Callable[[], Awaitable[T]]) -> T:
        """Return the answer to a question that is asked once, by its name."""
        if name not in self._known:
            self._known[name] = await ask()
        answer: T = self._known[name]
        return answer

    async def send(self, write: PersonalWrite, *, dry_run: bool) -> None:
        """Send a write. Raises `KubeError`. A dry run is checked by the API server like the write, but not stored."""
        query = {"fieldManager": COMMAND_MANAGER} | ({"dryRun": "All"} if dry_run else {})
        endpoint = await self._served_form(write.endpoint)
        path = endpoint.path(write.namespace, "" if write.verb is Verb.CREATE else write.name)
        if write.subresource:
            path = f"{path}/{write.subresource}"
        match write.verb:
            case Verb.CREATE:
                await self.transport.request("POST", path, query=query, body=msgspec.json.encode(write.body))
            case Verb.PATCH:
                body = msgspec.json.encode(_with_preconditions(write))
                await self.transport.request("PATCH", path, query=query, body=body, content_type=MERGE_PATCH)
            case Verb.DELETE:
                await self.transport.request("DELETE", path, body=msgspec.json.encode(_delete_options(write, dry_run)))

    async def _post(self, path: str, body: Mapping[str, Any]) -> bytes:
        payload = msgspec.json.encode(body)
        reply = await self.transport.request("POST", path, body=payload, content_type=JSON, timeout=REVIEW_WITHIN)
        return reply.body


def _place(endpoint: Endpoint, version: str) -> str:
    return f"/apis/{endpoint.group}/{version}" if endpoint.group else f"/api/{version}"


def _with_preconditions(write: PersonalWrite) -> Mapping[str, Any]:
    conditions = {"uid": write.uid, "resourceVersion": write.resource_version}
    known = {name: value for name, value in conditions.items() if value}
    return {**write.body, "metadata": {**write.body.get("metadata", {}), **known}} if known else write.body


def _delete_options(write: PersonalWrite, dry_run: bool) -> Mapping[str, Any]:
    # The server ignores the query of a deletion that has a body.
    conditions = {"uid": write.uid, "resourceVersion": write.resource_version}
    known = {name: value for name, value in conditions.items() if value}
    return {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Background",
        **({"preconditions": known} if known else {}),
        **({"dryRun": ["All"]} if dry_run else {}),
    }


def is_about_rights(error: ApiError) -> bool:
    """Whether a refusal of 403 is that of RBAC, not of an admission webhook or policy."""
    return error.code == 403 and "cannot " in str(error) and "denied the request" not in str(error)
