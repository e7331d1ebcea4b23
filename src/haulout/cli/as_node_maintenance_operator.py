"""`haulout as node-maintenance-operator`: the original's flags, environment, ports, lease and exit codes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import click

from haulout.base.duration import to_text
from haulout.base.selector import SelectorError, parse
from haulout.cli.goflags import Flag, FlagProblem, with_flags
from haulout.cli.zap import log_settings, zap_flags
from haulout.settings.settings import Lease, NodeMaintenance, Settings, Webhooks

PROGRAM = "manager"
LEASE = "135b1886.medik8s.io"
LEASE_NAMESPACE = "LEASE_NAMESPACE"
SERVICE = "node-maintenance-operator-webhook-service"
BACKENDS = ("eviction", "evictionrequest")
ACTIONS = ("Fail", "ForceDelete")

DRAIN_FLAGS = (
    Flag("force", True, "Evict pods without a controller, too."),
    Flag("delete-empty-dir-data", True, "Evict pods with emptyDir volumes, too."),
    Flag("ignore-daemon-sets", True, "Leave pods of DaemonSets alone; otherwise they keep a drain from beginning."),
    Flag("grace-period-seconds", -1, "Seconds that pods get to end; below 0: each pod's own.", "int"),
    Flag("timeout-seconds", 30, "After so many seconds a pass is reported as failed, and goes on; 0: never.", "int"),
    Flag("pod-selector", "", "Drain only pods with these labels."),
    Flag("disable-eviction", False, "Delete pods instead of evicting them: budgets are not asked."),
    Flag("skip-wait-for-delete-timeout-seconds", 0, "Do not wait for pods that should be gone for so long.", "int"),
    Flag("retry-interval-seconds", 5, "Try a pod whose eviction failed again after so many seconds.", "int"),
    Flag("deadline-seconds", 0, "After so many seconds the drain is over; 0: never.", "int"),
    Flag("deadline-action", "Fail", "What happens then: Fail, or ForceDelete what is left."),
)
FLAGS = (
    Flag("metrics-bind-address", ":8443", "The address on which metrics are served over HTTPS; 0 for none."),
    Flag("health-probe-bind-address", ":8081", "The address on which the probes are served; 0 for none."),
    Flag("leader-elect", False, "Act only while holding a lease; needed with more than one replica."),
    Flag("enable-http2", False, "Accepted for the original's sake: HTTP/1.1 is what is served."),
    Flag("kubeconfig", "", "Path of a kubeconfig (or KUBECONFIG); without one, the service account of the pod."),
    *zap_flags("rfc3339nano"),
    Flag("lease-duration", timedelta(hours=1), "How long a node's lease stands without renewal.", "duration"),
    Flag("max-concurrent-maintenances", 0, "How many nodes may be on their way out at once; 0: any number.", "int"),
    Flag("restore-node-state", False, "Leave a node as it was before: one that was cordoned stays cordoned."),
    Flag("quorum-on-kubernetes", False, "Protect the quorum of etcd on plain Kubernetes, too."),
    Flag("node-conditions", False, "Show drains as conditions of the Node."),
    Flag("eviction-backend", "eviction", "How pods are made to go: eviction or evictionrequest."),
    Flag("priority-order", False, "Evict pods of lower priority first."),
    Flag("skip-unreachable-after", timedelta(), "On a lost node, do not wait longer than this for pods.", "duration"),
    Flag("listen-webhooks", ":9443", "The address on which webhooks are served over HTTPS; 0 for none."),
    *DRAIN_FLAGS,
)


def _invalid(name: str, value: object, right: str) -> FlagProblem:
    return FlagProblem(f'invalid value "{value}" for flag -{name}: {right}')


def _check_amounts(values: Mapping[str, Any]) -> None:
    """As for the same settings in haulout.yaml."""
    if values["lease-duration"] < timedelta(seconds=1):
        raise _invalid("lease-duration", to_text(values["lease-duration"]), "at least 1s")
    if values["skip-unreachable-after"] < timedelta():
        raise _invalid("skip-unreachable-after", to_text(values["skip-unreachable-after"]), "0s or more")
    for name, value in values.items():
        # A grace period below zero is the pod's own.
        if isinstance(value, int) and value < 0 and name != "grace-period-seconds":
            raise _invalid(name, value, "0 or more")
    try:
        parse(values["pod-selector"])
    except SelectorError as error:
        raise _invalid("pod-selector", values["pod-selector"], str(error)) from None


def main(words: Sequence[str]) -> int | Settings:
    return with_flags(PROGRAM, FLAGS, words, settings)


def settings(values: Mapping[str, Any]) -> int | Settings:
    logs = log_settings(values)
    for name, known in (("eviction-backend", BACKENDS), ("deadline-action", ACTIONS)):
        if values[name] not in known:
            raise _invalid(name, values[name], f"one of {', '.join(known)}")
    _check_amounts(values)
    namespace = os.environ.get(LEASE_NAMESPACE, "medik8s-leases")
    if not namespace:
        click.echo(f"{LEASE_NAMESPACE} is set, but empty: name the namespace of the node leases or unset it", err=True)
        return 1
    said = ((flag.name.replace("-", "_"), values[flag.name], flag.default) for flag in DRAIN_FLAGS)
    maintenance = NodeMaintenance(
        lease_namespace=namespace,
        lease_duration=values["lease-duration"].total_seconds(),
        max_concurrent_maintenances=values["max-concurrent-maintenances"],
        restore_node_state=values["restore-node-state"],
        quorum_on_kubernetes=values["quorum-on-kubernetes"],
        node_conditions=values["node-conditions"],
        eviction_backend=values["eviction-backend"],
        priority_order=values["priority-order"],
        skip_unreachable_after=values["skip-unreachable-after"].total_seconds(),
        drain=tuple((name, value) for name, value, default in said if value != default),
    )
    # Not released at the end: the next leader waits until it has run out, as the original has it.
    lease = Lease(LEASE, release=False)
    return Settings(
        kubeconfig=values["kubeconfig"],
        http=values["metrics-bind-address"],
        health=values["health-probe-bind-address"],
        webhooks=Webhooks(address=values["listen-webhooks"], certificates="original", service=SERVICE),
        guarded=True,
        lease=lease if values["leader-elect"] else None,
        turns=False,
        alone=True,
        ready_at_once=True,
        **logs,
        nodemaintenance=maintenance,
    )
