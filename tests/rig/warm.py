"""Haulout started a hundred times: forked from an interpreter that has imported it already, which is most of a start."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from tests.rig.process import Child, Process

_server = multiprocessing.get_context("forkserver")
_server.set_forkserver_preload(["haulout.app.process"])


class WarmProcess(Process):
    """A process that is forked from a warm interpreter. The first of its words is only its name."""

    def _launch(self) -> Child:
        return Forked(self.argv, self.log, self.env, self.cwd)


class Forked:
    """A forked process with the interface of `subprocess`. Only one thread can read the exit status, hence the lock."""

    def __init__(self, argv: Sequence[str], log: Path, env: Mapping[str, str] | None, cwd: Path | None) -> None:
        self._lock = threading.Lock()
        self._process: ForkServerProcess = _server.Process(target=become, args=(argv, log, env, cwd))
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self.poll()

    def poll(self) -> int | None:
        with self._lock:
            return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        with self._lock:
            self._process.join(timeout)
            code = self._process.exitcode
        if code is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout or 0)
        return code


def end_with_the_test_run() -> None:
    """End with the test run. The fork server lives as long as one of its forks, so its end would never come."""
    run = multiprocessing.parent_process()
    assert run is not None
    run.join()
    os.kill(os.getpid(), signal.SIGKILL)


def become(argv: Sequence[str], log: Path, env: Mapping[str, str] | None, cwd: Path | None) -> None:
    """Become the program in the fork, after what a shell and the kernel would have arranged."""
    from haulout.app.main import main

    os.setsid()
    threading.Thread(target=end_with_the_test_run, daemon=True).start()
    with log.open("ab") as out:
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
    if env is not None:
        os.environ.clear()
        os.environ.update(env)
    if cwd is not None:
        os.chdir(cwd)
    sys.argv = list(argv)
    sys.exit(main())
