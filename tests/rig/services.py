"""A service manager for the host of a test node: `systemctl` asks it, and it ends and starts real processes by unit files.

systemd itself cannot run there: it manages services only as the first process of a PID namespace, which is the rig's own on a test
node, and it would start whatever is enabled on the machine under the node, whose root the node's is an overlay of.
A process that `systemctl` started itself would end with the container of the interrupt. So this manager starts it beside the others of the node.
"""

from __future__ import annotations

import os
import shlex
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.rig.host_commands import FILE
from tests.rig.node import Node, only_child
from tests.rig.process import Process

FOLDER = "run/services-of-the-test"
UNITS = "etc/systemd/system"
# The stand-in notes the call, passes it to the manager, and ends with the manager's exit code.
CLIENT = f"""#!/bin/sh
echo "systemctl $*" >> /{FILE}
reply=/{FOLDER}/reply-$$
mkfifo "$reply"
echo "reply-$$ $*" > /{FOLDER}/requests
read -r code text < "$reply"
rm "$reply"
[ -z "$text" ] || echo "$text"
exit "$code"
"""
END = "end"
NOT_ACTIVE, FAILED = 3, 1


class Services:
    """The services of a node's host. `running`: those that run already, by name."""

    def __init__(self, node: Node, running: dict[str, Process]) -> None:
        self._node, self._running = node, running
        self._units: dict[str, list[str]] = {}
        self._thread = threading.Thread(target=self._serve, name="services", daemon=True)

    def pid(self, name: str) -> int:
        """Return the PID of a service's process on this machine."""
        return only_child(self._running[name].pid)

    def define(self, name: str, command: str) -> None:
        """Write a unit file. It counts from the next `daemon-reload` on."""
        file = self._node.root / UNITS / f"{name}.service"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"[Service]\nExecStart={command}\n")

    def __enter__(self) -> Self:
        folder = self._node.root / FOLDER
        folder.mkdir()
        os.mkfifo(folder / "requests")
        # Opened for reading and writing, so that it does not end between two callers.
        self._requests = os.fdopen(os.open(folder / "requests", os.O_RDWR), "r")
        file = self._node.root / "usr/local/sbin/systemctl"
        file.unlink(missing_ok=True)
        file.write_text(CLIENT)
        file.chmod(0o755)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        (self._node.root / FOLDER / "requests").write_text(f"{END}\n")
        self._thread.join(60)
        self._requests.close()

    def _serve(self) -> None:
        for line in self._requests:
            reply, *words = line.split()
            if reply == END:
                return
            code, text = self._answer(words)
            (self._node.root / FOLDER / reply).write_text(f"{code} {text}\n")

    def _answer(self, words: list[str]) -> tuple[int, str]:
        match words:
            case ["daemon-reload"]:
                self._units = {file.stem: _command(file) for file in (self._node.root / UNITS).glob("*.service")}
                return 0, ""
            case ["restart", name] if name in self._units and name in self._running:
                self._node.restart(self._running[name], self._units[name])
                return 0, ""
            case ["is-active", name]:
                is_active = name in self._running and self._running[name].running
                return (0, "active") if is_active else (NOT_ACTIVE, "inactive")
        return FAILED, f"no such unit, or an unknown verb: {' '.join(words)}"


def _command(unit: Path) -> list[str]:
    line = next(line for line in unit.read_text().splitlines() if line.startswith("ExecStart="))
    return shlex.split(line.removeprefix("ExecStart="))
