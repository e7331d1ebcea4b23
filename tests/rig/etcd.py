"""etcd for tests: no fsync, and objects put straight into the API server's storage, thousands a second."""

from __future__ import annotations

import base64
import concurrent.futures
import itertools
import json
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from tests.rig.api import Api, ApiError, Json
from tests.rig.process import Process, free_port
from tests.rig.wait import eventually

T = TypeVar("T")

# The storage prefixes of kinds whose storage name is not their plural, or that have no group in their key.
STORED_AS = {
    "MaintenanceRecord": "haulout.dev/maintenancerecords",
    "BareMetalHost": "metal3.io/baremetalhosts",
    "ConfigMap": "configmaps",
    "DaemonSet": "daemonsets",
    "Deployment": "deployments",
    "Lease": "leases",
    "Machine": "cluster.x-k8s.io/machines",
    "Namespace": "namespaces",
    "Node": "minions",
    "Pod": "pods",
    "PodDisruptionBudget": "poddisruptionbudgets",
    "ReplicaSet": "replicasets",
    "Secret": "secrets",
    "StatefulSet": "statefulsets",
}

PUTS_PER_TRANSACTION = 200
WRITERS = 8


def key_of(body: Json) -> str:
    meta = body["metadata"]
    parts = ["/registry", STORED_AS[body["kind"]], *([meta["namespace"]] if "namespace" in meta else []), meta["name"]]
    return "/".join(parts)


class Etcd:
    def __init__(self, binary: Path, directory: Path) -> None:
        client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        self.url = client
        self._data = directory / "etcd"
        self.process = Process(
            "etcd",
            [
                binary,
                "--data-dir",
                self._data,
                "--listen-client-urls",
                client,
                "--advertise-client-urls",
                client,
                "--listen-peer-urls",
                peer,
                "--initial-advertise-peer-urls",
                peer,
                "--initial-cluster",
                f"default={peer}",
                "--unsafe-no-fsync",
                # A cluster with one member elects itself as soon as the timer runs out.
                "--heartbeat-interval=10",
                "--election-timeout=100",
                "--max-txn-ops=10000",
                "--max-request-bytes=67108864",
                "--quota-backend-bytes=17179869184",
                "--log-level=warn",
            ],
            directory,
        )
        self._gateway = Api(client, "", timeout=120)

    def start(self) -> None:
        self.process.start()

        def healthy() -> bool:
            self.process.check()
            answer: Json = self._gateway.request("GET", "/health")
            return bool(answer["health"] == "true")

        eventually(healthy, "etcd healthy", refused=(OSError, ApiError))

    def load(self, objects: Iterable[Json], *, watched: bool) -> int:
        """Store objects as they are, without admission and defaults. Return how many.

        One transaction is one revision, and the API server's watch cache takes one revision for one object: a list
        between two events of the same revision would look complete, and a watch from there would miss the rest. So
        transactions are only for a storage that no client watches yet.
        """
        if watched:
            return self._each("/v3/kv/put", (put_of(body) for body in objects))
        transactions = batches(({"request_put": put_of(body)} for body in objects), PUTS_PER_TRANSACTION)
        return sum(self._commit(puts) for puts in transactions)

    def remove(self, prefix: str) -> int:
        """Delete every key that begins with `prefix`, without grace and finalizers. Return how many."""
        return self._each("/v3/kv/deleterange", ({"key": encoded(key)} for key in self.keys(prefix)))

    def wipe(self, name: str) -> int:
        """Delete every object whose name or namespace begins with `name`. Return how many."""
        doomed = [key for key in self.keys("/registry/") if any(part.startswith(name) for part in key.split("/")[3:])]
        return self._each("/v3/kv/deleterange", ({"key": encoded(key)} for key in doomed))

    def keys(self, prefix: str) -> list[str]:
        found: Json = self._gateway.request("POST", "/v3/kv/range", {**span(prefix), "keys_only": True})
        return [base64.b64decode(entry["key"]).decode() for entry in found.get("kvs", [])]

    def count(self, prefix: str) -> int:
        answer: Json = self._gateway.request("POST", "/v3/kv/range", {**span(prefix), "count_only": True})
        return int(answer.get("count", 0))

    def compact(self) -> None:
        """Drop all history. The API server's own cache may still have it."""
        at = self._gateway.request("POST", "/v3/kv/range", {"key": encoded("/")})["header"]["revision"]
        self._gateway.request("POST", "/v3/kv/compaction", {"revision": at, "physical": True})

    def copy_to(self, backup: Path) -> None:
        """Copy the data as they are at this moment."""
        self.process.freeze()
        try:
            shutil.copytree(self._data, backup)
        finally:
            self.process.thaw()

    def restore(self, backup: Path) -> None:
        """Go back to the data of a backup."""
        self.process.kill()
        shutil.rmtree(self._data)
        shutil.copytree(backup, self._data)
        self.start()

    def stop(self) -> None:
        self._gateway.close()
        self.process.stop()

    def _commit(self, puts: list[Json]) -> int:
        self._gateway.request("POST", "/v3/kv/txn", {"success": puts})
        return len(puts)

    def _each(self, path: str, bodies: Iterable[Json]) -> int:
        """Send one request for each body, a few at a time, in no particular order."""
        count = 0
        with concurrent.futures.ThreadPoolExecutor(WRITERS) as pool:
            for batch in batches(bodies, PUTS_PER_TRANSACTION):
                count += len(list(pool.map(lambda body: self._gateway.request("POST", path, body), batch)))
        return count


def put_of(body: Json) -> Json:
    return {"key": encoded(key_of(body)), "value": encoded(json.dumps(body))}


def span(prefix: str) -> Json:
    """Return the range of all keys that begin with `prefix`."""
    return {"key": encoded(prefix), "range_end": encoded(prefix[:-1] + chr(ord(prefix[-1]) + 1))}


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    rest = iter(items)
    while batch := list(itertools.islice(rest, size)):
        yield batch
