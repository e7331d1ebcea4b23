"""`haulout package dry-run`: what a mode would do on a host, and why each step would run or be skipped. Nothing is changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import assert_never

from haulout.agent import acts, console
from haulout.agent.arguments import Arguments
from haulout.agent.hostroot import HostRoot
from haulout.agent.interrupt_mode import InterruptJob, interrupt_mode
from haulout.agent.modes import INTERRUPT, MODES
from haulout.agent.overlay import check_target, is_on_host, walk_source
from haulout.agent.payload import parse_interrupt
from haulout.agent.record import Result
from haulout.agent.run import load_package, open_host, unknown_mode
from haulout.agent.settings import read_settings
from haulout.agent.shell import Host, HostView, overlay_trust
from haulout.agent.signals import Termination
from haulout.agent.sources import PackageFolder
from haulout.agent.step_mode import Acts, StepJob, step_mode
from haulout.agent.view import View


def dry_run(arguments: Arguments, environ: Mapping[str, str]) -> int:
    """Print what a mode would do if every step succeeded. Return the exit code that it would have."""
    settings = read_settings(environ)
    host = open_host(arguments, settings, environ, Termination())
    if settings.copy_resolv:
        console.say("would copy the agent's /etc/resolv.conf to the host: COPY_RESOLV is true")
    if arguments.mode not in MODES:
        console.say(unknown_mode(arguments.mode), is_error=True)
        return 0
    view = Imagined(HostView(host))
    if arguments.mode == INTERRUPT:
        job = InterruptJob(parse_interrupt(arguments.interrupt_data), settings)
        return imagine(interrupt_mode(job, view), view, host).exit_code
    host = with_package(host)
    view = Imagined(HostView(host))
    mode = StepJob(arguments.mode, load_package(host), settings, arguments.root_mount)
    return imagine(step_mode(mode, view), view, host).exit_code


def with_package(host: Host) -> Host:
    """Return the host with a package directory that exists: the copy on the host, else the one in the agent's image."""
    if host.package.exists():
        return host
    console.say(f"would copy {host.settings.data_dir} to {host.copy_dir}: the host does not have it")
    return replace(host, package=PackageFolder(HostRoot("/"), host.settings.data_dir))


class Imagined:
    """A view of the host as it would be after the acts so far, of which none was carried out."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._state: dict[str, bytes | None] = {}

    @property
    def environ(self) -> Mapping[str, str]:
        return self._view.environ

    def is_terminated(self) -> bool:
        return False

    def local_now(self) -> datetime:
        return self._view.local_now()

    def utc_now(self) -> datetime:
        return self._view.utc_now()

    def boot_id(self) -> str:
        return self._view.boot_id()

    def has_state(self, path: str) -> bool:
        return self._state[path] is not None if path in self._state else self._view.has_state(path)

    def read_state(self, path: str) -> bytes | None:
        return self._state[path] if path in self._state else self._view.read_state(path)

    def has_config_file(self, name: str) -> bool:
        return self._view.has_config_file(name)

    def has_overlay(self) -> bool:
        return self._view.has_overlay()

    def remember(self, act: acts.Act) -> None:
        match act:
            case acts.WriteState() | acts.RaiseFlag():
                self._state[act.path] = act.text.encode(errors="surrogatepass")
            case acts.RemoveState():
                self._state[act.path] = None
            case acts.MoveState():
                self._state[act.new_path] = self.read_state(act.path)
                self._state[act.path] = None


def imagine(sequence: Acts, view: Imagined, host: Host) -> Result:
    """Print the acts of a mode as if each of them succeeded. Return the result of the mode."""
    answer: acts.Answer = None
    while True:
        try:
            act = sequence.send(answer)
        except StopIteration as end:
            result: Result = end.value
            return result
        if isinstance(act, acts.Say) and act.is_error:
            console.say(act.text, is_error=True)
        for line in describe(act, view, host):
            console.say(line)
        if isinstance(act, acts.AwaitRestart):
            return Result("succeeded")
        view.remember(act)
        answer = acts.Outcome(0) if isinstance(act, acts.RunCommand) else _success(act)


def _success(act: acts.Act) -> acts.Answer:
    return acts.Outcome(int(act.step.returncodes[0])) if isinstance(act, acts.RunStep) else None


def describe(act: acts.Act, view: View, host: Host) -> list[str]:
    """Return the lines that describe an act; none for an act without a lasting effect."""
    match act:
        case acts.LockPackage():
            return [f"would lock the package {act.package_name}"]
        case acts.LockInterrupt():
            return [f"would lock {act.folder}"]
        case acts.Overlay():
            return _describe_overlay(host)
        case acts.WriteState():
            return [f"would write {act.path}: {act.why}"]
        case acts.RemoveState():
            return [f"would remove {act.path}: {act.why}"] if view.has_state(act.path) else []
        case acts.MoveState():
            return [f"would rename {act.path} to {act.new_path}: {act.why}"]
        case acts.RaiseFlag():
            return [f"would write {act.path}: the step succeeded"]
        case acts.SkipStep():
            return [f"would skip {act.step.path}: {act.why}"]
        case acts.RunStep():
            return [f"would run {act.step.path}: {act.why}"]
        case acts.RunCommand():
            return [f"would run {' '.join(act.argv)}: {act.why}"]
        case acts.AwaitRestart():
            return [f"would wait {act.seconds:g} s for the host to go down"]
        case acts.RemoveCopies():
            return ["would remove superseded copies of the package"]
        case acts.Say() | acts.Tighten() | acts.Reserve() | acts.Release() | acts.Wait() | acts.PruneLogs():
            return []
        case _:
            assert_never(act)


def _describe_overlay(host: Host) -> list[str]:
    lines: list[str] = []
    for entry in walk_source(host.package.root, f"{host.package.path}/root_dir"):
        check_target(host.root, entry.path, overlay_trust(host.settings))
        if not is_on_host(host.root, entry):
            lines.append(f"would copy root_dir/{entry.path} to the host: it is not there, or differs")
    return lines or ["would copy nothing of root_dir: the host has it all"]
