"""The acts of people on Machines of Cluster API, and on the Nodes that are asked for their consent."""

from __future__ import annotations

from shlex import join

from haulout.core.act import NODES, Act, ActInput, ActPlan, Endpoint, Need, NotPossible

WAY = "machine"
MACHINES = Endpoint("Machine", "cluster.x-k8s.io", "v1beta2", "machines", is_namespaced=True, older=("v1beta1",))
PREFIX = "runtime-extension-maintenance-controller.cloud.sap/"
ENABLED, REQUEST = f"{PREFIX}enabled", f"{PREFIX}maintenance"
REQUESTED, APPROVED = "requested", "approved"
# What a Node is asked, and the label that consents.
CONSENTS = {
    f"{PREFIX}machine-deleted": f"{PREFIX}approve-deletion",
    f"{PREFIX}machine-maintenance": f"{PREFIX}approve-maintenance",
}

ACTS = (
    Act(
        name="start",
        help="request a maintenance of the Machine",
        targets=(MACHINES,),
        plan="haulout.surfaces.clusterapi.acts:start",
        needs=(Need("patch", MACHINES),),
    ),
    Act(
        name="cancel",
        help="withdraw the request for a maintenance of the Machine",
        targets=(MACHINES,),
        plan="haulout.surfaces.clusterapi.acts:cancel",
        needs=(Need("patch", MACHINES),),
    ),
    Act(
        name="approve",
        help="approve the maintenance without the consent of the workload cluster",
        targets=(MACHINES,),
        plan="haulout.surfaces.clusterapi.acts:approve",
        needs=(Need("patch", MACHINES),),
    ),
    Act(
        name="approve",
        way=WAY,
        help="consent to the maintenance or deletion of the node's Machine",
        targets=(NODES,),
        plan="haulout.surfaces.clusterapi.acts:consent",
        needs=(Need("patch", NODES),),
    ),
    Act(
        name="finish",
        help="end the approved maintenance of the Machine",
        targets=(MACHINES,),
        plan="haulout.surfaces.clusterapi.acts:finish",
        needs=(Need("patch", MACHINES),),
    ),
)


def start(given: ActInput) -> ActPlan | NotPossible:
    if given.labels.get(ENABLED) != "true":
        return NotPossible(f"the Machine takes no part in maintenances (label {ENABLED} is not true)")
    if (state := given.labels.get(REQUEST)) in (REQUESTED, APPROVED):
        return NotPossible(f"a maintenance of the Machine is {state} already")
    undo = join(("haulout", "cancel", f"machine/{given.namespace}/{given.name}"))
    return ActPlan((given.patch_metadata(MACHINES, labels={REQUEST: REQUESTED}),), undo)


def cancel(given: ActInput) -> ActPlan | NotPossible:
    if given.labels.get(REQUEST) != REQUESTED:
        is_approved = given.labels.get(REQUEST) == APPROVED
        return NotPossible(
            "it is approved already: finish it" if is_approved else "no maintenance of the Machine is requested"
        )
    undo = join(("haulout", "start", f"machine/{given.namespace}/{given.name}"))
    return ActPlan((given.patch_metadata(MACHINES, labels={REQUEST: None}),), undo)


def approve(given: ActInput) -> ActPlan | NotPossible:
    if given.labels.get(REQUEST) != REQUESTED:
        return NotPossible("no maintenance of the Machine waits for an approval")
    warning = "the workload cluster is not asked: the node of the Machine may not be drained"
    write = given.patch_metadata(MACHINES, labels={REQUEST: APPROVED})
    return ActPlan((write,), given.restore("label", MACHINES, REQUEST), (warning,))


def consent(given: ActInput) -> ActPlan | NotPossible:
    missing = {
        label: "true"
        for asked, label in CONSENTS.items()
        if asked in given.labels and given.labels.get(label) != "true"
    }
    if not missing:
        return NotPossible(f"node {given.name} is not asked for a consent")
    undo = join(("kubectl", "label", "nodes", given.name, *(f"{label}-" for label in missing)))
    return ActPlan((given.patch_metadata(NODES, labels=missing),), undo)


def finish(given: ActInput) -> ActPlan | NotPossible:
    if given.labels.get(REQUEST) != APPROVED:
        return NotPossible("no maintenance of the Machine is approved")
    write = given.patch_metadata(MACHINES, labels={REQUEST: None})
    return ActPlan((write,), given.restore("label", MACHINES, REQUEST))
