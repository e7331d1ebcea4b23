"""Puts Kubernikus into a process: its file becomes a row, versions and node pools are asked for, servers are deleted."""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec
from yarl import URL

from haulout.app.configuration_file import ConfigurationRow
from haulout.app.parts import Part, Surroundings
from haulout.clients.openstack import CloudError, Credentials, connected, read_credentials
from haulout.core.decision import Source
from haulout.kube.errors import KubeError
from haulout.kube.transport import Transport
from haulout.runtime.probes import Probe, ProbeFailed
from haulout.runtime.sender import Channel
from haulout.settings.nodemaintenance_options import pod_rules
from haulout.settings.settings import Settings
from haulout.surfaces.kubernikus.options import Options, load
from haulout.surfaces.kubernikus.surface import CONFIG_KEY, KUBERNIKUS, sources
from haulout.surfaces.kubernikus.wire import CHANNEL, VERSION_PROBE, ServerDeletion

log = logging.getLogger("haulout.kubernikus")
SECRET_ENTRY = "cloudprovider.conf"  # noqa: S105 - the name of an entry
# Where a Kubernikus of a region is asked.
API = "https://kubernikus.{region}.cloud.sap"
DELETE_WITHIN = 120.0


class _Secret(msgspec.Struct, frozen=True):
    data: dict[str, str] = {}


class _VersionInfo(msgspec.Struct, frozen=True, rename="camel"):
    git_version: str = ""


class _NodePool(msgspec.Struct, frozen=True):
    size: int = 0


class _ClusterSpec(msgspec.Struct, frozen=True, rename="camel"):
    node_pools: tuple[_NodePool, ...] | None = None


class _Cluster(msgspec.Struct, frozen=True):
    spec: _ClusterSpec = _ClusterSpec()


class Kubernikus(Part):
    """Kubernikus as a part of the process: it follows `kubernikus.yaml`.

    While the file is invalid nothing is done for Kubernikus; the other surfaces go on.
    """

    declaration = KUBERNIKUS

    def __init__(self, around: Surroundings) -> None:
        super().__init__(around)
        self._settings = around.settings
        path = around.settings.kubernikus.config
        self._file = ConfigurationRow(around, CONFIG_KEY, path, load=self._load, value=self._value)

    def watches(self) -> frozenset[Source]:
        return sources()

    def look(self, *, closely: bool = False) -> None:
        self._file.look(closely=closely)

    def follow(self, settings: Settings) -> None:
        self._settings = settings
        self._file.refresh()

    def probes(self, transport: Transport) -> Mapping[str, Probe]:
        return {VERSION_PROBE: ServerVersion(transport)}

    def channels(self, transport: Transport) -> Mapping[str, Channel]:
        return {CHANNEL: Servers(CloudAccess(transport, self._settings.kubernikus.credentials))}

    def _load(self, content: bytes, source: str) -> Options:
        return load(content, source=source, environment=os.environ)

    def _value(self, options: Options) -> Options:
        alone, rules = self._settings.alone, pod_rules(self._settings)
        return msgspec.structs.replace(options, alone=alone, rules=rules)


class ServerVersion:
    """A probe: the API server's version."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def __call__(self, question: object) -> str:
        try:
            reply = await self._transport.request("GET", "/version")
            return msgspec.json.decode(reply.body, type=_VersionInfo).git_version
        except (KubeError, msgspec.DecodeError) as error:
            raise ProbeFailed(f"failed to ask the API server for its version: {error}") from error


class CloudAccess:
    """The credentials, read when they are needed: they change without anybody's telling."""

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
            said = error.strerror if isinstance(error, OSError) else "it is no text"
            raise CloudError(f"the credentials in {self._path} cannot be read: {said}") from None

    async def _of_secret(self, namespace: str, name: str) -> str:
        try:
            reply = await self._transport.request("GET", f"/api/v1/namespaces/{namespace}/secrets/{name}")
            secret = msgspec.json.decode(reply.body, type=_Secret)
        except KubeError as error:
            raise CloudError(f"secret {namespace}/{name} cannot be read: {error}") from None
        except msgspec.DecodeError:
            raise CloudError(f"secret {namespace}/{name} cannot be read: it is not one") from None
        if SECRET_ENTRY not in secret.data:
            raise CloudError(f"secret {namespace}/{name} does not contain key '{SECRET_ENTRY}'")
        try:
            return base64.b64decode(secret.data[SECRET_ENTRY]).decode()
        except (binascii.Error, UnicodeDecodeError):
            raise CloudError(f"key '{SECRET_ENTRY}' of secret {namespace}/{name} is no text") from None


class Servers:
    """A channel: deletes the server of a node. One that is not there has been deleted already."""

    def __init__(self, access: CloudAccess) -> None:
        self._access = access

    async def __call__(self, wanted: ServerDeletion) -> None:
        async with asyncio.timeout(DELETE_WITHIN):
            async with connected(await self._access.credentials(wanted.secret)) as cloud:
                if await cloud.delete_server(wanted.server):
                    log.info("server deleted", extra={"node": wanted.server})


class PoolSize:
    """A probe: how many nodes the node pools of a cluster are to have together."""

    def __init__(self, access: CloudAccess, api: str = API) -> None:
        self._access = access
        self._api = api

    async def __call__(self, question: tuple[str, str, str]) -> int:
        name, *place = question
        try:
            credentials = await self._access.credentials((place[0], place[1]))
            async with connected(credentials) as cloud:
                url = URL(self._api.format(region=credentials.region)) / "api/v1/clusters" / name
                body = await cloud.get("asking Kubernikus for the cluster", url)
            pools = msgspec.json.decode(body, type=_Cluster).spec.node_pools or ()
        except CloudError as error:
            raise ProbeFailed(f"failed to ask for the node pools of {name}: {error}") from None
        except msgspec.DecodeError as error:
            raise ProbeFailed(
                f"failed to ask for the node pools of {name}: the answer cannot be read: {error}"
            ) from None
        return sum(pool.size for pool in pools)
