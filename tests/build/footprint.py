"""How much a kernel remembers: every entry of every container that can be reached from it."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from enum import Enum
from types import FunctionType, MethodType
from typing import Any

from haulout.runtime.kernel import Kernel

_LEAVES = (str, bytes, int, float, bool, type(None), type, FunctionType, MethodType, Enum)


def footprint(kernel: Kernel) -> dict[str, int]:
    """Entries by place, where there are any: `loop._timers` and the like. What the deciders keep is theirs."""
    found: dict[str, int] = {}
    for name, part in (("store", kernel.store), ("loop", kernel.loop), ("actor", kernel.actor)):
        for attribute, value in vars(part).items():
            entries = _entries(value, {id(kernel.store), id(kernel.loop), id(kernel.actor)})
            if entries and attribute not in {"_deciders", "_actions"}:
                found[f"{name}.{attribute}"] = entries
    return found


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
    if type(value).__module__.startswith("haulout.") and hasattr(value, "__dict__"):
        return sum(_entries(item, seen) for item in vars(value).values())
    return 0
