"""Carries out acts on a host."""

from __future__ import annotations

import contextlib
import os
import posixpath
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import assert_never

from haulout.agent import acts, console
from haulout.agent.copies import old_copies
from haulout.agent.errors import AgentError, reason
from haulout.agent.files import entries, open_regular, remove, remove_tree, write_all
from haulout.agent.hostroot import HostRoot, Trust
from haulout.agent.lines import Prefixer
from haulout.agent.logs import LogBound, superfluous
from haulout.agent.overlay import overlay
from haulout.agent.process import Limits, Program, Streams, could_not_start, run_program
from haulout.agent.settings import Settings
from haulout.agent.signals import Termination
from haulout.agent.sources import PackageFolder
from haulout.agent.state import LogFolder, StateFolder, is_shared

LOCK_WAIT = 60.0
LOCK_INTERVAL = 0.05
LONGEST_BOOT_ID = 4096


@dataclass(frozen=True, slots=True)
class Host:
    """A host, with its directories and the settings of this run."""

    root: HostRoot
    copy_dir: str
    settings: Settings
    package: PackageFolder
    state: StateFolder
    logs: LogFolder
    owner: str  # part of the names of temporary files; no other running process has the same owner
    termination: Termination
    environ: Mapping[str, str] = field(repr=False)  # the agent's own, to which arguments such as env:NAME refer
    base_environ: Mapping[str, str] = field(repr=False)  # the part of it that steps and interrupts inherit


class HostView:
    """The view of a real host: it answers the questions of the modes."""

    def __init__(self, host: Host) -> None:
        self._host = host

    @property
    def environ(self) -> Mapping[str, str]:
        return self._host.environ

    def is_terminated(self) -> bool:
        return self._host.termination.has_come

    def local_now(self) -> datetime:
        return datetime.now()  # noqa: DTZ005  # the format has no zone

    def utc_now(self) -> datetime:
        return datetime.now(UTC)

    def boot_id(self) -> str:
        return read_boot_id(self._host.root, self._host.settings.boot_id_file)

    def has_state(self, path: str) -> bool:
        return self._host.state.exists(path)

    def read_state(self, path: str) -> bytes | None:
        return self._host.state.read(path)

    def has_config_file(self, name: str) -> bool:
        return self._host.package.has_config_file(name)

    def has_overlay(self) -> bool:
        return self._host.package.has_overlay()


def read_boot_id(root: HostRoot, path: str) -> str:
    """Return the boot id from a file of the host or, if the host has none, of the agent; empty without either."""
    with contextlib.suppress(OSError), root.walk(path) as (place, parent):
        if place.rest:
            return _read_short(open_regular(place.rest[0], os.O_RDONLY, parent))
    with contextlib.suppress(OSError):
        return _read_short(open_regular(path, os.O_RDONLY, follows_links=True))
    return ""


def _read_short(fd: int) -> str:
    with open(fd, encoding="ascii", errors="replace") as file:
        return file.read(LONGEST_BOOT_ID).strip()


class Shell:
    """The performer of acts on a host."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def carry_out(self, act: acts.Act) -> acts.Answer:
        """Carry out an act. Return its answer; None for an act without one."""
        host = self._host
        match act:
            case acts.Say():
                console.say(act.text, is_error=act.is_error)
            case acts.LockPackage():
                self._lock(f"locks/{act.package_name}.lock", is_folder=False)
            case acts.LockInterrupt():
                self._lock(act.folder, is_folder=True)
            case acts.Tighten():
                self._tighten(has_package=act.has_package)
            case acts.Overlay():
                overlay(host.root, f"{host.package.path}/root_dir", host.owner, overlay_trust(host.settings))
            case acts.WriteState():
                host.state.write(act.path, act.text, is_durable=act.is_durable)
            case acts.RemoveState():
                host.state.remove(act.path)
            case acts.MoveState():
                host.state.move(act.path, act.new_path)
            case acts.Reserve():
                self._reserve(act)
            case acts.Release():
                host.state.release(act.package_name)
            case acts.RaiseFlag():
                host.state.raise_flag(act.package_name, act.path, act.text)
            case acts.Wait():
                sleep(act.seconds)
            case acts.SkipStep():
                pass
            case acts.RunStep():
                return self._run_step(act)
            case acts.RunCommand():
                return self._run_command(act)
            case acts.PruneLogs():
                self._prune(act.log)
            case acts.AwaitRestart():
                return self._await_restart(act.seconds)
            case acts.RemoveCopies():
                self._remove_copies()
            case _:
                assert_never(act)
        return None

    def _lock(self, path: str, *, is_folder: bool) -> None:
        """Wait for other agents, and for a step that a killed agent has left running."""
        name = f"{self._host.settings.state_root}/{path}"
        self._wait_for(path, lambda: f"another agent is at work: it has held {name}", is_folder=is_folder)
        with self._step_lock():
            pass

    @contextlib.contextmanager
    def _step_lock(self) -> Iterator[int]:
        """Hold the lock that a running program inherits. So the repetition of a killed run waits for the program."""
        path = f"locks/{self._host.owner}.step"
        fd = self._wait_for(path, lambda: f"a step of a killed agent still runs: {self._holders(path)}")
        try:
            yield fd
        finally:
            self._host.state.unlock(fd, path)

    def _wait_for(self, path: str, cause: Callable[[], str], *, is_folder: bool = False) -> int:
        """Wait for a lock, and print the cause of the wait. Return the lock's descriptor."""
        deadline = time.monotonic() + LOCK_WAIT
        is_told = False
        while (fd := self._host.state.try_lock(path, is_folder=is_folder)) is None:
            if time.monotonic() > deadline:
                raise AgentError(f"{cause()} for {LOCK_WAIT:g} s")
            if self._host.termination.has_come:
                raise AgentError("terminated while waiting for another agent")
            if not is_told:
                console.say(f"WARNING: {cause()}; waiting up to {LOCK_WAIT:g} s", is_error=True)
                is_told = True
            time.sleep(LOCK_INTERVAL)
        return fd

    def _holders(self, path: str) -> str:
        pids = self._host.state.holders(path)
        return f"{', '.join(pids) or 'a process that the agent cannot see'} has held {self._host.settings.state_root}/{path}"

    def _tighten(self, *, has_package: bool) -> None:
        self._host.state.tighten()
        if has_package and not is_shared(self._host.copy_dir):
            self._host.package.set_mode(self._host.settings.copy_mode)

    def _reserve(self, act: acts.Reserve) -> None:
        before = self._host.state.reserve(act.package_name, act.flag)
        if before is None:
            return
        if before.startswith("flags/"):
            text = f"an earlier run ended during the step of {before}"
        else:
            text = f"an earlier run was killed after a step had succeeded and before its flag was written: {act.flag}"
        console.say(f"WARNING: {text}", is_error=True)

    def _run_step(self, act: acts.RunStep) -> acts.Outcome:
        host = self._host
        host.package.make_executable(act.step.path)
        is_inside = host.settings.is_local or (host.settings.honors_on_host and not act.step.on_host)
        package = local_path(host) if is_inside else host.package.path
        env = {
            **host.base_environ,
            **({"SKYHOOK_HOST_ROOT": host.root.path} if host.settings.is_local else {}),
            **act.env,
            "STEP_ROOT": f"{package}/skyhook_dir",
            "SKYHOOK_DIR": package,
        }
        argv = (f"{package}/skyhook_dir/{act.step.path}", *act.arguments)
        program = Program(argv, env, package, None if is_inside else host.root.fd)
        timeout = host.settings.step_timeout

        def on_timeout() -> None:
            console.say(f"TIMED OUT: {act.step.path} after {timeout:g}s")

        return self._run(program, act.step.path, act.log, timeout, on_timeout)

    def _run_command(self, act: acts.RunCommand) -> acts.Outcome:
        host = self._host
        # The copy of the package may be missing: its name changes if the Skyhook is edited after `config`.
        where = host.package.path if host.package.exists() else "/"
        root: int | None = host.root.fd
        if host.settings.is_local:
            where, root = f"{host.root.path.rstrip('/')}{where}", None
        line = " ".join(act.argv)
        console.say(line)
        program = Program(act.argv, host.base_environ, where, root, search=True)
        return self._run(program, line, act.log, 0.0, lambda: None, first_line=f"{line}\n".encode())

    def _run(
        self,
        program: Program,
        name: str,
        log: str | None,
        timeout: float,
        on_timeout: Callable[[], None],
        first_line: bytes = b"",
    ) -> acts.Outcome:
        with self._step_lock() as lock, Sinks(self._host, log) as sinks:
            sinks.write_log(first_line)
            streams = Streams(
                (Prefixer("[out]", datetime.now), sinks.write_out), (Prefixer("[err]", datetime.now), sinks.write_err)
            )
            limits = Limits(self._host.settings.buffer_limit, timeout)
            ended = run_program(replace(program, lock=lock), limits, streams, on_timeout)
        if isinstance(ended, acts.Outcome):
            return ended
        console.say(f"cannot start {name}: {ended}", is_error=True)
        return could_not_start(ended)

    def _prune(self, log: str) -> None:
        """Remove old logs. A log that cannot be removed only causes a warning."""
        folder, newest = posixpath.split(log)
        try:
            with self._host.logs.opened(folder) as directory:
                files = [(entry.name, entry.stat(follow_symlinks=False).st_mtime) for entry in entries(directory)]
                for name in superfluous(newest, files, self._host.settings.log_keep):
                    remove(directory, name)
        except OSError as error:
            console.say(f"WARNING: cannot remove old logs: {reason(error)}", is_error=True)

    def _await_restart(self, seconds: float) -> str:
        deadline = time.monotonic() + seconds
        while not self._host.termination.has_come:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return "expired"
            self._host.termination.wait(remaining)
        return "terminated"

    def _remove_copies(self) -> None:
        """Remove old copies of the package. A copy that cannot be removed only causes a warning."""
        folder, current = posixpath.split(self._host.package.path)
        try:
            with self._host.root.directory(folder) as directory:
                names = [entry.name for entry in entries(directory) if entry.is_dir(follow_symlinks=False)]
                settings = self._host.settings
                for name in old_copies(settings.resource_id, names, current, settings.keep_copies):
                    remove_tree(directory, name)
        except OSError as error:
            console.say(f"WARNING: cannot remove old copies of the package: {reason(error)}", is_error=True)


def overlay_trust(settings: Settings) -> Trust:
    return Trust.ROOT if settings.overlays_only_roots else Trust.ANYONE


def local_path(host: Host) -> str:
    """Return the package's path as the agent itself sees it."""
    return f"{host.root.path.rstrip('/')}{host.package.path}"


def sleep(seconds: float) -> None:
    """Sleep for the whole time even if a signal arrives: SIGTERM before a step does not keep the step from running."""
    if seconds > 0:
        time.sleep(seconds)


class Sinks:
    """The targets of a program's output: the agent's own output, and the log files as long as they can be written.

    The log files have a limit. The agent's own output has none here, because the kubelet limits it.
    """

    def __init__(self, host: Host, log: str | None) -> None:
        self._log = log
        self._files = list(host.logs.create(log)) if log is not None else []
        limits = (host.settings.log_bytes, host.settings.log_lines)
        self._bounds = [LogBound(*limits) for _ in self._files]

    def __enter__(self) -> Sinks:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def write_out(self, data: bytes) -> None:
        console.write_out(data)
        self._write(0, data)

    def write_err(self, data: bytes) -> None:
        console.write_err(data)
        self._write(1, data)

    def write_log(self, data: bytes) -> None:
        self._write(0, data)

    def _write(self, index: int, data: bytes) -> None:
        if not self._files:
            return
        try:
            write_all(self._files[index], self._bounds[index].keep(data))
        except OSError as error:
            # The step goes on without a log, because its work matters more.
            console.say(f"WARNING: cannot write {self._log}: {reason(error)}; the log ends here", is_error=True)
            self._close()

    def _close(self) -> None:
        for fd in self._files:
            # A network file system may report a failed write as late as here. The step has ended already.
            with contextlib.suppress(OSError):
                os.close(fd)
        self._files = []
