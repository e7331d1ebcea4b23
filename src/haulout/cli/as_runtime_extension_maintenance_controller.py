"""`haulout as runtime-extension-maintenance-controller`: the original's flags, environment, lease and exit codes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from haulout.base.duration import to_text
from haulout.base.network import is_network
from haulout.cli.goflags import Flag, FlagProblem, with_flags
from haulout.cli.zap import log_settings, zap_flags
from haulout.settings.settings import ClusterApi, Lease, Settings

PROGRAM = "runtime-extension-maintenance-controller"
LEASE = "runtime-extension-maintenance-controller"
TIMEOUT = "deletion-approval-timeout"
RANGES = "allowed-server-ranges"

FLAGS = (
    Flag("kubecontext", "", "The context of the kubeconfig to use (or KUBECONTEXT); in a pod it does not matter."),
    Flag("kubeconfig", "", "Path of a kubeconfig (or KUBECONFIG); without one, the service account of the pod."),
    Flag("enable-metal3-maintenance", False, "Keep the Metal3 hosts of machines with approved maintenance off."),
    *zap_flags("iso8601"),
    Flag("leader-elect", True, "Act only while holding a lease; needed with more than one replica."),
    Flag("leader-election-namespace", "", "The namespace of the lease; without one, the pod's own."),
    Flag("metrics-bind-address", ":8080", "The address on which metrics are served; 0 for none."),
    Flag("health-probe-bind-address", "0", "The address on which the probes are served, such as :8081; 0 for none."),
    Flag("allow-exec-kubeconfigs", False, "Run the exec plugins that kubeconfigs in Secrets name."),
    Flag("guard-remediation", False, "Keep health checks from replacing machines while their maintenance is approved."),
    Flag("approval-hygiene", False, "Take approvals away with what they were given for, and believe no early ones."),
    Flag(TIMEOUT, timedelta(), "Let a deletion go on without approval after so long; 0: never.", "duration"),
    Flag("prefer-limited-kubeconfigs", False, "Use a Secret that is labelled for it instead of the cluster's own."),
    Flag("reboot-mode-annotation", False, "Heed the annotation of machines that says how hosts are switched off."),
    Flag(RANGES, "", "Networks in which servers of workload clusters may be, such as 10.0.0.0/8,192.0.2.0/24."),
    Flag("allow-http-kubeconfigs", False, "Accept servers of workload clusters without TLS."),
    Flag("workload-requests", False, "Let maintenance be requested by a label of the node, too."),
)


def main(words: Sequence[str]) -> int | Settings:
    return with_flags(PROGRAM, FLAGS, words, settings)


def settings(values: Mapping[str, Any]) -> Settings:
    logs = log_settings(values)
    if values[TIMEOUT] < timedelta():
        raise FlagProblem(f'invalid value "{to_text(values[TIMEOUT])}" for flag -{TIMEOUT}: it is negative')
    ranges = tuple(each.strip() for each in values[RANGES].split(",") if each.strip())
    for each in ranges:
        if not is_network(each):
            raise FlagProblem(
                f'invalid value "{each}" for flag -{RANGES}: it is no network (10.0.0.0/8 would be right)'
            )
    # The original lets it run out. Given back, the next leader has it at once, ours or theirs.
    lease = Lease(LEASE, values["leader-election-namespace"])
    return Settings(
        kubeconfig=values["kubeconfig"],
        context=values["kubecontext"] or os.environ.get("KUBECONTEXT", ""),
        pod_first=True,
        http=values["metrics-bind-address"],
        health=values["health-probe-bind-address"],
        lease=lease if values["leader-elect"] else None,
        turns=False,
        alone=True,
        **logs,
        clusterapi=ClusterApi(
            enable_metal3_maintenance=values["enable-metal3-maintenance"],
            allow_exec_kubeconfigs=values["allow-exec-kubeconfigs"],
            guard_remediation=values["guard-remediation"],
            approval_hygiene=values["approval-hygiene"],
            deletion_approval_timeout=values[TIMEOUT].total_seconds(),
            prefer_limited_kubeconfigs=values["prefer-limited-kubeconfigs"],
            reboot_mode_annotation=values["reboot-mode-annotation"],
            workload_requests=values["workload-requests"],
            allowed_server_ranges=ranges,
            allow_http_kubeconfigs=values["allow-http-kubeconfigs"],
        ),
    )
