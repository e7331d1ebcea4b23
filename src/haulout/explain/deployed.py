"""The settings of the operator that runs in a cluster, read from its Deployment and the ConfigMaps that it mounts."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from haulout.kube.errors import Forbidden, KubeError, NotFound
from haulout.kube.lease import LABELS, SERVED
from haulout.kube.transport import Transport
from haulout.manifests.documents import NAMESPACE
from haulout.settings.blocks import surface_settings

LABEL = "app.kubernetes.io/name=haulout"
DEFAULT_FILE = "haulout.yaml"
ANSWER_WITHIN = 10.0
SEVERAL = f"several Deployments have the label {LABEL}, and it is unknown which one is the operator (name its settings with --config)"

Json = Mapping[str, Any]


class Deployed(msgspec.Struct, frozen=True):
    """An operator as its Deployment describes it.

    `place`: namespace and name of the Deployment. `arguments`: those of its container, after the program's name.
    `files`: the content of mounted ConfigMaps, by path. `secret_folders`: the name of each mounted Secret, by folder.
    `environment`: the variables whose values the Deployment itself has.
    """

    place: tuple[str, str]
    arguments: tuple[str, ...]
    files: Mapping[str, bytes]
    secret_folders: Mapping[str, str]
    environment: Mapping[str, str]

    @property
    def runs(self) -> bool:
        """Whether it is started with `haulout run`, not as one of the originals."""
        return "run" in self.arguments

    @property
    def config(self) -> str:
        """The path of the operator's haulout.yaml. Empty: it has none, or it is started as one of the originals."""
        if not self.runs:
            return ""
        return self._flag("--config") or next((path for path in self.files if path.endswith(f"/{DEFAULT_FILE}")), "")

    @property
    def surfaces(self) -> str:
        """The surfaces that the flag `--surfaces` names, with commas; empty without the flag."""
        return self._flag("--surfaces")

    def _flag(self, name: str) -> str:
        for word, following in zip(self.arguments, (*self.arguments[1:], ""), strict=True):
            if word == name:
                return following
            if word.startswith(f"{name}="):
                return word.partition("=")[2]
        return ""

    def why_missing(self, path: str) -> str:
        """Return why the content of a file is not among `files`, in words."""
        for folder, secret in self.secret_folders.items():
            if posixpath.dirname(path) == folder.rstrip("/"):
                return (
                    f"it lies in Secret {secret}, which is not read here (name a copy of your settings with --config)"
                )
        return "no ConfigMap that its Deployment mounts has it"


class Search(msgspec.Struct, frozen=True):
    """The result of the search for the operator's Deployment. `unread`: why the search failed; empty if it did not."""

    found: Deployed | None = None
    unread: str = ""


class ServedLease(msgspec.Struct, frozen=True):
    """A Lease of an operator. `lease`: NAMESPACE/NAME. `surfaces`: those that it serves, or served last."""

    lease: str
    surfaces: tuple[str, ...]
    renewed_at: str = ""


async def served_surfaces(transport: Transport) -> ServedLease | None:
    """Return the Lease of an operator that says what it serves, the one renewed last; None if there is none to read."""
    selector = ",".join(f"{name}={value}" for name, value in LABELS.items())
    try:
        path = "/apis/coordination.k8s.io/v1/leases"
        reply = await transport.request("GET", path, query={"labelSelector": selector}, timeout=ANSWER_WITHIN)
    except KubeError:
        return None
    items = msgspec.json.decode(reply.body).get("items") or ()
    found = [lease for each in items if isinstance(each, Mapping) and (lease := _served_lease(each)) is not None]
    return max(found, key=lambda each: each.renewed_at, default=None)


def _served_lease(lease: Json) -> ServedLease | None:
    served = ((lease.get("metadata") or {}).get("annotations") or {}).get(SERVED)
    if not isinstance(served, str) or not served:
        return None
    renewed_at = (lease.get("spec") or {}).get("renewTime")
    # A newer version may serve surfaces that this one does not know.
    known = tuple(name for name in served.split(",") if name in surface_settings())
    return ServedLease("/".join(_place(lease)), known, str(renewed_at or "")) if known else None


async def find_deployed(transport: Transport) -> Search:
    """Look for the Deployment of the operator by its label.

    Any tenant may put our label on a Deployment. So of several only the one in haulout-system is trusted.
    """
    try:
        deployments = await _deployments(transport)
        if len(deployments) > 1:
            deployments = [each for each in deployments if _place(each)[0] == NAMESPACE]
            if len(deployments) != 1:
                return Search(unread=SEVERAL)
        if not deployments:
            return Search()
        return Search(await _deployed(deployments[0], transport))
    except KubeError as error:
        return Search(unread=f"the operator's settings cannot be read from the cluster: {error}")


async def _deployments(transport: Transport) -> list[Json]:
    try:
        return await _items(transport, "/apis/apps/v1/deployments")
    except Forbidden:
        # Some users may list Deployments only in the namespace of the operator.
        return await _items(transport, f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments")


async def _items(transport: Transport, path: str) -> list[Json]:
    try:
        reply = await transport.request("GET", path, query={"labelSelector": LABEL}, timeout=ANSWER_WITHIN)
    except NotFound:
        return []
    found = msgspec.json.decode(reply.body).get("items") or ()
    return [each for each in found if isinstance(each, Mapping)]


async def _deployed(deployment: Json, transport: Transport) -> Deployed:
    namespace, name = _place(deployment)
    pod = ((deployment.get("spec") or {}).get("template") or {}).get("spec") or {}
    container: Json = next(iter(pod.get("containers") or ()), {})
    volumes = {str(each.get("name")): each for each in pod.get("volumes") or ()}
    files: dict[str, bytes] = {}
    secrets: dict[str, str] = {}
    for mount in container.get("volumeMounts") or ():
        folder, volume = str(mount.get("mountPath", "")), volumes.get(str(mount.get("name")), {})
        if secret := (volume.get("secret") or {}).get("secretName"):
            secrets[folder] = f"{namespace}/{secret}"
        if config_map := (volume.get("configMap") or {}).get("name"):
            data = await _config_map(transport, namespace, str(config_map))
            files |= {posixpath.join(folder, file): str(text).encode() for file, text in data.items()}
    words = [str(word) for word in (*(container.get("command") or ()), *(container.get("args") or ()))]
    return Deployed((namespace, name), tuple(words), files, secrets, dict(_environment(container)))


async def _config_map(transport: Transport, namespace: str, name: str) -> Json:
    try:
        reply = await transport.request(
            "GET", f"/api/v1/namespaces/{namespace}/configmaps/{name}", timeout=ANSWER_WITHIN
        )
    except NotFound:
        return {}
    data = msgspec.json.decode(reply.body).get("data")
    return data if isinstance(data, Mapping) else {}


def _environment(container: Json) -> Iterator[tuple[str, str]]:
    for each in container.get("env") or ():
        if isinstance(each.get("value"), str):
            yield str(each.get("name", "")), each["value"]


def _place(deployment: Json) -> tuple[str, str]:
    metadata = deployment.get("metadata") or {}
    return str(metadata.get("namespace", "")), str(metadata.get("name", ""))
