"""An index of label selectors that finds those matching a set of labels without trying all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from haulout.base.selector import Selector
from haulout.embedded.controllers.object_fields import Key


class Selectors:
    """Label selectors by the key of the object that has them. A lookup covers the selectors in one namespace."""

    def __init__(self) -> None:
        self._selectors: dict[Key, Selector] = {}
        self._buckets: dict[tuple[str, str, str], dict[Key, Selector]] = {}

    def set(self, key: Key, selector: Selector) -> None:
        if self._selectors.get(key) == selector:
            return
        self.remove(key)
        self._selectors[key] = selector
        self._buckets.setdefault(_bucket(key[0], selector), {})[key] = selector

    def get(self, key: Key) -> Selector | None:
        return self._selectors.get(key)

    def remove(self, key: Key) -> None:
        if selector := self._selectors.pop(key, None):
            bucket = _bucket(key[0], selector)
            self._buckets[bucket].pop(key)
            if not self._buckets[bucket]:
                del self._buckets[bucket]

    def matching(self, namespace: str, labels: Mapping[str, str]) -> Iterator[Key]:
        if not self._buckets:
            return
        for name, value in ("", ""), *labels.items():
            for key, selector in self._buckets.get((namespace, name, value), {}).items():
                if selector.matches(labels):
                    yield key


def _bucket(namespace: str, selector: Selector) -> tuple[str, str, str]:
    """Return the namespace and a label that every match must carry; the label is empty if there is none."""
    # min(): any label would do, but it has to be the same each time.
    name, value = min(selector.equalities().items(), default=("", ""))
    return namespace, name, value
