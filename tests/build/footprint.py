"""Counts what a kernel remembers: the entries of every container that can be reached from it."""

from __future__ import annotations

import functools
import gc
from collections import Counter, deque
from collections.abc import Mapping
from enum import Enum
from types import FunctionType, MethodType
from typing import Any

from haulout.kernel.kernel import Kernel

_LEAVES = (str, bytes, int, float, bool, type(None), type, FunctionType, MethodType, Enum)


def footprint(kernel: Kernel, **more: object) -> dict[str, int]:
    """Return the number of entries by place, such as `loop._due`, without empty places and what deciders keep.

    `more`: other objects that are counted, each by itself.
    """
    found: dict[str, int] = {}
    parts = {"store": kernel.store, "loop": kernel.loop, "actor": kernel.actor, **more}
    for name, part in parts.items():
        for attribute, value in vars(part).items():
            entries = _entries(value, {id(each) for each in parts.values()})
            if entries and attribute not in {"_deciders", "_actions"}:
                found[f"{name}.{attribute}"] = entries
    return found


def living() -> Counter[str]:
    """Return how many objects of each type of ours exist anywhere, apart from those in caches and in embedded clusters."""
    gc.unfreeze()
    for cache in gc.get_objects():
        if isinstance(cache, functools._lru_cache_wrapper) and _is_ours(cache.__module__):
            cache.cache_clear()
    gc.collect()
    types = Counter(type(each) for each in gc.get_objects())
    # Some types of C have no text as their module.
    return Counter(
        {
            f"{kind.__module__}.{kind.__qualname__}": count
            for kind, count in types.items()
            if _is_ours(str(kind.__module__))
        }
    )


def _is_ours(module: str) -> bool:
    """Whether a module is ours. The embedded cluster in which a test runs is not what it looks at."""
    return module.startswith("haulout.") and not module.startswith("haulout.embedded")


def _entries(value: Any, seen: set[int]) -> int:
    if isinstance(value, _LEAVES) or id(value) in seen:
        return 0
    seen.add(id(value))
    if isinstance(value, Mapping):
        return len(value) + sum(_entries(item, seen) for item in value.values())
    if isinstance(value, list | set | frozenset | deque):
        return len(value) + sum(_entries(item, seen) for item in value)
    if isinstance(value, tuple):
        return sum(_entries(item, seen) for item in value)
    if _is_ours(type(value).__module__) and hasattr(value, "__dict__"):
        return sum(_entries(item, seen) for item in vars(value).values())
    return 0
