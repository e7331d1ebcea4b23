"""A sink that keeps the objects it receives by the rules of the store, and records all other calls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from haulout.kube.codec import HasMetadata
from haulout.model.meta import ObjectMeta

T = TypeVar("T", bound=HasMetadata)


class Picture(Generic[T]):
    def __init__(self) -> None:
        self.rows: dict[str, T] = {}
        self.complete = False
        self.told: list[str] = []
        self.broken_names: set[str] = set()
        self._list: dict[str, T] | None = None

    def versions(self) -> dict[str, str]:
        return {name: row.metadata.resource_version for name, row in self.rows.items()}

    def begin(self) -> None:
        self._list = {}
        self.told.append("begin")

    def put(self, obj: T) -> None:
        name = obj.metadata.name
        if self._list is not None:
            self._list[name] = obj
        if name not in self.rows or _version(obj) >= _version(self.rows[name]):
            self.rows[name] = obj
        self.broken_names.discard(name)

    def delete(self, obj: T) -> None:
        name = obj.metadata.name
        if self._list is not None:
            self._list.pop(name, None)
        if name in self.rows and _version(obj) >= _version(self.rows[name]):
            del self.rows[name]
        self.broken_names.discard(name)

    def end_list(self, version: str, *, future: bool) -> Iterator[None]:
        assert self._list is not None
        newer = {} if future else {name: row for name, row in self.rows.items() if _version(row) > int(version)}
        self.rows = {**self._list, **newer}
        self._list = None
        self.complete = True
        self.told.append(f"listed {version}{' future' * future}")
        return iter(())

    def report_oversized(self, metadata: ObjectMeta, length: int) -> None:
        self.told.append(f"oversized {metadata.name}: {length}")

    def report_broken(self, name: str, why: str) -> None:
        self.broken_names.add(name)
        self.rows.pop(name, None)
        self.told.append(f"broken {name}: {why}")

    def trouble(self, code: str, why: str) -> None:
        self.complete = False
        self.told.append(f"trouble {code}")

    def fine(self) -> None:
        self.complete = True
        self.told.append("fine")


def _version(obj: HasMetadata) -> int:
    return int(obj.metadata.resource_version)
