"""`haulout package test DIR`: runs all modes of a package on a throw-away root and prints a table."""

from __future__ import annotations

import binascii
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from haulout.agent import console
from haulout.agent.environment import own_environment
from haulout.agent.errors import UsageError
from haulout.agent.modes import check_of
from haulout.agent.package import Package
from haulout.authoring.sandbox import inside
from haulout.authoring.validate import load_directory

STAGES = ("apply", "config", "interrupt", "post-interrupt", "upgrade", "uninstall")
STATE, LOGS = "/var/lib/skyhook/test", "/var/log/skyhook/test"
UID = "00000000-0000-4000-8000-000000000000"
STAND_INS = ("reboot", "systemctl", "service")
# The names in the root that belong to the computer or to this trial. A change there is no change by a step.
OWN = (
    "proc",
    "dev",
    "tmp",
    "usr",
    "bin",
    "sbin",
    "lib",
    "lib32",
    "lib64",
    "libx32",
    "stand-ins",
    "boot_id",
)


@dataclass(frozen=True, slots=True)
class TrialRow:
    """One run of one mode."""

    mode: str
    time: str  # first or second
    result: str
    note: str = ""
    output: str = ""


def main(words: Sequence[str]) -> int:
    folder, is_local = _options(words[1:])
    package = load_directory(folder)
    with tempfile.TemporaryDirectory(prefix="skyhook-agent-test-") as made:
        trial = Trial(os.path.realpath(folder), f"{made}/root", package, is_local=is_local)
        if is_local:
            rows = [asdict(row) for row in trial.run()]
        else:
            rows = json.loads(inside(trial.root, lambda: json.dumps([asdict(row) for row in trial.run()]).encode()))
    return report([TrialRow(**row) for row in rows])


def _options(words: Sequence[str]) -> tuple[str, bool]:
    match [*words]:
        case [folder]:
            return folder, False
        case [folder, "--exec", "local"] | ["--exec", "local", folder]:
            return folder, True
        case _:
            raise UsageError("test takes one package directory, and --exec local to run its steps without a chroot")


def report(rows: list[TrialRow]) -> int:
    """Print the table, and the output of the runs that failed. Return 1 if any failed."""
    console.say(f"{'mode':<22} {'run':<8} {'result':<10} note")
    for row in rows:
        console.say(f"{row.mode:<22} {row.time:<8} {row.result:<10} {row.note}".rstrip())
    failures = [row for row in rows if row.result == "failed"]
    for row in failures:
        console.say(f"\n--- {row.mode}, {row.time} run\n{row.output}".rstrip())
    return 1 if failures else 0


@dataclass(frozen=True, slots=True)
class Trial:
    """A package and the throw-away root on which it is tried."""

    folder: str
    root: str
    package: Package
    is_local: bool

    @property
    def copy_dir(self) -> str:
        return f"{STATE}/{self.package.name}-{self.package.version}-{UID}-1"

    def run(self) -> Iterator[TrialRow]:
        self._furnish()
        for stage in STAGES:
            if stage == "interrupt":
                yield from self._interrupts()
            elif self.package.steps(stage) or self.package.steps(check_of(stage)):
                yield from self._stage(stage)
            else:
                yield TrialRow(stage, "", "no steps")

    def _stage(self, stage: str) -> Iterator[TrialRow]:
        """Run a mode and its check, twice. A second run that still changes the host gets a note."""
        before = fingerprint(self.root)
        for time in ("first", "second"):
            row = self._mode(stage, time)
            after = fingerprint(self.root)
            if time == "second" and row.result != "failed" and after != before:
                changed = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
                row = TrialRow(row.mode, row.time, row.result, f"changes the host again: {', '.join(changed[:3])}")
            before = after
            yield row
            yield self._mode(check_of(stage), time)

    def _mode(self, mode: str, time: str, *data: str) -> TrialRow:
        code, output, record = self._agent(mode, *data)
        ran, skipped = record.get("ran", 0), record.get("skipped", 0)
        note = f"{ran} ran" + (f", {skipped} skipped" if skipped else "")
        step = record.get("failedStep")
        if step:
            note = f"{step['path']} ended with {step['exitCode']}"
        elif record.get("error"):
            note = str(record["error"])
        return TrialRow(mode, time, record.get("result", "failed") if code == 0 else "failed", note, output)

    def _interrupts(self) -> Iterator[TrialRow]:
        """Run an interrupt that restarts a service, and one that reboots. Their commands are replaced by empty ones."""
        services = _encoded({"type": "service_restart", "services": ["example"]})
        yield self._mode("interrupt", "first", services)
        yield self._mode("interrupt", "second", services)
        reboot = _encoded({"type": "node_restart"})
        row = self._mode("interrupt", "first", reboot)
        # The stand-in does not restart the host, so the agent waits until its time is over and fails. That is the
        # expected result of the first run.
        is_accepted = row.note.startswith("INTERRUPT FAILED: reboot was accepted")
        yield TrialRow("interrupt (reboot)", "first", "asked", row.note and "") if is_accepted else row
        self._write("boot_id", "second")
        confirmed = self._mode("interrupt", "second", reboot)
        yield TrialRow("interrupt (reboot)", "second", confirmed.result, confirmed.note, confirmed.output)

    def _agent(self, mode: str, *data: str) -> tuple[int, str, dict[str, Any]]:
        """Run the agent in a process of its own. Return its code, its output and its record."""
        record, output = f"{self.root}.record", f"{self.root}.output"
        pid = os.fork()
        if pid == 0:
            os._exit(self._child([mode, self.root, self.copy_dir, *data], record, output))
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with open(output, encoding="utf-8", errors="replace") as file:
            text = file.read()
        try:
            with open(record, encoding="utf-8") as file:
                return code, text, json.load(file)
        except (OSError, ValueError):
            return code, text, {}
        finally:
            if os.path.exists(record):
                os.unlink(record)

    def _child(self, words: list[str], record: str, output: str) -> int:
        from haulout.agent.main import main as agent

        fd = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(fd, 1)
        os.dup2(fd, 2)
        environ = self._environment(own_environment(), record)
        os.environ.clear()
        os.environ.update(environ)
        return agent(words)

    def _environment(self, own: Mapping[str, str], record: str) -> dict[str, str]:
        """Return the variables that the operator would set, with those of the author that are not about agents."""
        stand_ins = f"{self.root}/stand-ins" if self.is_local else "/stand-ins"
        others = {name: text for name, text in own.items() if not name.startswith(("SKYHOOK_", "OVERLAY_"))}
        return {
            **others,
            "PATH": f"{stand_ins}:{own.get('PATH', '')}",
            "COPY_RESOLV": "false",
            "SKYHOOK_ROOT_DIR": STATE,
            "SKYHOOK_LOG_DIR": LOGS,
            "SKYHOOK_RESOURCE_ID": f"test-{UID}-1_{self.package.name.replace('_', '-')}_{self.package.version}",
            "SKYHOOK_AGENT_EXEC_MODE": "local" if self.is_local else "chroot",
            "SKYHOOK_AGENT_STEP_DELAY": "0",
            "SKYHOOK_AGENT_REBOOT_WAIT": "0",
            "SKYHOOK_AGENT_BOOT_ID_FILE": "/boot_id",
            "SKYHOOK_AGENT_TERMINATION_LOG": record,
        }

    def _furnish(self) -> None:
        copy = f"{self.root}{self.copy_dir}"
        shutil.copytree(self.folder, copy, symlinks=True)
        os.makedirs(f"{copy}/node-metadata", exist_ok=True)
        for name in ("labels", "annotations", "packages"):
            self._write(f"{self.copy_dir[1:]}/node-metadata/{name}.json", "{}")
        for folder in ("etc", "stand-ins"):
            os.makedirs(f"{self.root}/{folder}", exist_ok=True)
        self._write("boot_id", "first")
        for command in STAND_INS:
            self._write(f"stand-ins/{command}", "#!/bin/sh\nexit 0\n")
            os.chmod(f"{self.root}/stand-ins/{command}", 0o700)

    def _write(self, path: str, text: str) -> None:
        with open(f"{self.root}/{path}", "w", encoding="utf-8") as file:
            file.write(text)


def _encoded(payload: object) -> str:
    return binascii.b2a_base64(json.dumps(payload).encode(), newline=False).decode()


def fingerprint(root: str) -> dict[str, tuple[int, int, bytes]]:
    """Return mode, size and content of each file in the root, except those of the computer, the trial and the agent."""
    found: dict[str, tuple[int, int, bytes]] = {}
    for here, folders, files in os.walk(root):
        inner = os.path.relpath(here, root)
        if inner == ".":
            folders[:] = [name for name in folders if name not in OWN]
        folders[:] = [name for name in folders if f"/{os.path.normpath(f'{inner}/{name}')}" not in (STATE, LOGS)]
        for name in files:
            if inner == "." and name in OWN:
                continue
            path = f"{here}/{name}"
            status = os.lstat(path)
            content = b""
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, "rb") as file:
                    content = file.read(1 << 20)
            found[os.path.normpath(f"{inner}/{name}")] = (status.st_mode, status.st_size, content)
    return found
