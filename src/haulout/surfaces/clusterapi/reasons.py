"""What the reason codes of Machines mean."""

from __future__ import annotations

from collections.abc import Mapping

from haulout.core.reason import Course, Meaning

REASONS: Mapping[str, Meaning] = {
    "cleaning": Meaning("Labels of the maintenance are being removed from the Node."),
    "connecting": Meaning("The workload cluster has not been reached yet."),
    "deletion-approved": Meaning("The deletion of the Machine is approved.", Course.IDLE),
    "deletion-not-approved": Meaning("The deletion of the Machine waits for an approval."),
    "deletion-overdue": Meaning("The deletion of the Machine goes on without an approval, because the time is up."),
    "host-left-alone": Meaning("The Metal3 host is not switched off."),
    "host-missing": Meaning("The Metal3 host does not exist."),
    "host-off": Meaning("The Metal3 host is kept off."),
    "in-maintenance": Meaning("The Machine is in maintenance."),
    "maintenance-not-approved": Meaning("The maintenance of the Machine waits for an approval."),
    "no-node": Meaning("The Machine has no Node yet."),
    "node-missing": Meaning("The Node of the Machine is not in the workload cluster."),
    "not-managed": Meaning("The Machine is not managed."),
    "on-node": Meaning("What the Node of the Machine waits for."),
    "unknown-request": Meaning("A label asks for something that is not known."),
    "unreachable": Meaning("The workload cluster cannot be reached."),
    "unwritten": Meaning("A write to the host is due."),
}
