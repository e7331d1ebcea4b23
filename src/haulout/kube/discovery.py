"""Questions to a server about itself: whether it is an API server, and which groups and versions it serves."""

from __future__ import annotations

import msgspec

from haulout.kube.errors import UNFIT, ApiError, Forbidden, KubeError
from haulout.kube.transport import Transport

# The API group by which OpenShift is known.
OPENSHIFT = "config.openshift.io/v1"


class _Versions(msgspec.Struct, frozen=True):
    versions: tuple[str, ...] = ()


class _GroupVersion(msgspec.Struct, frozen=True, rename="camel"):
    group_version: str = ""


class _Group(msgspec.Struct, frozen=True):
    versions: tuple[_GroupVersion, ...] = ()


class _Groups(msgspec.Struct, frozen=True):
    groups: tuple[_Group, ...] = ()


async def is_api_server(transport: Transport, *, within: float) -> bool:
    """Whether an API server answers.

    A load balancer without servers answers 404, too. That must not be taken for "the cluster has no such objects".
    """
    try:
        reply = await transport.request("GET", "/api", timeout=within)
    except ApiError as error:
        # An API server may forbid us discovery. Such a refusal still shows that it is an API server.
        return isinstance(error, Forbidden) and error.status.reason == "Forbidden"
    except KubeError:
        return False
    try:
        return "v1" in msgspec.json.decode(reply.body, type=_Versions).versions
    except UNFIT:
        return False


async def served_groups(transport: Transport) -> set[str]:
    """Return the API groups and versions that the server serves. Raises `KubeError` if discovery fails."""
    return groups_in((await transport.request("GET", "/apis")).body)


def groups_in(body: bytes) -> set[str]:
    """Return the API groups and versions in the answer to `GET /apis`. Raises `KubeError` if it cannot be read."""
    try:
        groups = msgspec.json.decode(body, type=_Groups).groups
    except UNFIT as error:
        raise KubeError(f"GET /apis: the answer cannot be read: {error}") from error
    return {version.group_version for group in groups for version in group.versions}


async def may_be_openshift(transport: Transport) -> bool:
    """Whether the server is OpenShift's, or does not let us find out. Raises `KubeError` if it does not answer."""
    try:
        return OPENSHIFT in await served_groups(transport)
    except Forbidden:
        return True
