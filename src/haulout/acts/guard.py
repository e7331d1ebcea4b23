"""What a person who overrides a budget should know: whether the cluster guards overrides, without which they have no effect."""

from __future__ import annotations

from haulout.acts.caller import Caller
from haulout.core.act import ActPlan
from haulout.serve.override_guard import override_guard

OVERRIDE = "override"
REMEDY = "haulout manifests and the chart install the policy, haulout webhooks the webhook"


async def guard_warnings(caller: Caller, plan: ActPlan) -> tuple[str, ...]:
    """Return a warning if an act overrides a budget and the cluster does not guard overrides, or does not say."""
    if all(need.verb != OVERRIDE for need in plan.needs):
        return ()
    found = await caller.remembered("override guard", lambda: override_guard(caller.transport))
    if found is True:
        return ()
    if isinstance(found, str):
        return (f"it is not known whether admission guards overrides, without which this one has no effect: {found}",)
    return (
        f"this override has NO EFFECT: neither the webhook nor the policy that guards overrides is registered ({REMEDY})",
    )
