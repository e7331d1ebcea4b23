"""What the surface is told: by flags of the drop-in, or by its block in haulout.yaml."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from haulout.base.bounds import seconds
from haulout.base.selector import Selector, SelectorError, parse
from haulout.core.drain.options import DrainOptions, PodRules
from haulout.surfaces.nodemaintenance.wire import LEASE_NAMESPACE, DrainSpec

FORCE_DELETE = "ForceDelete"


class DrainDefaults(msgspec.Struct, frozen=True):
    """What a NodeMaintenance that says nothing about its drain gets: `kubectl drain` with everything allowed."""

    force: bool = True
    delete_empty_dir_data: bool = True
    ignore_daemon_sets: bool = True
    grace_period_seconds: int = -1
    timeout_seconds: int = 30
    pod_selector: str = ""
    disable_eviction: bool = False
    skip_wait_for_delete_timeout_seconds: int = 0
    retry_interval_seconds: int = 5
    deadline_seconds: int = 0
    deadline_action: str = "Fail"


_SECONDS = tuple(name for name in DrainDefaults.__struct_fields__ if name.endswith("_seconds"))


class Options(msgspec.Struct, frozen=True):
    """The settings of the nodemaintenance surface, as decisions read them.

    `alone`: the drop-in, which does what the original does and knows no other surfaces.
    """

    lease_namespace: str = LEASE_NAMESPACE
    lease_for: timedelta = timedelta(hours=1)
    most_at_once: int = 0
    restore: bool = False
    quorum_on_kubernetes: bool = False
    node_conditions: bool = False
    by_priority: bool = False
    by_request: bool = False
    skip_unreachable_for: timedelta = timedelta()
    drain: DrainDefaults = DrainDefaults()
    rules: PodRules = PodRules()
    own_pods: Selector | None = None
    alone: bool = True


class DrainWish(msgspec.Struct, frozen=True):
    """What one NodeMaintenance wants of its drain, defaults filled in. `problem`: which pods it means cannot be read."""

    options: DrainOptions
    timeout_for: timedelta
    retry_for: float
    deadline_for: timedelta | None
    force_after: bool
    dry_run: bool
    restore: bool
    problem: str = ""


def wish(spec: DrainSpec, options: Options) -> DrainWish:
    said = {name: value for name, value in msgspec.structs.asdict(spec).items() if value is not None}
    known = set(DrainDefaults.__struct_fields__)
    given = msgspec.structs.replace(options.drain, **{name: value for name, value in said.items() if name in known})
    given = msgspec.structs.replace(given, **{name: seconds(getattr(given, name)) for name in _SECONDS})
    selector, problem = _selector(given.pod_selector)
    drain = DrainOptions(
        force=given.force,
        ignore_daemonsets=given.ignore_daemon_sets,
        delete_local_data=given.delete_empty_dir_data,
        grace_for=given.grace_period_seconds if given.grace_period_seconds >= 0 else None,
        selector=selector,
        disable_eviction=given.disable_eviction,
        skip_ending_for=given.skip_wait_for_delete_timeout_seconds,
        skip_lost_for=int(options.skip_unreachable_for.total_seconds()),
        by_priority=options.by_priority,
        own=options.own_pods,
        by_request=options.by_request,
    )
    return DrainWish(
        options=drain,
        timeout_for=timedelta(seconds=given.timeout_seconds),
        retry_for=float(given.retry_interval_seconds),
        deadline_for=timedelta(seconds=given.deadline_seconds) if given.deadline_seconds else None,
        force_after=given.deadline_action == FORCE_DELETE,
        dry_run=bool(spec.dry_run),
        restore=options.restore if spec.restore_node_state is None else spec.restore_node_state,
        problem=problem,
    )


def _selector(text: str) -> tuple[Selector | None, str]:
    try:
        return parse(text) if text else None, ""
    except SelectorError as error:
        return None, f"spec.drain.podSelector: {error}"
