"""The rule of the webhook of NotifyMaintenance: the checks of the original, in its order and with its messages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from haulout.cluster.key import node_key
from haulout.cluster.view import View
from haulout.core.admission import (
    ALLOWED,
    AdmissionRequest,
    Items,
    Question,
    Unanswered,
    Unreadable,
    Verdict,
    Webhook,
    denial,
    unreadable,
)
from haulout.model.meta import PartialObject
from haulout.surfaces.notify.wire import (
    API_VERSION,
    CLIENT,
    DEFAULTING_PATH,
    DEFAULTING_WEBHOOK,
    NOTICES_OF_NODE,
    PLANNED,
    PLURAL,
    READY,
    REGISTRATION,
    UNPLANNED,
    VALIDATION,
    WEBHOOK,
    WEBHOOK_PATH,
    NoticeRow,
    Spec,
)

# Allowed values of each annotation, and final values that cannot be changed, in the order in which they are checked.
VALUES = {
    CLIENT: ("incomplete", "inprogress", "complete"),
    VALIDATION: ("inprogress", "validated", "failed"),
    READY: ("true", "false"),
}
FINAL = {CLIENT: ("incomplete", "complete"), VALIDATION: ("validated", "failed"), READY: ("true",)}
# A change of one maintenance makes all others of its node run again. The original has no limit.
MOST_ON_A_NODE = 100
_LABEL_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


class _Annotations(msgspec.Struct, frozen=True):
    """The annotations that the rule reads. Others are skipped, because there may be any number of them."""

    client: str | None = msgspec.field(default=None, name=CLIENT)
    validation: str | None = msgspec.field(default=None, name=VALIDATION)
    ready: str | None = msgspec.field(default=None, name=READY)


class _Meta(msgspec.Struct, frozen=True):
    annotations: _Annotations | None = None


class ReviewedNotice(msgspec.Struct, frozen=True):
    """The parts of a NotifyMaintenance that the rule reads."""

    metadata: _Meta = _Meta()
    spec: Spec | None = None

    @property
    def wanted(self) -> Spec:
        return self.spec or Spec()

    @property
    def annotations(self) -> Mapping[str, str]:
        found = self.metadata.annotations or _Annotations()
        named = {CLIENT: found.client, VALIDATION: found.validation, READY: found.ready}
        return {name: value for name, value in named.items() if value is not None}


class _NoMeta(msgspec.Struct, frozen=True):
    """Metadata of which nothing is decoded."""


class _Identity(msgspec.Struct, frozen=True, rename="camel"):
    node_object: str = ""
    maintenance_id: str = msgspec.field(default="", name="maintenanceID")


class _Listed(msgspec.Struct, frozen=True):
    """A NotifyMaintenance in the list of all. Its other texts are not decoded, because there may be many of them."""

    metadata: _NoMeta = _NoMeta()
    spec: _Identity | None = None


LIST = Question(f"/apis/{API_VERSION}/{PLURAL}", _Listed, lists=True)


def webhooks() -> tuple[Webhook, ...]:
    """Return the webhook, and the original's defaulting handler, which some clusters register themselves."""
    return (
        Webhook(WEBHOOK, WEBHOOK_PATH, admit, ReviewedNotice, REGISTRATION),
        Webhook(DEFAULTING_WEBHOOK, DEFAULTING_PATH, set_no_defaults, ReviewedNotice, mutates=True),
    )


def set_no_defaults(request: AdmissionRequest, view: View) -> Verdict:
    """Allow every request unchanged. Only the validating webhook refuses objects."""
    return ALLOWED


def admit(request: AdmissionRequest, view: View) -> Verdict:
    if request.operation not in ("CREATE", "UPDATE"):
        return ALLOWED
    new = request.object
    if not isinstance(new, ReviewedNotice):
        return unreadable(new.why if isinstance(new, Unreadable) else "there is no object to decode")
    if request.operation == "CREATE":
        return _spec(new) or _usable(new) or _values(new) or _create(new, request, view)
    old = request.old_object
    if not isinstance(old, ReviewedNotice):
        return unreadable(old.why if isinstance(old, Unreadable) else "there is no object to decode")
    return _spec(new) or _values(new) or _transitions(old, new) or _immutable(old, new) or ALLOWED


def _spec(new: ReviewedNotice) -> Verdict | None:
    problem = spec_problem(new.wanted)
    return denial(problem) if problem else None


def spec_problem(spec: Spec) -> str:
    """Return the first problem of a spec; empty if it has none."""
    if not spec.maintenance_id:
        return "please specify a MaintenanceID in .spec.MaintenanceID"
    if not spec.node_object:
        return "please specify an object in .spec.objects"
    if spec.maintenance_type not in (PLANNED, UNPLANNED):
        return "MaintenanceType can only be planned or unplanned in .spec.MaintenanceType"
    return ""


def _usable(new: ReviewedNotice) -> Verdict | None:
    problem = id_problem(new.wanted)
    return denial(problem) if problem else None


def id_problem(spec: Spec) -> str:
    """Return why an ID cannot be the name of a label; empty if it can. The original accepts any ID."""
    name = spec.maintenance_id
    if _LABEL_NAME.fullmatch(name):
        return ""
    return (
        f'spec.maintenanceID "{name}" is not a valid label name: it must be at most 63 characters, start and end with '
        "an alphanumeric, and contain only alphanumerics, '-', '_' and '.'"
    )


def _values(new: ReviewedNotice) -> Verdict | None:
    for key, known in VALUES.items():
        value = new.annotations.get(key)
        if value is not None and value not in known:
            return denial(f"annotation value {value} is not allowed for key {key}")
    return None


def _transitions(old: ReviewedNotice, new: ReviewedNotice) -> Verdict | None:
    for key, final in FINAL.items():
        before, after = old.annotations.get(key), new.annotations.get(key)
        if after is not None and before in final and before != after:
            return denial(
                f"annotation value for {key} cannot be modified from a final state value. "
                f"Final State value: {before}. Attempted to set value: {after}"
            )
    return None


def _immutable(old: ReviewedNotice, new: ReviewedNotice) -> Verdict | None:
    if old.wanted.node_object != new.wanted.node_object:
        return denial("change of .spec.object in NotifyMaintenance is not allowed")
    if old.wanted.maintenance_id != new.wanted.maintenance_id:
        return denial("change of .spec.maintenanceID in NotifyMaintenance is not allowed")
    return None


def _create(new: ReviewedNotice, request: AdmissionRequest, view: View) -> Verdict:
    spec = new.wanted
    named = _configmap(request.namespace, spec.metadata_configmap)
    questions = (LIST, *([named] if named is not None else []))
    if not all(question in request.answers for question in questions):
        return Verdict(allowed=False, code=500, reason="InternalError", questions=questions)
    known = _maintenances(spec, request, view)
    if spec.maintenance_id in known:
        return denial(
            f"nofityMainenance objects with the same maintenanceID ({spec.maintenance_id}) "
            f"cannot have the same nodeObject ({spec.node_object})"
        )
    if len(known) >= MOST_ON_A_NODE:
        return denial(f"node {spec.node_object} has {len(known)} maintenances already, and may have {MOST_ON_A_NODE}")
    # Without an answer no request is refused, because the original's role does not allow it to read ConfigMaps.
    if spec.metadata_configmap and (named is None or request.answers[named] is None):
        return _not_found("ConfigMap", spec.metadata_configmap)
    if view.node(spec.node_object) is None:
        missing = _not_found("Node", spec.node_object)
        return msgspec.structs.replace(missing, doubts=(node_key(spec.node_object),))
    return ALLOWED


def _maintenances(spec: Spec, request: AdmissionRequest, view: View) -> list[str]:
    """Return the IDs of the maintenances on the node.

    They come from a live list, because the watch may not have shown a new object yet. Without a list, the rows count.
    """
    listed = request.answers[LIST]
    if isinstance(listed, Items):
        specs: Iterator[_Identity] = (each.spec or _Identity() for each in listed.objects)
        return [each.maintenance_id for each in specs if each.node_object == spec.node_object]
    assert listed is None or isinstance(listed, Unanswered)
    return [row.maintenance for row in view.rows(NOTICES_OF_NODE, spec.node_object, NoticeRow)]


def _configmap(namespace: str, name: str) -> Question | None:
    """Return the question whether a ConfigMap exists; None if no ConfigMap can have that name."""
    if not _OBJECT_NAME.fullmatch(name) or not _OBJECT_NAME.fullmatch(namespace):
        return None
    return Question(f"/api/v1/namespaces/{namespace}/configmaps/{name}", PartialObject)


def _not_found(kind: str, name: str) -> Verdict:
    return Verdict(allowed=False, code=404, reason="NotFound", message=f'{kind} "{name}" not found')
