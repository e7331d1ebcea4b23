"""Child processes that never outlive the test run, and the directory for their logs and data."""

from __future__ import annotations

import concurrent.futures
import contextlib
import fcntl
import functools
import os
import random
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

CHECKOUT = Path(__file__).parents[2]
KEPT = CHECKOUT / "test-logs"

# Little is allowed between fork and exec in a program with threads. So a tiny interpreter makes the arrangement with
# the kernel and then becomes the program. It restores SIGPIPE, which Python ignores, because Go programs want it.
LAUNCH = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() != int(sys.argv[1]):
    sys.exit("the test run has ended already")
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
os.execvp(sys.argv[2], sys.argv[2:])
"""

# The kernel sends the signal when the *thread* that started the child ends. This one lasts as long as the test run.
_spawner = concurrent.futures.ThreadPoolExecutor(max_workers=1, thread_name_prefix="spawner")
# Below the range of ports of outgoing connections.
PORTS = range(20000, 32000)
_given_ports: set[int] = set()


def free_port() -> int:
    """Return a port on which no process listens.

    Other test processes do not choose it until this process ends, even while nothing listens on it: each port is a byte
    of one file, which this process locks.
    """
    locks = _port_locks()
    while True:
        port = random.SystemRandom().choice(PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            fcntl.lockf(locks, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
            if port not in _given_ports:
                _given_ports.add(port)
                return port


@functools.cache
def _port_locks() -> int:
    """Return the file of port locks.

    It is never closed, because closing any of its descriptors gives up all locks on it.
    """
    path = Path(tempfile.gettempdir()) / f"haulout-ports-{os.getuid()}"
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


class Child(Protocol):
    """The interface of a started process."""

    @property
    def pid(self) -> int: ...

    @property
    def returncode(self) -> int | None: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...


class Process:
    """One program in a process group of its own, its output appended to `<logs>/<name>.log`."""

    def __init__(
        self,
        name: str,
        argv: Sequence[str | Path],
        logs: Path,
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        self.name = name
        self.argv = [str(word) for word in argv]
        self.log = logs / f"{name}.log"
        self.env = dict(env) if env is not None else None
        self.cwd = cwd
        self._child: Child | None = None

    def start(self) -> Self:
        if self.running:
            raise RuntimeError(f"{self.name} runs already")
        self._child = _spawner.submit(self._spawn).result()
        return self

    def _spawn(self) -> Child:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            log.write(f"$ {shlex.join(self.argv)}\n".encode())
        return self._launch()

    def _launch(self) -> Child:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", LAUNCH, str(os.getpid()), *self.argv],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.env,
                cwd=self.cwd,
                start_new_session=True,
            )

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.poll() is None

    @property
    def pid(self) -> int:
        assert self._child is not None, f"{self.name} was never started"
        return self._child.pid

    @property
    def code(self) -> int | None:
        return None if self._child is None else self._child.poll()

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the program alone, as a kubelet does."""
        if self.running:
            os.kill(self.pid, number)

    def freeze(self) -> None:
        self._signal_group(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal_group(signal.SIGCONT)

    def kill(self) -> None:
        """Send SIGKILL to the whole group, and wait until the program is gone."""
        self._signal_group(signal.SIGKILL)
        if self._child is not None:
            self._child.wait(60)

    def stop(self, within: float = 15) -> int | None:
        """Send SIGTERM, and later SIGKILL to the rest of the group.

        Return the exit code, which tells which of them ended it.
        """
        if self._child is None:
            return None
        self.send(signal.SIGTERM)
        self.thaw()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(within)
        self.kill()
        return self._child.returncode

    def wait(self, within: float = 60) -> int:
        assert self._child is not None, f"{self.name} was never started"
        return self._child.wait(within)

    def text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def check(self) -> None:
        """Raise with the end of the log if the program is not running."""
        if not self.running:
            raise RuntimeError(f"{self.name} ended with {self.code}:\n{self.text()[-3000:]}")

    def _signal_group(self, number: signal.Signals) -> None:
        if self._child is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._child.pid, number)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()


class Scratch:
    """A directory that is removed at the end. If something failed, its logs are copied to the checkout first."""

    PREFIX = "haulout-test-"

    def __init__(self, label: str) -> None:
        self.label = label
        sweep()
        # It gets its final name only once it is locked, because other processes sweep unlocked directories at any
        # moment.
        hidden = Path(tempfile.mkdtemp(prefix="haulout-new-"))
        self._lock = (hidden / ".lock").open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self.path = hidden.rename(hidden.with_name(hidden.name.replace("haulout-new-", self.PREFIX)))

    def directory(self, name: str) -> Path:
        made = self.path / name
        made.mkdir(parents=True)
        return made

    def keep(self) -> Path:
        """Copy the logs, which explain a failure, but not the data, to test-logs/<label>."""
        kept = KEPT / self.label
        shutil.rmtree(kept, ignore_errors=True)
        for file in self.path.rglob("*"):
            if file.suffix in {".log", ".yaml", ".json", ".jsonl", ".toml"} and file.is_file():
                target = kept / file.relative_to(self.path)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, target)
        return kept

    def close(self) -> None:
        self._lock.close()
        shutil.rmtree(self.path, ignore_errors=True)


def sweep() -> None:
    """Remove the directories of killed runs, whose locks are free."""
    for left in Path(tempfile.gettempdir()).glob(f"{Scratch.PREFIX}*"):
        with contextlib.suppress(OSError), (left / ".lock").open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(left, ignore_errors=True)
