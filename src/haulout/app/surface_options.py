"""The options of a surface in a running process: made from its settings and files, and kept as rows for its decisions.

The surface's declaration makes them, for commands and processes alike (decision 0167).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from haulout.app.troubles import Troubles
from haulout.cluster.key import Key
from haulout.cluster.rows import Row, Value
from haulout.cluster.view import CONFIG
from haulout.core.declaration import Context, Declaration, OptionsProblem
from haulout.kube.config import own_namespace
from haulout.runtime.files import WatchedFile
from haulout.settings.context import context_of
from haulout.settings.settings import Settings
from haulout.surfaces.registry import block_of

LAST_GOOD = "the last good configuration stays in force"


class OptionsListener:
    """What a part of the process may add to the options of its surface, and do when they change."""

    def complete(self, options: Any, context: Context) -> Any:
        """Return the options with what only a running process can know. Raises OptionsProblem for an invalid file."""
        return options

    def loaded(self, options: Any) -> Mapping[str, object]:
        """Note that files were loaded. Return further fields for the log line about it."""
        return {}

    def examined(self, *, is_valid: bool) -> None:
        """Note that the files were read again, and whether they can be used."""


class SurfaceOptions:
    """The options of one surface, as its declaration makes them for `explain` and `plan` too.

    They are made again when `haulout.yaml` or a file of the surface changes, and written as rows. While a file is invalid,
    the last good options stay in force, or the decisions find an error in their place, as the surface declares.

    `options`: the current ones; None: there have been none.
    `publish`: takes the rows, and lets decisions run that read them.
    """

    def __init__(
        self,
        declaration: Declaration,
        settings: Settings,
        troubles: Troubles,
        publish: Callable[[Sequence[Row]], None],
        listener: OptionsListener | None = None,
    ) -> None:
        self._declaration = declaration
        self._settings = settings
        self._troubles = troubles
        self._publish = publish
        self.listener = listener or OptionsListener()
        self._log = logging.getLogger(f"haulout.{declaration.name}")
        self._contents: dict[str, bytes | OSError] = {}
        self._files: dict[str, WatchedFile] = {}
        self.options: Any = None
        self._has_begun = False

    def begin(self) -> None:
        """Make the options for the first time. Raises OptionsProblem if a file that the surface needs cannot be used.

        Files that it can do without are read at the first `look`, when the process serves.
        """
        if self._declaration.needs_files or not self._declaration.files(self._block):
            self.follow(self._settings)
        else:
            self._watch()
        self._has_begun = True

    def follow(self, settings: Settings) -> None:
        """Make the options again from the settings of a changed `haulout.yaml`."""
        self._settings = settings
        has_other_files = self._watch()
        for file in self._files.values():
            file.look()
        self._make(reports=has_other_files)

    def renew(self) -> None:
        """Make the options again from what is known."""
        self._make(reports=False)

    def look(self, *, closely: bool = False) -> None:
        """Make the options again if a file has changed. `closely`: compare the content, not only the times."""
        before = dict(self._contents)
        for file in self._files.values():
            file.look(closely=closely)
        if before != self._contents:
            self._make(reports=True)

    @property
    def _block(self) -> Any:
        return block_of(self._settings.blocks, self._declaration.name, self._declaration.within)

    def _watch(self) -> bool:
        """Watch the files that the settings name. Return whether these are other ones than before."""
        known, self._files = self._files, {}
        for path in self._declaration.files(self._block):
            self._files[path] = known.get(path) or WatchedFile(Path(path), self._noting(path))
        self._contents = {path: content for path, content in self._contents.items() if path in self._files}
        return self._files.keys() != known.keys()

    def _noting(self, path: str) -> Callable[[bytes | OSError], None]:
        def note(content: bytes | OSError) -> None:
            self._contents[path] = content

        return note

    def _make(self, *, reports: bool) -> None:
        context = msgspec.structs.replace(
            context_of(self._settings),
            environment=os.environ,
            is_running=True,
            namespace=self._settings.namespace or own_namespace() or self._settings.webhooks.outside,
        )
        shared = tuple(self._declaration.context_rows(context))
        try:
            self.options = self._read(context)
        except OptionsProblem as problem:
            if not self._has_begun:
                raise
            self._publish((*shared, *self._refuse(problem)))
            return
        self._publish((*shared, *self._declaration.rows(self.options)))
        if self._files:
            self.listener.examined(is_valid=True)
            if reports:
                source = self._sources[0]
                self._log.info("configuration loaded", extra={"file": source, **self.listener.loaded(self.options)})
                self._troubles.valid(self._declaration.name, f"{source} is valid again")

    def _read(self, context: Context) -> Any:
        files: dict[str, bytes] = {}
        for path, content in self._contents.items():
            if isinstance(content, OSError):
                raise self._unreadable(path, content)
            files[path] = content
        context = msgspec.structs.replace(context, files=files)
        return self.listener.complete(self._declaration.options(self._block, context), context)

    def _unreadable(self, path: str, error: OSError) -> OptionsProblem:
        why, source = error.strerror or str(error), path.removeprefix("./")
        # The original reports a missing file as a syntax error, too.
        is_missing = isinstance(error, FileNotFoundError) and not self._settings.alone
        act = " (`haulout init` writes one to begin with)" if is_missing else ""
        return OptionsProblem([f"{source}: {why}{act}"], error=why, is_syntax=self._settings.alone, is_unreadable=True)

    def _refuse(self, problem: OptionsProblem) -> tuple[Row, ...]:
        """Report a file that cannot be used. Return the rows that replace the options, if the last ones are not kept."""
        rows: tuple[Row, ...] = ()
        self.listener.examined(is_valid=False)
        if self._declaration.keeps_last_options:
            text = LAST_GOOD
            for line in problem.lines:
                self._log.error(f"configuration is invalid, {LAST_GOOD}", extra={"error": line})
        else:
            text = _text(problem)
            source = self._sources[0]
            extra = {"file": source, "error": problem.error, "problems": list(problem.lines)}
            self._log.error(text, extra=extra)
            self.options = None
            rows = (Value(key=Key("", CONFIG, "", self._declaration.name), error=f"{source}: {problem.error}"),)
        self._troubles.invalid(self._declaration.name, f"{text}: {'; '.join(problem.lines)}")
        return rows

    @property
    def _sources(self) -> Sequence[str]:
        return [path.removeprefix("./") for path in self._files]


def _text(problem: OptionsProblem) -> str:
    """Return the log line of the original about a file that cannot be used."""
    if problem.is_unreadable and not problem.is_syntax:
        return "Configuration file cannot be read"
    return f"Failed to parse configuration file ({'syntax' if problem.is_syntax else 'semantic'} error)"
