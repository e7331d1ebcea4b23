"""The probes and the channel of Kubernikus: the API server's version, the size of node pools, the deletion of servers."""

from __future__ import annotations

import asyncio
import base64
import logging
from pathlib import Path
from typing import Annotated

import msgspec

from haulout.clients.openstack import CloudError, Credentials, read_credentials, signed_in, url_of
from haulout.clients.peers import PeerError, decode_answer
from haulout.kube.errors import KubeError
from haulout.kube.transport import Transport
from haulout.runtime.probes import ProbeContext, ProbeFailed
from haulout.surfaces.kubernikus.wire import ServerDeletion

log = logging.getLogger("haulout.kubernikus")
SECRET_ENTRY = "cloudprovider.conf"  # noqa: S105 - the name of an entry
# The address of the Kubernikus API of a region.
API = "https://kubernikus.{region}.cloud.sap"
DELETE_WITHIN = 120.0


class _Secret(msgspec.Struct, frozen=True):
    data: dict[str, str] = {}


class _VersionInfo(msgspec.Struct, frozen=True, rename="camel"):
    git_version: str = ""


class _NodePool(msgspec.Struct, frozen=True):
    # More than a cluster can have. A number that is no size makes the answer unreadable.
    size: Annotated[int, msgspec.Meta(ge=0, le=100_000)] = 0


class _ClusterSpec(msgspec.Struct, frozen=True, rename="camel"):
    node_pools: tuple[_NodePool, ...] | None


class _Cluster(msgspec.Struct, frozen=True):
    # An answer without node pools is not one of Kubernikus, and must not be taken for a cluster without nodes.
    spec: _ClusterSpec


class ServerVersion:
    """A probe that returns the version of the API server."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def __call__(self, question: object) -> str:
        try:
            reply = await self._transport.request("GET", "/version")
            return decode_answer("GET /version", reply.body, _VersionInfo).git_version
        except (KubeError, PeerError) as error:
            raise ProbeFailed(f"failed to ask the API server for its version: {error}") from error


class CloudAccess:
    """Reads the credentials of a cloud from a file or a Secret, again for each use, because they may change."""

    def __init__(self, transport: Transport, path: str) -> None:
        self._transport = transport
        self._path = Path(path)

    async def credentials(self, place: tuple[str, str]) -> Credentials:
        namespace, name = place
        return read_credentials(await self._of_secret(namespace, name) if name else self._of_file())

    def _of_file(self) -> str:
        try:
            return self._path.read_text()
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no text"
            raise CloudError(f"the credentials in {self._path} cannot be read: {why}") from None

    async def _of_secret(self, namespace: str, name: str) -> str:
        try:
            reply = await self._transport.request("GET", f"/api/v1/namespaces/{namespace}/secrets/{name}")
            secret = decode_answer("", reply.body, _Secret)
        except KubeError as error:
            raise CloudError(f"secret {namespace}/{name} cannot be read: {error}") from None
        except PeerError:
            raise CloudError(f"secret {namespace}/{name} cannot be read: it is not one") from None
        if SECRET_ENTRY not in secret.data:
            raise CloudError(f"secret {namespace}/{name} does not contain key '{SECRET_ENTRY}'")
        try:
            return base64.b64decode(secret.data[SECRET_ENTRY]).decode()
        # Characters that are not ASCII, no Base64, or bytes that are no text.
        except ValueError:
            raise CloudError(f"key '{SECRET_ENTRY}' of secret {namespace}/{name} is no text") from None


class Servers:
    """A channel that deletes the server of a node. A server that does not exist counts as deleted."""

    def __init__(self, access: CloudAccess) -> None:
        self._access = access

    async def __call__(self, wanted: ServerDeletion) -> None:
        try:
            async with asyncio.timeout(DELETE_WITHIN):
                cloud = await signed_in(await self._access.credentials(wanted.secret))
                is_deleted = await cloud.delete_server(wanted.server)
        except TimeoutError:
            raise CloudError(f"deleting the server: no end within {DELETE_WITHIN:g} s") from None
        if is_deleted:
            log.info("server deleted", extra={"node": wanted.server})


class PoolSize:
    """A probe that asks Kubernikus for the node pools of a cluster, and returns the sum of their sizes."""

    def __init__(self, access: CloudAccess, api: str = API) -> None:
        self._access = access
        self._api = api

    async def __call__(self, question: tuple[str, str, str]) -> int:
        name, *place = question
        try:
            credentials = await self._access.credentials((place[0], place[1]))
            api = url_of(self._api.format(region=credentials.region), "the address of Kubernikus in the region")
            cloud = await signed_in(credentials)
            what = "asking Kubernikus for the cluster"
            found = await cloud.get(what, api / "api" / "v1" / "clusters" / name, _Cluster)
        except CloudError as error:
            raise ProbeFailed(f"failed to ask for the node pools of {name}: {error}") from None
        return sum(pool.size for pool in found.spec.node_pools or ())


async def pool_size(question: tuple[str, str, str], context: ProbeContext) -> int:
    """Return how many nodes the node pools of a cluster should have.

    `question`: the cluster, and namespace and name of the Secret with the credentials.
    """
    return await PoolSize(CloudAccess(context.transport, context.cloud_credentials))(question)
