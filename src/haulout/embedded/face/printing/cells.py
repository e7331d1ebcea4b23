"""The texts in cells of Tables, such as ages, formatted as the real server formats them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from haulout.base.selector import SelectorError, from_object
from haulout.embedded.interfaces import Json

_STEP = re.compile(r"\.([\w\-/]+)|\['([^']+)'\]|\[\?\(@\.(\w+)\s*==\s*[\"']([^\"']*)[\"']\)\]|\[(\d+|\*)\]|(\\\.)")


def age(text: str | None, now: datetime) -> str:
    """Return how long ago a timestamp of an object was."""
    if not text:
        return "<unknown>"
    return span(now - instant(text))


def instant(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def span(delta: timedelta) -> str:
    """Return a span in words, as HumanDuration (apimachinery, pkg/util/duration)."""
    seconds = int(delta.total_seconds())
    if seconds < 0:
        return "0s" if seconds >= -1 else "<invalid>"
    minutes, hours = seconds // 60, seconds // 3600
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return _two(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if hours < 24 * 8:
        return _two(hours // 24, "d", hours % 24, "h")
    days = hours // 24
    if days < 365 * 2:
        return f"{days}d"
    if days < 365 * 8:
        return _two(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _two(large: int, unit: str, small: int, small_unit: str) -> str:
    return f"{large}{unit}{small}{small_unit}" if small else f"{large}{unit}"


def selector(value: Json | None) -> str:
    if value is None:
        return "<none>"
    try:
        return str(from_object(value)) or "<none>"
    except SelectorError:
        return "<error>"


def containers(spec: Json) -> tuple[str, str]:
    found = spec.get("containers") or []
    return ",".join(each["name"] for each in found), ",".join(each.get("image", "") for each in found)


def values_at(obj: Any, path: str) -> list[Any]:
    """Return the values at a JSON path of a printer column: members, indexes and one equality filter."""
    found, at = [obj], 0
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None:
            return []
        at = step.end()
        name = step[1] or step[2]
        if name is not None:
            found = [each[name] for each in found if isinstance(each, dict) and name in each]
        elif step[3] is not None:
            found = [
                i for each in found for i in _items(each) if isinstance(i, dict) and str(i.get(step[3])) == step[4]
            ]
        elif step[5] == "*":
            found = [item for each in found for item in _items(each)]
        elif step[5] is not None:
            found = [_items(each)[int(step[5])] for each in found if len(_items(each)) > int(step[5])]
    return found


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else list(value.values()) if isinstance(value, dict) else []
