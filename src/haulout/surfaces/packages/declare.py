"""The packages surface, declared."""

from __future__ import annotations

from haulout.core.metric import GAUGE, Metric
from haulout.core.rights import (
    CLUSTER,
    DEFAULT,
    FOLLOW,
    READ,
    TELL,
    Name,
    Right,
    Role,
    certificate_role,
    drain_rights,
    people_roles,
    registration_right,
)
from haulout.core.surface import Explained, Original, Registration, Surface
from haulout.surfaces.packages.settings import PackagesSettings

NAME, LEASE = "packages", "3c22c1ae.nvidia.com"
GROUP, VERSION = "skyhook.nvidia.com", "v1alpha1"
SKYHOOKS, POLICIES = "skyhooks", "deploymentpolicies"


def _webhook(verb: str, word: str, plural: str, *more: str) -> Registration:
    """Return a webhook under the original's names, so that ours takes its place."""
    return Registration(
        configuration=f"skyhook-operator-{verb.removesuffix('e')}ing-webhook",
        name=f"{verb}-{word}.nvidia.com",
        path=f"/{verb}-skyhook-nvidia-com-{VERSION}-{word}",
        rules=(
            {
                "apiGroups": [GROUP],
                "apiVersions": [VERSION],
                "operations": ["CREATE", "UPDATE", *more],
                "resources": [plural],
            },
        ),
        mutating=verb == "mutate",
        timeout_seconds=10,
    )


MUTATE_SKYHOOK = _webhook("mutate", "skyhook", SKYHOOKS)
MUTATE_POLICY = _webhook("mutate", "deploymentpolicy", POLICIES)
VALIDATE_SKYHOOK = _webhook("validate", "skyhook", SKYHOOKS)
VALIDATE_POLICY = _webhook("validate", "deploymentpolicy", POLICIES, "DELETE")

_GAUGES = {
    "skyhook_node_status_count": "Nodes of a Skyhook by their status.",
    "skyhook_node_target_count": "Nodes that a Skyhook selects.",
    "skyhook_package_restarts_count": "Restarts of a package's containers on all nodes.",
    "skyhook_package_stage_count": "Nodes by the stage that a package is at.",
    "skyhook_package_state_count": "Nodes by the state of a package.",
    "skyhook_rollout_ceiling": "How many nodes of a compartment may change at once.",
    "skyhook_rollout_completed": "Nodes of a compartment that are complete.",
    "skyhook_rollout_consecutive_failures": "Batches of a compartment that failed in a row.",
    "skyhook_rollout_current_batch": "The number of a compartment's batch.",
    "skyhook_rollout_halted": "1 if a wave failed the gate of the policy, so that no new node begins.",
    "skyhook_rollout_in_progress": "Nodes of a compartment that are being changed.",
    "skyhook_rollout_matched_nodes": "Nodes of a compartment.",
    "skyhook_rollout_progress_percent": "How much of a compartment is complete.",
    "skyhook_rollout_should_stop": "1 if a compartment's rollout has stopped after failures.",
    "skyhook_status": "1 for the status that a Skyhook has, 0 for the others.",
}
# The environment is all that the original reads.
ORIGINAL = Original(name="skyhook-operator", lease=LEASE, starts="haulout.cli.as_skyhook_operator:main")

SURFACE = Surface(
    name=NAME,
    package=__package__ or "",
    summary="Skyhooks: roll packages over nodes, with an agent that runs on the hosts.",
    settings=PackagesSettings,
    decisions="haulout.surfaces.packages.surface:PACKAGES",
    part="haulout.app.packages:Packages",
    explains=(Explained(kind="Skyhook", words=("skyhook", SKYHOOKS, f"{SKYHOOKS}.{GROUP}")),),
    original=ORIGINAL,
    crds=(SKYHOOKS, POLICIES),
    metrics=tuple(Metric(name, GAUGE, text) for name, text in _GAUGES.items()),
    names=(Name("packages_namespace", "skyhook", "surfaces.packages.namespace", is_namespace=True),),
    roles=(
        Role(
            NAME,
            CLUSTER,
            (
                *drain_rights(),
                Right("", ("nodes/status",), ("patch",), "conditions on nodes"),
                Right("policy", ("poddisruptionbudgets",), READ, "pace drains"),
                Right("apps", ("daemonsets",), FOLLOW, "know which pods come back by themselves"),
                Right("", ("configmaps",), FOLLOW, "follow the ConfigMaps of packages and nodes"),
                Right(GROUP, (SKYHOOKS,), (*READ, "patch"), "follow Skyhooks, set their finalizer"),
                Right(GROUP, (f"{SKYHOOKS}/status",), ("patch",), "say how far a Skyhook is"),
                Right(GROUP, (POLICIES,), READ, "follow DeploymentPolicies"),
                registration_right(MUTATE_SKYHOOK.configuration, mutating=True),
                registration_right(VALIDATE_SKYHOOK.configuration),
            ),
        ),
        Role(
            NAME,
            "packages_namespace",
            (
                Right("", ("pods",), ("create", "patch", "delete"), "run packages on nodes"),
                Right("", ("pods/log",), ("get",), "keep the end of a failing package's log"),
                Right("", ("configmaps",), ("create", "patch", "delete"), "hand packages their configuration"),
            ),
        ),
        Role(NAME, DEFAULT, (Right("", ("events",), TELL, "events about Skyhooks and their nodes"),), "events"),
        certificate_role(NAME),
        *people_roles(NAME, "skyhook", GROUP, SKYHOOKS),
    ),
    webhooks=(MUTATE_SKYHOOK, MUTATE_POLICY, VALIDATE_SKYHOOK, VALIDATE_POLICY),
    # It runs privileged pods.
    is_installed_by_name=True,
)
