"""Defaults and checks that pods and pod templates have in common."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

from haulout.base.quantity import amount
from haulout.embedded.interfaces import Json
from haulout.embedded.rules import metadata
from haulout.embedded.rules.refusals import (
    Problem,
    duplicate,
    forbidden_field,
    missing,
    unknown_reference,
    unsupported_value,
    wrong,
)

_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")
_RESTARTS = ("Always", "OnFailure", "Never")
_DNS = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_PULLS = ("Always", "IfNotPresent", "Never")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_DEFAULT_MODE = 0o644


def default_spec(spec: Json) -> None:
    """Set missing fields only, so that parts shared with an older object stay as they are."""
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("securityContext", {})
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("schedulerName", "default-scheduler")
    for group in _CONTAINERS:
        for container in spec.get(group, ()) or ():
            _default_container(container)
    for volume in spec.get("volumes", ()):
        _default_volume(volume)


def _default_container(container: Json) -> None:
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    if "imagePullPolicy" not in container:
        container["imagePullPolicy"] = "Always" if _is_latest(container.get("image", "")) else "IfNotPresent"
    for port in container.get("ports", ()):
        port.setdefault("protocol", "TCP")
    for variable in container.get("env", ()):
        reference = (variable.get("valueFrom") or {}).get("fieldRef")
        if reference is not None:
            reference.setdefault("apiVersion", "v1")
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if probe in container:
            _default_probe(container[probe])
    for hook in (container.get("lifecycle") or {}).values():
        if isinstance(hook, dict) and "httpGet" in hook:
            _default_http(hook["httpGet"])


def _is_latest(image: str) -> bool:
    if "@" in image:
        return False
    tag = image.rpartition("/")[2].partition(":")[2]
    return tag in {"", "latest"}


def _default_probe(probe: Json) -> None:
    probe.setdefault("timeoutSeconds", 1)
    probe.setdefault("periodSeconds", 10)
    probe.setdefault("successThreshold", 1)
    probe.setdefault("failureThreshold", 3)
    if "httpGet" in probe:
        _default_http(probe["httpGet"])
    if "grpc" in probe:
        # Go prints a missing service as null.
        probe["grpc"]["service"] = probe["grpc"].get("service") or ""


def _default_http(get: Json) -> None:
    get.setdefault("path", "/")
    get.setdefault("scheme", "HTTP")


def _default_volume(volume: Json) -> None:
    if len(volume) == 1:
        volume["emptyDir"] = {}
    for source in ("secret", "configMap", "downwardAPI", "projected"):
        if source in volume:
            volume[source].setdefault("defaultMode", _DEFAULT_MODE)
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")
    for part in (volume.get("projected") or {}).get("sources") or ():
        if "serviceAccountToken" in part:
            part["serviceAccountToken"].setdefault("expirationSeconds", 3600)
        _default_items(part.get("downwardAPI"))
    _default_items(volume.get("downwardAPI"))


def _default_items(source: Json | None) -> None:
    for item in (source or {}).get("items", ()):
        if "fieldRef" in item:
            item["fieldRef"].setdefault("apiVersion", "v1")


def default_requests(spec: Json) -> None:
    """Set missing requests to the limits."""
    for group in ("containers", "initContainers"):
        for container in spec.get(group, ()) or ():
            limits = container.get("resources", {}).get("limits")
            if limits:
                requests = container["resources"].get("requests", {})
                if limits.keys() - requests.keys():
                    container["resources"]["requests"] = limits | requests


def check_spec(spec: Json, path: str, restarts: Iterable[str] = _RESTARTS) -> list[Problem]:
    problems: list[Problem] = []
    if not spec.get("containers"):
        problems.append(missing(f"{path}.containers"))
    seen: set[str] = set()
    volumes = {volume.get("name") for volume in spec.get("volumes", ())}
    for group in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(group) or ()):
            problems += _check_container(container, f"{path}.{group}[{index}]", seen, volumes)
    problems += _check_volumes(spec.get("volumes", ()), f"{path}.volumes")
    if spec["restartPolicy"] not in restarts:
        problems.append(unsupported_value(f"{path}.restartPolicy", spec["restartPolicy"], restarts))
    if spec["dnsPolicy"] not in _DNS:
        problems.append(unsupported_value(f"{path}.dnsPolicy", spec["dnsPolicy"], _DNS))
    if "nodeSelector" in spec:
        problems += metadata.check_labels(spec["nodeSelector"], f"{path}.nodeSelector")
    if name := spec.get("nodeName"):
        problems += [wrong(f"{path}.nodeName", name, text) for text in metadata.subdomain(name)]
    problems += _check_node_affinity((spec.get("affinity") or {}).get("nodeAffinity") or {}, path)
    for index, toleration in enumerate(spec.get("tolerations", ())):
        problems += check_toleration(toleration, f"{path}.tolerations[{index}]")
    if (deadline := spec.get("activeDeadlineSeconds")) is not None and not 1 <= deadline <= 2**31 - 1:
        problems.append(wrong(f"{path}.activeDeadlineSeconds", deadline, "must be between 1 and 2147483647, inclusive"))
    return problems


def _check_container(container: Json, path: str, seen: set[str], volumes: Container[str]) -> list[Problem]:
    problems: list[Problem] = []
    name = container.get("name", "")
    if not name:
        problems.append(missing(f"{path}.name"))
    else:
        problems += [wrong(f"{path}.name", name, text) for text in metadata.label(name)]
        if name in seen:
            problems.append(duplicate(f"{path}.name", name))
        seen.add(name)
    image = container.get("image", "")
    if not image:
        problems.append(missing(f"{path}.image"))
    elif image.strip() != image:
        problems.append(wrong(f"{path}.image", image, "must not have leading or trailing whitespace"))
    for index, port in enumerate(container.get("ports", ())):
        problems += _check_port(port, f"{path}.ports[{index}]")
    for index, variable in enumerate(container.get("env", ())):
        if not variable.get("name"):
            problems.append(missing(f"{path}.env[{index}].name"))
    problems += _check_mounts(container.get("volumeMounts", ()), f"{path}.volumeMounts", volumes)
    if container["imagePullPolicy"] not in _PULLS:
        problems.append(unsupported_value(f"{path}.imagePullPolicy", container["imagePullPolicy"], _PULLS))
    resources = container.get("resources", {})
    for kind in ("limits", "requests"):
        problems += _check_amounts(resources.get(kind, {}), f"{path}.resources.{kind}")
    for resource, wanted in resources.get("requests", {}).items():
        limit = resources.get("limits", {}).get(resource)
        if limit is not None and wanted != limit and amount(wanted) > amount(limit):
            text = f"must be less than or equal to {resource} limit of {limit}"
            problems.append(wrong(f"{path}.resources.requests", wanted, text))
    return problems


def _check_port(port: Json, path: str) -> list[Problem]:
    problems: list[Problem] = []
    if not port["containerPort"]:
        problems.append(missing(f"{path}.containerPort"))
    elif not 1 <= port["containerPort"] <= 65535:
        text = "must be between 1 and 65535, inclusive"
        problems.append(wrong(f"{path}.containerPort", port["containerPort"], text))
    if port["protocol"] not in _PROTOCOLS:
        problems.append(unsupported_value(f"{path}.protocol", port["protocol"], _PROTOCOLS))
    return problems


def _check_mounts(mounts: Iterable[Json], path: str, volumes: Container[str]) -> list[Problem]:
    problems: list[Problem] = []
    seen: set[str] = set()
    for index, mount in enumerate(mounts):
        name, place = mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            problems.append(missing(f"{path}[{index}].name"))
        if name not in volumes:
            problems.append(unknown_reference(f"{path}[{index}].name", name))
        if not place:
            problems.append(missing(f"{path}[{index}].mountPath"))
        if place in seen:
            problems.append(wrong(f"{path}[{index}].mountPath", place, "must be unique"))
        seen.add(place)
    return problems


def _check_amounts(amounts: Json, path: str) -> list[Problem]:
    return [
        wrong(f"{path}[{name}]", value, "must be greater than or equal to 0")
        for name, value in amounts.items()
        if value.startswith("-")
    ]


def _check_volumes(volumes: Iterable[Json], path: str) -> list[Problem]:
    problems: list[Problem] = []
    seen: set[str] = set()
    for index, volume in enumerate(volumes):
        name = volume.get("name", "")
        if not name:
            problems.append(missing(f"{path}[{index}].name"))
        else:
            problems += [wrong(f"{path}[{index}].name", name, text) for text in metadata.label(name)]
            if name in seen:
                problems.append(duplicate(f"{path}[{index}].name", name))
            seen.add(name)
    return problems


def _check_node_affinity(affinity: Json, path: str) -> list[Problem]:
    problems: list[Problem] = []
    if (required := affinity.get(_REQUIRED)) is not None:
        here = f"{path}.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
        if not required.get("nodeSelectorTerms"):
            problems.append(missing(here, "must have at least one node selector term"))
        for index, term in enumerate(required.get("nodeSelectorTerms") or ()):
            problems += _check_term(term, f"{here}[{index}]")
    for index, wish in enumerate(affinity.get(_PREFERRED, ())):
        here = f"{path}.affinity.nodeAffinity.{_PREFERRED}[{index}]"
        if not 1 <= wish["weight"] <= 100:
            problems.append(wrong(f"{here}.weight", wish["weight"], "must be in the range 1-100"))
        problems += _check_term(wish["preference"], f"{here}.preference")
    return problems


def _check_term(term: Json, path: str) -> list[Problem]:
    problems: list[Problem] = []
    for index, expression in enumerate(term.get("matchExpressions", ())):
        here = f"{path}.matchExpressions[{index}]"
        problems += _check_operator(expression, here)
        problems += [wrong(f"{here}.key", expression["key"], text) for text in metadata.label_key(expression["key"])]
    return problems


def _check_operator(expression: Json, path: str) -> list[Problem]:
    """Check the number of values for an operator."""
    operator, count = expression["operator"], len(expression.get("values", ()))
    if operator in {"In", "NotIn"} and not count:
        return [missing(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")]
    if operator in {"Exists", "DoesNotExist"} and count:
        text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        return [forbidden_field(f"{path}.values", text)]
    if operator in {"Gt", "Lt"} and count != 1:
        return [missing(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")]
    if operator not in {"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"}:
        return [wrong(f"{path}.operator", operator, "not a valid selector operator")]
    return []


def check_toleration(toleration: Json, path: str) -> list[Problem]:
    problems: list[Problem] = []
    key, operator = toleration.get("key", ""), toleration.get("operator", "")
    effect = toleration.get("effect", "")
    if key:
        problems += [wrong(f"{path}.key", key, text) for text in metadata.label_key(key)]
    elif operator != "Exists":
        text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        problems.append(wrong(f"{path}.operator", operator, text))
    if operator in {"", "Equal"} and (texts := metadata.label_value(toleration.get("value", ""))):
        problems.append(wrong(f"{path}.operator", toleration["value"], ";".join(texts)))
    if operator == "Exists" and toleration.get("value"):
        text = "value must be empty when `operator` is 'Exists'"
        problems.append(wrong(f"{path}.operator", toleration["value"], text))
    if operator not in {"", "Equal", "Exists"}:
        problems.append(unsupported_value(f"{path}.operator", operator, ("Equal", "Exists")))
    if effect and effect not in _EFFECTS:
        problems.append(unsupported_value(f"{path}.effect", effect, _EFFECTS))
    if "tolerationSeconds" in toleration and effect != "NoExecute":
        problems.append(wrong(f"{path}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set"))
    return problems


def check_selector(selector: Json, path: str) -> list[Problem]:
    """Check a label selector in an object."""
    problems = metadata.check_labels(selector.get("matchLabels", {}), f"{path}.matchLabels")
    for index, expression in enumerate(selector.get("matchExpressions", ())):
        here = f"{path}.matchExpressions[{index}]"
        operator, values = expression.get("operator", ""), expression.get("values", [])
        if operator in {"In", "NotIn"}:
            if not values:
                problems.append(missing(f"{here}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
        elif operator not in {"Exists", "DoesNotExist"}:
            problems.append(wrong(f"{here}.operator", operator, "not a valid selector operator"))
        elif values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            problems.append(forbidden_field(f"{here}.values", text))
        problems += [wrong(f"{here}.key", expression["key"], text) for text in metadata.label_key(expression["key"])]
        for number, value in enumerate(values):
            problems += [wrong(f"{here}.values[{number}]", value, text) for text in metadata.label_value(value)]
    return problems


def in_order(selector: Any) -> Any:
    """Return a selector as Go prints it, with its labels sorted by key."""
    if not isinstance(selector, dict) or "matchLabels" not in selector:
        return selector
    return {**selector, "matchLabels": dict(sorted(selector["matchLabels"].items()))}


def check_taints(taints: Iterable[Json], path: str) -> list[Problem]:
    problems: list[Problem] = []
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        here = f"{path}[{index}]"
        key, value, effect = taint["key"], taint.get("value", ""), taint["effect"]
        if texts := metadata.label_key(key):
            problems += [wrong(f"{here}.key", key, text) for text in texts]
        if texts := metadata.label_value(value):
            problems.append(wrong(f"{here}.value", value, ";".join(texts)))
        if not effect:
            problems.append(missing(f"{here}.effect"))
        elif effect not in _EFFECTS:
            problems.append(unsupported_value(f"{here}.effect", effect, _EFFECTS))
        if (key, effect) in seen:
            printed: dict[str, Any] = {
                "Key": key,
                "Value": value,
                "Effect": effect,
                "TimeAdded": taint.get("timeAdded"),
            }
            text = duplicate(here, printed).message + ": taints must be unique by key and effect pair"
            problems.append(Problem("FieldValueDuplicate", here, text))
        seen.add((key, effect))
    return problems
