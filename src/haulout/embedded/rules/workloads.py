"""Defaults and checks of Deployments, ReplicaSets, StatefulSets, DaemonSets and Jobs."""

from __future__ import annotations

import re

from haulout.base.number import digits
from haulout.base.selector import from_object
from haulout.embedded.interfaces import Json
from haulout.embedded.rules import metadata
from haulout.embedded.rules.podspec import check_selector, check_spec, default_spec, in_order
from haulout.embedded.rules.refusals import Problem, forbidden_field, missing, unsupported_value, wrong

_PERCENT = re.compile("[0-9]+%").fullmatch
_SELECTED = "`selector` does not match template `labels`"


def _default_template(obj: Json, old: Json | None) -> None:
    template = obj["spec"]["template"]
    if old is None or template is not old["spec"]["template"]:
        default_spec(template["spec"])


def default_deployment(obj: Json, old: Json | None) -> None:
    _default_template(obj, old)
    spec = obj["spec"]
    spec.setdefault("replicas", 1)
    strategy = spec["strategy"] = {**spec["strategy"]}
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        strategy["rollingUpdate"] = {"maxUnavailable": "25%", "maxSurge": "25%", **strategy.get("rollingUpdate", {})}
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)


def default_replica_set(obj: Json, old: Json | None) -> None:
    _default_template(obj, old)
    obj["spec"].setdefault("replicas", 1)


def default_stateful_set(obj: Json, old: Json | None) -> None:
    _default_template(obj, old)
    spec = obj["spec"]
    spec.setdefault("replicas", 1)
    spec.setdefault("podManagementPolicy", "OrderedReady")
    strategy = spec["updateStrategy"] = {**spec["updateStrategy"]}
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        strategy["rollingUpdate"] = {"partition": 0, **strategy.get("rollingUpdate", {})}
    spec.setdefault("revisionHistoryLimit", 10)
    retention = spec.get("persistentVolumeClaimRetentionPolicy", {})
    spec["persistentVolumeClaimRetentionPolicy"] = {"whenDeleted": "Retain", "whenScaled": "Retain", **retention}


def default_daemon_set(obj: Json, old: Json | None) -> None:
    _default_template(obj, old)
    spec = obj["spec"]
    strategy = spec["updateStrategy"] = {**spec["updateStrategy"]}
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        strategy["rollingUpdate"] = {"maxUnavailable": 1, "maxSurge": 0, **strategy.get("rollingUpdate", {})}
    spec.setdefault("revisionHistoryLimit", 10)


def prepare_daemon_set(obj: Json) -> None:
    _number_template(obj, 1)


def reprepare_daemon_set(obj: Json, old: Json) -> None:
    number = digits(old["metadata"].get("annotations", {}).get("deprecated.daemonset.template.generation", "")) or 1
    _number_template(obj, number + (obj["spec"]["template"] != old["spec"]["template"]))


def _number_template(obj: Json, number: int) -> None:
    annotations = obj["metadata"].get("annotations", {})
    key = "deprecated.daemonset.template.generation"
    if annotations.get(key) != str(number):
        obj["metadata"] = {**obj["metadata"], "annotations": {**annotations, key: str(number)}}


def default_job(obj: Json, old: Json | None) -> None:
    template, spec = obj["spec"]["template"], obj["spec"]
    if old is None or template is not old["spec"]["template"]:
        # A Job must set the restart policy of its pods.
        has_policy = "restartPolicy" in template["spec"]
        default_spec(template["spec"])
        if not has_policy:
            template["spec"]["restartPolicy"] = ""
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    spec.setdefault("podReplacementPolicy", "TerminatingOrFailed")


def prepare_job(obj: Json) -> None:
    """Give a job a selector for its own UID, unless `manualSelector` is set."""
    obj["status"] = {}
    spec = obj["spec"]
    if spec.get("manualSelector"):
        return
    uid, name = obj["metadata"]["uid"], obj["metadata"]["name"]
    own = {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }
    meta, selector = spec["template"]["metadata"], spec.get("selector", {})
    template_meta = {**meta, "labels": {**meta.get("labels", {}), **own}}
    spec["template"] = {**spec["template"], "metadata": template_meta}
    chosen = {**selector.get("matchLabels", {}), "batch.kubernetes.io/controller-uid": uid}
    spec["selector"] = {**selector, "matchLabels": chosen}
    if "labels" not in obj["metadata"]:
        obj["metadata"] = {**obj["metadata"], "labels": dict(template_meta["labels"])}


def _not_negative(part: Json, path: str, *members: str) -> list[Problem]:
    return [
        wrong(f"{path}.{member}", part[member], "must be greater than or equal to 0")
        for member in members
        if part.get(member, 0) < 0
    ]


def _check_selector(spec: Json, kind: str, *, required: bool = True) -> list[Problem]:
    selector, labels = spec.get("selector"), spec["template"]["metadata"].get("labels")
    problems = metadata.check_labels(labels or {}, "spec.template.labels")
    mismatch = wrong("spec.template.metadata.labels", labels, _SELECTED)
    if selector is None:
        return [*([missing("spec.selector")] if required else []), *problems, mismatch]
    if not selector:
        return [wrong("spec.selector", selector, f"empty selector is invalid for {kind}"), *problems]
    if bad := check_selector(selector, "spec.selector"):
        return [*bad, wrong("spec.selector", selector, "invalid label selector"), *problems]
    chosen = from_object(selector)
    return [*problems, *([] if chosen.matches(labels or {}) else [mismatch])]


def _check_template(spec: Json) -> list[Problem]:
    return check_spec(spec["template"]["spec"], "spec.template.spec", ("Always",))


def check_deployment(obj: Json) -> list[Problem]:
    spec = obj["spec"]
    problems = [
        *_not_negative(spec, "spec", "replicas"),
        *_check_selector(spec, "deployment"),
        *_check_template(spec),
        *_check_strategy(spec),
        *_not_negative(spec, "spec", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"),
    ]
    if spec["progressDeadlineSeconds"] <= spec.get("minReadySeconds", 0):
        text = "must be greater than minReadySeconds"
        problems.append(wrong("spec.progressDeadlineSeconds", spec["progressDeadlineSeconds"], text))
    return problems


def _check_strategy(spec: Json) -> list[Problem]:
    problems: list[Problem] = []
    rolling = spec["strategy"].get("rollingUpdate")
    if spec["strategy"]["type"] not in {"Recreate", "RollingUpdate"}:
        problems.append(_strange_strategy("spec.strategy", spec["strategy"], ("Recreate", "RollingUpdate")))
    elif spec["strategy"]["type"] == "Recreate" and rolling is not None:
        text = "may not be specified when strategy `type` is 'Recreate'"
        problems.append(forbidden_field("spec.strategy.rollingUpdate", text))
    elif rolling is not None:
        path = "spec.strategy.rollingUpdate"
        for member in ("maxUnavailable", "maxSurge"):
            problems += check_share(rolling[member], f"{path}.{member}")
        if all(str(rolling[member]).rstrip("%") == "0" for member in ("maxUnavailable", "maxSurge")):
            text = "may not be 0 when `maxSurge` is 0"
            problems.append(wrong(f"{path}.maxUnavailable", rolling["maxUnavailable"], text))
    return problems


def _strange_strategy(path: str, strategy: Json, known: tuple[str, ...]) -> Problem:
    return unsupported_value(path, _in_go(strategy), known)


def _in_go(strategy: Json) -> Json:
    """Return a value as the server prints its internal type."""
    return {"Type": strategy["type"], "RollingUpdate": strategy.get("rollingUpdate")}


def check_share(value: int | str, path: str, *, most: bool = False) -> list[Problem]:
    """Check a count or a percentage; with `most`, percentages above 100 % are refused."""
    if isinstance(value, int):
        return [wrong(path, value, "must be greater than or equal to 0")] if value < 0 else []
    if not _PERCENT(value):
        text = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
        return [wrong(path, value, text)]
    share = digits(value[:-1])
    is_too_much = share is None or share > 100
    return [wrong(path, value, "must not be greater than 100%")] if most and is_too_much else []


def check_replica_set(obj: Json) -> list[Problem]:
    spec = obj["spec"]
    numbers = _not_negative(spec, "spec", "replicas", "minReadySeconds")
    return [*numbers, *_check_selector(spec, "replicaset"), *_check_template(spec)]


def check_stateful_set(obj: Json) -> list[Problem]:
    spec = obj["spec"]
    problems = []
    if spec["podManagementPolicy"] not in {"OrderedReady", "Parallel"}:
        text = "must be 'OrderedReady' or 'Parallel'"
        problems.append(wrong("spec.podManagementPolicy", spec["podManagementPolicy"], text))
    return [
        *problems,
        *_check_stateful_update(spec["updateStrategy"]),
        *_not_negative(spec, "spec", "replicas", "minReadySeconds"),
        *_not_negative(spec.get("ordinals", {}), "spec.ordinals", "start"),
        *_check_selector(spec, "statefulset", required=False),
        *_check_template(spec),
    ]


def _check_stateful_update(strategy: Json) -> list[Problem]:
    path, rolling = "spec.updateStrategy", strategy.get("rollingUpdate")
    match strategy["type"]:
        case "RollingUpdate":
            return _not_negative(rolling or {}, f"{path}.rollingUpdate", "partition")
        case "OnDelete" if rolling is not None:
            printed = {"Partition": rolling.get("partition", 0), "MaxUnavailable": rolling.get("maxUnavailable")}
            return [wrong(f"{path}.rollingUpdate", printed, "only allowed for updateStrategy 'RollingUpdate'")]
        case "OnDelete":
            return []
    return [wrong(path, _in_go(strategy), "must be 'RollingUpdate' or 'OnDelete'")]


def check_daemon_set(obj: Json) -> list[Problem]:
    spec = obj["spec"]
    return [
        *_check_selector(spec, "daemonset", required=False),
        *_check_template(spec),
        *_not_negative(spec, "spec", "minReadySeconds"),
        *_check_daemon_update(spec["updateStrategy"]),
        *_not_negative(spec, "spec", "revisionHistoryLimit"),
    ]


def _check_daemon_update(strategy: Json) -> list[Problem]:
    path, rolling = "spec.updateStrategy", strategy.get("rollingUpdate", {})
    if strategy["type"] not in {"RollingUpdate", "OnDelete"}:
        return [_strange_strategy(path, strategy, ("RollingUpdate", "OnDelete"))]
    if strategy["type"] == "OnDelete":
        return []
    problems: list[Problem] = []
    for member in ("maxUnavailable", "maxSurge"):
        problems += check_share(rolling[member], f"{path}.rollingUpdate.{member}", most=True)
    surges, fails = (str(rolling[member]).rstrip("%") != "0" for member in ("maxSurge", "maxUnavailable"))
    if surges and fails:
        text = "may not be set when maxUnavailable is non-zero"
        problems.append(wrong(f"{path}.rollingUpdate.maxSurge", rolling["maxSurge"], text))
    if not surges and not fails:
        problems.append(missing(f"{path}.rollingUpdate.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    return problems


def check_job(obj: Json) -> list[Problem]:
    return _check_generated(obj) + _check_job_spec(obj["spec"])


def _check_generated(obj: Json) -> list[Problem]:
    """Check that a generated selector selects by the job's UID alone."""
    spec, own = obj["spec"], {"batch.kubernetes.io/controller-uid": obj["metadata"]["uid"]}
    if spec.get("manualSelector") or _selects(spec.get("selector"), own):
        return []
    return [wrong("spec.selector", in_order(spec["selector"]), "`selector` not auto-generated")]


_JOB_NUMBERS = ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished")
_JOB_WORDS = {
    "completionMode": ("NonIndexed", "Indexed"),
    "podReplacementPolicy": ("Failed", "TerminatingOrFailed"),
}


def _check_job_spec(spec: Json) -> list[Problem]:
    problems = _not_negative(spec, "spec", *_JOB_NUMBERS)
    for member, known in _JOB_WORDS.items():
        if spec[member] not in known:
            problems.append(unsupported_value(f"spec.{member}", spec[member], known))
    policy, path = spec["template"]["spec"]["restartPolicy"], "spec.template.spec.restartPolicy"
    found = metadata.check_labels(spec["template"]["metadata"].get("labels", {}), "spec.template.labels")
    found += check_spec(spec["template"]["spec"], "spec.template.spec", (policy,))
    if not policy:
        found.append(missing(path, 'valid values: "OnFailure", "Never"'))
    elif policy not in {"OnFailure", "Never"}:
        found.append(unsupported_value(path, policy, ("OnFailure", "Never")))
    return problems + _check_job_selector(spec) + found


def _selects(selector: Json | None, labels: Json) -> bool:
    """Whether the selector matches the labels. An invalid selector counts as matching: another check reports it."""
    if selector is None or check_selector(selector, ""):
        return True
    return from_object(selector).matches(labels)


def _check_job_selector(spec: Json) -> list[Problem]:
    selector, labels = spec.get("selector"), spec["template"]["metadata"].get("labels", {})
    if selector is None:
        return [missing("spec.selector")]
    if bad := check_selector(selector, "spec.selector"):
        return bad
    if _selects(selector, labels):
        return []
    return [wrong("spec.template.metadata.labels", dict(sorted(labels.items())), _SELECTED)]


def fixed_selector(obj: Json, old: Json) -> list[Problem]:
    selector = obj["spec"].get("selector")
    if selector == old["spec"].get("selector"):
        return []
    return [wrong("spec.selector", selector, "field is immutable")]


_STATEFUL_MUTABLE = frozenset(
    {
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    }
)


def fixed_stateful_set(obj: Json, old: Json) -> list[Problem]:
    new, before = obj["spec"], old["spec"]
    if all(new.get(name) == before.get(name) for name in (new.keys() | before.keys()) - _STATEFUL_MUTABLE):
        return []
    text = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
    return [forbidden_field("spec", text)]


def fixed_job(obj: Json, old: Json) -> list[Problem]:
    new, before = obj["spec"], old["spec"]
    problems = _check_job_spec(new)
    problems += [
        wrong(f"spec.{member}", in_order(new.get(member)), "field is immutable")
        for member in ("selector", "completions", "completionMode", "podFailurePolicy")
        if new.get(member) != before.get(member)
    ]
    if new["template"] != before["template"] and not before.get("suspend"):
        problems.append(wrong("spec.template", new["template"], "field is immutable"))
    return problems
