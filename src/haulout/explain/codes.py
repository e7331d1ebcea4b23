"""What each reason code means. `explain`, `status` and the JSON of both print codes; this is the list for people."""

from __future__ import annotations

from collections.abc import Mapping

SHARED: Mapping[str, str] = {
    "at-rest": "Nothing is wanted of the object.",
    "backing-off": "The last attempt was refused; it is tried again at the instant given.",
    "budget-full": "A NodeDisruptionBudget allows no more nodes to be out of service.",
    "budget-invalid": "A NodeDisruptionBudget cannot be understood, so that nothing new begins on its nodes.",
    "budgets-unreadable": "NodeDisruptionBudgets cannot be read, so that nothing new begins.",
    "claims-unknown": "What another surface claims on the node is not known yet.",
    "domain-taken": "A NodeDisruptionBudget allows nodes to be out in fewer zones (or other domains) than it would take.",
    "drain": "The node is being drained for a surface.",
    "drain-refused": "The drain cannot begin: a pod must not be evicted under its options.",
    "error": "The API server refused the eviction of a pod for good.",
    "evicting": "A pod is being evicted.",
    "fact-awaited": "An answer of the outside world (a cloud, a hypervisor) is awaited.",
    "failing": "Something that the surface has to do fails, and is tried again.",
    "finalizer": "A pod is terminating, and a finalizer keeps it.",
    "goes": "It goes on by itself.",
    "held": "A rule or an annotation keeps a pod on its node.",
    "lease-not-held": "The operator does not hold the Lease of the surface's original.",
    "limit-unreadable": "The objects that a limit counts cannot be read, so that the limit counts as full.",
    "maintenance": "An object of a surface concerns the node.",
    "namespaceterminating": "The namespace of a pod is being deleted.",
    "no-room": "A limit of the surface allows no more at a time.",
    "no-surface": "No surface that is configured here wants anything of the node.",
    "not-asked": "The arbiter has not answered the claim yet.",
    "not-enabled": "The surface is not switched on.",
    "not-used": "Its turn was granted but not used; it is considered again when something changes.",
    "object": "An object of a surface concerns the node.",
    "pdb-blocks": "A PodDisruptionBudget allows no eviction of a pod now.",
    "pdb-closed": "A PodDisruptionBudget never allows an eviction.",
    "pdb-paced": "A PodDisruptionBudget is used by other evictions at the moment.",
    "pdb-short": "A PodDisruptionBudget has fewer healthy pods than it needs.",
    "pdb-strict": "A PodDisruptionBudget is stricter than its workload can ever satisfy.",
    "pdb-unobserved": "The controller has not looked at a PodDisruptionBudget yet.",
    "pdbs-overlap": "Several PodDisruptionBudgets cover one pod, which the API server refuses to evict.",
    "proof-failed": "The pods of the node could not be listed, so that it is not known to be empty.",
    "proving-empty": "The pods of the node are being listed, to prove that it is empty.",
    "quorum": "etcd would lose its quorum.",
    "replica-not-ready": "A replica of the workload is not ready.",
    "terminating": "A pod is terminating; its grace period ends at the instant given.",
    "turn-taken": "Another surface is working on the node.",
    "unavailable": "A node that is out of service already and takes a place.",
    "uncordoned": "The node was uncordoned by hand while it was claimed.",
    "unreadable": "A kind cannot be read: the answer is incomplete.",
    "waiting": "A pod is waited for, not evicted.",
    "waits-for-grant": "The claim waits for the arbiter.",
    "window-closed": "The windows of a NodeDisruptionBudget are closed until the instant given.",
}
PROFILES: Mapping[str, str] = {
    "annotation-invalid": "An annotation on the node is not understood.",
    "check-fails": "A check says no.",
    "check-waits": "A check will say yes at the instant given.",
    "checks-do-not-pass": "The checks of a transition do not pass together.",
    "config-invalid": "maintenance.yaml is invalid, so that nothing is done.",
    "data-invalid": "The data annotation of the node cannot be read, so that the node is left alone.",
    "delete-node": "Kubernikus replaces the node: it is drained and deleted.",
    "esx": "The ESX host under the node is in maintenance or has an alarm.",
    "kubernikus": "What Kubernikus wants of the node.",
    "label-awaited": "A label that allows the reboot is awaited.",
    "no-transition": "The state of the profile has no transition.",
    "notification": "A notification has to be delivered first.",
    "other-profile": "Another profile is in maintenance on the node.",
    "profile-state": "The state of a profile on the node.",
    "profile-unknown": "The node names a profile that is not configured.",
}
NODEMAINTENANCE: Mapping[str, str] = {
    "deadline": "The drain gives up at the instant given.",
    "lease-held": "The Lease of the node belongs to another operator.",
    "lease-lost": "The Lease of the node was taken over too often, and the maintenance has failed.",
    "refused": "The API server refused what the maintenance needs.",
    "tainted": "The node carries the taint of a NodeMaintenance that is not there any more.",
}
CLUSTERAPI: Mapping[str, str] = {
    "cleaning": "Labels of the maintenance are being removed from the Node.",
    "connecting": "The workload cluster has not been reached yet.",
    "deletion-approved": "The deletion of the Machine is approved.",
    "deletion-not-approved": "The deletion of the Machine waits for an approval.",
    "deletion-overdue": "The deletion of the Machine goes on without an approval, because the time is up.",
    "host-left-alone": "The Metal3 host is not switched off.",
    "host-missing": "The Metal3 host is not there.",
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
PACKAGES: Mapping[str, str] = {
    "batch-awaited": "The node waits for its batch.",
    "gate-awaited": "A wave of the rollout has not passed its gate yet: it soaks, or Prometheus has not answered.",
    "more-nodes": "There are more nodes than are listed.",
    "node-failing": "A package fails on the node.",
    "node-ignored": "The label skyhook.nvidia.com/ignore keeps the node out.",
    "node-incomplete": "The packages are not complete on the node.",
    "package-failing": "A stage of a package fails on the node.",
    "package-running": "A stage of a package runs on the node.",
    "pod-holds-up": "A pod keeps the node from being interrupted.",
    "pod-not-interruptible": "A pod that must not be interrupted runs on the node.",
    "policy-missing": "The DeploymentPolicy of the Skyhook is not there.",
    "predecessor-incomplete": "A Skyhook of a higher rank is not complete on the node.",
    "rollout-halted": "A wave failed the gate of its DeploymentPolicy, so that no new node begins.",
    "rollout-stopped": "Too many batches failed in a row.",
    "skyhook-disabled": "The Skyhook is disabled.",
    "skyhook-incomplete": "The Skyhook is not complete.",
    "skyhook-invalid": "The Skyhook cannot be understood.",
    "skyhook-paused": "The Skyhook is paused.",
    "taint-not-tolerated": "The node has a taint that the packages do not tolerate.",
}
BY_SURFACE: Mapping[str, Mapping[str, str]] = {
    "all surfaces": SHARED,
    "profiles": PROFILES,
    "nodemaintenance": NODEMAINTENANCE,
    "clusterapi": CLUSTERAPI,
    "packages": PACKAGES,
}


def meanings() -> dict[str, str]:
    """Return every reason code with its meaning. Those of the scheduler of NotifyMaintenances are its conditions' reasons."""
    from haulout.surfaces.notify.scheduler.show import TEXTS

    own = {code: f"{text[:1].upper()}{text[1:]}." for code, (text, _) in TEXTS.items()}
    return {code: text for codes in (*BY_SURFACE.values(), own) for code, text in codes.items()}


def page() -> str:
    """Return the list of reason codes as a page of the documentation."""
    from haulout.surfaces.notify.scheduler.show import TEXTS

    own = {code: f"{text[:1].upper()}{text[1:]}." for code, (text, _) in TEXTS.items()}
    lines = [
        "# Reason codes",
        "",
        "What `explain`, `status` and their JSON print. Made by `python -m tools.reference`.",
        "",
    ]
    for surface, codes in (*BY_SURFACE.items(), ("notify (scheduler)", own)):
        lines += [f"## {surface[:1].upper()}{surface[1:]}", "", "| Code | Meaning |", "|---|---|"]
        lines += [f"| `{code}` | {text} |" for code, text in sorted(codes.items())]
        lines.append("")
    return "\n".join(lines)
