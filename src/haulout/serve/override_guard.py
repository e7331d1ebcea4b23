"""Whether a cluster guards overrides of budgets: the registration of our webhook, or the policy for clusters without it."""

from __future__ import annotations

from typing import Any

import msgspec

from haulout.core.budgets.override_registration import CONFIGURATION, OVERRIDES, POLICY
from haulout.kube.errors import UNFIT, KubeError, NotFound
from haulout.kube.transport import Transport

ANSWERED_WITHIN = 5.0


async def override_guard(transport: Transport) -> bool | str:
    """Return whether the webhook or the policy that guards overrides is in force, or why that is not known."""
    path = "/apis/admissionregistration.k8s.io/v1"
    errors: list[str] = []
    for kind, name, is_in_force in (
        ("validatingwebhookconfigurations", CONFIGURATION, _calls_webhook),
        ("validatingadmissionpolicybindings", POLICY, _denies),
    ):
        try:
            reply = await transport.request("GET", f"{path}/{kind}/{name}", timeout=ANSWERED_WITHIN)
            if is_in_force(msgspec.json.decode(reply.body)):
                return True
        except NotFound:
            continue
        except (KubeError, *UNFIT) as error:
            errors.append(str(error))
    return errors[0] if errors else False


def _calls_webhook(found: Any) -> bool:
    """Whether a webhook configuration has our entry, and refuses what it cannot review."""
    entries = found.get("webhooks") or () if isinstance(found, dict) else ()
    return any(each.get("name") == OVERRIDES.name and each.get("failurePolicy") == "Fail" for each in entries)


def _denies(found: Any) -> bool:
    """Whether the binding of the policy denies what the policy refuses."""
    spec = found.get("spec") or {} if isinstance(found, dict) else {}
    return spec.get("policyName") == POLICY and "Deny" in (spec.get("validationActions") or ())
