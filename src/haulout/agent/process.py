"""Runs one program: starts it in a session of its own, forwards its output, and waits for its end."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from haulout.agent.acts import Outcome
from haulout.agent.lines import Prefixer

LINGER = 2.0  # seconds for which output is still read after the program has ended: a daemon may hold the pipes
GRACE = 10.0  # seconds between SIGTERM and SIGKILL after a time-out
NOT_FOUND, NOT_EXECUTABLE = 127, 126
FIRST_HIGH = 10  # shell scripts name the descriptors 0 to 9 themselves


@dataclass(frozen=True, slots=True)
class Program:
    """A program to run. Arguments and environment may hold secrets, so `repr` does not show them."""

    argv: tuple[str, ...] = field(repr=False)
    env: Mapping[str, str] = field(repr=False)
    cwd: str
    root: int | None  # the descriptor of the directory to chroot into
    search: bool = False  # look argv[0] up on the PATH of env, after the chroot
    lock: int | None = None  # a descriptor that the program inherits: it holds the lock even if the agent is killed


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a program. `chunk`: how many bytes of output are read at once. `timeout`: in seconds; 0 is none."""

    chunk: int
    timeout: float


@dataclass(frozen=True, slots=True)
class Stream:
    """A pipe with a program's output, with the formatter of its lines and the function that writes them."""

    fd: int
    prefixer: Prefixer
    write: Callable[[bytes], None]


@dataclass(frozen=True, slots=True)
class Streams:
    """For standard output and standard error each: the formatter of the lines and the function that writes them."""

    out: tuple[Prefixer, Callable[[bytes], None]]
    err: tuple[Prefixer, Callable[[bytes], None]]


def run_program(program: Program, limits: Limits, streams: Streams, on_timeout: Callable[[], None]) -> Outcome | str:
    """Run a program to its end. Return how it ended, or an error text if it could not be started."""
    out, out_end = os.pipe()
    err, err_end = os.pipe()
    try:
        started = _start(program, out_end, err_end)
    finally:
        os.close(out_end)
        os.close(err_end)
    try:
        if isinstance(started, str):
            return started
        pump = _Pump([Stream(out, *streams.out), Stream(err, *streams.err)], limits.chunk)
        return _Supervision(started, pump, limits.timeout, on_timeout).run()
    finally:
        os.close(out)
        os.close(err)


def could_not_start(message: str) -> Outcome:
    """Return the outcome of a program that did not start: code 127 if it was not found, else 126."""
    return Outcome(NOT_FOUND if message == os.strerror(errno.ENOENT) else NOT_EXECUTABLE, is_started=False)


def _start(program: Program, out: int, err: int) -> int | str:
    """Fork and execute a program. Return the process id, or an error text if it could not be executed."""
    try:
        ready = _Encoded(program)
    except ValueError:  # a NUL, or half of a surrogate pair
        return "an argument or variable cannot be passed to a program"
    sys.stdout.flush()
    try:
        null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        reading, writing = os.pipe()
        pid = os.fork()
    except OSError as error:  # the container may have reached its limit of processes
        return os.strerror(error.errno or 0)
    if pid == 0:
        _child(ready, (null, out, err), writing)
    os.close(writing)
    os.close(null)
    with open(reading, "rb") as report:
        failure = report.read()
    if not failure:
        return pid
    os.waitpid(pid, 0)
    return os.strerror(int(failure)) if int(failure) else "its arguments or variables are not valid"


class _Encoded:
    """A program with all its texts as bytes.

    Encoding is done before the fork: after the chroot, Python could not import modules from the agent's file system.
    """

    def __init__(self, program: Program) -> None:
        self.argv = [_no_nul(os.fsencode(word)) for word in program.argv]
        self.env = {_no_nul(os.fsencode(name)): _no_nul(os.fsencode(text)) for name, text in program.env.items()}
        self.cwd = os.fsencode(program.cwd)
        self.root = program.root
        self.lock = program.lock
        self.candidates = [self.argv[0]]
        if program.search:
            folders = self.env.get(b"PATH", b"").split(b":")
            self.candidates = [folder + b"/" + self.argv[0] for folder in folders if folder]


def _no_nul(data: bytes) -> bytes:
    if b"\0" in data:
        raise ValueError
    return data


def _child(program: _Encoded, standard: tuple[int, int, int], report: int) -> None:
    """Replace this process with the program. If that fails, write the error number to `report` and exit."""
    code = 0
    try:
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGPIPE, signal.SIGCHLD, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        for target, fd in enumerate(standard):
            os.dup2(fd, target)
        if program.lock is not None:
            fcntl.fcntl(program.lock, fcntl.F_DUPFD, FIRST_HIGH)  # unlike the original, the copy survives execve
        if program.root is not None:
            os.fchdir(program.root)
            os.chroot(b".")
        os.chdir(program.cwd)
        code = _execute(program)
    except OSError as error:
        code = error.errno or 0
    finally:
        os.write(report, str(code).encode())
        os._exit(NOT_FOUND)


def _execute(program: _Encoded) -> int:
    """Execute the first candidate that can be executed. Return the error number if none can.

    As in a shell, the error of a file that exists has precedence over "not found".
    """
    code = errno.ENOENT
    for candidate in program.candidates:
        try:
            os.execve(candidate, program.argv, program.env)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                code = error.errno or 0
        except ValueError:
            return 0
    return code


class _Pump:
    """A reader of pipes. It reads chunk by chunk, so that much output needs no more memory than little."""

    def __init__(self, streams: Sequence[Stream], chunk: int) -> None:
        self._open = {stream.fd: stream for stream in streams}
        self._chunk = chunk
        for fd in self._open:
            os.set_blocking(fd, False)

    @property
    def fds(self) -> list[int]:
        return list(self._open)

    def read(self, fd: int) -> None:
        """Forward one chunk of a stream, or drop the stream at its end."""
        stream = self._open[fd]
        try:
            chunk = os.read(fd, self._chunk)
        except BlockingIOError:
            return
        except OSError as error:
            stream.write(stream.prefixer.fail(os.strerror(error.errno or 0)))
            del self._open[fd]
            return
        stream.write(stream.prefixer.feed(chunk) if chunk else stream.prefixer.end())
        if not chunk:
            del self._open[fd]

    def close(self) -> None:
        for stream in self._open.values():
            stream.write(stream.prefixer.end())


class _Supervision:
    """A wait for the end of a program, which meanwhile forwards its output and enforces its time limit."""

    def __init__(self, pid: int, pump: _Pump, timeout: float, on_timeout: Callable[[], None]) -> None:
        self._pid = pid
        self._pump = pump
        self._kill_at = time.monotonic() + timeout if timeout else None
        self._on_timeout = on_timeout
        self._has_timed_out = False
        self._ended_at: float | None = None

    def run(self) -> Outcome:
        with _wakeups() as wakeup:
            while self._is_going_on():
                self._watch(wakeup)
        self._pump.close()
        if self._has_timed_out:
            self._signal(signal.SIGKILL)  # for child processes; the group's id is not reused before waitpid
        _, status = os.waitpid(self._pid, 0)
        return Outcome(os.waitstatus_to_exitcode(status), has_timed_out=self._has_timed_out)

    def _is_going_on(self) -> bool:
        if self._ended_at is None:
            if os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
                return True
            self._ended_at = time.monotonic()
        return bool(self._pump.fds) and time.monotonic() < self._ended_at + LINGER

    def _watch(self, wakeup: int) -> None:
        """Wait for output, for the program's end or for the next deadline, whichever is first."""
        poll = select.poll()
        for fd in (wakeup, *self._pump.fds):
            poll.register(fd, select.POLLIN)
        for fd, _ in poll.poll(self._patience()):
            if fd == wakeup:
                _drain(wakeup)
            else:
                self._pump.read(fd)
        self._enforce()

    def _patience(self) -> float | None:
        """Return the milliseconds to the next deadline."""
        deadline = self._kill_at if self._ended_at is None else self._ended_at + LINGER
        return None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000 + 1

    def _enforce(self) -> None:
        if self._ended_at is not None or self._kill_at is None or time.monotonic() < self._kill_at:
            return
        if self._has_timed_out:
            self._signal(signal.SIGKILL)
            self._kill_at = None
            return
        self._has_timed_out = True
        self._on_timeout()
        self._signal(signal.SIGTERM)
        self._kill_at = time.monotonic() + GRACE

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._pid, number)


@contextlib.contextmanager
def _wakeups() -> Iterator[int]:
    """Yield a descriptor that becomes readable when a signal arrives, such as SIGCHLD at the end of a child."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    handler = signal.signal(signal.SIGCHLD, lambda *_: None)
    try:
        yield reading
    finally:
        signal.signal(signal.SIGCHLD, handler)
        signal.set_wakeup_fd(before)
        os.close(reading)
        os.close(writing)


def _drain(fd: int) -> None:
    with contextlib.suppress(BlockingIOError):
        while os.read(fd, 512):
            pass
