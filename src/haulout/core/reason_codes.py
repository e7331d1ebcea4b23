"""What the reason codes mean that every surface can give."""

from __future__ import annotations

from collections.abc import Mapping

from haulout.core.reason import Course, Meaning

REASONS: Mapping[str, Meaning] = {
    "at-rest": Meaning("Nothing is requested for the object.", Course.IDLE),
    "backing-off": Meaning("The last attempt was refused. The next one is at the time shown."),
    "budget-full": Meaning(
        "A NodeDisruptionBudget has no room: as many nodes are out of service as it allows.",
        helps="Wait, raise the limit (`kubectl edit ndb NAME`), or end a maintenance that `haulout status` names as a holder.",
    ),
    "budget-invalid": Meaning(
        "A NodeDisruptionBudget is invalid, and no new maintenance starts on its nodes.",
        helps="Correct the spec; its condition has the error: `kubectl get ndb NAME -o yaml`.",
    ),
    "budgets-unreadable": Meaning(
        "NodeDisruptionBudgets cannot be read, and no new maintenance starts.",
        helps="Grant the right: `haulout rbac kernel | kubectl apply -f -`.",
    ),
    "claims-unknown": Meaning("It is not known yet which other surfaces claim the node."),
    "cordon-left-behind": Meaning(
        "The node is cordoned for a maintenance whose object no longer exists. Only a person knows whether the work on it is over.",
        helps="Check the node, then `haulout let-go node/NODE`; without the annotation haulout.dev/cordon, `haulout uncordon NODE`.",
    ),
    "cordoned-by-hand": Meaning(
        "A person or another program cordoned the node, and Haulout leaves that cordon alone.",
        Course.IDLE,
        helps="`kubectl uncordon NODE` once the work on the node is done.",
    ),
    "deleting": Meaning(
        "The object is being deleted. The operator first ends the work and returns the node, then removes its finalizer.",
        Course.MOVING,
    ),
    "deletion-held": Meaning(
        "The object is being deleted, and a finalizer of another program holds it. The operator has nothing left to do.",
        helps="Repair the program that removes the finalizer, or remove the finalizer; the text has the command.",
    ),
    "domain-taken": Meaning(
        "A NodeDisruptionBudget limits in how many zones (or other domains) nodes may be out of service, and the limit is reached.",
        helps="Wait until the nodes in the other zones return, or raise the limit of the budget.",
    ),
    "drain": Meaning("The node is being drained for a surface."),
    "drain-refused": Meaning(
        "The drain cannot start: its options do not allow the eviction of a pod.",
        helps="Change the options of the drain, or delete the pod yourself.",
    ),
    "error": Meaning("The API server rejected the eviction of a pod, and a retry would not help."),
    "evicting": Meaning("A pod is being evicted."),
    "expires-invalid": Meaning("The annotation haulout.dev/expires is not a valid time and is ignored.", Course.MOVING),
    "fact-awaited": Meaning("Haulout waits for an answer from another system (a cloud, a hypervisor)."),
    "failing": Meaning(
        "An action of the surface fails and is retried.",
        is_failure=True,
        helps="Read the error in the text. `haulout explain NODE` shows when it changes.",
    ),
    "finalizer": Meaning(
        "A pod is terminating, and a finalizer blocks its removal.",
        helps="Repair the controller that should remove the finalizer.",
    ),
    "goes": Meaning("Work continues without help.", Course.MOVING),
    "held": Meaning(
        "A rule or an annotation keeps a pod on its node.",
        helps="Remove the annotation haulout.dev/drain from the pod, or change `drain.rules` in haulout.yaml.",
    ),
    "labels-left-out": Meaning("The node has more labels than Haulout keeps, and no new maintenance starts on it."),
    "lease-namespace-missing": Meaning(
        "The namespace that the settings name for the Lease of an original does not exist.",
        helps="Create the namespace, or correct the setting.",
    ),
    "lease-not-held": Meaning(
        "The operator does not hold the Lease of the surface's original.",
        helps="Stop the original: it still holds its Lease.",
    ),
    "limit-unreadable": Meaning(
        "The objects that a limit counts cannot be read. The limit counts as full.",
        helps="Grant the right: `haulout rbac` prints it.",
    ),
    "maintenance": Meaning("An object of a surface concerns the node."),
    "namespaceterminating": Meaning("The namespace of a pod is being deleted."),
    "no-record": Meaning("The maintenance goes on, but the logbook cannot record it.", Course.MOVING),
    "no-room": Meaning(
        "A limit of the surface has no room.",
        helps="Wait, or end a maintenance that takes a place; the nodes are named.",
    ),
    "no-surface": Meaning("No surface that is configured here manages the node.", Course.IDLE),
    "not-asked": Meaning("The arbiter has not answered the claim yet."),
    "not-enabled": Meaning(
        "The surface is not enabled.", Course.IDLE, helps="Add the surface to `surfaces` in haulout.yaml."
    ),
    "not-wanted": Meaning(
        "No maintenance is requested for the node yet. The reasons below it say what would change that."
    ),
    "not-used": Meaning(
        "The node was granted a turn but did not use it. It is considered again when something changes."
    ),
    "object": Meaning("An object of a surface concerns the node."),
    "override-in-force": Meaning(
        "An override lets the object begin although the budget that it names has no room. It ends at the time shown.",
        Course.IDLE,
    ),
    "override-without-effect": Meaning(
        "The object has an override that lets it pass no budget; the text says why.",
        Course.IDLE,
        helps="Write it again with `haulout override`, or see [Break glass](../break-glass.md).",
    ),
    "paused": Meaning(
        "The node, the object or a set of nodes is paused: nothing disrupts it until that ends.",
        helps="`haulout resume KIND/NAME`, or `haulout resume --all`.",
    ),
    "pdb-blocks": Meaning(
        "A PodDisruptionBudget allows no eviction of a pod now.",
        helps="Make the pods that are not ready healthy: `kubectl get pods -o wide` in the namespace of the budget.",
    ),
    "pdb-closed": Meaning(
        "A PodDisruptionBudget allows no eviction because pods that it covers are not ready.",
        helps="Make the pods that are not ready healthy; they are named.",
    ),
    "pdb-paced": Meaning("Other evictions use up the PodDisruptionBudget at the moment."),
    "pdb-short": Meaning(
        "A PodDisruptionBudget has fewer healthy pods than it needs.",
        helps="Scale the workload up, or make its pods healthy.",
    ),
    "pdb-strict": Meaning(
        "A PodDisruptionBudget allows no eviction even while all pods that it covers are ready.",
        helps="Change the budget or add a replica: `kubectl edit pdb NAME`.",
    ),
    "pdb-unobserved": Meaning("The controller has not processed a PodDisruptionBudget yet."),
    "pdbs-overlap": Meaning(
        "Several PodDisruptionBudgets cover one pod, which the API server refuses to evict.",
        helps="Delete one of the PodDisruptionBudgets.",
    ),
    "proof-failed": Meaning(
        "The pods of the node could not be listed, and it is unknown whether it is empty.",
        helps="See the API server's answer in the text; the list is repeated.",
    ),
    "proving-empty": Meaning("The pods of the node are being listed, to prove that it is empty."),
    "quorum": Meaning("etcd would lose its quorum.", helps="Bring the other control-plane node back first."),
    "replica-not-ready": Meaning("A replica of the workload is not ready."),
    "terminating": Meaning("A pod is terminating. Its grace period ends at the time shown."),
    "turn-taken": Meaning(
        "Another surface is working on the node.",
        helps="Wait, or end the work of the other surface; its object is named.",
    ),
    "unavailable": Meaning(
        "This node is already out of service and counts against the limit.",
        helps="End the maintenance of that node. If a person cordoned it: `kubectl uncordon NODE` once the work is done.",
    ),
    "uncordoned": Meaning(
        "The node was uncordoned by hand while it was claimed.",
        Course.IDLE,
        helps="Cordon the node again, or end the maintenance.",
    ),
    "unreadable": Meaning("A kind cannot be read, which makes the answer incomplete."),
    "waiting": Meaning("A pod is not evicted. Haulout waits for it to end."),
    "waits-for-grant": Meaning("The claim waits for the arbiter."),
    "window-closed": Meaning(
        "The windows of a NodeDisruptionBudget are closed until the time shown.",
        helps="Wait, change the windows, or use `haulout override`.",
    ),
}
