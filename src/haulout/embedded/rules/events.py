"""Checks of Events. Both API groups share one storage, in the form of the core group."""

from __future__ import annotations

from haulout.embedded.interfaces import Json
from haulout.embedded.rules import metadata
from haulout.embedded.rules.refusals import Problem, missing, wrong

# Core's name -> events.k8s.io's name.
_RENAMED = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_BACK = {new: core for core, new in _RENAMED.items()}
_OPTIONAL_HERE = ("reportingController", "reportingInstance")


def to_new(event: Json) -> Json:
    result = {_RENAMED.get(name, name): value for name, value in event.items()}
    for name in _OPTIONAL_HERE:
        if not result.get(name):
            result.pop(name, None)
    result["apiVersion"], result["kind"] = "events.k8s.io/v1", "Event"
    return result


def to_core(event: Json) -> Json:
    result = {_BACK.get(name, name): value for name, value in event.items()}
    for name in ("reportingComponent", "reportingInstance"):
        result.setdefault(name, "")
    result["apiVersion"], result["kind"] = "v1", "Event"
    return result


def check_core(event: Json) -> list[Problem]:
    return _check(event, "reportingComponent")


def check_new(event: Json) -> list[Problem]:
    """Check a new event of events.k8s.io, given in the form of the core group."""
    problems = _check(event, "reportingController")
    series = event.get("series")
    if series is not None and series.get("count", 0) < 2:
        problems.append(wrong("series.count", "", "should be at least 2"))
    if not event.get("eventTime"):
        problems.append(missing("eventTime"))
    if event.get("type") not in {"Normal", "Warning"}:
        problems.append(wrong("type", "", f"has invalid value: {event.get('type', '')}"))
    for member in ("firstTimestamp", "lastTimestamp", "count", "source"):
        if event.get(member):
            problems.append(wrong(member, "", "needs to be unset"))
    return problems


def _check(event: Json, reporter: str) -> list[Problem]:
    """Check what both groups require. Only events with an `eventTime` must be complete."""
    about, where = event["involvedObject"].get("namespace", ""), event["metadata"].get("namespace", "")
    strange = wrong("involvedObject.namespace", about, "does not match event.namespace")
    if not event.get("eventTime"):
        return [strange] if (about or "default") != where else []
    problems = [strange] if not about and where not in {"default", "kube-system"} else []
    component = event.get("reportingComponent", "")
    if not component:
        problems.append(missing(reporter))
    problems += [wrong(reporter, component, text) for text in metadata.label_key(component)]
    for member in ("reportingInstance", "action", "reason"):
        value = event.get(member, "")
        if not value:
            problems.append(missing(member))
        elif len(value) > 128:
            problems.append(wrong(member, "", "can have at most 128 characters"))
    if len(event.get("message", "").encode()) > 1024:
        problems.append(wrong("message", "", "can have at most 1024 characters"))
    return problems


_FIXED = (
    "involvedObject",
    "reason",
    "message",
    "source",
    "firstTimestamp",
    "lastTimestamp",
    "count",
    "type",
    "eventTime",
    "action",
    "related",
    "reportingComponent",
    "reportingInstance",
)


def recheck_new(event: Json, old: Json) -> list[Problem]:
    """Check a changed event of events.k8s.io: only its series may change."""
    return [
        wrong(_RENAMED[name] if name == "reportingComponent" else name, event.get(name), "field is immutable")
        for name in _FIXED
        if event.get(name) != old.get(name)
    ]
