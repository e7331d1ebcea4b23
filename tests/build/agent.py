"""A throw-away host for the package agent: a root directory, one package on it, and the operator's environment."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

UID = "5f1c5d0e-0b1f-4d53-9d5a-0c6f0a9a7b11"
STATE, LOGS = "var/lib/skyhook/sk", "var/log/skyhook/sk"
TOOLS = ("sh", "sleep", "cat", "env", "head")


def step(path: str, *arguments: str, codes: tuple[float, ...] = (0,), **fields: Any) -> dict[str, Any]:
    """Return one step of config.json."""
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", path) or "x"
    return {
        "name": name,
        "path": path,
        "arguments": list(arguments),
        "returncodes": list(codes),
        "on_host": True,
        "idempotence": False,
        "upgrade_step": False,
        **fields,
    }


def encoded(payload: Any) -> str:
    return base64.b64encode(json.dumps(payload).encode()).decode()


@dataclass(frozen=True)
class Ended:
    """A finished run of the agent."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.split("\n")


@dataclass
class AgentHost:
    """A host's root directory, with the package `demo` 1.0.0 copied to it."""

    root: Path
    is_local: bool = True
    version: str = "1.0.0"
    env: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        (self.package / "skyhook_dir").mkdir(parents=True)
        (self.root / "etc").mkdir()
        (self.root / "fake").mkdir()
        for command in ("reboot", "systemctl", "service"):
            self.fake(command)
        self.env = {
            "PATH": f"{self.root}/fake:/fake:/usr/sbin:/usr/bin:/sbin:/bin",
            "LANG": "C.UTF-8",
            "COPY_RESOLV": "false",
            "SKYHOOK_AGENT_STEP_DELAY": "0",
            "SKYHOOK_ROOT_DIR": f"/{STATE}",
            "SKYHOOK_LOG_DIR": f"/{LOGS}",
            "SKYHOOK_RESOURCE_ID": f"sk-{UID}-1_demo_1.0.0",
            "SKYHOOK_AGENT_TERMINATION_LOG": str(self.record_file),
            "SKYHOOK_AGENT_BOOT_ID_FILE": "/boot_id",
            "SKYHOOK_AGENT_REBOOT_WAIT": "0",
            **({"SKYHOOK_AGENT_EXEC_MODE": "local"} if self.is_local else {}),
            **self.env,
        }
        self.boot("boot-1")

    @property
    def copy_dir(self) -> str:
        return f"/{STATE}/demo-1.0.0-{UID}-1"

    @property
    def package(self) -> Path:
        return self.root / self.copy_dir[1:]

    @property
    def state(self) -> Path:
        return self.root / STATE

    @property
    def logs(self) -> Path:
        return self.root / LOGS / "demo" / self.version

    @property
    def inside(self) -> Path:
        """Return a path on the host as a step sees it."""
        return self.root if self.is_local else Path("/")

    @property
    def record_file(self) -> Path:
        return self.root.with_name(f"{self.root.name}.record")

    @property
    def record(self) -> Any:
        return json.loads(self.record_file.read_text())

    def boot(self, boot_id: str) -> None:
        (self.root / "boot_id").write_text(f"{boot_id}\n")

    def script(self, path: str, body: str = "true") -> Path:
        file = self.package / "skyhook_dir" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"#!/bin/sh\n{body}\n")
        return file

    def tracing(self, *paths: str) -> None:
        """Write scripts that append their names to the trace."""
        for path in paths:
            self.script(path, f"echo {path} >> {self.inside}/trace")

    def tool(self, name: str) -> None:
        """Give steps one more program of this computer. In local mode they have them all."""
        if not self.is_local:
            copy_program(name, self.root)

    def fake(self, command: str, body: str = "") -> None:
        """Replace a command of the host by a script that writes down its call."""
        file = self.root / "fake" / command
        file.write_text(f'#!/bin/sh\necho "{command} $*" >> {self.inside}/commands\n{body}\n')
        file.chmod(0o755)

    def config(self, *, files: Any = (), **modes: list[dict[str, Any]]) -> dict[str, Any]:
        """Write config.json, and scripts that do nothing for steps without one."""
        document = {
            "schema_version": "v1",
            "package_name": "demo",
            "package_version": self.version,
            "expected_config_files": list(files),
            "modes": {mode.replace("_", "-"): steps for mode, steps in modes.items()},
        }
        for steps in modes.values():
            for one in steps:
                if not (self.package / "skyhook_dir" / one["path"]).exists():
                    self.script(one["path"])
        self.write(document)
        return document

    def applying(self, *steps: dict[str, Any]) -> None:
        """Make a package whose only work is these apply steps."""
        self.config(apply=list(steps), apply_check=[step("ok_check.sh")])

    def write(self, document: Any) -> None:
        (self.package / "config.json").write_text(json.dumps(document))

    def start(self, *words: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        return self._start([sys.executable, "-m", "haulout.agent", *words], env)

    def _start(self, argv: list[str], env: Mapping[str, str] | None) -> subprocess.Popen[str]:
        return subprocess.Popen(
            argv,
            env={**self.env, **(env or {})},
            cwd=self.root,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def author(self, *words: str) -> Ended:
        """Run one of the tools for authors of packages."""
        argv = [str(Path(sys.executable).parent / "haulout"), "as", "skyhook-agent", *words]
        return ended(self._start(argv, None))

    def dry_run(self, mode: str, *data: str, env: Mapping[str, str] | None = None) -> Ended:
        argv = [str(Path(sys.executable).parent / "haulout"), "as", "skyhook-agent"]
        return ended(self._start([*argv, mode, str(self.root), self.copy_dir, *data, "--dry-run"], env))

    def agent(self, *words: str, env: Mapping[str, str] | None = None) -> Ended:
        return ended(self.start(*words, env=env))

    def run(self, mode: str, *data: str, env: Mapping[str, str] | None = None) -> Ended:
        return self.agent(mode, str(self.root), self.copy_dir, *data, env=env)

    def interrupt(self, payload: Any, env: Mapping[str, str] | None = None) -> Ended:
        return self.run("interrupt", encoded(payload), env=env)

    @property
    def trace(self) -> list[str]:
        file = self.root / "trace"
        return file.read_text().split() if file.exists() else []

    @property
    def commands(self) -> list[str]:
        file = self.root / "commands"
        return file.read_text().splitlines() if file.exists() else []

    @property
    def flags(self) -> list[str]:
        folder = self.state / "flags/demo" / self.version
        return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())

    @property
    def markers(self) -> list[str]:
        folder = self.state / "interrupts/flags" / self.env["SKYHOOK_RESOURCE_ID"]
        return sorted(path.name for path in folder.iterdir()) if folder.exists() else []

    def tree(self) -> dict[str, tuple[int, bytes]]:
        """Return every path below the root with its mode and content, for comparisons."""
        found: dict[str, tuple[int, bytes]] = {}
        for path in sorted(self.root.rglob("*")):
            content = str(path.readlink()).encode() if path.is_symlink() else b""
            if path.is_file() and not path.is_symlink():
                content = path.read_bytes()
            found[str(path.relative_to(self.root))] = (path.lstat().st_mode, content)
        return found


def ended(process: subprocess.Popen[str], limit: float = 120) -> Ended:
    """Wait for a run of the agent. A run that exceeds the limit is killed with its process group."""
    try:
        out, err = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise AssertionError("the agent did not end") from None
    return Ended(process.returncode, out, err)


def userland(into: Path) -> Path:
    """Copy what a chrooted shell script needs: a shell, a few tools and their libraries."""
    for tool in TOOLS:
        copy_program(tool, into)
    return into


def copy_program(name: str, into: Path) -> None:
    source = shutil.which(name)
    assert source is not None
    linked = subprocess.run(["ldd", source], capture_output=True, text=True, check=True).stdout
    for path in (source, *re.findall(r"(/\S+) \(0x", linked)):
        target = into / (f"bin/{name}" if path == source else path.lstrip("/"))
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            shutil.copy(path, target)


def furnish(root: Path, made: Path) -> None:
    """Give a root directory what a chroot needs."""
    shutil.copytree(made, root, dirs_exist_ok=True, copy_function=os.link)
    (root / "dev").mkdir(exist_ok=True)
    os.mknod(root / "dev/null", 0o666 | 0o020000, os.makedev(1, 3))
