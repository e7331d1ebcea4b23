"""Follows `haulout.yaml` while the process runs: what can change does, the rest is said to need a restart."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from haulout.app.troubles import Troubles
from haulout.cli.settings import Settings
from haulout.cli.settings_file import SettingsProblem, read_settings
from haulout.runtime.files import WatchedFile

log = logging.getLogger("haulout.settings")

TOPIC = "settings"
# Everything else is built once, when the process starts.
FOLLOWED = frozenset({"log_format", "log_level", "profiles_config", "pod_rules", "clusterapi"})
# A surface that is switched on or off.
SWITCHES = frozenset({"clusterapi"})


class Reload:
    """A file that is broken keeps the last good settings in force, and is said to be broken."""

    def __init__(
        self, settings: Settings, on_change: Callable[[Settings], None], troubles: Troubles | None = None
    ) -> None:
        self._settings = settings
        self._troubles = troubles or Troubles()
        self._on_change = on_change
        self._file = WatchedFile(Path(settings.file), self._changed)
        self._is_there = False
        self._is_valid = True
        self.look = self._file.look

    def _changed(self, content: bytes | OSError) -> None:
        known = self._settings
        try:
            if isinstance(content, FileNotFoundError) and not self._is_there:
                # One can do without; one that vanishes is not the same as one that was never there.
                content = b""
            else:
                self._is_there = True
            if isinstance(content, OSError):
                raise SettingsProblem([f"{known.file}: {content.strerror}"])
            read = read_settings(content, known.file, os.environ, dict(known.flags), known.surfaces)
            # Whom to impersonate is for the command line alone to say.
            fresh = msgspec.structs.replace(read, as_user=known.as_user, as_groups=known.as_groups)
        except SettingsProblem as problem:
            self._is_valid = False
            for line in problem.lines:
                log.error("settings are invalid, the last good ones stay in force", extra={"error": line})
            self._troubles.invalid(TOPIC, f"the last good settings stay in force: {'; '.join(problem.lines)}")
            return
        if not self._is_valid:
            self._is_valid = True
            log.info("settings are valid again", extra={"file": known.file})
            self._troubles.valid(TOPIC, f"{known.file} is valid again")
        names = [field.name for field in msgspec.structs.fields(Settings)]
        differ = {name for name in names if getattr(fresh, name) != getattr(known, name)}
        switched = {name for name in differ & SWITCHES if None in (getattr(fresh, name), getattr(known, name))}
        followed = (differ & FOLLOWED) - switched
        for name in sorted(differ - followed):
            log.warning("a changed setting needs a restart", extra={"setting": name})
        kept = {name: getattr(fresh, name) for name in followed}
        if kept:
            self._settings = msgspec.structs.replace(known, **kept)
            self._on_change(self._settings)
            log.info("settings reloaded", extra={"changed": ", ".join(sorted(kept))})
