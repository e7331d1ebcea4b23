"""What the reason codes mean that every surface can give."""

from __future__ import annotations

from collections.abc import Mapping

from haulout.core.reason import Course, Meaning

REASONS: Mapping[str, Meaning] = {
    "at-rest": Meaning("Nothing is wanted of the object.", Course.IDLE),
    "backing-off": Meaning("The last attempt was refused; it is tried again at the instant given."),
    "budget-full": Meaning("A NodeDisruptionBudget allows no more nodes to be out of service."),
    "budget-invalid": Meaning("A NodeDisruptionBudget is invalid, and no new maintenance starts on its nodes."),
    "budgets-unreadable": Meaning("NodeDisruptionBudgets cannot be read, and no new maintenance starts."),
    "claims-unknown": Meaning("What another surface claims on the node is not known yet."),
    "cordon-left-behind": Meaning(
        "The node is cordoned for a maintenance whose object no longer exists. A person has to uncordon it."
    ),
    "domain-taken": Meaning(
        "A NodeDisruptionBudget allows nodes to be out in fewer zones (or other domains) than it would take."
    ),
    "drain": Meaning("The node is being drained for a surface."),
    "drain-refused": Meaning("The drain cannot begin: a pod must not be evicted under its options."),
    "error": Meaning("The API server refused the eviction of a pod for good."),
    "evicting": Meaning("A pod is being evicted."),
    "expires-invalid": Meaning(
        "The annotation haulout.dev/expires is no instant, and is ignored.",
        Course.MOVING,
    ),
    "fact-awaited": Meaning("An answer of the outside world (a cloud, a hypervisor) is awaited."),
    "failing": Meaning("Something that the surface has to do fails, and is tried again.", is_failure=True),
    "finalizer": Meaning("A pod is terminating, and a finalizer keeps it."),
    "goes": Meaning("It goes on by itself.", Course.MOVING),
    "held": Meaning("A rule or an annotation keeps a pod on its node."),
    "labels-left-out": Meaning("The node has more labels than are kept, and no new maintenance starts on it."),
    "lease-namespace-missing": Meaning(
        "The namespace that the settings name for the Lease of an original does not exist."
    ),
    "lease-not-held": Meaning("The operator does not hold the Lease of the surface's original."),
    "limit-unreadable": Meaning("The objects that a limit counts cannot be read, and the limit counts as full."),
    "maintenance": Meaning("An object of a surface concerns the node."),
    "namespaceterminating": Meaning("The namespace of a pod is being deleted."),
    "no-record": Meaning("The maintenance goes on, but the logbook cannot record it.", Course.MOVING),
    "no-room": Meaning("A limit of the surface allows no more at a time."),
    "no-surface": Meaning("No surface that is configured here wants anything of the node.", Course.IDLE),
    "not-asked": Meaning("The arbiter has not answered the claim yet."),
    "not-enabled": Meaning("The surface is not switched on.", Course.IDLE),
    "not-wanted": Meaning("Nothing is wanted of the node yet; the reasons behind it say what would change that."),
    "not-used": Meaning("Its turn was granted but not used; it is considered again when something changes."),
    "object": Meaning("An object of a surface concerns the node."),
    "paused": Meaning("The node, the object or a set of nodes is paused: nothing disrupts it until that ends."),
    "pdb-blocks": Meaning("A PodDisruptionBudget allows no eviction of a pod now."),
    "pdb-closed": Meaning("A PodDisruptionBudget allows no eviction, because pods that it covers are not ready."),
    "pdb-paced": Meaning("A PodDisruptionBudget is used by other evictions at the moment."),
    "pdb-short": Meaning("A PodDisruptionBudget has fewer healthy pods than it needs."),
    "pdb-strict": Meaning("A PodDisruptionBudget allows no eviction even while all pods that it covers are ready."),
    "pdb-unobserved": Meaning("The controller has not processed a PodDisruptionBudget yet."),
    "pdbs-overlap": Meaning("Several PodDisruptionBudgets cover one pod, which the API server refuses to evict."),
    "proof-failed": Meaning("The pods of the node could not be listed, and it is unknown whether it is empty."),
    "proving-empty": Meaning("The pods of the node are being listed, to prove that it is empty."),
    "quorum": Meaning("etcd would lose its quorum."),
    "replica-not-ready": Meaning("A replica of the workload is not ready."),
    "terminating": Meaning("A pod is terminating; its grace period ends at the instant given."),
    "turn-taken": Meaning("Another surface is working on the node."),
    "unavailable": Meaning("A node that is out of service already and takes a place."),
    "uncordoned": Meaning("The node was uncordoned by hand while it was claimed.", Course.IDLE),
    "unreadable": Meaning("A kind cannot be read: the answer is incomplete."),
    "waiting": Meaning("A pod is waited for, not evicted."),
    "waits-for-grant": Meaning("The claim waits for the arbiter."),
    "window-closed": Meaning("The windows of a NodeDisruptionBudget are closed until the instant given."),
}
