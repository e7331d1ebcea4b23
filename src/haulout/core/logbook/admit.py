"""The rule of the webhook that notes who asks for a maintenance. A value that others write is replaced (decision 0178)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

import msgspec

from haulout.cluster.rows import Value
from haulout.cluster.view import View
from haulout.core.admission import ALLOWED, AdmissionRequest, Verdict, Webhook
from haulout.core.budgets.declare import REQUESTED_BY_WEBHOOKS
from haulout.core.logbook.options import KEY_NAME, NAME, LogbookOptions
from haulout.core.logbook.requester import note_of, shown_name
from haulout.core.logbook.wire import REQUEST_PROOF, REQUESTED_BY
from haulout.model.node import RequestLabels

NOTES = (REQUESTED_BY, REQUEST_PROOF)


class _Annotations(msgspec.Struct, frozen=True):
    """The annotations that the rule reads."""

    requested_by: str | None = msgspec.field(default=None, name=REQUESTED_BY)
    proof: str | None = msgspec.field(default=None, name=REQUEST_PROOF)

    @property
    def values(self) -> dict[str, str | None]:
        return {REQUESTED_BY: self.requested_by, REQUEST_PROOF: self.proof}


class _Meta(msgspec.Struct, frozen=True):
    annotations: _Annotations | None = None
    labels: RequestLabels | None = None


class ReviewedObject(msgspec.Struct, frozen=True):
    """The parts of an object that the rule reads."""

    metadata: _Meta = _Meta()


def webhooks(now: Callable[[], datetime]) -> tuple[Webhook, ...]:
    """Return the webhooks that note who asks. `now`: the clock, because the proof names the instant."""

    def rule(request: AdmissionRequest, view: View) -> Verdict:
        return judge(request, view, now())

    return tuple(
        Webhook(each.name, each.path, rule, ReviewedObject, each.configuration, mutates=True, rules=each.rules)
        for each in REQUESTED_BY_WEBHOOKS
    )


def judge(request: AdmissionRequest, view: View, now: datetime) -> Verdict:
    """Return the verdict, which allows every request and corrects what it says about who asks."""
    after = request.object
    if not isinstance(after, ReviewedObject):
        return ALLOWED
    before = request.old_object if isinstance(request.old_object, ReviewedObject) else ReviewedObject()
    written = (after.metadata.annotations or _Annotations()).values
    known = (before.metadata.annotations or _Annotations()).values
    wanted: Mapping[str, str | None] = known
    if request.kind == "Node":
        labels = {} if after.metadata.labels is None else after.metadata.labels.values
        former = {} if before.metadata.labels is None else before.metadata.labels.values
        changed = {name: labels.get(name) for name in {*labels, *former} if labels.get(name) != former.get(name)}
        asked = sorted(f"{name}={value}" for name, value in changed.items() if value)
        if asked:
            wanted = _note(request, view, asked[0], now)
        elif changed:
            wanted = dict.fromkeys(NOTES)
    elif request.operation == "CREATE":
        wanted = _note(request, view, "", now)
    patch = tuple(_operations(written, wanted, has_annotations=after.metadata.annotations is not None))
    return Verdict(allowed=True, patch=patch)


def _note(request: AdmissionRequest, view: View, asked: str, now: datetime) -> Mapping[str, str | None]:
    """Return the annotations that note the user of a request; none where nothing may be noted."""
    setting, key = view.config(NAME), _value(view.config(KEY_NAME))
    options = setting.value if setting is not None else None
    if not isinstance(options, LogbookOptions) or not isinstance(key, bytes):
        return dict.fromkeys(NOTES)
    name = shown_name(request.user, options.people, key)
    if not name:
        return dict.fromkeys(NOTES)
    return note_of(key, (request.kind, request.namespace, request.name), asked, name, now)


def _value(row: Value | None) -> Any:
    return row.value if row is not None else None


def _operations(
    written: Mapping[str, str | None], wanted: Mapping[str, str | None], *, has_annotations: bool
) -> Iterator[dict[str, Any]]:
    """Yield the operations of a JSON patch that make the annotations as they should be."""
    if not has_annotations and any(wanted.values()):
        yield {"op": "add", "path": "/metadata/annotations", "value": {}}
    for name in NOTES:
        path = f"/metadata/annotations/{name.replace('~', '~0').replace('/', '~1')}"
        if wanted.get(name) is not None and wanted.get(name) != written.get(name):
            yield {"op": "add", "path": path, "value": wanted[name]}
        elif wanted.get(name) is None and written.get(name) is not None:
            yield {"op": "remove", "path": path}
