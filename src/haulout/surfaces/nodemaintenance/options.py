"""The settings of the nodemaintenance surface as its decisions read them, and the drain of one NodeMaintenance."""

from __future__ import annotations

import math
from datetime import timedelta
from functools import cached_property, lru_cache

import msgspec

from haulout.base.bounds import seconds
from haulout.base.selector import Selector, SelectorError, parse
from haulout.core.declaration import Context
from haulout.core.drain.options import DrainOptions, PodRules
from haulout.surfaces.nodemaintenance.declare import ORIGINAL
from haulout.surfaces.nodemaintenance.settings import (
    EVICTION_REQUEST,
    FORCE_DELETE,
    DrainDefaults,
    NodeMaintenanceSettings,
)
from haulout.surfaces.nodemaintenance.wire import DrainSpec

# The labels of the pods of the original's Deployment, and of ours.
OWN_PODS_ALONE, OWN_PODS = ORIGINAL.pods, "app.kubernetes.io/name=haulout"
REPORT_EVERY_FOR = timedelta(seconds=2)
_SECONDS = tuple(name for name in DrainDefaults.__struct_fields__ if name.endswith("_seconds"))


class Options(NodeMaintenanceSettings, frozen=True, dict=True):
    """The settings of the nodemaintenance surface, and how it is served. The defaults are those of the drop-in.

    `own_pods`: selects the operator's own pods, which are evicted last.
    `alone`: it is the original's drop-in, so it behaves like the original, and there are no other surfaces.
    `report_every_for`: how often the progress of a drain is written into the status.
    """

    restore_node_state: bool = False
    rules: PodRules = PodRules()
    own_pods: Selector | None = None
    alone: bool = True
    report_every_for: timedelta = REPORT_EVERY_FOR

    @property
    def by_request(self) -> bool:
        return self.eviction_backend == EVICTION_REQUEST

    @cached_property
    def lease_seconds(self) -> int:
        """The duration of a lease in whole seconds, rounded up."""
        return math.ceil(self.lease_duration.total_seconds())

    @cached_property
    def renewal_for(self) -> timedelta:
        """The time after which a lease is renewed: a third of its duration."""
        return self.lease_duration / 3


def make_options(settings: NodeMaintenanceSettings, context: Context) -> Options:
    """Return the options from the settings and the context in which the surface is served."""
    own_pods = parse(OWN_PODS_ALONE if context.alone else OWN_PODS)
    values = msgspec.structs.asdict(settings)
    return Options(**values, rules=context.rules, own_pods=own_pods, alone=context.alone)


class DrainWish(msgspec.Struct, frozen=True):
    """The drain that one NodeMaintenance asks for, with defaults filled in.

    `timeout_for`: the duration of a pass. `retry_for`: seconds until a failed eviction is tried again.
    `deadline_for`: after which the drain fails or, with `force_after`, deletes the remaining pods.
    `restore`: give the node back as it was before.
    `problem`: why the pod selector cannot be read.
    """

    options: DrainOptions
    timeout_for: timedelta
    retry_for: float
    deadline_for: timedelta | None
    force_after: bool
    dry_run: bool
    restore: bool
    problem: str = ""


# Cached because it is worked out in each decision about a NodeMaintenance, and most of them ask for the same drain.
@lru_cache(maxsize=64)
def wish(spec: DrainSpec, options: Options) -> DrainWish:
    fields = {name: value for name, value in msgspec.structs.asdict(spec).items() if value is not None}
    known = set(DrainDefaults.__struct_fields__)
    drain_settings = msgspec.structs.replace(
        options.drain, **{name: value for name, value in fields.items() if name in known}
    )
    drain_settings = msgspec.structs.replace(
        drain_settings, **{name: seconds(getattr(drain_settings, name)) for name in _SECONDS}
    )
    selector, problem = _selector(drain_settings.pod_selector)
    drain = DrainOptions(
        force=drain_settings.force,
        ignore_daemonsets=drain_settings.ignore_daemon_sets,
        delete_local_data=drain_settings.delete_empty_dir_data,
        grace_for=drain_settings.grace_period_seconds if drain_settings.grace_period_seconds >= 0 else None,
        selector=selector,
        disable_eviction=drain_settings.disable_eviction,
        skip_ending_for=drain_settings.skip_wait_for_delete_timeout_seconds,
        skip_lost_for=int(options.skip_unreachable_after.total_seconds()),
        by_priority=options.priority_order,
        own=options.own_pods,
        by_request=options.by_request,
    )
    return DrainWish(
        options=drain,
        timeout_for=timedelta(seconds=drain_settings.timeout_seconds),
        retry_for=float(drain_settings.retry_interval_seconds),
        deadline_for=timedelta(seconds=drain_settings.deadline_seconds) if drain_settings.deadline_seconds else None,
        force_after=drain_settings.deadline_action == FORCE_DELETE,
        dry_run=bool(spec.dry_run),
        restore=options.restore_node_state if spec.restore_node_state is None else spec.restore_node_state,
        problem=problem,
    )


def _selector(text: str) -> tuple[Selector | None, str]:
    try:
        return parse(text) if text else None, ""
    except SelectorError as error:
        return None, f"spec.drain.podSelector: {error}"
