"""The console of the demo: `haulout console` in a process of its own, as beside a real operator."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

STARTED_WITHIN = 20.0
LINE = "console: "


@contextlib.asynccontextmanager
async def served_page(kubeconfig: Path) -> AsyncIterator[str]:
    """Run the console while the block runs, and yield its address; empty if it did not start."""
    argv = (sys.executable, "-m", "haulout.app.main", "console", "--no-open")
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, "KUBECONFIG": str(kubeconfig)},
        # Ctrl-C is for the demo, which ends the console then.
        start_new_session=True,
    )
    try:
        yield await _address(process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            async with asyncio.timeout(5):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


async def _address(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(STARTED_WITHIN):
            line = (await process.stdout.readline()).decode()
            return line.removeprefix(LINE).strip() if line.startswith(LINE) else ""
    return ""
