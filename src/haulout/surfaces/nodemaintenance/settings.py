"""The settings of the nodemaintenance surface: its block in haulout.yaml, and the flags of its original."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import msgspec

from haulout.base import selector
from haulout.core.setting import OriginalLease, Setting, a_second_or_more, not_empty, not_negative

EVICTION, EVICTION_REQUEST = "eviction", "evictionrequest"
FAIL, FORCE_DELETE = "Fail", "ForceDelete"


def _amount(text: str) -> Setting:
    return Setting(help=text, check=not_negative, right="0 or more")


class DrainDefaults(msgspec.Struct, frozen=True, rename="camel"):
    """The drain settings of a NodeMaintenance that sets none: `kubectl drain` with everything allowed."""

    force: Annotated[bool, Setting(help="Evict pods without a controller, too.")] = True
    delete_empty_dir_data: Annotated[bool, Setting(help="Evict pods with emptyDir volumes, too.")] = True
    ignore_daemon_sets: Annotated[
        bool, Setting(help="Leave pods of DaemonSets alone; otherwise they keep a drain from beginning.")
    ] = True
    grace_period_seconds: Annotated[int, Setting(help="Seconds that pods get to end; below 0: each pod's own.")] = -1
    timeout_seconds: Annotated[
        int, _amount("After so many seconds a pass is reported as failed, and goes on; 0: never.")
    ] = 30
    pod_selector: Annotated[
        str,
        Setting(
            help="Drain only pods with these labels.", is_public=True, check=selector.parse, right="a label selector"
        ),
    ] = ""
    disable_eviction: Annotated[bool, Setting(help="Delete pods instead of evicting them: budgets are not asked.")] = (
        False
    )
    skip_wait_for_delete_timeout_seconds: Annotated[
        int, _amount("Do not wait for pods that should be gone for so long.")
    ] = 0
    retry_interval_seconds: Annotated[int, _amount("Try a pod whose eviction failed again after so many seconds.")] = 5
    deadline_seconds: Annotated[int, _amount("After so many seconds the drain is over; 0: never.")] = 0
    deadline_action: Annotated[
        str, Setting(help="What happens then: Fail, or ForceDelete what is left.", words=(FAIL, FORCE_DELETE))
    ] = FAIL


class NodeMaintenanceSettings(msgspec.Struct, frozen=True, rename="camel"):
    """The block `surfaces.nodemaintenance` of `haulout.yaml`; docs/nodemaintenance.md describes the settings."""

    lease_namespace: Annotated[
        str,
        Setting(
            help="The namespace of the Leases of nodes.",
            is_public=True,
            has_flag=False,
            check=not_empty,
            right="the name of a namespace",
            at_start=True,
        ),
    ] = "medik8s-leases"
    lease_duration: Annotated[
        timedelta,
        Setting(
            help="How long the lease of a node lasts without renewal.",
            check=a_second_or_more,
            right="a duration such as 1h, of at least 1s",
        ),
    ] = timedelta(hours=1)
    max_concurrent_maintenances: Annotated[
        int, _amount("How many nodes may be on their way out at once; 0: any number.")
    ] = 0
    restore_node_state: Annotated[
        bool, Setting(help="Leave a node as it was before: one that was cordoned stays cordoned.")
    ] = True
    quorum_on_kubernetes: Annotated[
        bool, Setting(help="Protect the quorum of etcd on plain Kubernetes, too.", at_start=True)
    ] = False
    node_conditions: Annotated[bool, Setting(help="Show drains as conditions of the Node.")] = False
    eviction_backend: Annotated[
        str,
        Setting(help="How pods are evicted: eviction or evictionrequest.", words=(EVICTION, EVICTION_REQUEST)),
    ] = EVICTION
    priority_order: Annotated[bool, Setting(help="Evict pods of lower priority first.")] = False
    skip_unreachable_after: Annotated[
        timedelta,
        Setting(
            help="On a lost node, do not wait longer than this for pods.",
            check=not_negative,
            right="a duration such as 5m; 0s for never",
        ),
    ] = timedelta()
    drain: DrainDefaults = DrainDefaults()
    lease: OriginalLease | None = None
