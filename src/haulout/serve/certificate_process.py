"""Runs functions about certificates in a process of its own, which ends with the session.

The library for certificates takes 9 MiB, and is needed for moments: at the start, when something changes in the cluster,
and before a certificate ends. See decision 0193.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import pickle
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import import_module
from typing import Any, BinaryIO, Protocol

from haulout.serve.bundle import FormName, Unusable

log = logging.getLogger("haulout.certificates")

# Two keys of RSA with 4,096 bits take seconds, and on a busy machine more.
ANSWER_WITHIN = 120.0
LENGTH_BYTES = 8


class CertificateLibrary(Protocol):
    """A place in which functions about certificates run."""

    async def call(self, function: str, *args: Any) -> Any:
        """Return the result of a function, named `module:function`. Raises what the function raises."""
        ...

    async def ask(self, form: FormName, method: str, *args: Any) -> Any:
        """Return the result of a method of a form. Raises Unusable."""
        ...


Libraries = Callable[[], AbstractAsyncContextManager[CertificateLibrary]]


class _Here:
    """Functions run in a thread of this process."""

    async def call(self, function: str, *args: Any) -> Any:
        return await asyncio.to_thread(run_function, function, *args)

    async def ask(self, form: FormName, method: str, *args: Any) -> Any:
        return await asyncio.to_thread(ask_form, form, method, *args)


class _Child:
    """Functions run in another process, one after the other. If it fails, they run in this one."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._here: _Here | None = None

    async def call(self, function: str, *args: Any) -> Any:
        return await self._result(f"{__name__}:run_function", function, *args)

    async def ask(self, form: FormName, method: str, *args: Any) -> Any:
        return await self._result(f"{__name__}:ask_form", form, method, *args)

    async def _result(self, function: str, *args: Any) -> Any:
        if self._here is None:
            try:
                async with asyncio.timeout(ANSWER_WITHIN):
                    is_done, result = await self._exchange((function, args))
            except (OSError, EOFError, TimeoutError) as error:
                log.warning("certificates are made in this process", extra={"error": str(error) or "no answer"})
                self._here = _Here()
            else:
                if is_done:
                    return result
                raise result
        return await self._here.call(function, *args)

    async def _exchange(self, request: object) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(_framed(request))
        await self._process.stdin.drain()
        length = int.from_bytes(await self._process.stdout.readexactly(LENGTH_BYTES), "big")
        # Our own program wrote it.
        return pickle.loads(await self._process.stdout.readexactly(length))  # noqa: S301


@asynccontextmanager
async def in_this_process() -> AsyncIterator[CertificateLibrary]:
    """Yield a library whose functions run in a thread of this process."""
    yield _Here()


@asynccontextmanager
async def in_child() -> AsyncIterator[CertificateLibrary]:
    """Yield a library whose functions run in a process that ends with the context. Without one they run in this process."""
    pipe = asyncio.subprocess.PIPE
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", __name__, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL
        )
    except OSError as error:
        log.warning("certificates are made in this process", extra={"error": str(error)})
        yield _Here()
        return
    try:
        yield _Child(process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def run_function(function: str, *args: Any) -> Any:
    """Return the result of a function, named `module:function`."""
    module, _, name = function.partition(":")
    return getattr(import_module(module), name)(*args)


def ask_form(form: FormName, method: str, *args: Any) -> Any:
    """Return the result of a method of a form."""
    return getattr(run_function(form.path, *form.args), method)(*args)


def answer(requests: BinaryIO, answers: BinaryIO) -> None:
    """Run the requested functions until no more requests come, and write what they return or raise."""
    while header := requests.read(LENGTH_BYTES):
        function, args = pickle.loads(requests.read(int.from_bytes(header, "big")))  # noqa: S301
        try:
            result = True, run_function(function, *args)
        except Unusable as error:
            result = False, error
        except Exception as error:  # noqa: BLE001 - the process that asked has to hear of it, and nothing else does
            # Errors of libraries cannot always be sent.
            result = False, ValueError(f"{type(error).__name__}: {error}")
        answers.write(_framed(result))
        answers.flush()


def _framed(content: object) -> bytes:
    packed = pickle.dumps(content)
    return len(packed).to_bytes(LENGTH_BYTES, "big") + packed


if __name__ == "__main__":
    answer(sys.stdin.buffer, sys.stdout.buffer)
