"""The JSON of a node in `/api/v1/info`: its profiles, and the results of the checks of each transition."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from haulout.base.expression import evaluate
from haulout.cluster.key import Key
from haulout.cluster.limits import Limit
from haulout.cluster.rows import NodeRow
from haulout.cluster.view import View
from haulout.core.reason import Reason, roots
from haulout.plugins.api import Verdict
from haulout.surfaces.profiles.decide import pass_over
from haulout.surfaces.profiles.passes.result import Judged, Result
from haulout.surfaces.profiles.present import profile_reason
from haulout.surfaces.profiles.wire import (
    DATA_ANNOTATION,
    PROFILE_LABEL,
    SURFACE,
    DataError,
    attached_profiles,
    listed_profiles,
    parse_data,
)

Json = dict[str, Any]


def node_info(key: Key, view: View, now: datetime) -> Json | None:
    """Return the JSON of a node; None if the node does not exist or no configuration has been read."""
    found = pass_over(key, view, now)
    if found is None:
        return _standstill(key, view, now)
    node, config, results = found
    return _info(key, _profiles(node, results, view), _chosen(node, config.label_filter), now)


def _standstill(key: Key, view: View, now: datetime) -> Json | None:
    """Return the JSON of a node while the configuration is invalid: the states of its profiles, and the error."""
    node, setting = view.get(key, NodeRow), view.config(SURFACE)
    if node is None or setting is None:
        return None
    try:
        entries = parse_data(node.annotations.get(DATA_ANNOTATION)).profiles
    except DataError:
        entries = {}
    attached = [name for name in attached_profiles(node.labels.get(PROFILE_LABEL)) if name in entries]
    results = [Result(name, entries[name].current, entries[name].current, node, entries[name]) for name in attached]
    stuck = [msgspec.structs.replace(result, error=setting.error) for result in results]
    return _info(key, _profiles(node, stuck, view), {}, now)


def _info(key: Key, profiles: list[Json], labels: Mapping[str, str], now: datetime) -> Json:
    updated = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {"node": key.name, "profiles": profiles, "labels": labels, "updated": updated}


def _chosen(node: NodeRow, names: tuple[str, ...]) -> Mapping[str, str]:
    return {name: node.labels[name] for name in names if name in node.labels}


def _profiles(node: NodeRow, results: list[Result], view: View) -> list[Json]:
    """Return the profiles as the label lists them. Like in the original, one that is named twice is shown twice."""
    profiles = {result.profile: _profile(node.key, result, view) for result in results}
    return [profiles[name] for name in listed_profiles(node.labels.get(PROFILE_LABEL)) if name in profiles]


def _profile(key: Key, result: Result, view: View) -> Json:
    applied = {
        "next": result.next,
        "transitions": [_transition(key, judged, view) for judged in result.judged],
        "error": result.error,
    }
    return {
        "applied": applied,
        "name": result.profile,
        "state": result.state,
        "waitsFor": _waits_for(key, result, view),
    }


def _waits_for(key: Key, result: Result, view: View) -> list[Json]:
    """Return the root causes that keep a profile in its state, as in `explain`; empty if a transition is possible."""
    found = roots(profile_reason(key, result, view))
    if any(root.code == "goes" for root in found):
        return []
    return [_cause(root) for root in dict.fromkeys(found)]


def _cause(root: Reason) -> Json:
    until = {"until": root.until.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")} if root.until else {}
    return {"code": root.code, "text": root.text, **until, **({"act": root.act} if root.act else {})}


def _transition(key: Key, judged: Judged, view: View) -> Json:
    instances = {each.name: each for each in judged.transition.checks}
    verdicts = {name: (verdict, _passes(key, verdict, view)) for name, verdict in judged.verdicts.items()}
    answers = {name: passes for name, (_, passes) in verdicts.items()}
    passed = judged.passed and evaluate(judged.transition.check, answers)
    info = {
        name: {"id": instances[name].plugin.name, "passed": passes, "info": _plain_info(verdict)}
        for name, (verdict, passes) in verdicts.items()
    }
    chain = {"passed": passed, "info": info, "expression": judged.transition.text}
    return {
        "passed": passed and judged.allowed,
        "target": str(judged.transition.next),
        "chain": chain,
        "error": judged.error,
    }


def _passes(key: Key, verdict: Verdict, view: View) -> bool:
    """Whether a check passes.

    A check with limits passes while there is room, or while this node holds a place that it is about to use.
    """
    if not verdict.passed or verdict.error:
        return False
    return all(_is_taking(key, limit, view) for limit in view.full(verdict.limits))


def _is_taking(key: Key, limit: Limit, view: View) -> bool:
    """Whether the node has a place under a limit that the cluster does not show yet, for instance during its drain."""
    return view.glance(limit.count, limit.group, limit.cluster) < limit.most and key in view.takers(limit)


def _plain_info(verdict: Verdict) -> Json:
    info = {name: value if _is_plain(value) else str(value) for name, value in verdict.info.items()}
    return {**info, "error": verdict.error} if verdict.error else info


def _is_plain(value: object) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, str | int | float | bool)
