"""The gauges of Skyhooks, under the original's names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from haulout.surfaces.packages.entries.entry import STAGES, STATES
from haulout.surfaces.packages.node.standing import NodeStanding
from haulout.surfaces.packages.skyhook.halts import desired_skyhook, halt_of
from haulout.surfaces.packages.specs.skyhook_problems import MOST_PACKAGES
from haulout.surfaces.packages.wire import STATUSES, UNKNOWN, Package, SkyhookRow
from haulout.surfaces.packages.wire_policy import FIXED, PolicyRow
from haulout.surfaces.packages.wire_status import BatchState, CompartmentStatus

Sample = tuple[str, tuple[tuple[str, str], ...], float]


def samples(
    rows: Iterable[SkyhookRow], nodes: Iterable[NodeStanding], policies: Mapping[str, PolicyRow]
) -> Iterator[Sample]:
    """Yield the gauges of every Skyhook. A removed package has none."""
    of_skyhook: dict[str, list[NodeStanding]] = {}
    for node in nodes:
        of_skyhook.setdefault(node.skyhook, []).append(node)
    for row in rows:
        yield from _of_skyhook(row, of_skyhook.get(row.name, []), policies)


def with_both_names(found: Iterable[Sample], *, has_legacy: bool) -> Iterator[Sample]:
    """Yield each sample under the names of NodeWrights, and of Skyhooks too where these are wanted."""
    for name, labels, value in found:
        if has_legacy:
            yield name, labels, value
        renamed = tuple((label.replace("skyhook_", "nodewright_"), text) for label, text in labels)
        yield name.replace("skyhook_", "nodewright_"), renamed, value


def _of_skyhook(row: SkyhookRow, found: list[NodeStanding], policies: Mapping[str, PolicyRow]) -> Iterator[Sample]:
    yield from _statuses(row, found)
    if row.spec.deployment_policy:
        labels = (("skyhook_name", row.name), ("policy_name", row.spec.deployment_policy))
        yield "skyhook_rollout_halted", labels, float(halt_of(row) is not None)
    for package in islice(desired_skyhook(row).spec.packages.values(), MOST_PACKAGES):
        yield from _package(row.name, package, found)
    policy = policies.get(row.spec.deployment_policy)
    for name, status in row.status.compartment_statuses.items():
        yield from _rollout(row, name, status, _strategy(row, policy, name))


def _statuses(row: SkyhookRow, nodes: list[NodeStanding]) -> Iterator[Sample]:
    me = ("skyhook_name", row.name)
    counts = Counter(node.status or UNKNOWN for node in nodes)
    for status in STATUSES:
        yield "skyhook_status", (me, ("status", status)), float(row.status.status == status)
        yield "skyhook_node_status_count", (me, ("status", status)), float(counts[status])
    yield "skyhook_node_target_count", (me,), float(len(nodes))


def _package(skyhook: str, package: Package, nodes: list[NodeStanding]) -> Iterator[Sample]:
    labels = (("skyhook_name", skyhook), ("package_name", package.name), ("package_version", package.version))
    entries = [node.state[package.key] for node in nodes if package.key in node.state]
    states, stages = Counter(each.state for each in entries), Counter(each.stage for each in entries)
    for state in STATES:
        yield "skyhook_package_state_count", (*labels, ("state", state)), float(states[state])
    for stage in STAGES:
        yield "skyhook_package_stage_count", (*labels, ("stage", stage)), float(stages[stage])
    yield "skyhook_package_restarts_count", labels, float(sum(each.restarts for each in entries))


def _rollout(row: SkyhookRow, compartment: str, status: CompartmentStatus, strategy: str) -> Iterator[Sample]:
    state = status.batch_state or BatchState()
    labels = (
        ("skyhook_name", row.name),
        ("policy_name", row.spec.deployment_policy or "legacy"),
        ("compartment_name", compartment),
        ("strategy", strategy),
    )
    values = {
        "matched_nodes": status.matched,
        "ceiling": status.ceiling,
        "in_progress": status.in_progress,
        "completed": status.completed,
        "progress_percent": status.progress_percent,
        "current_batch": state.current_batch,
        "consecutive_failures": state.consecutive_failures,
        "should_stop": int(state.should_stop),
    }
    for name, value in values.items():
        yield f"skyhook_rollout_{name}", labels, float(value)


def _strategy(row: SkyhookRow, policy: PolicyRow | None, compartment: str) -> str:
    if not row.spec.deployment_policy:
        return FIXED
    known = (*policy.compartments, policy.default) if policy is not None else ()
    return next((each.strategy.kind for each in known if each.name == compartment), "unknown")
