"""What may leave the house in a support archive: known fields of known kinds, and known settings. Pure.

Nothing is kept because it looks harmless. A field that is not named here is left out, wherever it stands.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Mapping
from enum import Enum
from typing import Any
from urllib.parse import urlsplit

import msgspec
import yaml

from haulout.base.url import without_secrets
from haulout.base.yaml import Mapping as YamlMapping
from haulout.base.yaml import Node, Scalar, Sequence, parse

Json = dict[str, Any]

REMOVED = "(removed)"
# No name, instant, quantity or reason is longer.
LONGEST = 256
# More than any configuration has. Aliases count each time that they are used.
MOST_SETTINGS = 20_000


class Kept(Enum):
    """What is kept of a field: a plain value; how large it is; a map of labels; known annotations; a map of numbers."""

    VALUE = "value"
    SIZE = "size"
    LABELS = "labels"
    PSEUDONYMS = "pseudonyms"
    ANNOTATIONS = "annotations"
    QUANTITIES = "quantities"


Fields = Mapping[str, "Kept | Fields"]


def _plain(*names: str, **more: Kept | Fields) -> Fields:
    return {**dict.fromkeys(names, Kept.VALUE), **more}


# Of our own, and of those whose objects we serve. Their values are ours, or words that we check.
ANNOTATIONS = frozenset(
    {
        "cloud.sap/esx-reboot-initiated",
        "cloud.sap/maintenance-data",
        "cluster.x-k8s.io/cluster-name",
        "cluster.x-k8s.io/cluster-namespace",
        "cluster.x-k8s.io/machine",
        "haulout.dev/cordon",
        "haulout.dev/cordoned-by",
        "haulout.dev/drain",
        "haulout.dev/drain-started-at",
        "haulout.dev/priority",
        "haulout.dev/seen",
        "kubernetes.io/config.mirror",
    }
)
# Names of programs, by which pods are known.
PROGRAM_LABELS = (
    "app.kubernetes.io/",
    "kubernetes.io/",
    "topology.kubernetes.io/",
    "cluster.x-k8s.io/",
    "haulout.dev/",
)

_META = _plain(
    *("name", "generateName", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp"),
    *("deletionTimestamp", "deletionGracePeriodSeconds", "finalizers"),
    ownerReferences=_plain("apiVersion", "kind", "name", "uid", "controller"),
    labels=Kept.PSEUDONYMS,
    annotations=Kept.ANNOTATIONS,
)
_LABELLED = {**_META, "labels": Kept.LABELS}
_CONDITION = _plain("type", "status", "reason", "observedGeneration", "lastTransitionTime", "lastHeartbeatTime")
_OWN_CONDITION = {**_CONDITION, "message": Kept.VALUE}
_REFERENCE = _plain("apiVersion", "apiGroup", "kind", "namespace", "name", "uid")
_SELECTOR: Fields = {
    "matchLabels": Kept.PSEUDONYMS,
    "matchExpressions": _plain("key", "operator", values=Kept.PSEUDONYMS),
}
_OWN_SELECTOR: Fields = {"matchLabels": Kept.LABELS, "matchExpressions": _plain("key", "operator", "values")}
_RAN = _plain("reason", "exitCode", "signal", "startedAt", "finishedAt")
_CONTAINER = _plain(
    "name",
    command=Kept.SIZE,
    args=Kept.SIZE,
    env=Kept.SIZE,
    envFrom=Kept.SIZE,
    resources={"requests": Kept.QUANTITIES, "limits": Kept.QUANTITIES},
)
_CONTAINER_STATUS = _plain(
    *("name", "ready", "started", "restartCount"),
    state={"running": _RAN, "waiting": _RAN, "terminated": _RAN},
    lastState={"terminated": _RAN},
)
_POD_SPEC = _plain(
    *("nodeName", "priority", "priorityClassName", "restartPolicy", "terminationGracePeriodSeconds", "hostNetwork"),
    tolerations=_plain("key", "operator", "effect", "tolerationSeconds"),
    volumes=_plain("name", emptyDir=_plain("medium", "sizeLimit"), persistentVolumeClaim=_plain("claimName")),
    containers=_CONTAINER,
    initContainers=_CONTAINER,
    ephemeralContainers=_CONTAINER,
)
_POD_STATUS = _plain(
    *("phase", "reason", "startTime", "qosClass", "nominatedNodeName"),
    conditions=_CONDITION,
    containerStatuses=_CONTAINER_STATUS,
    initContainerStatuses=_CONTAINER_STATUS,
)
# Whose events are told by us or by parts of Kubernetes, in sentences that hold nothing of a workload.
TOLD_IN_FULL = ("Node", "NodeMaintenance", "NodeDisruptionBudget", "Machine")

KINDS: Mapping[str, Fields] = {
    "Node": {
        "metadata": _LABELLED,
        "spec": _plain("unschedulable", "providerID", taints=_plain("key", "value", "effect", "timeAdded")),
        "status": {
            "conditions": _OWN_CONDITION,
            "allocatable": Kept.QUANTITIES,
            "capacity": Kept.QUANTITIES,
            "addresses": _plain("type", "address"),
            "nodeInfo": _plain(
                *("kubeletVersion", "kernelVersion", "osImage", "containerRuntimeVersion", "architecture"),
                *("operatingSystem", "bootID", "kubeProxyVersion"),
            ),
        },
    },
    "NodeMaintenance": {
        "metadata": _LABELLED,
        "spec": _plain(
            "nodeName",
            reason=Kept.SIZE,
            drain=_plain(
                *("force", "deleteEmptyDirData", "ignoreDaemonSets", "gracePeriodSeconds", "timeoutSeconds"),
                *("podSelector", "disableEviction", "skipWaitForDeleteTimeoutSeconds", "retryIntervalSeconds"),
                *("deadlineSeconds", "deadlineAction", "dryRun", "restoreNodeState"),
            ),
        ),
        "status": _plain(
            *("phase", "drainProgress", "lastUpdate", "lastError", "pendingPods", "totalpods", "evictionPods"),
            "errorOnLeaseCount",
            pendingPodsRefs=_plain("namespace", "name"),
            blockedPods=_plain("namespace", "name", "reason", "message", "since"),
            conditions=_OWN_CONDITION,
        ),
    },
    "NodeDisruptionBudget": {
        "metadata": _LABELLED,
        "spec": _plain(
            *("maxUnavailable", "topologyKey", "maxDomains", "surfaces"),
            selector=_OWN_SELECTOR,
            windows=_plain("type", "schedule", "duration", "days", "from", "to", "timeZone"),
        ),
        "status": _plain(
            *("observedGeneration", "allowed", "used", "nextOpening"),
            holders=_plain("node", "surface", "reason"),
            waiting=_plain("count", first=_plain("node", "surface", "reason")),
            conditions=_OWN_CONDITION,
        ),
    },
    "CustomResourceDefinition": {
        "metadata": _META,
        "spec": _plain(
            *("group", "scope"),
            names=_plain("kind", "plural", "singular", "listKind", "shortNames"),
            versions=_plain("name", "served", "storage", "deprecated"),
        ),
        "status": _plain("storedVersions", conditions=_CONDITION),
    },
    "ValidatingWebhookConfiguration": {
        "metadata": _META,
        "webhooks": _plain(
            *("name", "failurePolicy", "matchPolicy", "sideEffects", "timeoutSeconds", "admissionReviewVersions"),
            rules=_plain("apiGroups", "apiVersions", "operations", "resources", "scope"),
            clientConfig={
                "service": _plain("namespace", "name", "path", "port"),
                "url": Kept.SIZE,
                "caBundle": Kept.SIZE,
            },
        ),
    },
    "Machine": {
        "metadata": _META,
        "spec": _plain(
            *("clusterName", "providerID", "nodeDrainTimeout", "nodeDrainTimeoutSeconds", "nodeDeletionTimeout"),
            infrastructureRef=_REFERENCE,
        ),
        "status": _plain("phase", nodeRef=_REFERENCE, conditions=_CONDITION),
    },
    "Pod": {"metadata": _META, "spec": _POD_SPEC, "status": _POD_STATUS},
    "PodDisruptionBudget": {
        "metadata": _META,
        "spec": _plain("minAvailable", "maxUnavailable", "unhealthyPodEvictionPolicy", selector=_SELECTOR),
        "status": _plain(
            *("observedGeneration", "disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"),
            conditions=_CONDITION,
        ),
    },
    "Lease": {
        "metadata": _META,
        "spec": _plain("holderIdentity", "leaseDurationSeconds", "acquireTime", "renewTime", "leaseTransitions"),
    },
    "Event": {
        "metadata": _META,
        **_plain(
            *("type", "reason", "action", "count", "firstTimestamp", "lastTimestamp", "eventTime"),
            *("reportingComponent", "reportingInstance"),
            message=Kept.SIZE,
            source=_plain("component", "host"),
            involvedObject=_REFERENCE,
            related=_REFERENCE,
            series=_plain("count", "lastObservedTime"),
        ),
    },
}

# Labels of workloads can be anything, but whether a selector matches must be seen: equal values have equal pseudonyms
# within one archive.
_SALT = secrets.token_bytes(16)


def kept_object(obj: Json, kind: str) -> Json:
    """Return the fields of a Kubernetes object that are known to be harmless."""
    fields: Fields = {"apiVersion": Kept.VALUE, **KINDS[kind]}
    if kind == "Event" and (obj.get("involvedObject") or {}).get("kind") in TOLD_IN_FULL:
        fields = {**fields, "message": Kept.VALUE}
    return {"kind": kind, **_fields(obj, fields)}


def _fields(value: Json, fields: Fields) -> Json:
    found = {name: _kept(value[name], how) for name, how in fields.items() if value.get(name) is not None}
    return {name: each for name, each in found.items() if each is not None}


def _kept(value: Any, how: Kept | Fields) -> Any:
    match how:
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
            known = {name: each for name, each in _items(value) if name in ANNOTATIONS}
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

# Settings of haulout.yaml and of the profiles' file whose text is a name, a rule or an instant.
SETTINGS = frozenset(
    [
        "action",
        "certificates",
        "channel",
        "check",
        "config",
        "context",
        "controllerKinds",
        "days",
        "deadlineAction",
        "end",
        "enter",
        "evictionBackend",
        "exclude",
        "exit",
        "expr",
        "format",
        "groupLabels",
        "health",
        "http",
        "key",
        "kind",
        "labelFilter",
        "lease",
        "leaseName",
        "leaseNamespace",
        "level",
        "maxUnavailable",
        "name",
        "namespace",
        "namespaces",
        "next",
        "notify",
        "operator",
        "podSelector",
        "profile",
        "query",
        "restartPolicies",
        "schedule",
        "service",
        "start",
        "status",
        "surfaces",
        "timeZone",
        "timezone",
        "topologyKey",
        "trigger",
        "type",
        "url",
        "value",
        "values",
        "webhooks",
        "weekdays",
    ]
)
# Plugins whose settings are known. What others take may be anything.
PLUGINS = frozenset(
    [
        "affinity",
        "alterAnnotation",
        "alterFinalizer",
        "alterHypervisor",
        "alterLabel",
        "anyLabel",
        "checkHypervisor",
        "clusterSemver",
        "condition",
        "eviction",
        "hasAnnotation",
        "hasLabel",
        "hypervisorCondition",
        "kubernikusCount",
        "mail",
        "maxMaintenance",
        "nodeCount",
        "prometheusInstant",
        "slack",
        "slackThread",
        "stagger",
        "timeWindow",
        "wait",
        "waitExclude",
    ]
)
# Users choose the names of labels, so every name is kept below these fields.
LABEL_MAPS = ("matchLabels",)
DURATION = re.compile(r"([0-9]{1,9}(\.[0-9]{1,9})?(ns|us|µs|ms|s|m|h|d))+")
# A reference to a variable says where the secret is, not what it is; one with a default says both.
REFERENCE = re.compile(r"\$\{?[A-Za-z_][A-Za-z0-9_]{0,63}\}?")
_HOST = re.compile(r"[A-Za-z0-9.:\[\]-]{1,260}")
SECRET_NAME = re.compile(r"(pass|pwd|token|secret|credential|private|auth|hook$|cookie|signature|user)", re.IGNORECASE)


class TooLarge(Exception):
    """A configuration with more values than any has, most of them by aliases."""


class _Room(msgspec.Struct):
    left: int = MOST_SETTINGS

    def take(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise TooLarge(f"it has more than {MOST_SETTINGS} values")


def kept_settings(data: bytes) -> str:
    """Return the known settings of a file, without comments. Raises YamlError and TooLarge."""
    return yaml.safe_dump(_setting(parse(data, any_keys=True), "", _Room()), sort_keys=False, width=120)


def _setting(node: Node | None, name: str, room: _Room) -> Any:
    room.take()
    match node:
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
    is_foreign = "config" in found and isinstance(kind, Scalar) and kind.value not in PLUGINS
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
    if REFERENCE.fullmatch(value) or DURATION.fullmatch(value) or not value:
        return value
    if "://" in value and name in SETTINGS:
        return _origin(value)
    return value[:LONGEST] if name in SETTINGS or name in LABEL_MAPS else _size(value)


def _origin(url: str) -> str:
    """Return which server an address leads to. A path can be as secret as a password."""
    try:
        parts = urlsplit(url)
        host = parts.hostname if parts.port is None else f"{parts.hostname}:{parts.port}"
    except ValueError:
        return _size(url)
    rest = f"/{REMOVED}" if parts.path.strip("/") or parts.query or parts.fragment else parts.path
    return f"{parts.scheme}://{host}{rest}" if _HOST.fullmatch(host or "") else _size(url)
