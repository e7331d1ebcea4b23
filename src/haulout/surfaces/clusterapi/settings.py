"""The settings of the clusterapi surface: its block in haulout.yaml, and the flags of its original."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import msgspec

from haulout.core.setting import OriginalLease, Setting, network, not_negative


class ClusterApiSettings(msgspec.Struct, frozen=True, rename="camel"):
    """The block `surfaces.clusterapi` of `haulout.yaml`. By default everything is off, as in the original."""

    enable_metal3_maintenance: Annotated[
        bool, Setting(help="Keep the Metal3 hosts of machines with approved maintenance off.")
    ] = False
    allow_exec_kubeconfigs: Annotated[bool, Setting(help="Run the exec plugins that kubeconfigs in Secrets name.")] = (
        False
    )
    guard_remediation: Annotated[
        bool, Setting(help="Keep health checks from replacing machines while their maintenance is approved.")
    ] = False
    approval_hygiene: Annotated[
        bool,
        Setting(
            help="Remove approvals together with the request that they were given for, and ignore those given before a request."
        ),
    ] = False
    deletion_approval_timeout: Annotated[
        timedelta,
        Setting(
            help="Let a deletion go on without approval after so long; 0: never.",
            check=not_negative,
            right="a duration such as 90m; 0 for never",
        ),
    ] = timedelta()
    prefer_limited_kubeconfigs: Annotated[
        bool, Setting(help="Use a Secret that is labelled for it instead of the cluster's own.")
    ] = False
    reboot_mode_annotation: Annotated[
        bool, Setting(help="Heed the annotation of machines that says how hosts are switched off.")
    ] = False
    workload_requests: Annotated[bool, Setting(help="Let maintenance be requested by a label of the node, too.")] = (
        False
    )
    # If it is empty, every network is allowed except loopback, link-local and reserved ones.
    allowed_server_ranges: Annotated[
        tuple[str, ...],
        Setting(
            help="Networks in which servers of workload clusters may be, such as 10.0.0.0/8,192.0.2.0/24.",
            check=network,
            right="such as 10.0.0.0/8",
        ),
    ] = ()
    allow_http_kubeconfigs: Annotated[bool, Setting(help="Accept servers of workload clusters without TLS.")] = False
    max_nodes_per_cluster: Annotated[
        int,
        Setting(
            help="Read workload clusters with at most so many nodes; 0: any number.",
            check=not_negative,
            right="a number; 0 for any",
        ),
    ] = 5000
    lease: OriginalLease | None = None
