"""The log lines of a drain: one when a pod's eviction begins, one when the pod is gone."""

from __future__ import annotations

from collections.abc import Container

from haulout.cluster.key import Key
from haulout.cluster.rows import PodRow, Value
from haulout.cluster.view import MARK
from haulout.core.action import Say
from haulout.core.drain.options import Act
from haulout.core.drain.progress import Progress
from haulout.surfaces.nodemaintenance.options import DrainWish
from haulout.surfaces.nodemaintenance.situation import Situation

_MARKS = "nodemaintenance-leaving"
_GOES = (Act.EVICT, Act.DELETE)


def leaving(situation: Situation, wanted: DrainWish, state: Progress) -> tuple[tuple[Say, ...], tuple[Value, ...]]:
    """Return the lines to log now, and the mark with the pods that were logged.

    A pod is tried often, but logged once.
    """
    key = Key("", MARK, _MARKS, situation.key.name)
    last = situation.view.recall(key, Value)
    # The pods are known by UID, because another pod may get the same name.
    known: dict[str, Key] = dict(last.value if last is not None and isinstance(last.value, tuple) else ())
    there = {pod.uid for pod, _ in state.selection.pods}
    departed = [pod for uid, pod in known.items() if uid not in there]
    new_pods = _new_pods(state, known)
    if not departed and not new_pods:
        # Most decisions during a drain are about other changes. The mark stays as it is.
        return (), ((last,) if last is not None and known else ())
    deletes = wanted.options.disable_eviction
    place = (("object", f"{situation.key.kind}/{situation.key.name}"), ("node", situation.row.node))
    # The warning says which pods stay and which data will be lost. It is logged once, because it would change with each
    # pod that leaves.
    warns = new_pods and not known and state.selection.warnings
    statements = [Say(f"WARNING: {state.selection.warnings}", place, "warning")] if warns else []
    statements += (
        [] if deletes else [Say(f"evicting pod {pod.key.namespace}/{pod.key.name}", place) for pod in new_pods]
    )
    how = "Deleted" if deletes else "Evicted"
    statements += [
        Say(f"pod: {pod.namespace}:{pod.name} {how} from node: {situation.row.node}", place) for pod in departed
    ]
    remaining = (*((uid, pod) for uid, pod in known.items() if uid in there), *((pod.uid, pod.key) for pod in new_pods))
    return tuple(statements), ((Value(key=key, value=remaining),) if remaining else ())


def _new_pods(state: Progress, known: Container[str]) -> list[PodRow]:
    """Return the pods whose turn it is to be evicted and that are not known yet; none if the drain must not begin."""
    going = [each for each in state.selection.pods if each[1].act in _GOES]
    new_pods = [each for each in going if each[0].uid not in known]
    if not new_pods or state.errors:
        return []
    first = min(fate.order for _, fate in going)
    return [pod for pod, fate in new_pods if fate.order == first]
