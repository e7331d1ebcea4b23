"""The API requests of the `skyhook` commands: Skyhooks, nodes with their states, and small patches of both."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec

from haulout.base.clock import SystemClock
from haulout.base.duration import quote
from haulout.cli.skyhook.output import Failed
from haulout.cluster.project import Keep, Projector
from haulout.kube.config import load
from haulout.kube.endpoint import Basic, ClientCertificate, Endpoint, Impersonation, Secret, StaticToken
from haulout.kube.errors import KubeError, NotFound
from haulout.kube.http import HttpTransport
from haulout.kube.listing import read_list
from haulout.kube.writer import Writer
from haulout.model.node import Node
from haulout.surfaces.packages.entries.entry import MalformedNodeState, NodeState, parse
from haulout.surfaces.packages.groups import GROUPS, NODEWRIGHT, SKYHOOK, Group
from haulout.surfaces.packages.units.unit import leader_and_other
from haulout.surfaces.packages.wire import PREFIX, RESOURCES, Skyhook, SkyhookRow

NODE_STATE = f"{PREFIX}nodeState_"
_METACHARACTERS = frozenset(".*+?^${}[]|()\\")
# A single object name. Anything else could lead to another path of the API.
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


class NodeOf(NamedTuple):
    """A node, and the state that a Skyhook has written into its annotation. `is_malformed`: that cannot be read."""

    node: Node
    state: NodeState
    is_malformed: bool = False

    @property
    def name(self) -> str:
        return self.node.metadata.name


class Cluster:
    """A client for the API server that the commands talk to."""

    def __init__(self, transport: HttpTransport, *, within: float = 30.0, group: Group = SKYHOOK) -> None:
        self.transport = transport
        self.writer = Writer(transport)
        self._within = within
        # The group whose word the user has used. Objects of the other group are found as well.
        self.group = group
        # The groups in which there is an object of the name that the command is about.
        self._groups: tuple[Group, ...] = (SKYHOOK,)

    async def skyhook(self, name: str) -> Skyhook:
        """Return the Skyhook or NodeWright of this name. Raises Failed if there is none, or if it cannot be read.

        If there are both, it is the one that leads, by the rule of the operator.
        """
        asked = self.group
        if not _NAME.fullmatch(name):
            raise Failed(f"getting {asked.word} {quote(name)}: {asked.plural}.{asked.name} {quote(name)} not found")
        found: dict[Group, Skyhook] = {}
        absent: dict[Group, KubeError] = {}
        for resource, group in zip(RESOURCES, GROUPS, strict=True):
            try:
                reply = await self.transport.request("GET", f"{resource.path}/{name}", timeout=self._within)
                found[group] = msgspec.json.decode(reply.body, type=Skyhook)
            except NotFound as error:
                absent[group] = error
            except (KubeError, msgspec.DecodeError) as error:
                raise Failed(f"getting {group.word} {quote(name)}: {error}") from None
        if not found:
            raise Failed(f"getting {asked.word} {quote(name)}: {absent[asked]}")
        self._groups = _in_order(found)
        leader = found[self._groups[0]]
        own = {self._groups[0].inner(key): value for key, value in leader.metadata.annotations.items()}
        metadata = msgspec.structs.replace(leader.metadata, annotations={**leader.metadata.annotations, **own})
        return msgspec.structs.replace(leader, metadata=metadata)

    async def patch_skyhook(self, name: str, patch: Mapping[str, Any], subresource: str | None = None) -> None:
        """Patch the object that leads, or both objects of the name if only their annotations change."""
        is_shared = not subresource and patch.keys() == {"metadata"}
        for group in self._groups if is_shared else self._groups[:1]:
            resource = RESOURCES[GROUPS.index(group)]
            body = _renamed(patch, (group,)) if is_shared else patch
            await self.writer.merge_patch(f"{resource.path}/{name}", body, key=name, subresource=subresource)

    async def nodes(self) -> list[Node]:
        """Return all nodes, sorted by their names, with the keys of NodeWrights under the names of Skyhooks."""
        try:
            found = await read_list(self.transport, "/api/v1/nodes", Node)
        except KubeError as error:
            raise Failed(f"listing nodes: {error}") from None
        return sorted(map(_inner, found), key=lambda node: node.metadata.name)

    async def node(self, name: str) -> Node:
        reply = await self.transport.request("GET", f"/api/v1/nodes/{name}", timeout=self._within)
        return _inner(msgspec.json.decode(reply.body, type=Node))

    async def patch_node(self, name: str, patch: Mapping[str, Any], version: str | None = None) -> None:
        patch = _renamed(patch, self._groups)
        await self.writer.merge_patch(f"/api/v1/nodes/{name}", patch, key=name, version=version)


def _in_order(found: Mapping[Group, Skyhook]) -> tuple[Group, ...]:
    """Return the groups of the objects of one name, that of the leader first."""
    if len(found) == 1:
        return tuple(found)
    keep = Keep(all_annotations=True)
    rows = (Projector(resource, "", keep).row(found[group]) for resource, group in zip(RESOURCES, GROUPS, strict=True))
    skyhook, nodewright = (row for row in rows if isinstance(row, SkyhookRow))
    return tuple(row.group for row in leader_and_other(skyhook, nodewright))


def _inner(node: Node) -> Node:
    """Return a node with the keys of NodeWrights under the names of Skyhooks, unless it has those, too."""
    metadata = node.metadata
    annotations, labels = (
        {**{NODEWRIGHT.inner(key): value for key, value in values.items()}, **values}
        for values in (metadata.annotations, metadata.labels)
    )
    return msgspec.structs.replace(
        node, metadata=msgspec.structs.replace(metadata, annotations=annotations, labels=labels)
    )


def _renamed(patch: Mapping[str, Any], groups: Sequence[Group]) -> dict[str, Any]:
    """Return a patch of annotations and labels under the prefixes of these groups. What it removes goes under both."""
    metadata = dict(patch.get("metadata", {}))
    for field in ("annotations", "labels"):
        if field in metadata:
            metadata[field] = {
                group.named(key): value
                for key, value in metadata[field].items()
                for group in (GROUPS if value is None else groups)
            }
    return {**patch, **({"metadata": metadata} if metadata else {})}


def with_state(nodes: Iterable[Node], skyhook: str, *, verbose: bool, has_malformed: bool = False) -> list[NodeOf]:
    """Return the nodes that have a state of a Skyhook.

    `has_malformed`: also those whose state cannot be read. `verbose`: otherwise warn about these.
    """
    found = []
    for node in nodes:
        text = node.metadata.annotations.get(f"{NODE_STATE}{skyhook}")
        if text is None:
            continue
        try:
            found.append(NodeOf(node, parse(text)))
        except MalformedNodeState as error:
            if has_malformed:
                found.append(NodeOf(node, {}, is_malformed=True))
            elif verbose:
                name = quote(node.metadata.name)
                click.echo(f"Warning: skipping node {name} - invalid annotation: {error}", err=True)
    return found


def matching(patterns: Sequence[str], names: Iterable[str]) -> set[str]:
    """Return the names that equal a pattern or match it as a regular expression. Raises Failed for a malformed pattern."""
    available = list(names)
    found: set[str] = set()
    for pattern in patterns:
        if not _METACHARACTERS & set(pattern):
            found |= {pattern} & set(available)
            continue
        try:
            expression = re.compile(f"^{pattern}$")
        except re.error as error:
            raise Failed(f"matching nodes: invalid regex pattern {quote(pattern)}: {error}") from None
        found |= {name for name in available if expression.search(name)}
    return found


@asynccontextmanager
async def connect(flags: Mapping[str, Any]) -> AsyncIterator[Cluster]:
    """Yield a client for the cluster that kubectl's flags name. Raises Failed if they name none."""
    try:
        endpoint = _endpoint(flags)
    except KubeError as error:
        raise Failed(f"initializing kubernetes client: {error}") from None
    transport = HttpTransport(endpoint, SystemClock())
    timeout = flags["request-timeout"].total_seconds() or 30.0
    try:
        yield Cluster(transport, within=timeout, group=flags["group"])
    finally:
        await transport.close()


def _endpoint(flags: Mapping[str, Any]) -> Endpoint:
    found = load(path=flags["kubeconfig"], context=flags["context"], cluster=flags["cluster"], user=flags["user"])
    changes: dict[str, Any] = {}
    if flags["server"]:
        changes["server"] = flags["server"].rstrip("/")
    if flags["certificate-authority"]:
        changes["ca"] = Path(flags["certificate-authority"])
    if flags["insecure-skip-tls-verify"]:
        changes |= {"insecure": True, "ca": None}
    if flags["tls-server-name"]:
        changes["tls_server_name"] = flags["tls-server-name"]
    if flags["as"]:
        extra = _extra(flags["as-user-extra"])
        changes["impersonate"] = Impersonation(flags["as"], flags["as-group"], flags["as-uid"], extra)
    if flags["token"]:
        changes["credentials"] = (StaticToken(Secret(flags["token"])),)
    elif flags["username"] or flags["password"]:
        changes["credentials"] = (Basic(flags["username"], Secret(flags["password"])),)
    elif flags["client-certificate"] and flags["client-key"]:
        pair = ClientCertificate(Path(flags["client-certificate"]), Path(flags["client-key"]))
        changes["credentials"] = (pair,)
    return msgspec.structs.replace(found, **changes)


def _extra(words: Sequence[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the values of each key, from words as KEY=VALUE."""
    found: dict[str, tuple[str, ...]] = {}
    for word in words:
        key, sign, value = word.partition("=")
        if not sign or not key:
            raise Failed(
                f'invalid argument {quote(word)} for "--as-user-extra" flag: it must be formatted as key=value'
            )
        found[key] = (*found.get(key, ()), value)
    return tuple(found.items())
