"""The pauses of a fleet, as `status` shows them in its first lines."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Any

import msgspec

from haulout.base import bounds
from haulout.base.spans import span_text
from haulout.cluster.key import Key
from haulout.cluster.project import Resource
from haulout.cluster.rows import Value
from haulout.cluster.store import Store
from haulout.cluster.view import FACT, View
from haulout.core.declaration import Declaration
from haulout.core.logbook.account import stored_instant
from haulout.core.pause import (
    ANNOTATION as PAUSED,
)
from haulout.core.pause import (
    BUDGET,
    LONGEST_AUTHOR,
    BudgetPause,
    Pause,
    all_pauses,
    name_for_people,
    pauses_of_budgets,
)
from haulout.kube.errors import KubeError
from haulout.kube.transport import Transport

# The authors of so many pauses are read. People who stop more than that at once do so by one NodeDisruptionBudget.
MOST_AUTHORS = 50


class PauseState(msgspec.Struct, frozen=True):
    """A pause. `what`: the nodes or the object that it stops. `by`, `since`: who paused it and when, where that is known.

    `act`: the command that ends it.
    """

    what: str
    reason: str
    by: str = ""
    since: datetime | None = None
    act: str = ""


class PauseAuthor(msgspec.Struct, frozen=True):
    """The client that wrote a pause which does not say so itself, and when. `reason`: that of the pause."""

    reason: str
    by: str = ""
    at: datetime | None = None


def pauses_in(store: Store, declarations: Sequence[Declaration]) -> tuple[PauseState, ...]:
    """Return all pauses of the home cluster, those of many nodes first."""
    whats = {each.pause.subject: _of_budget(each) for each in pauses_of_budgets(View(store))}
    found = (_with_author(store, each) for each in all_pauses(store, _kinds(declarations)))
    return tuple(
        PauseState(whats.get(each.subject, name_for_people(each.subject)), each.reason, each.by, each.at, each.command)
        for each in found
    )


async def know_pause_authors(
    store: Store, declarations: Sequence[Declaration], resources: Iterable[Resource], transport: Transport
) -> None:
    """Write into the store who wrote pauses that do not say so, such as those by kubectl, and when.

    The API server notes it in `managedFields`, which no row keeps. An object that cannot be read has no known author.
    """
    by_kind = {each.kind: each for each in resources}
    for pause in islice(all_pauses(store, _kinds(declarations)), MOST_AUTHORS):
        key, resource = _author_key(pause.subject), by_kind.get(pause.subject.kind)
        if pause.by or pause.at is not None or resource is None or _known(store, pause) is not None:
            continue
        author = PauseAuthor(pause.reason)
        with contextlib.suppress(KubeError, msgspec.DecodeError):
            reply = await transport.request("GET", resource.object_path(pause.subject))
            author = _author(msgspec.json.decode(reply.body), pause)
        store.write(Value(key=key, value=author, state="fresh"))


def _kinds(declarations: Sequence[Declaration]) -> tuple[str, ...]:
    return ("Node", *(kind for each in declarations for kind in each.explains))


def _author_key(subject: Key) -> Key:
    return Key("", FACT, "pause-author", str(subject))


def _known(store: Store, pause: Pause) -> PauseAuthor | None:
    """Return the author of a pause as it was read earlier."""
    row = store.row(_author_key(pause.subject))
    author = row.value if isinstance(row, Value) else None
    return author if isinstance(author, PauseAuthor) and author.reason == pause.reason else None


def _with_author(store: Store, pause: Pause) -> Pause:
    author = _known(store, pause)
    if author is None or pause.by or pause.at is not None:
        return pause
    return msgspec.structs.replace(pause, by=author.by, at=author.at)


def _author(found: Any, pause: Pause) -> PauseAuthor:
    """Return who wrote a pause, from the managed fields of its object. The entry's time may be after the pause."""
    fields = ("f:spec", "f:paused") if pause.subject.kind == BUDGET else ("f:metadata", "f:annotations", f"f:{PAUSED}")
    metadata = found.get("metadata") if isinstance(found, dict) else None
    noted = metadata.get("managedFields") if isinstance(metadata, dict) else None
    entries = noted if isinstance(noted, list) else []
    owners = [each for each in entries if isinstance(each, dict) and _owns(each.get("fieldsV1"), fields)]
    if not owners:
        return PauseAuthor(pause.reason)
    newest = max(owners, key=lambda each: str(each.get("time") or ""))
    by = bounds.text(str(newest.get("manager") or ""), LONGEST_AUTHOR)
    return PauseAuthor(pause.reason, by, stored_instant(str(newest.get("time") or "")))


def _owns(fields: Any, path: Iterable[str]) -> bool:
    for name in path:
        if not isinstance(fields, dict) or name not in fields:
            return False
        fields = fields[name]
    return True


def pause_lines(pauses: Iterable[PauseState], now: datetime) -> Iterator[str]:
    """Yield a line for each pause."""
    for each in pauses:
        author = f" by {each.by}" if each.by else ""
        since = f" since {each.since:%Y-%m-%d %H:%M} UTC ({span_text(now - each.since)})" if each.since else ""
        yield f"PAUSED: {each.what}{author}{since}: {each.reason or 'no reason is given'} (end it: {each.act})"


def _of_budget(found: BudgetPause) -> str:
    nodes = "all nodes" if found.is_of_all else f"nodes with {found.selector}"
    return f"{nodes} ({name_for_people(found.pause.subject)})"
