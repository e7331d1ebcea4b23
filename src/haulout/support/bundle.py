"""Collects a support archive by many small requests. Those that fail are listed in the archive."""

from __future__ import annotations

import io
import os
import platform
import tarfile
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from haulout import __version__
from haulout.base.clock import SystemClock
from haulout.base.selector import SelectorError, from_object
from haulout.base.url import without_secrets
from haulout.base.yaml import Scalar, YamlError, node_at, parse
from haulout.cluster.key import node_key
from haulout.core.archive import Archived
from haulout.core.node_signs import visible_signs
from haulout.explain.home import home_endpoint
from haulout.explain.node import as_text, explain
from haulout.explain.setup import Setup, find_setup, read_setup
from haulout.explain.snapshot import narrow_to_node, picture
from haulout.kube.endpoint import Endpoint
from haulout.kube.errors import ApiError, KubeError, NotFound
from haulout.kube.http import HttpTransport
from haulout.runtime.interruption import run_command
from haulout.support.redaction import TooLarge, all_archived, kept_object, kept_settings
from haulout.surfaces.registry import all_declarations, load

Json = dict[str, Any]

NOT_COLLECTED = "not-collected.txt"
MOST_NAMED = 10
PAGE = 500
# How much is collected from the end of each log.
LOG_LINES, LOG_BYTES = 20_000, 20 * 2**20
# The label of our own pods. Pods of the originals' Deployments have others, which surfaces declare.
OWN_PODS = "app.kubernetes.io/name=haulout"
OWN_NAMESPACE, NODE_LEASES = "haulout-system", "kube-node-lease"
# Cluster-wide objects with this word in their name are ours, beside those that surfaces declare.
OURS = "haulout"
OWN_ANNOTATIONS = "haulout.dev/"


def write_bundle(nodes: tuple[str, ...], output: str, config: str, cluster: Mapping[str, Any]) -> int:
    endpoint = home_endpoint(cluster, config)
    now = datetime.now(UTC)
    path = Path(output or f"haulout-bundle-{now:%Y%m%dT%H%M%SZ}.tar.gz")
    bundle = Bundle(endpoint, own_namespace=cluster["namespace"] or OWN_NAMESPACE)
    try:
        run_command(bundle.collect(nodes, config, now))
    except KubeError as error:
        raise click.ClickException(str(error)) from None
    try:
        _write(path, bundle.files, now)
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror}") from None
    close = ", ".join(bundle.concerned[:MOST_NAMED]) + (", ..." if len(bundle.concerned) > MOST_NAMED else "")
    click.echo(f"{path}: {len(bundle.files)} files; nodes looked at closely: {close or 'none'}")
    if bundle.missing:
        click.echo(f"what could not be read is listed in {NOT_COLLECTED} ({len(bundle.missing)})")
    return 0


class Bundle:
    """The content of a support bundle before it is written to an archive.

    `files`: the contents by their names in the archive. `missing`: what could not be read, and why.
    `concerned`: the nodes whose pods, events and explanations are collected.
    """

    def __init__(self, endpoint: Endpoint, *, own_namespace: str) -> None:
        self.files: dict[str, bytes] = {}
        self.missing: list[str] = []
        self.concerned: list[str] = []
        self._endpoint = endpoint
        self._own_namespace = own_namespace
        self._transport = HttpTransport(endpoint, SystemClock())
        self._image = "Unknown-Image"

    async def collect(self, names: tuple[str, ...], config: str, now: datetime) -> None:
        try:
            # If the API server does not answer this, nothing can be collected, and the command fails.
            server = await self._transport.request("GET", "/version")
            setup = await self._configuration(config)
            await self._cluster_objects()
            maintained, events = await self._surface_objects()
            nodes = await self._objects("/api/v1/nodes", "cluster-scoped-resources/core/nodes", "Node")
            self.concerned = _concerned(names, nodes, maintained)
            unknown = [name for name in names if name not in self.concerned]
            if unknown and nodes:
                raise click.ClickException(f"there is no node named {', '.join(unknown)}; nothing was written")
            await self._workloads(events)
            homes = await self._own_pods()
            await self._leases({*_lease_namespaces(setup), self._own_namespace, *homes})
            await self._explanations(setup, now)
        finally:
            await self._transport.close()
        self._versions(msgspec.json.decode(server.body))
        self.files[NOT_COLLECTED] = "".join(f"{line}\n" for line in self.missing).encode()

    # The cluster's objects

    async def _cluster_objects(self) -> None:
        top = "cluster-scoped-resources"
        ours = {name for each in all_declarations() for hook in each.webhooks for name in (hook.configuration,)}
        ours |= {f"{each.plural}.{each.group}" for each in all_archived()}
        for group, version, plural, kind in (
            ("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition"),
            ("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration"),
            ("admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration"),
        ):
            await self._objects(
                f"/apis/{group}/{version}/{plural}", f"{top}/{group}/{plural}", kind, only=(OURS, *ours)
            )

    async def _surface_objects(self) -> tuple[set[str], list[Json]]:
        """Collect the objects of all surfaces. Return the names of their nodes, and the events about the objects."""
        nodes: set[str] = set()
        events: list[Json] = []
        for kind in all_archived():
            found = await self._archived(kind)
            for obj in found:
                self._put_object(obj, kind.group, kind.plural, kind.kind)
                nodes |= {name for name in (_at(obj, kind.node),) if kind.node and isinstance(name, str)}
            if found:
                events += await self._events("", kind.kind, [obj["metadata"]["name"] for obj in found])
        return nodes, events

    async def _archived(self, kind: Archived) -> list[Json]:
        """List the objects of a kind in the newest API version that has any."""
        belongs = load(kind.only) if kind.only else lambda obj: True
        for version in kind.versions:
            found = await self._items(f"/apis/{kind.group}/{version}/{kind.plural}", optional=True)
            if found:
                return [obj for obj in found if belongs(obj)]
        return []

    async def _workloads(self, more: list[Json]) -> None:
        """Collect the pods of the nodes, their budgets, other pods of these budgets, and the events about all of them.

        `more`: further events to store.
        """
        pods: dict[str, Json] = {}
        for name in self.concerned:
            for pod in await self._items("/api/v1/pods", fieldSelector=f"spec.nodeName={name}"):
                pods[_name(pod)] = pod
        namespaces = sorted({pod["metadata"]["namespace"] for pod in pods.values()})
        events = [*more, *await self._events("", "Node", self.concerned)]
        for namespace in namespaces:
            here = [pod for pod in pods.values() if pod["metadata"]["namespace"] == namespace]
            budgets = await self._items(f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets")
            for budget in [budget for budget in budgets if _covers(budget, here)]:
                self._put_object(budget, "policy", "poddisruptionbudgets", "PodDisruptionBudget")
                for pod in await self._covered(budget):
                    pods.setdefault(_name(pod), pod)
            names = [pod["metadata"]["name"] for pod in pods.values() if pod["metadata"]["namespace"] == namespace]
            events += await self._events(namespace, "Pod", names)
            events += await self._events(namespace, "PodDisruptionBudget", None)
        for pod in pods.values():
            self._put_object(pod, "core", "pods", "Pod")
        for namespace in sorted({event["metadata"]["namespace"] for event in events}):
            listed = [event for event in events if event["metadata"]["namespace"] == namespace]
            self._put(
                f"namespaces/{namespace}/core/events.json", {"kind": "EventList", "apiVersion": "v1", "items": listed}
            )

    async def _covered(self, budget: Json) -> list[Json]:
        """Return the pods that a budget selects. The pod that keeps it closed is often on another node."""
        try:
            selector = from_object(budget["spec"].get("selector") or {})
        except SelectorError:
            return []
        path = f"/api/v1/namespaces/{budget['metadata']['namespace']}/pods"
        return await self._items(path, labelSelector=str(selector))

    async def _events(self, namespace: str, kind: str, names: Iterable[str] | None) -> list[Json]:
        path = f"/api/v1/namespaces/{namespace}/events" if namespace else "/api/v1/events"
        found = await self._items(path, fieldSelector=f"involvedObject.kind={kind}")
        wanted = set(names) if names is not None else None
        events = [event for event in found if wanted is None or event["involvedObject"].get("name") in wanted]
        return [kept_object(event, "Event") for event in events]

    async def _leases(self, namespaces: set[str]) -> None:
        prefix = "/apis/coordination.k8s.io/v1/namespaces"
        for namespace in sorted(namespaces):
            for lease in await self._items(f"{prefix}/{namespace}/leases"):
                self._put_object(lease, "coordination.k8s.io", "leases", "Lease")
        for name in self.concerned:
            found = await self._get(f"{prefix}/{NODE_LEASES}/leases/{name}")
            if found is not None:
                self._put_object(found, "coordination.k8s.io", "leases", "Lease")

    async def _own_pods(self) -> set[str]:
        """Collect our own pods with their logs and mounted configuration. Return the namespaces where they are.

        Only pods in our own namespace are read, because any user may put our label on a pod.
        """
        pods: dict[str, Json] = {}
        originals = [each.original.pods for each in all_declarations() if each.original and each.original.pods]
        for selector in (OWN_PODS, *originals):
            for pod in await self._items(f"/api/v1/namespaces/{self._own_namespace}/pods", labelSelector=selector):
                pods[_name(pod)] = pod
        for pod in pods.values():
            self._put_object(pod, "core", "pods", "Pod")
            statuses = pod.get("status", {}).get("containerStatuses", [])
            self._image = next((status["imageID"] for status in statuses if status.get("imageID")), self._image)
            await self._logs(pod)
            for volume in pod["spec"].get("volumes", []):
                await self._config_map(pod["metadata"]["namespace"], volume.get("configMap", {}).get("name", ""))
        return {pod["metadata"]["namespace"] for pod in pods.values()}

    async def _logs(self, pod: Json) -> None:
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        if pod.get("status", {}).get("phase") != "Running":
            self.missing.append(f"log of pod {namespace}/{name}: it does not run")
            return
        containers = [container["name"] for container in pod["spec"]["containers"]]
        for container in containers:
            query = {"container": container, "tailLines": str(LOG_LINES), "limitBytes": str(LOG_BYTES)}
            data = await self._read(f"/api/v1/namespaces/{namespace}/pods/{name}/log", query)
            if data is not None:
                suffix = f"_{container}" if len(containers) > 1 else ""
                text = without_secrets(data.decode(errors="replace"))
                self.files[f"operator-pod-logs/{name}{suffix}"] = text.encode()

    async def _config_map(self, namespace: str, name: str) -> None:
        found = await self._get(f"/api/v1/namespaces/{namespace}/configmaps/{name}") if name else None
        for file, text in ((found or {}).get("data") or {}).items():
            self._put_yaml(f"config/{namespace}/{name}/{file}", str(text).encode())

    async def _explanations(self, setup: Setup, now: datetime) -> None:
        if not self.concerned:
            return
        try:
            setup = await narrow_to_node(setup, self._transport)
            kernel = await picture(setup, self._transport)
        except (KubeError, TimeoutError) as error:
            self.missing.append(f"explanations: {str(error) or 'the cluster was not listed in time'}")
            return
        for name in self.concerned:
            found = explain(kernel, setup.enabled, node_key(name), now)
            if found is not None:
                self.files[f"explain/{name}.txt"] = without_secrets(f"{as_text(found, now)}\n").encode()

    # Local files

    async def _configuration(self, config: str) -> Setup:
        self._local_files(config)
        try:
            setup = read_setup(config) if config else await find_setup(self._transport)
        except click.ClickException as error:
            self.missing.append(f"configuration: {error.message}")
            return Setup()
        self.missing += [f"configuration: {text}" for text in setup.unread]
        self.files["config/origin.txt"] = f"{setup.origin}\n".encode()
        return setup

    def _local_files(self, config: str) -> None:
        """Collect the configuration files in this folder, also invalid ones."""
        for name in dict.fromkeys((config, "haulout.yaml", *_config_files(config))):
            path = Path(name)
            if name and path.is_file():
                try:
                    self._put_yaml(f"config/{path.name}", path.read_bytes())
                except OSError as error:
                    self.missing.append(f"{path}: {error.strerror}")

    def _versions(self, server: Json) -> None:
        self.files["version"] = f"haulout\nv{__version__}\n{self._image}\n".encode()
        ours = {"haulout": __version__, "python": platform.python_version(), "machine": platform.platform()}
        self._put("versions.json", {**ours, "server": server, "image": self._image})

    # Requests and files of the archive

    async def _read(self, path: str, query: Mapping[str, str], *, optional: bool = False) -> bytes | None:
        try:
            return (await self._transport.request("GET", path, query=query)).body
        except NotFound as error:
            if not optional:
                self.missing.append(f"{path}: {error}")
        except ApiError as error:
            self.missing.append(f"{path}: {error}")
        except KubeError as error:
            self.missing.append(str(error))
        return None

    async def _get(self, path: str) -> Json | None:
        data = await self._read(path, {})
        return msgspec.json.decode(data) if data is not None else None

    async def _items(self, path: str, *, optional: bool = False, **query: str) -> list[Json]:
        items: list[Json] = []
        going_on = ""
        while True:
            more = {"continue": going_on} if going_on else {}
            data = await self._read(path, {"limit": str(PAGE), **query, **more}, optional=optional)
            if data is None:
                return items
            page = msgspec.json.decode(data)
            items += page.get("items") or []
            going_on = page.get("metadata", {}).get("continue", "")
            if not going_on:
                return items

    async def _objects(
        self, path: str, folder: str, kind: str, *, only: tuple[str, ...] = (), optional: bool = False
    ) -> list[Json]:
        """Collect the objects of a kind, each as a file. `only`: those with one of these words in their name."""
        found = await self._items(path, optional=optional)
        for obj in found:
            name = obj["metadata"]["name"]
            if not only or any(word in name for word in only):
                self._put(f"{folder}/{name}.json", kept_object(obj, kind))
        return found

    def _put_object(self, obj: Json, group: str, plural: str, kind: str) -> None:
        metadata = obj["metadata"]
        place = f"namespaces/{metadata['namespace']}" if metadata.get("namespace") else "cluster-scoped-resources"
        self._put(f"{place}/{group}/{plural}/{metadata['name']}.json", kept_object(obj, kind))

    def _put(self, path: str, body: Json) -> None:
        self.files[path] = msgspec.json.format(msgspec.json.encode(body), indent=2) + b"\n"

    def _put_yaml(self, path: str, data: bytes) -> None:
        try:
            self.files[path] = kept_settings(data).encode()
        except TooLarge as error:
            self.missing.append(f"{path}: {error}")
        except YamlError:
            # Secrets cannot be removed from a file that cannot be parsed, so it is left out.
            self.missing.append(f"{path}: it is no YAML, and may hold secrets")


def _config_files(config: str) -> list[str]:
    """Return the paths of surfaces' own configuration files: the defaults, and those that the settings name.

    The settings may be invalid otherwise.
    """
    try:
        settings = parse(Path(config or "haulout.yaml").read_bytes())
    except (OSError, YamlError):
        settings = None
    paths = []
    for surface in all_declarations():
        if surface.config_file is not None and surface.settings is not None:
            found = node_at(settings, ("surfaces", surface.name, surface.config_file.setting)) if settings else None
            paths.append(getattr(surface.settings(), surface.config_file.setting))
            paths.append(str(found.value) if isinstance(found, Scalar) and found.value else "")
    return paths


def _name(obj: Json) -> str:
    return f"{obj['metadata'].get('namespace', '')}/{obj['metadata']['name']}"


def _lease_namespaces(setup: Setup) -> set[str]:
    """Return the namespaces in which surfaces keep their Leases: those of the settings, else the defaults."""
    names = [(each.name, name) for each in all_declarations() for name in each.names if name.is_namespace]
    return {str(getattr(setup.options(surface), name.name, name.default)) for surface, name in names}


def _at(obj: Json, path: str) -> Any:
    """Return the value at a path of an object, such as `spec.nodeName`, or None."""
    found: Any = obj
    for name in path.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _concerned(names: tuple[str, ...], nodes: list[Json], maintained: set[str]) -> list[str]:
    known = [node["metadata"]["name"] for node in nodes]
    if names:
        return [name for name in known if name in names]
    return [node["metadata"]["name"] for node in nodes if node["metadata"]["name"] in maintained or _is_claimed(node)]


def _is_claimed(node: Json) -> bool:
    """Whether a node is cordoned, or has a label, taint or annotation of a surface that wants or holds it."""
    spec, metadata = node.get("spec", {}), node["metadata"]
    labels, annotations = metadata.get("labels", {}), metadata.get("annotations", {})
    taints = [taint.get("key", "") for taint in spec.get("taints") or []]
    waiting = [each.node_label.waiting for each in all_declarations() if each.node_label is not None]
    return (
        bool(spec.get("unschedulable"))
        or any(name.startswith(OWN_ANNOTATIONS) for name in annotations)
        or any(name in labels and labels[name] == value for name, value in waiting)
        or any(visible_signs(sign, labels, taints, annotations) for each in all_declarations() for sign in each.signs)
    )


def _covers(budget: Json, pods: list[Json]) -> bool:
    try:
        selector = from_object(budget["spec"].get("selector") or {})
    except SelectorError:
        return True
    return any(selector.matches(pod["metadata"].get("labels", {})) for pod in pods)


def _write(path: Path, files: Mapping[str, bytes], now: datetime) -> None:
    """Write the archive as a new file that only its owner can read, because it tells what a cluster runs.

    An existing file or link is not overwritten: another user may have put it there to read what is written.
    """
    top = path.name.removesuffix(".tar.gz").removesuffix(".tgz")
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name in sorted(files):
            member = tarfile.TarInfo(f"{top}/{name}")
            member.size, member.mtime, member.mode = len(files[name]), int(now.timestamp()), 0o600
            archive.addfile(member, io.BytesIO(files[name]))
