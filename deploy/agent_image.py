"""Collects the files of the agent's image: `agent_image.py SOURCE INTO`, run by the Python that the image will have.

The image holds this interpreter, its standard library, the shared libraries of both and the agent; no shell, no package
manager and no compiler. SOURCE is the directory of Haulout's packages (src), INTO becomes the image's root.

See decision 0048.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

# Of the standard library: tests, tools for developers, pip's installer, and what talks to networks or databases.
LEFT_OUT = (
    "__pycache__",
    "*-packages",
    "asyncio",
    "concurrent",
    "config-*",
    "curses",
    "dbm",
    "distutils",
    "email",
    "ensurepip",
    "html",
    "http",
    "idlelib",
    "lib2to3",
    "multiprocessing",
    "pydoc_data",
    "sqlite3",
    "test",
    "tests",
    "tkinter",
    "turtledemo",
    "unittest",
    "urllib",
    "venv",
    "wsgiref",
    "xml",
    "xmlrpc",
)
# Modules in C whose libraries the agent has no use for.
UNUSED = re.compile(r"_(tkinter|curses|curses_panel|sqlite3|dbm|gdbm|ssl|test\w*|xxtestfuzz)\.|(nis|readline)\.")
PACKAGES = "opt/haulout"
# The image's only variable. Steps do not get what is written down here, because it is about the image, not about the host.
IMAGE_ENV = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"
# Isolated: neither the environment nor the working directory can put a module in the place of one of ours.
LAUNCHER = """\
#!{python} -IS
import sys

sys.path.insert(0, "/{packages}")
from haulout.agent.main import main

sys.exit(main(sys.argv[1:]))
"""


def main(source: str, into: str) -> None:
    root = Path(into)
    python = os.path.realpath(sys.executable)
    library = sysconfig.get_path("stdlib")
    copy(python, root)
    shutil.copytree(library, below(root, library), ignore=shutil.ignore_patterns(*LEFT_OUT), symlinks=False)
    modules = below(root, library) / "lib-dynload"
    for module in modules.iterdir():
        if UNUSED.search(module.name):
            module.unlink()
    for path in shared_libraries([python, *map(str, modules.glob("*.so"))]):
        copy(path, root)
    # The loader looks here for libraries outside of its own directories.
    copy("/etc/ld.so.cache", root)
    copy_agent(Path(source) / "haulout", root / PACKAGES / "haulout")
    write(root / "usr/bin/skyhook-agent", LAUNCHER.format(python=python, packages=PACKAGES), 0o755)
    write(root / "usr/share/skyhook-agent/image-env", IMAGE_ENV, 0o644)
    for folder in ("etc", "proc", "root", "sys", "tmp"):
        (root / folder).mkdir(exist_ok=True)
    compile_all(root, [library, f"/{PACKAGES}"])


def copy_agent(source: Path, into: Path) -> None:
    into.mkdir(parents=True)
    shutil.copy(source / "__init__.py", into)
    shutil.copytree(source / "agent", into / "agent", ignore=shutil.ignore_patterns("__pycache__"))


def shared_libraries(programs: Iterable[str]) -> Iterator[str]:
    """Yield the libraries, and the loader itself, that programs and modules are linked with."""
    found: dict[str, None] = {}
    for program in programs:
        done = subprocess.run(["ldd", program], check=True, capture_output=True, text=True)
        if "not found" in done.stdout:
            raise SystemExit(f"agent_image: {program} lacks a library:\n{done.stdout}")
        found |= dict.fromkeys(re.findall(r"(/\S+) \(0x", done.stdout))
    yield from found


def compile_all(root: Path, folders: list[str]) -> None:
    """Compile in advance: the image may be read-only, and the agent's start is most of its work."""
    for folder in folders:
        # Not by time stamps: what packs the image may change them.
        words = ["-q", "--invalidation-mode", "unchecked-hash", "-s", str(root), "-p", "/", str(below(root, folder))]
        subprocess.run([sys.executable, "-Im", "compileall", *words], check=True)


def copy(path: str, root: Path) -> None:
    target = below(root, path)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(path, target)


def write(path: Path, text: str, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


def below(root: Path, path: str) -> Path:
    return root / path.lstrip("/")


if __name__ == "__main__":
    main(*sys.argv[1:])
