"""Kubeconfig documents: their YAML, their entries by name, and where each entry stands (decision 0023)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeVar

import msgspec

from haulout.base.yaml import CONFIGURATION, FOREIGN, Bounds, YamlError, load
from haulout.kube.endpoint import Pem
from haulout.kube.errors import ConfigInvalid, ConfigRefused, shorten

Kind = Literal["cluster", "user", "context"]
T = TypeVar("T")

# The most characters of the names that exist, in an error about a name that does not.
LONGEST_NAMES = 400


class Place(msgspec.Struct, frozen=True):
    """A place in a kubeconfig, with which messages begin.

    `document`: the file or Secret. `entry`: the cluster, user or context in it.
    `folder`: the folder of the file, from which relative paths start.
    `may_run`: whether an exec plugin of this document may be run.
    """

    document: str
    # None: a foreign kubeconfig, which must not name files of this computer.
    folder: Path | None
    entry: str = ""
    may_run: bool = True

    def __str__(self) -> str:
        return f"{self.document}: {self.entry}" if self.entry else self.document

    def refuse(self, message: str) -> NoReturn:
        raise ConfigInvalid(f"{self}: {message}")

    def mistrust(self, message: str) -> NoReturn:
        raise ConfigRefused(f"{self}: {message}")

    def path(self, key: str, text: str) -> Path:
        if self.folder is None:
            self.mistrust(f"{key} names a file, which a kubeconfig from a Secret must not (give the content instead)")
        return self.folder / text

    def pem(self, key: str, data: str, file: str) -> Pem | None:
        """Return the decoded data, else the path of the file, as client-go does; None without either.

        Raises `ConfigRefused` if a foreign kubeconfig names a file.
        """
        if file and (not data or self.folder is None):
            return self.path(key, file)
        if not data:
            return None
        try:
            return base64.b64decode("".join(data.split()), validate=True)
        except (binascii.Error, ValueError):
            self.refuse(f"{key}-data is not base64")

    def convert(self, raw: Mapping[str, Any], into: type[T], within: str = "") -> T:
        try:
            # kubectl and cloud tools write null where Go has an empty list or text.
            return msgspec.convert({key: value for key, value in raw.items() if value is not None}, into)
        except msgspec.ValidationError as error:
            problem, _, path = str(error).replace("`", "").partition(" - at ")
            at = f"{within}{path.removeprefix('$')}".lstrip(".")
            raise ConfigInvalid(f"{self}: {at}: {problem}" if at else f"{self}: {problem}") from None


class Document(msgspec.Struct, frozen=True):
    """One parsed kubeconfig. `current` is its current context, `entries` its clusters, users and contexts by name."""

    place: Place
    current: str
    entries: dict[Kind, dict[str, dict[str, Any]]]


class Kubeconfig:
    """Several kubeconfig documents, merged. The first entry of a name and the first current context count."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self._documents = documents
        self.current = next((document.current for document in documents if document.current), "")

    def __str__(self) -> str:
        return ", ".join(document.place.document for document in self._documents)

    def entry(self, kind: Kind, name: str, into: type[T], asked: object) -> tuple[T, Place]:
        """Return the entry of that name and its place. Raises `ConfigInvalid` if there is none.

        `asked`: what referred to the entry. The error message begins with it.
        """
        for document in self._documents:
            if (raw := document.entries[kind].get(name)) is not None:
                place = msgspec.structs.replace(document.place, entry=f'{kind} "{shorten(name)}"')
                return place.convert(raw, into), place
        raise ConfigInvalid(f'{asked}: no {kind} is called "{shorten(name)}" (there is: {self.names(kind)})')

    def names(self, kind: Kind) -> str:
        names = dict.fromkeys(shorten(name) for document in self._documents for name in document.entries[kind])
        return shorten(", ".join(names), LONGEST_NAMES) or "-"


def read(path: Path) -> Document:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigInvalid(f"{path}: kubeconfig cannot be read: {error.strerror}") from error
    return _parse(data, Place(str(path), path.absolute().parent), CONFIGURATION)


def read_untrusted(data: bytes, source: str, *, may_run: bool = False) -> Document:
    """Read a kubeconfig from an untrusted source. This takes a few milliseconds at most, whatever its content."""
    return _parse(data, Place(source, None, may_run=may_run), FOREIGN)


def _parse(data: bytes, place: Place, bounds: Bounds) -> Document:
    try:
        raw = load(data, bounds=bounds) or {}
    except YamlError as error:
        at = f":{error.place.line}:{error.place.column}" if error.place else ""
        # The error for a value that does not fit its tag (`!!bool x`) would show the value, which may be a secret.
        problem = "a value is not as its tag says" if "!!" in error.problem else error.problem
        raise ConfigInvalid(f"{place}{at}: not YAML: {problem}") from None
    if not isinstance(raw, dict) or raw.get("kind", "Config") != "Config":
        place.refuse("not a kubeconfig (kind: Config would be right)")
    current = raw.get("current-context") or ""
    if not isinstance(current, str):
        place.refuse("current-context is not a text (quote it)")
    kinds: tuple[Kind, ...] = ("cluster", "user", "context")
    return Document(place, current, {kind: _by_name(raw, kind, place) for kind in kinds})


def _by_name(raw: dict[Any, Any], kind: Kind, place: Place) -> dict[str, dict[str, Any]]:
    """Return the entries by name. Their content is checked only when it is used, so a broken one affects no other."""
    entries: dict[str, dict[str, Any]] = {}
    items = raw.get(f"{kind}s") or []
    if not isinstance(items, list):
        place.refuse(f"{kind}s is not a list")
    for number, item in enumerate(items):
        name = item.get("name") if isinstance(item, dict) else None
        if not isinstance(name, str):
            place.refuse(f"{kind}s[{number}] has no name, or one that is not a text (quote it)")
        entry = item.get(kind) or {}
        if not isinstance(entry, dict):
            place.refuse(f'{kind} "{shorten(name)}": {kind} is not a mapping')
        if name in entries:
            place.refuse(f'{kind} "{shorten(name)}" is set twice (keep one)')
        entries[name] = entry
    return entries
