"""What the reason codes of Machines mean."""

from __future__ import annotations

from collections.abc import Mapping

REASONS: Mapping[str, str] = {
    "cleaning": "Labels of the maintenance are being removed from the Node.",
    "connecting": "The workload cluster has not been reached yet.",
    "deletion-approved": "The deletion of the Machine is approved.",
    "deletion-not-approved": "The deletion of the Machine waits for an approval.",
    "deletion-overdue": "The deletion of the Machine goes on without an approval, because the time is up.",
    "host-left-alone": "The Metal3 host is not switched off.",
    "host-missing": "The Metal3 host does not exist.",
    "host-off": "The Metal3 host is kept off.",
    "in-maintenance": "The Machine is in maintenance.",
    "maintenance-not-approved": "The maintenance of the Machine waits for an approval.",
    "no-node": "The Machine has no Node yet.",
    "node-missing": "The Node of the Machine is not in the workload cluster.",
    "not-managed": "The Machine is not managed.",
    "on-node": "What the Node of the Machine waits for.",
    "paused": "The Cluster or the Machine is paused.",
    "unknown-request": "A label asks for something that is not known.",
    "unreachable": "The workload cluster cannot be reached.",
    "unwritten": "A write to the host is due.",
}
