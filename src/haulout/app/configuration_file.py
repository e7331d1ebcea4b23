"""A configuration file that is read again when it changes, and the row that decisions read instead of the file."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from haulout.app.parts import Surroundings
from haulout.app.troubles import Troubles
from haulout.cluster.key import Key
from haulout.cluster.rows import Value
from haulout.plugins.config import ConfigProblem
from haulout.runtime.files import WatchedFile

T = TypeVar("T")


class InvalidFile(Exception):
    """A configuration file that cannot be used.

    The text says what the process does about it. `error` is the first error, `lines` are all errors with their places.
    """

    def __init__(self, text: str, error: str, lines: Sequence[str]) -> None:
        super().__init__(text)
        self.error = error
        self.lines = lines


class FollowedFile(Generic[T]):
    """A file that is read again whenever it changes.

    `read` parses the content or raises InvalidFile. `accept` is called with what `read` returns, `refuse` with the
    InvalidFile. Both are reported as events about `topic`. `optional`: a file that has never existed counts as empty.
    """

    def __init__(
        self,
        path: str,
        topic: str,
        troubles: Troubles,
        *,
        read: Callable[[bytes | OSError], T],
        accept: Callable[[T], None],
        refuse: Callable[[InvalidFile], None],
        optional: bool = False,
    ) -> None:
        self._source = path.removeprefix("./")
        self._topic = topic
        self._troubles = troubles
        self._read = read
        self._accept = accept
        self._refuse = refuse
        self._may_be_missing = optional
        self._file = WatchedFile(Path(path), self._changed)
        self.look = self._file.look

    def _changed(self, content: bytes | OSError) -> None:
        if isinstance(content, FileNotFoundError) and self._may_be_missing:
            content = b""
        else:
            self._may_be_missing = False
        try:
            meaning = self._read(content)
        except InvalidFile as problem:
            self._refuse(problem)
            self._troubles.invalid(self._topic, f"{problem}: {'; '.join(problem.lines)}")
            return
        self._troubles.valid(self._topic, f"{self._source} is valid again")
        self._accept(meaning)


class ConfigurationRow(Generic[T]):
    """The configuration file of a surface, kept as the row that its decisions read.

    `load` parses the content, or raises ConfigProblem; its second argument is the name of the file.
    `lint` returns all errors of a file that cannot be loaded.
    `value` makes the row's value from what `load` returns. While the file is invalid, the row has an error and no value.
    `describe` returns further fields for the log line about a loaded file.
    `on_validity` is called after each reading of the file, with whether it is valid.
    """

    def __init__(
        self,
        around: Surroundings,
        key: Key,
        path: str,
        *,
        load: Callable[[bytes, str], T],
        value: Callable[[T], object],
        lint: Callable[[bytes, str], Sequence[str]] = lambda content, source: (),
        describe: Callable[[T], Mapping[str, object]] = lambda meaning: {},
        on_validity: Callable[[bool], None] = lambda valid: None,
    ) -> None:
        self._around = around
        self._key = key
        self._log = logging.getLogger(f"haulout.{key.name}")
        self._source = path.removeprefix("./")
        self._load = load
        self._lint = lint
        self._value = value
        self._describe = describe
        self._on_validity = on_validity
        self._meaning: T | None = None
        file = FollowedFile(path, key.name, around.troubles, read=self._read, accept=self._accept, refuse=self._refuse)
        self.look = file.look

    def refresh(self) -> None:
        """Write the row again, for example because `haulout.yaml` has changed and the value contains settings from it."""
        if self._meaning is not None:
            self._write(Value(key=self._key, value=self._value(self._meaning)))

    def _read(self, content: bytes | OSError) -> T:
        if isinstance(content, OSError):
            raise self._unreadable(content)
        try:
            return self._load(content, self._source)
        except ConfigProblem as problem:
            kind = "syntax" if problem.is_syntax else "semantic"
            raise self._invalid(kind, problem.text, self._lint(content, self._source)) from None

    def _unreadable(self, error: OSError) -> InvalidFile:
        why = error.strerror or str(error)
        if self._around.settings.alone:
            # The original reports a missing file as a syntax error, too.
            return self._invalid("syntax", why)
        act = " (`haulout init` writes one to begin with)" if isinstance(error, FileNotFoundError) else ""
        return InvalidFile("Configuration file cannot be read", why, (f"{self._source}: {why}{act}",))

    def _invalid(self, kind: str, error: str, lines: Sequence[str] = ()) -> InvalidFile:
        text = f"Failed to parse configuration file ({kind} error)"
        return InvalidFile(text, error, lines or (f"{self._source}: {error}",))

    def _accept(self, meaning: T) -> None:
        self._meaning = meaning
        self._on_validity(True)
        self._log.info("configuration loaded", extra={"file": self._source, **self._describe(meaning)})
        self.refresh()

    def _refuse(self, problem: InvalidFile) -> None:
        self._meaning = None
        self._on_validity(False)
        extra = {"file": self._source, "error": problem.error, "problems": list(problem.lines)}
        self._log.error(str(problem), extra=extra)
        self._write(Value(key=self._key, error=f"{self._source}: {problem.error}"))

    def _write(self, row: Value) -> None:
        self._around.store.write(row)
        self._around.poke()
