"""The process of one forecast: reads what to plan from its standard input, writes how far it is and the result as lines."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from typing import Any

import click
import msgspec

from haulout.base.duration import parse as parse_duration
from haulout.base.patch import merge
from haulout.console.forecasts import Changes, News, Work
from haulout.embedded import Json, Resource
from haulout.kube.errors import KubeError, one_line
from haulout.plan.command import Objects, planned_document
from haulout.settings.settings import PlanSettings

# The console itself comes first, and the operator where it runs on the same computer.
NICENESS = 10
TELL_EVERY = 0.2
CHANGED = ("metadata", "spec")


def main() -> int:
    os.nice(NICENESS)
    work = msgspec.json.decode(sys.stdin.buffer.read(), type=Work)
    settings = PlanSettings(
        config=work.config,
        cluster=tuple(work.cluster.items()),
        maintain=work.changes.maintain,
        work_for=_seconds(work.changes.work_for),
    )
    try:
        document = planned_document(
            settings, lambda found, kinds: changed(found, kinds, work.changes), _Progress().tell
        )
    except click.ClickException as error:
        _say(News(error=one_line(error.message)))
    except KubeError as error:
        _say(News(error=one_line(f"the cluster cannot be read: {error}")))
    except Exception as error:  # noqa: BLE001 - the page has to hear of it, and nothing else does
        _say(News(error=one_line(f"{type(error).__name__}: {error}")))
    else:
        _say(News(document=msgspec.Raw(msgspec.json.encode(document))))
    return 0


def changed(found: Objects, kinds: Mapping[str, Resource], changes: Changes) -> Objects:
    """Return the objects of a plan with the changes in them. Raises ClickException for one that a plan cannot use."""
    places = {_place(resource, body): number for number, (resource, body) in enumerate(found)}
    result = list(found)
    for patch in changes.objects:
        kind = patch.get("kind")
        resource = kinds.get(kind) if isinstance(kind, str) else None
        metadata = patch.get("metadata")
        if resource is None or not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
            raise click.ClickException(
                f"a change has to name an object of a kind that a plan reads: {', '.join(kinds)}"
            )
        edit = {name: patch[name] for name in CHANGED if name in patch}
        number = places.get(_place(resource, patch))
        if number is None:
            result.append((resource, {"apiVersion": patch.get("apiVersion", ""), "kind": kind, **edit}))
        else:
            result[number] = (resource, merge(result[number][1], edit))
    return result


def _place(resource: Resource, body: Json) -> tuple[Resource, str, str]:
    metadata: Any = body.get("metadata") or {}
    return resource, str(metadata.get("namespace") or ""), str(metadata.get("name") or "")


def _seconds(text: str) -> float:
    return parse_duration(text).total_seconds() if text else 3600.0


class _Progress:
    """Tells how far the plan is, not more often than a page asks."""

    def __init__(self) -> None:
        self._told_at = 0.0

    def tell(self, what: str, share: float | None) -> None:
        now = time.monotonic()
        if now - self._told_at >= TELL_EVERY:
            self._told_at = now
            _say(News(what=what, share=share))


def _say(news: News) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(news) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    sys.exit(main())
