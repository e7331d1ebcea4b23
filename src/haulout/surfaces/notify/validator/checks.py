"""The built-in checks of a validation, one function each."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from fractions import Fraction

import msgspec

from haulout.base import quantity
from haulout.cluster.indexes import PODS_OF_NODE
from haulout.cluster.rows import NodeRow, PodRow
from haulout.core.drain.proof import relist
from haulout.surfaces.notify.notice.baseline import baseline_of, ready_at
from haulout.surfaces.notify.recipes.recipe import Checks
from haulout.surfaces.notify.situation import NoticeSituation

PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")


class CheckFinding(msgspec.Struct, frozen=True):
    """The result of one check. `until`: when time alone may change it."""

    name: str
    holds: bool
    until: datetime | None = None


def findings(situation: NoticeSituation, node: NodeRow, checks: Checks, since: datetime) -> Iterator[CheckFinding]:
    """Yield the result of each configured check, in the order in which they are reported.

    `since`: when checking began.
    """
    if checks.node_ready:
        at = ready_at(node, checks.ready_for)
        yield CheckFinding("nodeReady", at is not None and situation.now >= at, at)
    if checks.no_pressure:
        yield CheckFinding("noPressure", not any(node.condition(kind) == "True" for kind in PRESSURES))
    if checks.preserve_capacity:
        yield CheckFinding("preserveCapacity", _keeps_capacity(situation, node, checks.preserve_capacity))
    if checks.daemon_sets_ready:
        yield _daemon_sets(situation, node, since)
    if checks.kubelet:
        yield CheckFinding("kubelet", node.kubelet_version == checks.kubelet)


def _keeps_capacity(situation: NoticeSituation, node: NodeRow, names: tuple[str, ...]) -> bool:
    before = baseline_of(situation.row).capacity
    now = node.details.allocatable if node.details else {}
    return all(_amount(now.get(name, "0")) >= _amount(before.get(name, "0")) for name in names)


def _amount(text: str) -> Fraction:
    """Return the value of a quantity; 0 if it cannot be read."""
    try:
        return quantity.amount(text)
    except quantity.QuantityError:
        return Fraction(0)


def _daemon_sets(situation: NoticeSituation, node: NodeRow, since: datetime) -> CheckFinding:
    if all(pod.ready for pod in _daemon_pods(situation, node)):
        return CheckFinding("daemonSetsReady", holds=True)
    reader = f"validator/{situation.row.place}"
    return CheckFinding(
        "daemonSetsReady", holds=False, until=relist(situation.view, node, reader, since, situation.now)
    )


def _daemon_pods(situation: NoticeSituation, node: NodeRow) -> Iterator[PodRow]:
    for pod in situation.view.rows(PODS_OF_NODE, node.key.name, PodRow):
        if pod.controller is not None and pod.controller.kind == "DaemonSet":
            yield pod
