"""What an API server says of itself: whether it is one, and which groups and versions it serves."""

from __future__ import annotations

import msgspec

from haulout.kube.errors import UNFIT, ApiError, Forbidden, KubeError
from haulout.kube.transport import Transport


class _Versions(msgspec.Struct, frozen=True):
    versions: tuple[str, ...] = ()


class _GroupVersion(msgspec.Struct, frozen=True, rename="camel"):
    group_version: str = ""


class _Group(msgspec.Struct, frozen=True):
    versions: tuple[_GroupVersion, ...] = ()


class _Groups(msgspec.Struct, frozen=True):
    groups: tuple[_Group, ...] = ()


async def is_api_server(transport: Transport, *, within: float) -> bool:
    """Whether an API server answers. A balancer without servers answers 404, which must not pass for "none"."""
    try:
        reply = await transport.request("GET", "/api", timeout=within)
    except ApiError as error:
        # An API server may deny us discovery. Its refusal still shows that it is one.
        return isinstance(error, Forbidden) and error.status.reason == "Forbidden"
    except KubeError:
        return False
    try:
        return "v1" in msgspec.json.decode(reply.body, type=_Versions).versions
    except UNFIT:
        return False


async def served_groups(transport: Transport) -> set[str]:
    """Return the groups and versions that the API server has; raises KubeError if it does not say."""
    reply = await transport.request("GET", "/apis")
    try:
        groups = msgspec.json.decode(reply.body, type=_Groups).groups
    except UNFIT as error:
        raise KubeError(f"GET /apis: the answer cannot be read: {error}") from error
    return {version.group_version for group in groups for version in group.versions}
