"""Reads and stores how long finite pods ran, in one ConfigMap in Haulout's own namespace."""

from __future__ import annotations

import msgspec

from haulout.kube.errors import ApiError, KubeError, NotFound
from haulout.kube.writer import Writer
from haulout.runtime.probes import ProbeFailed
from haulout.surfaces.notify.scheduler.history import CONFIGMAP, CONTENT
from haulout.surfaces.notify.scheduler.recording import StoredHistory


class _ConfigMap(msgspec.Struct):
    data: dict[str, str] = {}


class RunTimes:
    """A client for the ConfigMap with the run times. The ConfigMap is created with the first content."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    async def read(self, namespace: str) -> str:
        """Return the stored text; empty if there is no ConfigMap, or if we may not read it. Raises ProbeFailed."""
        try:
            reply = await self._writer.get(_path(namespace), key=CONFIGMAP)
            return msgspec.json.decode(reply, type=_ConfigMap).data.get(CONTENT, "")
        except msgspec.DecodeError:
            return ""
        except ApiError as error:
            if error.code in (403, 404):
                return ""
            raise ProbeFailed(str(error)) from None
        except KubeError as error:
            raise ProbeFailed(str(error)) from None

    async def store(self, content: StoredHistory) -> None:
        body = {"data": {CONTENT: content.text}}
        try:
            await self._writer.merge_patch(_path(content.namespace), body, key=CONFIGMAP)
        except NotFound:
            meta = {"name": CONFIGMAP, "namespace": content.namespace}
            made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, **body}
            await self._writer.create(_path(content.namespace).rpartition("/")[0], made, key=CONFIGMAP)


def _path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps/{CONFIGMAP}"
