"""Puts the profiles surface into a process: its configuration file becomes a row, its plugins are found."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

from haulout.base.yaml import YamlError
from haulout.cluster.key import Key
from haulout.cluster.project import Keep
from haulout.cluster.rows import Value
from haulout.cluster.store import Store
from haulout.cluster.view import CONFIG
from haulout.plugins.config import ConfigProblem
from haulout.runtime.files import WatchedFile
from haulout.runtime.metrics import Metrics
from haulout.surfaces.profiles.decide import SURFACE
from haulout.surfaces.profiles.load import load
from haulout.surfaces.profiles.surface import keeps, known_plugins

log = logging.getLogger("haulout.profiles")
CONFIG_KEY = Key("", CONFIG, "", SURFACE)


class ProfilesConfig:
    """While the file is invalid nothing is done, as the original has it; the gauge and the log say so."""

    def __init__(self, path: str, store: Store, metrics: Metrics, on_change: Callable[[], None]) -> None:
        self._source = path.removeprefix("./")
        self._store = store
        self._metrics = metrics
        self._on_change = on_change
        self._plugins = known_plugins()
        self.keep: Keep = keeps(None)
        self._file = WatchedFile(Path(path), self._changed)
        self.look = self._file.look

    def _changed(self, content: bytes | OSError) -> None:
        self._store.write(self._row(content))
        self._on_change()

    def _row(self, content: bytes | OSError) -> Value:
        try:
            if isinstance(content, OSError):
                raise content
            config = load(content, self._plugins, source=self._source, environment=os.environ)
        except (OSError, YamlError) as error:
            return self._invalid("syntax", str(error))
        except ConfigProblem as problem:
            return self._invalid("semantic" if problem.path else "syntax", problem.text)
        self.keep = keeps(config)
        self._metrics.gauge("maintenance_controller_config_valid", 1)
        log.info("configuration loaded", extra={"file": self._source, "profiles": len(config.profiles)})
        return Value(key=CONFIG_KEY, value=config)

    def _invalid(self, kind: str, text: str) -> Value:
        self._metrics.gauge("maintenance_controller_config_valid", 0)
        log.error(f"Failed to parse configuration file ({kind} error)", extra={"file": self._source, "error": text})  # noqa: G004
        return Value(key=CONFIG_KEY, error=f"{self._source}: {text}")
