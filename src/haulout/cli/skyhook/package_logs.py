"""`skyhook package logs`: prints the logs of a package's containers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import click
import msgspec

from haulout.base.duration import quote
from haulout.cli.skyhook.cluster import Cluster, connect, matching
from haulout.cli.skyhook.operator_version import namespace_of
from haulout.cli.skyhook.output import Failed
from haulout.kube.errors import KubeError
from haulout.kube.listing import read_list
from haulout.model.meta import ObjectMeta
from haulout.surfaces.packages.groups import GROUPS, NODEWRIGHT
from haulout.surfaces.packages.wire import NAME, PACKAGE

COPIES = "-init"
# With --follow, a package may print nothing for this long before the stream is given up, in seconds.
SILENCE = 86_400.0
_EARLIEST = datetime.fromtimestamp(0, UTC)


class _Waiting(msgspec.Struct, frozen=True):
    reason: str = ""
    message: str = ""


class _Terminated(msgspec.Struct, frozen=True, rename="camel"):
    exit_code: int = 0


class _Running(msgspec.Struct, frozen=True):
    pass


class _State(msgspec.Struct, frozen=True):
    waiting: _Waiting | None = None
    running: _Running | None = None
    terminated: _Terminated | None = None


class _ContainerStatus(msgspec.Struct, frozen=True):
    name: str = ""
    state: _State = _State()

    @property
    def has_started(self) -> bool:
        return self.state.waiting is None

    @property
    def heading(self) -> str:
        """Return the container's state as it is printed behind its name, in brackets."""
        if self.state.waiting is not None:
            return f" [{self.state.waiting.reason or 'Waiting'}]"
        if self.state.terminated is not None:
            code = self.state.terminated.exit_code
            return f" [Exit: {code}]" if code else " [Completed]"
        return " [Running]" if self.state.running is not None else ""


class _Container(msgspec.Struct, frozen=True):
    name: str = ""


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""
    init_containers: tuple[_Container, ...] = ()


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    init_container_statuses: tuple[_ContainerStatus, ...] = ()


class LoggedPod(msgspec.Struct, frozen=True):
    """A Pod (core v1), in part: the fields that tell which containers have logs."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _Spec = _Spec()
    status: _Status = _Status()

    def container(self, name: str) -> _ContainerStatus | None:
        return next((each for each in self.status.init_container_statuses if each.name == name), None)


async def logs(words: Sequence[str], flags: dict[str, Any]) -> None:
    skyhook = flags["skyhook"]
    async with connect(flags) as cluster:
        namespace = flags["namespace"] = await namespace_of(cluster, flags)
        pods = await _pods(cluster, namespace, skyhook)
        if not pods:
            click.echo(f"No pods found for {cluster.group.word} {quote(skyhook)} in namespace {quote(namespace)}")
            return
        matched = [pod for pod in pods if _matches(pod, words[0], flags["node"])]
        if not matched:
            click.echo("No pods matched the specified filters")
            return
        newest_first = sorted(matched, key=lambda pod: pod.metadata.creation_timestamp or _EARLIEST, reverse=True)
        for number, pod in enumerate(newest_first):
            if number:
                click.echo("\n---")
            await _show_pod(cluster, pod, words[0], flags)


async def _pods(cluster: Cluster, namespace: str, skyhook: str) -> list[LoggedPod]:
    """Return the pods of a Skyhook; those of NodeWright, too, which have labels of their own."""
    found: dict[str, LoggedPod] = {}
    for group in GROUPS:
        query = {"labelSelector": f"{group.named(NAME)}={skyhook}"}
        try:
            listed = await read_list(cluster.transport, f"/api/v1/namespaces/{namespace}/pods", LoggedPod, query)
        except KubeError as error:
            raise Failed(f"listing pods: {error}") from None
        found |= {each.metadata.name: each for each in listed}
    return list(found.values())


def _matches(pod: LoggedPod, package: str, node: Sequence[str]) -> bool:
    label = pod.metadata.labels.get(PACKAGE) or pod.metadata.labels.get(NODEWRIGHT.named(PACKAGE), "")
    is_of_package = label == package or label.startswith(f"{package}-")
    return is_of_package and (not node or bool(matching(node[-1:], [pod.spec.node_name])))


async def _show_pod(cluster: Cluster, pod: LoggedPod, package: str, flags: dict[str, Any]) -> None:
    for number, name in enumerate(_containers(pod, package, flags["stage"])):
        if number:
            click.echo()
        status = pod.container(name)
        status_text = status.heading if status else ""
        click.echo(f"==> Pod: {pod.metadata.name}, Container: {name}{status_text}, Node: {pod.spec.node_name} <==")
        waiting = status.state.waiting if status else None
        if waiting is not None:
            click.echo(f"(no logs available: {waiting.reason} - {waiting.message or 'Container has not started yet'})")
            continue
        try:
            await _show_container(cluster, pod, name, flags)
        except KubeError as error:
            click.echo(f"Error getting logs for {pod.metadata.name}/{name}: {error}")


def _containers(pod: LoggedPod, package: str, stage: str) -> list[str]:
    """Return the containers of a stage. Without a stage return all that have started; if none has, the first one."""
    names = [container.name for container in pod.spec.init_containers]
    if stage:
        # The container of an interrupt has the name of the stage alone.
        return [name for name in names if name in (f"{package}-{stage}", stage)]
    started = [each.name for each in pod.status.init_container_statuses if each.has_started]
    return [name for name in started if not name.endswith(COPIES)] or started or names[:1]


async def _show_container(cluster: Cluster, pod: LoggedPod, name: str, flags: dict[str, Any]) -> None:
    query = {"container": name, **({"follow": "true"} if flags["follow"] else {})}
    if flags["tail"] >= 0:
        query["tailLines"] = str(flags["tail"])
    path = f"/api/v1/namespaces/{flags['namespace']}/pods/{pod.metadata.name}/log"
    async with cluster.transport.stream(path, query=query, silence=SILENCE) as lines:
        async for line in lines:
            click.echo(line.removesuffix(b"\n"))
