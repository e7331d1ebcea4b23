"""The package's copy on the host: its steps, root_dir and config files. Links that lead out of it are refused."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator

from haulout.agent.config import StepFile
from haulout.agent.errors import AgentError, doing
from haulout.agent.hostroot import HostRoot, Place

READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class PackageFolder:
    """The directory of a package below a root."""

    def __init__(self, root: HostRoot, path: str) -> None:
        self.root = root
        self.path = path.rstrip("/")

    def exists(self) -> bool:
        return self._mode("") != 0

    def read_config(self) -> bytes:
        with (
            doing(f"read {self.path}/config.json"),
            self.opened("config.json") as fd,
            open(fd, "rb", closefd=False) as file,
        ):
            return file.read()

    def has_config_file(self, name: str) -> bool:
        """Whether a config file exists. A dangling link does not count: its key was removed from the ConfigMap."""
        return self._mode(f"configmaps/{name}") != 0

    def has_overlay(self) -> bool:
        return self._mode("root_dir") != 0

    def find_step(self, path: str) -> StepFile:
        try:
            folder = self.root.locate(f"{self.path}/skyhook_dir")
            place = self.root.locate(f"{self.path}/skyhook_dir/{path}")
        except OSError:
            return StepFile.MISSING
        if not place.mode:
            return StepFile.MISSING
        if not is_below(place, folder):
            return StepFile.OUTSIDE
        return StepFile.REGULAR if stat.S_ISREG(place.mode) else StepFile.OTHER

    def make_executable(self, path: str) -> None:
        """Make a step's file executable, and remove its setuid, setgid and sticky bits. Links are followed."""
        with doing(f"make {path} executable"), self.opened(f"skyhook_dir/{path}") as fd:
            mode = stat.S_IMODE(os.fstat(fd).st_mode)
            executable = (mode | 0o111) & 0o777
            if mode != executable:
                os.fchmod(fd, executable)

    def set_mode(self, mode: int) -> None:
        with doing(f"set the mode of {self.path}"), self.root.directory(self.path) as fd:
            if stat.S_IMODE(os.fstat(fd).st_mode) != mode:
                os.fchmod(fd, mode)

    @contextlib.contextmanager
    def opened(self, path: str) -> Iterator[int]:
        """Open a regular file of the package for reading. Its links may not lead out of the package."""
        with self.root.walk(f"{self.path}/{path}") as (place, parent):
            if place.mode and not is_below(place, self.root.locate(self.path)):
                raise AgentError(f"{path} leads out of the package")
            if place.mode and not stat.S_ISREG(place.mode):
                raise AgentError(f"{path} is not a regular file")
            fd = os.open(place.rest[-1] if place.rest else ".", READ, dir_fd=parent)
        try:
            yield fd
        finally:
            os.close(fd)

    def _mode(self, path: str) -> int:
        try:
            return self.root.locate(f"{self.path}/{path}").mode
        except OSError:
            return 0


def is_below(place: Place, folder: Place) -> bool:
    """Whether a place is inside a folder. The folder itself is not."""
    inner, outer = (*place.parts, *place.rest), (*folder.parts, *folder.rest)
    return len(inner) > len(outer) and inner[: len(outer)] == outer
