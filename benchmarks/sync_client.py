"""The program that `sync` measures: our watches and store for nodes and pods, without decisions.

It prints `listed` with its own figures once both kinds are listed, and then goes on watching.
"""

from __future__ import annotations

import asyncio
import json
import resource
import time

from haulout.base.clock import SystemClock
from haulout.cluster.indexes import PODS_OF_NAMESPACE, PODS_OF_NODE
from haulout.cluster.project import Keep
from haulout.cluster.store import Listing
from haulout.kernel.kernel import Kernel
from haulout.kube.config import load as load_endpoint
from haulout.kube.http import HttpTransport
from haulout.runtime.metrics import Metrics
from haulout.runtime.pump import Pump

KINDS = ("Node", "Pod")


async def serve() -> None:
    clock = SystemClock()
    kernel = Kernel([])
    woken = asyncio.Event()
    transport = HttpTransport(load_endpoint(), clock)
    pump = Pump(kernel.store, clock, Metrics(), woken.set)
    began = time.monotonic()
    told = False
    for index in (PODS_OF_NAMESPACE, PODS_OF_NODE):
        kernel.store.bucket(index, "", "")
    async with asyncio.TaskGroup() as group:
        for kind in KINDS:
            pump.open(group, transport, "", kind, Keep())
        while True:
            await woken.wait()
            woken.clear()
            kernel.run(clock.now())
            if not told and all(kernel.store.table("", kind).listing is Listing.LISTED for kind in KINDS):
                told = True
                tell(kernel, time.monotonic() - began)


def tell(kernel: Kernel, wall: float) -> None:
    spent = resource.getrusage(resource.RUSAGE_SELF)
    counts = {kind: len(kernel.store.table("", kind).rows) for kind in KINDS}
    figures = {"wall": wall, "cpu": spent.ru_utime + spent.ru_stime, "peak": spent.ru_maxrss / 1024, **counts}
    print("listed", json.dumps(figures), flush=True)


def main() -> None:
    try:
        import uvloop

        runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
    except ImportError:
        runner = asyncio.Runner()
    with runner:
        runner.run(serve())


if __name__ == "__main__":
    main()
