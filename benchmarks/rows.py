"""Measures what a pod costs as a row: the bytes of rows and indexes, and the time from a watch line to them. No I/O."""

from __future__ import annotations

import gc
import json
import time
import tracemalloc
from collections.abc import Iterator

from benchmarks.harness import Cell, Report, load_average, options
from haulout.cluster.indexes import PODS_OF_NAMESPACE, PODS_OF_NODE
from haulout.cluster.project import RESOURCES, Keep, Projector
from haulout.cluster.store import Index, Store
from haulout.kube.codec import Added, Kind
from haulout.model.pod import Pod
from tests.rig.fleet import fleet

PODS_PER_NODE = 30
BATCH = 500


def lines(pods: int, replicas: int) -> Iterator[list[bytes]]:
    """Yield watch lines as an API server sends them, in batches, so that they are never all in memory."""
    batch: list[bytes] = []
    made = fleet("bench", -(-pods // PODS_PER_NODE), pods_per_node=PODS_PER_NODE, replicas=replicas)
    for version, body in enumerate((body for body in made if body["kind"] == "Pod"), 1):
        body["metadata"]["resourceVersion"] = str(1_000_000 + version)
        batch.append(json.dumps({"type": "ADDED", "object": body}, separators=(",", ":")).encode())
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def fill(pods: int, replicas: int, indexes: tuple[Index, ...]) -> tuple[Store, float, int]:
    """Fill a store with pods. Return it, the CPU seconds from lines to rows, and the length of the lines in bytes."""
    store, kind, projector = Store(), Kind(Pod), Projector(RESOURCES["Pod"], "", Keep())
    for index in indexes:
        store.bucket(index, "", "")
    store.begin_list("", "Pod")
    spent, length = 0.0, 0
    for batch in lines(pods, replicas):
        length += sum(map(len, batch))
        began = time.process_time()
        for line in batch:
            event = kind.event(line)
            assert isinstance(event, Added)
            store.put(projector.row(event.object))
        store.take_changes()
        spent += time.process_time() - began
    store.end_list("", "Pod", 10**9)
    store.take_changes()
    return store, spent, length


def case(what: str, pods: int, replicas: int, indexes: tuple[Index, ...]) -> dict[str, Cell]:
    _, spent, length = fill(pods, replicas, indexes)
    gc.collect()
    tracemalloc.start()
    store, _, _ = fill(pods, replicas, indexes)
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    count = len(store.table("", "Pod").rows)
    return {
        "what": what,
        "pods": count,
        "line, B": length // count,
        "kept, B/pod": held / count,
        "150,000 pods, MiB": held / count * 150_000 / 2**20,
        "us/pod": spent / count * 1e6,
        "load": load_average(),
    }


def main() -> None:
    parser = options("rows", __doc__, runs=1, peers=False)
    parser.add_argument("--pods", type=int, default=30_000)
    chosen = parser.parse_args()
    report = Report("rows: what a pod costs in memory", chosen)
    both = (PODS_OF_NODE, PODS_OF_NAMESPACE)
    report.table(
        f"{chosen.pods:,} distinct pods, {PODS_PER_NODE} to a node",
        [
            case("rows, 20 pods to a ReplicaSet", chosen.pods, 20, ()),
            case("rows and indexes by node and namespace", chosen.pods, 20, both),
            case("the same, every pod with an owner of its own", chosen.pods, 1, both),
        ],
    )
    report.say("Bytes are counted by tracemalloc in a second pass; the time, decoding included, is of the first.")
    report.finish()


if __name__ == "__main__":
    main()
