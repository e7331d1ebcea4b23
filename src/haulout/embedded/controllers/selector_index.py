"""An index of label selectors that finds those matching a set of labels without trying all of them."""

from __future__ import annotations

from collections.abc import Mapping

from haulout.base.selector import Selector
from haulout.embedded.controllers.object_fields import Key

_NO_LABEL = ("", "")
_NOTHING: Mapping[Key, Selector] = {}


class Selectors:
    """Label selectors by the key of the object that has them. A lookup covers the selectors in one namespace."""

    def __init__(self) -> None:
        self._selectors: dict[Key, Selector] = {}
        # By namespace, then by a label that every match must carry.
        self._buckets: dict[str, dict[tuple[str, str], dict[Key, Selector]]] = {}

    def set(self, key: Key, selector: Selector) -> None:
        if self._selectors.get(key) == selector:
            return
        self.remove(key)
        self._selectors[key] = selector
        self._buckets.setdefault(key[0], {}).setdefault(_label(selector), {})[key] = selector

    def get(self, key: Key) -> Selector | None:
        return self._selectors.get(key)

    def remove(self, key: Key) -> None:
        if selector := self._selectors.pop(key, None):
            buckets, label = self._buckets[key[0]], _label(selector)
            del buckets[label][key]
            if not buckets[label]:
                del buckets[label]
            if not buckets:
                del self._buckets[key[0]]

    def matching(self, namespace: str, labels: Mapping[str, str]) -> list[Key]:
        buckets = self._buckets.get(namespace)
        if buckets is None:
            return []
        found: list[Key] = []
        for label in (_NO_LABEL, *labels.items()):
            for key, selector in buckets.get(label, _NOTHING).items():
                if selector.matches(labels):
                    found.append(key)
        return found


def _label(selector: Selector) -> tuple[str, str]:
    """Return a label that every match must carry; an empty one if there is none."""
    # min(): any label would do, but it has to be the same each time.
    return min(selector.equalities().items(), default=_NO_LABEL)
