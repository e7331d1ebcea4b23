"""A process starts over when its own API server shows an earlier state, and not when a workload cluster's does."""

from __future__ import annotations

import asyncio
from pathlib import Path

from haulout.cluster.topics import TableName
from tests.build.one_process import InlineLoop, OneProcess


def test_a_process_is_replaced_after_a_restore_of_its_home_cluster_alone(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with OneProcess(tmp_path).running() as world:
            process = world.process
            await asyncio.sleep(30)
            process.kernel.store.on_rewound(TableName("fleet/alpha", "Node"))
            await asyncio.sleep(5)
            assert (process.replaced_by, process.kernel.leading) == (None, True)
            process.kernel.store.on_rewound(TableName("", "Node"))
            assert not process.kernel.leading, "no decision runs from now on"
            await asyncio.sleep(5)
            assert process.replaced_by is process.settings

    with asyncio.Runner(loop_factory=InlineLoop) as runner:
        runner.run(scenario())
