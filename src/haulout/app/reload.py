"""Follows `haulout.yaml` while the process runs.

Some settings are taken over at once. Others end the process object, and a new one is made with them in the same program.
The few that need a restart of the program are named in the log.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from haulout.app.troubles import Troubles
from haulout.core.setting import describe
from haulout.runtime.files import WatchedFile
from haulout.settings.file import SettingsProblem, read_settings
from haulout.settings.settings import Settings
from haulout.surfaces.registry import enabled_surfaces

log = logging.getLogger("haulout.settings")

TOPIC = "settings"
FOLLOWED = frozenset({"log_format", "log_level", "pod_rules", "blocks"})
# Settings that need a restart: other programs find the process by these addresses, its namespace and its Lease.
KEPT = frozenset({"namespace", "http", "health", "lease"})


class Reload:
    """The settings file of a running process, read again when it changes.

    While the file is invalid, the last good settings stay in force and the errors are reported.
    """

    def __init__(
        self,
        settings: Settings,
        on_change: Callable[[Settings], None],
        on_restart: Callable[[Settings], None],
        troubles: Troubles | None = None,
        refused: Settings | None = None,
    ) -> None:
        self._settings = settings
        self._on_change = on_change
        self._on_restart = on_restart
        self._refused = refused
        self._is_valid = True
        self._troubles = troubles or Troubles()
        # A file that has never existed counts as empty.
        self._may_be_missing = True
        self.look = WatchedFile(Path(settings.file), self._changed).look

    def _changed(self, content: bytes | OSError) -> None:
        if isinstance(content, FileNotFoundError) and self._may_be_missing:
            content = b""
        else:
            self._may_be_missing = False
        try:
            fresh = self._read(content)
        except SettingsProblem as problem:
            self._refuse(problem.lines)
            return
        self._troubles.valid(TOPIC, f"{self._settings.file.removeprefix('./')} is valid again")
        if not self._is_valid:
            self._is_valid = True
            log.info("settings are valid again", extra={"file": self._settings.file})
        self._take_over(self._settings, fresh)

    def _read(self, content: bytes | OSError) -> Settings:
        known = self._settings
        if isinstance(content, OSError):
            raise SettingsProblem([f"{known.file}: {content.strerror}"])
        read = read_settings(content, known.file, os.environ, dict(known.flags), known.surfaces)
        # Only the command line says which user to impersonate.
        return msgspec.structs.replace(read, as_user=known.as_user, as_groups=known.as_groups)

    def _refuse(self, lines: list[str]) -> None:
        self._is_valid = False
        for line in lines:
            log.error("settings are invalid, the last good ones stay in force", extra={"error": line})
        self._troubles.invalid(TOPIC, f"the last good settings stay in force: {'; '.join(lines)}")

    def _take_over(self, known: Settings, fresh: Settings) -> None:
        differ = _differing(known, fresh)
        for name in sorted(differ & KEPT):
            log.warning("a changed setting needs a restart", extra={"setting": name})
        if known.webhooks.address != fresh.webhooks.address:
            log.warning("a changed setting needs a restart", extra={"setting": "webhooks.address"})
            kept = msgspec.structs.replace(fresh.webhooks, address=known.webhooks.address)
            fresh = msgspec.structs.replace(fresh, webhooks=kept)
        changed = _differing(known, fresh) - KEPT
        if not changed:
            return
        wanted = msgspec.structs.replace(known, **{name: getattr(fresh, name) for name in changed})
        if wanted == self._refused:
            return
        self._settings = wanted
        log.info("settings reloaded", extra={"changed": ", ".join(sorted(_names(changed, known, fresh)))})
        followed = changed <= FOLLOWED and not _is_rebuilt(known, fresh)
        (self._on_change if followed else self._on_restart)(self._settings)


def _names(changed: set[str], known: Settings, fresh: Settings) -> Iterator[str]:
    """Yield the names of the changed settings, and `surfaces.NAME` for each surface whose block has changed."""
    yield from changed - {"blocks"}
    for name in known.blocks.keys() | fresh.blocks.keys():
        if known.blocks.get(name) != fresh.blocks.get(name):
            yield f"surfaces.{name}"


def _is_rebuilt(known: Settings, fresh: Settings) -> bool:
    """Whether a surface is switched on or off, or has a changed setting that it reads only at its start."""
    if enabled_surfaces(known.blocks) != enabled_surfaces(fresh.blocks) or known.surface_leases != fresh.surface_leases:
        return True
    return any(_at_start(block) != _at_start(fresh.blocks[name]) for name, block in known.blocks.items())


def _at_start(block: msgspec.Struct) -> list[Any]:
    return [functools.reduce(getattr, each.path, block) for each in describe(type(block)) if each.setting.at_start]


def _differing(one: Settings, other: Settings) -> set[str]:
    names = [field.name for field in msgspec.structs.fields(Settings)]
    return {name for name in names if getattr(one, name) != getattr(other, name)}
