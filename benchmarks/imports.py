"""Runs `haulout` and notes by how much each import raised the memory of the process: `python -m benchmarks.imports FILE WORDS...`.

An import counts without those that it causes. FILE gets MiB by module when the process ends.
"""

from __future__ import annotations

import atexit
import json
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

PAGE, MIB = 4096, 2**20


def resident() -> int:
    """Return how many bytes of memory this process has resident."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


class Notes(MetaPathFinder):
    """Finds modules as Python does, and notes what running each of them adds to the memory. `mib`: by module."""

    def __init__(self) -> None:
        self.mib: dict[str, float] = {}
        # What the imports within each import that is under way have added.
        self._inner: list[int] = [0]

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Noting(spec.loader, self)
        return spec

    def run(self, module: ModuleType, loader: Loader) -> None:
        before = resident()
        self._inner.append(0)
        try:
            loader.exec_module(module)
        finally:
            added, inner = resident() - before, self._inner.pop()
            self._inner[-1] += added
            self.mib[module.__name__] = (added - inner) / MIB


class _Noting(Loader):
    """A loader of one module that notes what running the module adds to the memory."""

    def __init__(self, loader: Loader, notes: Notes) -> None:
        self._loader = loader
        self._notes = notes

    def __getattr__(self, name: str) -> object:
        # `importlib.resources` and `runpy` ask loaders for more than importing takes.
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # Other programs look at the loader of a module, so they find the usual one.
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._notes.run(module, self._loader)


def main() -> int:
    notes, file = Notes(), Path(sys.argv[1])
    sys.argv[:] = ["haulout", *sys.argv[2:]]
    sys.meta_path.insert(0, notes)
    atexit.register(lambda: file.write_text(json.dumps(notes.mib)))
    from haulout.app.main import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
