"""What the reason codes of Machines mean."""

from __future__ import annotations

from collections.abc import Mapping

from haulout.core.reason import Course, Meaning

REASONS: Mapping[str, Meaning] = {
    "cleaning": Meaning("Labels of the maintenance are being removed from the Node."),
    "connecting": Meaning("The workload cluster has not been reached yet."),
    "deletion-approved": Meaning("The deletion of the Machine is approved.", Course.IDLE),
    "deletion-not-approved": Meaning(
        "The deletion of the Machine waits for an approval.", helps="`haulout approve machine/NAMESPACE/NAME`."
    ),
    "deletion-overdue": Meaning(
        "The deletion of the Machine proceeds without approval because the timeout has passed."
    ),
    "host-left-alone": Meaning("Haulout does not power off the Metal3 host."),
    "host-missing": Meaning("The Metal3 host does not exist."),
    "host-off": Meaning("The Metal3 host is kept powered off."),
    "in-maintenance": Meaning("The Machine is in maintenance."),
    "maintenance-not-approved": Meaning(
        "The maintenance of the Machine waits for an approval.", helps="`haulout approve machine/NAMESPACE/NAME`."
    ),
    "no-node": Meaning("The Machine has no Node yet."),
    "node-missing": Meaning("The Node of the Machine is not in the workload cluster."),
    "not-managed": Meaning("The Machine is not managed."),
    "on-node": Meaning("What the Node of the Machine waits for."),
    "unknown-request": Meaning("A label requests something unknown."),
    "unreachable": Meaning(
        "The workload cluster cannot be reached.", helps="Check the kubeconfig Secret of the cluster and the network."
    ),
    "unwritten": Meaning("A write to the host is pending."),
}
