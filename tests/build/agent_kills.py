"""Kills the agent at every system call by which it writes, or lets the call fail, and reports what the next run does.

`python -m tests.build.agent_kills SCENARIO FOLDER [ERROR]` prints a line of JSON for each call. With the name of an error,
such as ENOSPC, the call fails by it and the agent is not killed. It is a program of its own, because it forks: each run of
the agent is a fork, which saves the start of an interpreter.
"""

from __future__ import annotations

import ctypes
import dataclasses
import errno
import json
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Imported here, so that no fork has to.
import haulout.agent.run  # noqa: F401
from haulout.agent.main import main
from tests.build.agent import UID, AgentHost, encoded, step

# Every function of `os` by which the agent changes something. Opening a file counts where it may create one.
WRITES = (
    "open",
    "write",
    "rename",
    "unlink",
    "mkdir",
    "rmdir",
    "fchmod",
    "fchown",
    "fsync",
    "ftruncate",
    "sendfile",
    "setxattr",
    "fork",
)
SUBREAPER = 36


class Killer:
    """Counts writes, and ends this process with SIGKILL at the n-th: before it, or in the middle of its bytes.

    With an error number it lets the n-th write fail instead.
    """

    def __init__(self, kill_at: int, error: int = 0) -> None:
        self.count = 0
        self._kill_at = kill_at
        self._error = error
        self._pid = os.getpid()

    def install(self) -> None:
        for name in WRITES:
            setattr(os, name, self._wrapped(name, getattr(os, name)))

    def _wrapped(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            is_reading = name == "open" and not args[1] & (os.O_CREAT | os.O_TRUNC)
            # A line on the console changes nothing on the host: a kill there is one at the next write.
            is_console = name == "write" and args[0] in (1, 2)
            if os.getpid() == self._pid and not is_reading and not is_console:
                self.count += 1
                if self.count == self._kill_at:
                    if self._error:
                        raise OSError(self._error, os.strerror(self._error))
                    if name == "write":
                        real(args[0], bytes(args[1])[: len(args[1]) // 2])
                    os.kill(self._pid, signal.SIGKILL)
            return real(*args, **kwargs)

        return call


def run(host: AgentHost, words: list[str], kill_at: int = 0, error: int = 0) -> tuple[int, int]:
    """Run the agent in a fork. Return its status (minus the signal that ended it) and how often it wrote."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.environ.clear()
        os.environ.update(host.env)
        null = os.open("/dev/null", os.O_RDWR)
        errors = os.open(errors_file(host), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for target, fd in enumerate((null, null, errors)):
            os.dup2(fd, target)
        real_write = os.write
        killer = Killer(kill_at, error)
        killer.install()
        code = main(words)
        real_write(writing, str(killer.count).encode())
        os._exit(code)
    os.close(writing)
    _, status = os.waitpid(pid, 0)
    count = int(os.read(reading, 100) or b"0")
    os.close(reading)
    reap()
    return os.waitstatus_to_exitcode(status), count


def errors_file(host: AgentHost) -> Path:
    """Return the file with the standard error of the last run."""
    return host.root.with_name(f"{host.root.name}.errors")


def reap() -> None:
    """Wait for steps whose agent was killed. A container would have ended with it."""
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return


@dataclasses.dataclass(frozen=True)
class Scenario:
    """A run of the agent that is killed: how the host is prepared, the arguments, and what happens before the next runs."""

    words: Callable[[AgentHost], list[str]]
    prepare: Callable[[AgentHost], None]
    recover: Callable[[AgentHost, list[str]], list[int]]


def once_more(host: AgentHost, words: list[str]) -> list[int]:
    return [run(host, words)[0]]


def until_rebooted(host: AgentHost, words: list[str]) -> list[int]:
    """Reboot a host that the agent told to: it gets another boot id, and the pod is started again."""
    codes: list[int] = []
    for boot in range(2, 5):
        if len(host.commands) > len([code for code in codes if code == 1]):
            host.boot(f"boot-{boot}")
        code, _ = run(host, words)
        codes.append(code)
        if code == 0:
            break
        host.boot(f"boot-{boot}-again")
    return codes


def package(host: AgentHost) -> None:
    """Make a package with two steps, an overlay (a new directory, a new file, a changed file) and all checks."""
    host.tracing("a.sh", "b.sh")
    host.script("c.sh", "echo out; echo err >&2")
    host.config(
        apply=[step("a.sh"), step("b.sh", "x")],
        apply_check=[step("c.sh")],
        config=[step("c.sh", idempotence=True)],
        config_check=[step("c.sh")],
        uninstall=[step("c.sh", "u", idempotence=True)],
        uninstall_check=[step("c.sh")],
    )
    for name, text in (("etc/demo/new", "new"), ("etc/changed", "after")):
        file = host.package / "root_dir" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (host.root / "etc/changed").write_text("before")


def applied(host: AgentHost) -> None:
    package(host)
    for mode in ("apply", "apply-check"):
        assert run(host, in_mode(mode)(host))[0] == 0


def with_old_copies(host: AgentHost) -> None:
    package(host)
    for generation in (3, 4, 5):
        (host.state / f"demo-1.0.0-{UID}-{generation}/deep").mkdir(parents=True)
        (host.state / f"demo-1.0.0-{UID}-{generation}/deep/file").touch()
    host.env["SKYHOOK_RESOURCE_ID"] = f"sk-{UID}-9_demo_1.0.0"


def in_the_image(host: AgentHost) -> None:
    package(host)
    data = host.root.with_name(f"{host.root.name}.data")
    shutil.rmtree(data, ignore_errors=True)
    host.package.rename(data)
    host.env["SKYHOOK_DATA_DIR"] = str(data)


def rebooted(host: AgentHost) -> None:
    assert run(host, interrupt({"type": "node_restart"})(host))[0] == 1
    (host.root / "commands").unlink()
    host.boot("boot-2")


def nothing(host: AgentHost) -> None:
    """Prepare nothing, for a run that needs no package, such as an interrupt."""


def in_mode(mode: str) -> Callable[[AgentHost], list[str]]:
    return lambda host: [mode, str(host.root), host.copy_dir]


def interrupt(payload: Any) -> Callable[[AgentHost], list[str]]:
    return lambda host: ["interrupt", str(host.root), host.copy_dir, encoded(payload)]


SCENARIOS = {
    "apply": Scenario(in_mode("apply"), package, once_more),
    "apply of a package in the image": Scenario(in_mode("apply"), in_the_image, once_more),
    "apply-check": Scenario(in_mode("apply-check"), package, once_more),
    "uninstall-check": Scenario(in_mode("uninstall-check"), applied, once_more),
    "config-check with old copies": Scenario(in_mode("config-check"), with_old_copies, once_more),
    "services": Scenario(interrupt({"type": "service_restart", "services": ["a", "b"]}), nothing, once_more),
    "no-op": Scenario(interrupt({"type": "no_op"}), nothing, once_more),
    "reboot": Scenario(interrupt({"type": "node_restart"}), nothing, until_rebooted),
    "reboot that is confirmed": Scenario(interrupt({"type": "node_restart"}), rebooted, once_more),
}


def summary(host: AgentHost) -> dict[str, Any]:
    """Return what a run leaves on the host, without times and logs, which a killed run has of its own."""
    tree = {
        path: (mode, re.sub(rb"\d+", b"0", content))
        for path, (mode, content) in host.tree().items()
        if not path.startswith("var/log/") and path not in ("trace", "commands", "boot_id")
    }
    history = host.state / "history/demo.json"
    if history.exists():
        document = json.loads(history.read_text())
        versions = [entry["version"] for entry in document["history"]]
        # A check that is killed after it has written the history writes it again.
        distinct = list(dict.fromkeys(versions))
        tree["var/lib/skyhook/sk/history/demo.json"] = (0, repr((document["current-version"], distinct)).encode())
    leftovers = [path for path in host.tree() if ".haulout" in path or path.endswith(".running")]
    return {"tree": {path: repr(found) for path, found in tree.items()}, "leftovers": leftovers}


def finished(host: AgentHost) -> list[str]:
    """Return the steps and commands that are marked as done."""
    return [name.partition("_")[0] for name in host.flags] + [name for name in host.markers if "complete" in name]


def drive(name: str, folder: Path, error: int = 0) -> None:
    scenario = SCENARIOS[name]
    undisturbed = fresh(folder, scenario)
    code, count = run(undisturbed, scenario.words(undisturbed))
    if code:
        scenario.recover(undisturbed, scenario.words(undisturbed))
    wanted = summary(undisturbed)
    runs = (undisturbed.trace, undisturbed.commands)
    print(json.dumps({"count": count, "trace": runs[0], "commands": runs[1], "leftovers": wanted["leftovers"]}))
    for kill_at in range(1, count + 1):
        host = fresh(folder, scenario)
        killed, _ = run(host, scenario.words(host), kill_at, error)
        errors = errors_file(host).read_text()
        done, before = finished(host), (host.trace, host.commands)
        codes = scenario.recover(host, scenario.words(host))
        found = summary(host)
        differing = {
            path: (wanted["tree"].get(path), found["tree"].get(path))
            for path in wanted["tree"].keys() | found["tree"].keys()
            if wanted["tree"].get(path) != found["tree"].get(path)
        }
        report = {
            "kill_at": kill_at,
            "killed": killed,
            "codes": codes,
            "done": done,
            "before": before,
            "after": (host.trace, host.commands),
            "differing": differing,
            "leftovers": found["leftovers"],
            "errors": errors,
            "warned": "WARNING: an earlier run" in errors_file(host).read_text(),
        }
        print(json.dumps(report))


def fresh(folder: Path, scenario: Scenario) -> AgentHost:
    shutil.rmtree(folder / "host", ignore_errors=True)
    host = AgentHost(folder / "host")
    scenario.prepare(host)
    return host


if __name__ == "__main__":
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    drive(sys.argv[1], Path(sys.argv[2]), getattr(errno, sys.argv[3]) if len(sys.argv) > 3 else 0)
