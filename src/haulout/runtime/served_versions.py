"""Finds the version in which a kind is served that has several, or that may not be served yet."""

from __future__ import annotations

import msgspec

from haulout.cluster.project import Resource
from haulout.kube.codec import Garbled
from haulout.kube.discovery import is_api_server
from haulout.kube.errors import UNFIT, NotFound
from haulout.kube.transport import Transport


class _Served(msgspec.Struct, frozen=True):
    name: str = ""


class _Resources(msgspec.Struct, frozen=True):
    resources: tuple[_Served, ...] = ()


async def serving(transport: Transport, resource: Resource, *, within: float) -> Resource | None:
    """Return the kind in its best served version; None if it is not served. Raises KubeError if that is unknown."""
    for prefix in resource.versions:
        try:
            reply = await transport.request("GET", prefix, timeout=within)
        except NotFound:
            continue
        try:
            found = msgspec.json.decode(reply.body, type=_Resources)
        except UNFIT as error:
            raise Garbled(f"GET {prefix}: not from an API server: {error}") from None
        if any(each.name == resource.plural for each in found.resources):
            return resource.served_at(prefix)
    if not await is_api_server(transport, within=within):
        raise Garbled(f"GET {resource.versions[0]}: the answer 404 is not from an API server")
    return None
