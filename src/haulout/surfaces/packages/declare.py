"""The packages surface, declared."""

from __future__ import annotations

from haulout.core.surface import Registration, Surface

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

SURFACE = Surface(
    name="packages",
    package=__package__ or "",
    summary="Skyhooks: roll packages over nodes, with an agent that runs on the hosts.",
    crds=(SKYHOOKS, POLICIES),
    webhooks=(MUTATE_SKYHOOK, MUTATE_POLICY, VALIDATE_SKYHOOK, VALIDATE_POLICY),
    # It runs privileged pods.
    is_installed_by_name=True,
)
