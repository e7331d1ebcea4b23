"""Selects what a support archive may contain: known fields of known kinds, and known settings. Pure (decision 0027).

A field that is not listed is left out, wherever it is, even if it looks harmless.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Mapping
from functools import cache
from typing import Any
from urllib.parse import urlsplit

import msgspec
import yaml

from haulout.base.url import without_secrets
from haulout.base.yaml import Mapping as YamlMapping
from haulout.base.yaml import Node, Scalar, Sequence, parse
from haulout.core.archive import (
    CONDITION,
    LABELLED_METADATA,
    METADATA,
    OWN_CONDITION,
    REFERENCE,
    SELECTOR,
    Archived,
    Each,
    Fields,
    Kept,
    values,
)
from haulout.core.setting import describe
from haulout.plugins.api import Check, Notifier, Trigger
from haulout.plugins.load import load_plugins
from haulout.settings.blocks import File, RuleBlock
from haulout.surfaces.registry import all_declarations

Json = dict[str, Any]

REMOVED = "(removed)"
# The longest text that is kept. No name, instant, quantity or reason is longer.
LONGEST = 256
# The most values of a configuration file, more than any needs. YAML aliases count each time that they are used.
MOST_SETTINGS = 20_000


# Annotations whose values we write or check. Surfaces declare further ones.
OWN_ANNOTATIONS = frozenset(
    {
        "haulout.dev/cordon",
        "haulout.dev/cordoned-by",
        "haulout.dev/drain",
        "haulout.dev/drain-started-at",
        "haulout.dev/priority",
        "haulout.dev/seen",
        "kubernetes.io/config.mirror",
    }
)
# Prefixes of labels whose values are kept: names of programs and places, by which pods are recognized.
PROGRAM_LABELS = (
    "app.kubernetes.io/",
    "kubernetes.io/",
    "topology.kubernetes.io/",
    "cluster.x-k8s.io/",
    "haulout.dev/",
)

_RAN = values("reason", "exitCode", "signal", "startedAt", "finishedAt")
_CONTAINER = values(
    "name",
    command=Kept.SIZE,
    args=Kept.SIZE,
    env=Kept.SIZE,
    envFrom=Kept.SIZE,
    resources={"requests": Kept.QUANTITIES, "limits": Kept.QUANTITIES},
)
_CONTAINER_STATUS = values(
    *("name", "ready", "started", "restartCount"),
    state={"running": _RAN, "waiting": _RAN, "terminated": _RAN},
    lastState={"terminated": _RAN},
)
_POD_SPEC = values(
    *("nodeName", "priority", "priorityClassName", "restartPolicy", "terminationGracePeriodSeconds", "hostNetwork"),
    tolerations=values("key", "operator", "effect", "tolerationSeconds"),
    volumes=values("name", emptyDir=values("medium", "sizeLimit"), persistentVolumeClaim=values("claimName")),
    containers=_CONTAINER,
    initContainers=_CONTAINER,
    ephemeralContainers=_CONTAINER,
)
_POD_STATUS = values(
    *("phase", "reason", "startTime", "qosClass", "nominatedNodeName"),
    conditions=CONDITION,
    containerStatuses=_CONTAINER_STATUS,
    initContainerStatuses=_CONTAINER_STATUS,
)
_WEBHOOKS: Fields = {
    "metadata": METADATA,
    "webhooks": values(
        *("name", "failurePolicy", "matchPolicy", "sideEffects", "timeoutSeconds", "admissionReviewVersions"),
        rules=values("apiGroups", "apiVersions", "operations", "resources", "scope"),
        clientConfig={
            "service": values("namespace", "name", "path", "port"),
            "url": Kept.SIZE,
            "caBundle": Kept.SIZE,
        },
    ),
}
# Kinds about which known reporters say nothing of workloads.
TOLD_IN_FULL = frozenset({"Node"})
# Parts of Kubernetes that report events about Nodes, and our own events beside those of surfaces.
REPORTERS = frozenset(
    {
        *("kubelet", "kube-proxy", "node-controller", "taint-eviction-controller"),
        *("cloud-node-controller", "cloud-node-lifecycle-controller", "haulout"),
    }
)
# Conditions of a Node that the kubelet and the node controllers write. Other programs may quote logs in theirs.
KUBELET_CONDITIONS = frozenset({"Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"})

COMMON_KINDS: Mapping[str, Fields] = {
    "Node": {
        "metadata": LABELLED_METADATA,
        "spec": values("unschedulable", "providerID", taints=values("key", "value", "effect", "timeAdded")),
        "status": {
            "conditions": OWN_CONDITION,
            "allocatable": Kept.QUANTITIES,
            "capacity": Kept.QUANTITIES,
            "addresses": values("type", "address"),
            "nodeInfo": values(
                *("kubeletVersion", "kernelVersion", "osImage", "containerRuntimeVersion", "architecture"),
                *("operatingSystem", "bootID", "kubeProxyVersion"),
            ),
        },
    },
    "CustomResourceDefinition": {
        "metadata": METADATA,
        "spec": values(
            *("group", "scope"),
            names=values("kind", "plural", "singular", "listKind", "shortNames"),
            versions=values("name", "served", "storage", "deprecated"),
        ),
        "status": values("storedVersions", conditions=CONDITION),
    },
    "ValidatingWebhookConfiguration": _WEBHOOKS,
    "MutatingWebhookConfiguration": _WEBHOOKS,
    "Pod": {"metadata": METADATA, "spec": _POD_SPEC, "status": _POD_STATUS},
    "PodDisruptionBudget": {
        "metadata": METADATA,
        "spec": values("minAvailable", "maxUnavailable", "unhealthyPodEvictionPolicy", selector=SELECTOR),
        "status": values(
            *("observedGeneration", "disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"),
            conditions=CONDITION,
        ),
    },
    "Lease": {
        "metadata": METADATA,
        "spec": values("holderIdentity", "leaseDurationSeconds", "acquireTime", "renewTime", "leaseTransitions"),
    },
    "Event": {
        "metadata": METADATA,
        **values(
            *("type", "reason", "action", "count", "firstTimestamp", "lastTimestamp", "eventTime"),
            *("reportingComponent", "reportingInstance"),
            message=Kept.SIZE,
            source=values("component", "host"),
            involvedObject=REFERENCE,
            related=REFERENCE,
            series=values("count", "lastObservedTime"),
        ),
    },
}

# Values of workloads' labels may be confidential, so pseudonyms replace them. Equal values have equal pseudonyms within
# one archive, so that a reader sees whether a selector matches.
_SALT = secrets.token_bytes(16)


@cache
def archived() -> dict[str, Archived]:
    """Return the kinds that surfaces declare for the archive, by kind. Kinds of one name in two groups are alike."""
    return {each.kind: each for each in all_archived()}


def all_archived() -> tuple[Archived, ...]:
    """Return the kinds that surfaces declare for the archive, in every group."""
    return tuple(each for surface in all_declarations() for each in surface.archive)


@cache
def kinds() -> dict[str, Fields]:
    """Return the fields that are kept, for every kind that an archive contains."""
    return {**COMMON_KINDS, **{kind: each.fields for kind, each in archived().items()}}


@cache
def kinds_with_harmless_events() -> frozenset[str]:
    """Return the kinds whose events keep their messages."""
    return TOLD_IN_FULL | {kind for kind, each in archived().items() if each.has_harmless_events}


@cache
def reporters() -> frozenset[str]:
    """Return the names under which events are reported whose messages are kept."""
    return REPORTERS | {surface.reporter for surface in all_declarations() if surface.reporter}


@cache
def quoting_events() -> frozenset[tuple[str, str]]:
    """Return the events of surfaces that quote users' programs, as reporter and reason."""
    return frozenset((surface.reporter, reason) for surface in all_declarations() for reason in surface.quoting_events)


@cache
def kept_annotations() -> frozenset[str]:
    """Return the annotations whose values are kept."""
    return OWN_ANNOTATIONS | {name for surface in all_declarations() for name in surface.kept_annotations}


@cache
def settings() -> frozenset[str]:
    """Return the names of settings whose texts are kept, such as names, rules and instants."""
    structs: list[type[msgspec.Struct]] = [
        File,
        RuleBlock,
        *(surface.settings for surface in all_declarations() if surface.settings is not None),
    ]
    found = [each for struct in structs for each in describe(struct)]
    own = {name for surface in all_declarations() for name in surface.kept_settings}
    return frozenset(own | {each.name for each in found if each.setting.words or each.setting.is_public})


@cache
def plugins() -> frozenset[str]:
    """Return the types of our own plugins. The settings of foreign plugins are unknown, and are left out."""
    registry = load_plugins()
    found: list[Check | Notifier | Trigger] = [
        *registry.checks.values(),
        *registry.notifiers.values(),
        *registry.triggers.values(),
    ]
    return frozenset(each.name for each in found if each.config.__module__.startswith("haulout.plugins."))


def kept_object(obj: Json, kind: str) -> Json:
    """Return the fields of a Kubernetes object that are known to be harmless."""
    fields: Fields = {"apiVersion": Kept.VALUE, **kinds()[kind]}
    if kind == "Event" and _is_harmless(obj):
        fields = {**fields, "message": Kept.VALUE}
    kept = {"kind": kind, **_fields(obj, fields)}
    if kind == "Node":
        for condition in _conditions(kept.get("status")):
            if condition.get("type") not in KUBELET_CONDITIONS:
                condition.pop("message", None)
    return kept


def _conditions(status: Any) -> list[Json]:
    """Return the conditions of a status that may have any shape."""
    found = status.get("conditions") if isinstance(status, dict) else None
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _is_harmless(event: Json) -> bool:
    """Whether the message of an event is kept: it is about a known kind, and each reporter that it names is known."""
    about, source = event.get("involvedObject"), event.get("source")
    if not isinstance(about, dict) or about.get("kind") not in kinds_with_harmless_events():
        return False
    named = {event.get("reportingComponent"), source.get("component") if isinstance(source, dict) else source} - {
        None,
        "",
    }
    if not named or not named <= reporters():
        return False
    return not any((reporter, event.get("reason")) in quoting_events() for reporter in named)


def _fields(value: Json, fields: Fields) -> Json:
    found = {name: _kept(value[name], how) for name, how in fields.items() if value.get(name) is not None}
    return {name: each for name, each in found.items() if each is not None}


def _kept(value: Any, how: Kept | Each | Fields) -> Any:
    match how:
        case Each():
            return {str(name)[:LONGEST]: _kept(each, how.fields) for name, each in _items(value)}
        case Kept.VALUE:
            return (
                [each for each in map(_scalar, value) if each is not None]
                if isinstance(value, list)
                else _scalar(value)
            )
        case Kept.SIZE:
            return _size(value)
        case Kept.LABELS:
            return {str(name): _scalar(each) for name, each in _items(value)}
        case Kept.PSEUDONYMS:
            if isinstance(value, list):
                return [_pseudonym(each) for each in value]
            return {str(name): _label(str(name), each) for name, each in _items(value)}
        case Kept.ANNOTATIONS:
            known = {name: each for name, each in _items(value) if name in kept_annotations()}
            others = len(value) - len(known)
            return {**known, **({"(others)": f"{others} removed"} if others else {})}
        case Kept.QUANTITIES:
            return {str(name): each for name, each in _items(value) if _QUANTITY.fullmatch(str(each))}
        case _ if isinstance(value, list):
            return [_fields(each, how) for each in value if isinstance(each, dict)]
        case _:
            return _fields(value, how) if isinstance(value, dict) else None


_QUANTITY = re.compile(r"[0-9.]{1,20}([KMGTPE]i?|[mkunµ]|[eE][+-]?[0-9]{1,3})?")


def _items(value: Any) -> list[tuple[str, Any]]:
    return list(value.items()) if isinstance(value, dict) else []


def _scalar(value: Any) -> Any:
    if isinstance(value, str):
        return without_secrets(value[:LONGEST])
    return value if isinstance(value, int | float) else None


def _size(value: Any) -> str:
    if isinstance(value, str):
        return f"(removed: {len(value)} characters)"
    return f"(removed: {len(value)})" if isinstance(value, list | dict) else REMOVED


def _label(name: str, value: Any) -> Any:
    return _scalar(value) if name.startswith(PROGRAM_LABELS) else _pseudonym(value)


def _pseudonym(value: Any) -> str:
    return f"#{hashlib.blake2s(str(value).encode(errors='replace'), key=_SALT, digest_size=4).hexdigest()}"


# Configuration

# Users choose the names of labels, so every name is kept below these fields.
LABEL_MAPS = ("matchLabels",)
# Settings that contain Kubernetes objects. Their fields may have the names of our settings: `value` may be that of an
# environment variable.
TEMPLATES = ("template",)
DURATION = re.compile(r"([0-9]{1,9}(\.[0-9]{1,9})?(ns|us|µs|ms|s|m|h|d))+")
# A reference to a variable does not contain the secret. One with a default value does, and does not match.
VARIABLE = re.compile(r"\$\{?[A-Za-z_][A-Za-z0-9_]{0,63}\}?")
_HOST = re.compile(r"[A-Za-z0-9.:\[\]-]{1,260}")
SECRET_NAME = re.compile(r"(pass|pwd|token|secret|credential|private|auth|hook$|cookie|signature|user)", re.IGNORECASE)


class TooLarge(Exception):
    """A configuration file has too many values, most of them by YAML aliases."""


class _Room(msgspec.Struct):
    remaining: int = MOST_SETTINGS

    def take(self) -> None:
        self.remaining -= 1
        if self.remaining < 0:
            raise TooLarge(f"it has more than {MOST_SETTINGS} values")


def kept_settings(data: bytes) -> str:
    """Return a configuration file as YAML with only known settings and no comments. Raises YamlError and TooLarge."""
    return yaml.safe_dump(_setting(parse(data, any_keys=True), "", _Room()), sort_keys=False, width=120)


def _setting(node: Node | None, name: str, room: _Room) -> Any:
    room.take()
    match node:
        case YamlMapping() if name in TEMPLATES:
            return f"{REMOVED[:-1]}: a template of Kubernetes)"
        case YamlMapping():
            return _settings(node, name, room)
        case Sequence():
            return [_setting(each, name, room) for each in node.items]
        case Scalar():
            return _text(node.value, name)
        case _:
            return None


def _settings(node: YamlMapping, name: str, room: _Room) -> Any:
    found = dict(node.entries)
    kind = found.get("type")
    is_foreign = "config" in found and isinstance(kind, Scalar) and kind.value not in plugins()
    if is_foreign:
        room.take()
        found = {key: value for key, value in found.items() if key != "config"}
    below = name if name in LABEL_MAPS else ""
    made = {without_secrets(key[:LONGEST]): _setting(value, below or key, room) for key, value in found.items()}
    return {**made, "config": f"{REMOVED[:-1]}: of a plugin that is not ours)"} if is_foreign else made


def _text(value: Any, name: str) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return REMOVED if SECRET_NAME.search(name) else value
    if VARIABLE.fullmatch(value) or DURATION.fullmatch(value) or not value:
        return value
    if "://" in value and name in settings():
        return _origin(value)
    return value[:LONGEST] if name in settings() or name in LABEL_MAPS else _size(value)


def _origin(url: str) -> str:
    """Return a URL without its path and query, which can be as secret as a password."""
    try:
        parts = urlsplit(url)
        host = parts.hostname if parts.port is None else f"{parts.hostname}:{parts.port}"
    except ValueError:
        return _size(url)
    rest = f"/{REMOVED}" if parts.path.strip("/") or parts.query or parts.fragment else parts.path
    return f"{parts.scheme}://{host}{rest}" if _HOST.fullmatch(host or "") else _size(url)
