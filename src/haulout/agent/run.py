"""One run of the agent in a mode: from the arguments to the exit code."""

from __future__ import annotations

import binascii
import contextlib
import os
from collections.abc import Generator, Mapping
from dataclasses import replace
from functools import partial

from haulout.agent import console
from haulout.agent.acts import Act, Answer
from haulout.agent.arguments import Arguments
from haulout.agent.banner import banner
from haulout.agent.config import InvalidJson, load
from haulout.agent.environment import base_environment, read_image_environment
from haulout.agent.errors import AgentError, doing
from haulout.agent.files import write_all
from haulout.agent.hostroot import HostRoot
from haulout.agent.interrupt_mode import InterruptJob, interrupt_mode
from haulout.agent.legacy import copy_package, copy_resolv
from haulout.agent.modes import INTERRUPT, MODES
from haulout.agent.package import Package
from haulout.agent.payload import parse_interrupt
from haulout.agent.record import Result, failure_result, record
from haulout.agent.settings import DEFAULT_TERMINATION_LOG, Settings, read_settings
from haulout.agent.shell import Host, HostView, Shell
from haulout.agent.signals import Termination
from haulout.agent.sources import PackageFolder
from haulout.agent.state import LogFolder, StateFolder
from haulout.agent.step_mode import StepJob, step_mode


def run(arguments: Arguments, environ: Mapping[str, str], termination: Termination) -> int:
    """Run a mode. Return the exit code."""
    settings = read_settings(environ)
    teller = Teller(arguments.mode, settings)
    try:
        result = _run(arguments, settings, environ, termination, teller)
    except AgentError as error:
        result = failure_result(str(error))
        if termination.has_come:
            result = Result("terminated")
        else:
            console.say(str(error), is_error=True)
    except Exception as error:  # noqa: BLE001  # a bug must not print values that it met
        place = _place(error)
        result = Result("terminated") if termination.has_come else failure_result(f"unexpected {place}")
        if not termination.has_come:
            console.say(f"unexpected {place}", is_error=True)
    teller.tell(result)
    return result.exit_code


def _place(error: Exception) -> str:
    """Return the type of an exception and where it was raised, without its message."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f" at {os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}" if trace else ""
    return f"{type(error).__name__}{where}"


def _run(
    arguments: Arguments,
    settings: Settings,
    environ: Mapping[str, str],
    termination: Termination,
    teller: Teller,
) -> Result:
    if arguments.mode not in MODES:
        # A later operator may ask for it. Nothing is done on the host, not even what every mode does.
        show_banner(arguments, settings)
        console.say(unknown_mode(arguments.mode), is_error=True)
        return Result("noop")
    host = open_host(arguments, settings, environ, termination)
    if settings.copy_resolv:
        copy_resolv(host.root)
    show_banner(arguments, settings)
    if arguments.mode == INTERRUPT:
        job = InterruptJob(parse_interrupt(arguments.interrupt_data), settings)
        return follow(interrupt_mode(job, HostView(host)), Shell(host))
    if not host.package.exists():
        copy_package(host.root, settings.data_dir, arguments.copy_dir)
    package = load_package(host)
    teller.package, teller.version = package.name, package.version
    host = with_package_owner(host, package.name)
    return follow(
        step_mode(StepJob(arguments.mode, package, settings, arguments.root_mount), HostView(host)), Shell(host)
    )


def show_banner(arguments: Arguments, settings: Settings) -> None:
    for line in banner(arguments, settings):
        console.say(line)


def unknown_mode(mode: str) -> str:
    options = ",".join(MODES)
    return f"WARNING:root:This version of the Agent doesn't support the {mode} mode. Options are: {options}."


def open_host(arguments: Arguments, settings: Settings, environ: Mapping[str, str], termination: Termination) -> Host:
    with doing(f"open the host root {arguments.root_mount}"):
        root = HostRoot(arguments.root_mount)
    owner = owner_of(settings, settings.resource_id.text)
    return Host(
        root=root,
        copy_dir=arguments.copy_dir,
        settings=settings,
        package=PackageFolder(root, arguments.copy_dir),
        state=StateFolder(root, settings.state_root, owner),
        logs=LogFolder(root, settings.log_root, owner),
        owner=owner,
        termination=termination,
        environ=environ,
        base_environ=base_environment(environ, read_image_environment()),
    )


def owner_of(settings: Settings, name: str) -> str:
    """Return a short name for the holder of a lock. In the state root of a Skyhook each package has one lock."""
    return f"{binascii.crc32(f'{settings.state_root}/{name}'.encode(errors='surrogateescape')):08x}"


def with_package_owner(host: Host, package_name: str) -> Host:
    """Return the host with temporary files named after the package whose lock this run is going to hold."""
    owner = owner_of(host.settings, package_name)
    state = StateFolder(host.root, host.settings.state_root, owner)
    return replace(host, owner=owner, state=state, logs=LogFolder(host.root, host.settings.log_root, owner))


def load_package(host: Host) -> Package:
    if host.settings.tree_digest is not None:
        from haulout.agent.digest import check_digest  # imported late, because OpenSSL takes 3 MiB

        with doing(f"read {host.package.path}"), host.root.directory(host.package.path) as directory:
            check_digest(directory, host.settings.tree_digest)
    try:
        return load(host.package.read_config(), host.package.find_step, partial(console.say, is_error=True))
    except InvalidJson as error:
        raise AgentError(f"Invalid JSON in {host.package.path}/config.json: {error}") from None


def follow(acts: Generator[Act, Answer, Result], shell: Shell) -> Result:
    """Carry out the acts of a mode, and send each answer back to it. Return the mode's result."""
    answer: Answer = None
    try:
        while True:
            answer = shell.carry_out(acts.send(answer))
    except StopIteration as end:
        result: Result = end.value
        return result


class Teller:
    """The writer of the container's termination message, which Kubernetes shows as the result of the run."""

    def __init__(self, mode: str, settings: Settings) -> None:
        self._mode = mode
        self._path = settings.termination_log
        self.package, self.version = settings.resource_id.package, settings.resource_id.version

    def tell(self, result: Result) -> None:
        flags = os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        # Outside of a container /dev/termination-log does not exist, and it must not be created there.
        if self._path != DEFAULT_TERMINATION_LOG:
            flags |= os.O_CREAT
        with contextlib.suppress(OSError):
            fd = os.open(self._path, flags, 0o644)
            try:
                write_all(fd, record(self._mode, self.package, self.version, result))
            finally:
                os.close(fd)
